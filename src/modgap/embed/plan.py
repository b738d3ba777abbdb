"""What an embedded folder is to hold: kept beside the rows, so that a killed run can go on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap._files import write_text
from modgap._results import to_json
from modgap._validate import InputValueError
from modgap._version import __version__
from modgap.io.embedded import NOTE, SCHEMA

# A text that every model is asked for: other weights under the same name give another row.
PROBE = "a photo of a cat"
_SAME = 0.999


@dataclass(frozen=True)
class Plan:
    """Which model embeds which items, and how: a run goes on only where all of it is the same.

    ``items`` is a hash of the names, captions and labels; ``probe`` the row of a fixed text.
    """

    model: str
    dim: int
    temperature: float | None
    modalities: tuple[str, ...]
    source: str
    format: str
    split: str | None
    images: str | None
    n_items: int
    items: str
    shard_items: int
    dtype: str
    normalise: bool
    one_caption_each: bool
    probe: tuple[float, ...]

    @property
    def n_shards(self) -> int:
        """Shards of a finished folder."""
        return -(-self.n_items // self.shard_items)

    def items_of(self, shard: int) -> int:
        """How many items a shard holds."""
        return min(self.shard_items, self.n_items - shard * self.shard_items)

    def save(self, folder: Path, **more: Any) -> None:
        """Write it into the folder; ``more`` is what is known once all is done."""
        document = {"schema": SCHEMA, "version": __version__, **asdict(self), **more}
        write_text(folder / NOTE, to_json(document) + "\n")

    def check_same(self, found: dict[str, Any], folder: Path) -> None:
        """Refuse to go on in a folder of other rows."""
        own = json.loads(to_json(asdict(self)))
        differing = [
            name
            for name, value in own.items()
            if name not in ("source", "images", "probe", "temperature") and value != found.get(name)
        ]
        if differing:
            name = differing[0]
            raise InputValueError(
                f"{folder} was begun with another {_WORDS.get(name, name)} "
                f"({_shown(found.get(name))}, now {_shown(own[name])}). Give another folder with "
                "-o, or remove it."
            )
        probe, known = np.asarray(self.probe), np.asarray(found.get("probe") or np.zeros(self.dim))
        same = float(probe @ known) if probe.shape == known.shape else 0.0
        if same < _SAME:
            raise InputValueError(
                f"{folder} was begun with other weights of {self.model}: they give another row for "
                "the same text. Give another folder with -o, or remove it."
            )


_WORDS = {
    "n_items": "number of items",
    "items": "set of items",
    "dim": "number of columns",
    "shard_items": "number of items a shard (--shard-items)",
    "dtype": "dtype (--dtype)",
    "normalise": "choice of --normalise",
}


def _shown(value: Any) -> str:
    return value[:12] if isinstance(value, str) and len(value) == 64 else str(value)
