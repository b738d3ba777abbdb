"""Shards of an embedded folder: the plan they follow, and how they are written.

How it works: a shard holds the rows of a fixed range of items. Its rows are written first, its
metadata last, each at one stroke; so a shard without metadata was interrupted, and is made again.
The plan lies in the folder from the beginning, and a run resumes only where its own is equal. What
could not be read is noted in the metadata of its shard, and gathered once all shards are there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from modgap._version import __version__
from modgap.arrays import unit
from modgap.core.checks import InputValueError
from modgap.core.files import atomic_path, write_text
from modgap.core.lazy import pa, pq
from modgap.core.results import to_json
from modgap.embed.item_batches import embed_each, embed_items
from modgap.embed.model import Model
from modgap.io.embedded import NOTE, SCHEMA, read_embed_note
from modgap.io.formats.clip_retrieval import EMBEDDED, METADATA, TEXT_METADATA, TEXTS
from modgap.io.formats.npy import open_npy
from modgap.io.items import Items

# Every model embeds this text: other weights under the same name give another row.
PROBE = "a photo of a cat"
_SAME = 0.999
_SKIPPED = b"modgap.skipped"
_WORDS = {
    "n_items": "number of items",
    "items": "set of items",
    "dim": "number of columns",
    "shard_items": "number of items a shard (--shard-items)",
    "dtype": "dtype (--dtype)",
    "normalise": "choice of --normalise",
}


def modalities_of(items: Items) -> tuple[str, ...]:
    """Which modalities the rows of these items have."""
    if items.kind == "text":
        return ("text",)
    has_captions = any(items.captions(row) for row in range(len(items)))
    return (items.kind, "text") if has_captions else (items.kind,)


@dataclass(frozen=True)
class Plan:
    """Which model embeds which items, and how; a run resumes only where all of it is equal.

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

    @classmethod
    def of(
        cls,
        model: Model,
        items: Items,
        opening: Mapping[str, Any],
        normalise: bool,
        dtype: str,
        shard_items: int,
    ) -> Plan:
        """The plan of a model, and of items that were opened in a certain way."""
        digest = hashlib.sha256()
        for row, name in enumerate(items.names):
            label = None if items.labels is None else items.labels[row]
            digest.update(json.dumps([name, items.captions(row), label]).encode())
        has_text = "text" in model.modalities
        probe = model.encode_texts([PROBE], normalise=True)[0] if has_text else np.zeros(0)
        images = opening["images"]
        return cls(
            model=model.name,
            dim=model.dim,
            temperature=model.temperature,
            modalities=modalities_of(items),
            source=os.path.abspath(items.source),
            format=opening["format"] or "",
            split=opening["split"],
            images=None if images is None else os.path.abspath(images),
            n_items=len(items),
            items=digest.hexdigest(),
            shard_items=shard_items,
            dtype=dtype,
            normalise=normalise,
            one_caption_each={len(items.captions(row)) for row in range(len(items))} == {1},
            probe=tuple(float(value) for value in probe),
        )

    @property
    def n_shards(self) -> int:
        """Shards of a finished folder."""
        return -(-self.n_items // self.shard_items)

    def items_of(self, shard: int) -> int:
        """How many items a shard holds."""
        return min(self.shard_items, self.n_items - shard * self.shard_items)

    def save(self, folder: Path, **more: Any) -> None:
        """Write it into the folder, with ``more`` once all is done."""
        document = {"schema": SCHEMA, "version": __version__, **asdict(self), **more}
        write_text(folder / NOTE, to_json(document) + "\n")

    def check_same(self, found: dict[str, Any], folder: Path) -> None:
        """Refuse to resume in a folder of other rows."""
        own = json.loads(to_json(asdict(self)))
        differing = [
            name
            for name, value in own.items()
            if name not in ("source", "images", "probe", "temperature") and value != found.get(name)
        ]
        if differing:
            name = differing[0]
            shown = 12 if name == "items" else None  # of a hash, the beginning
            before, now = (str(one)[:shown] for one in (found.get(name), own[name]))
            raise InputValueError(
                f"{folder} was started with another {_WORDS.get(name, name)} ({before}, now "
                f"{now}). Give another folder with -o, or remove it."
            )
        probe, known = np.asarray(self.probe), np.asarray(found.get("probe") or np.zeros(self.dim))
        same = float(probe @ known) if probe.shape == known.shape else 0.0
        if same < _SAME:
            raise InputValueError(
                f"{folder} was started with other weights of {self.model}: they give another row "
                "for the same text. Give another folder with -o, or remove it."
            )


@dataclass(eq=False)
class EmbeddedShards:
    """The shards of a folder, as a model makes them from items by a plan."""

    model: Model
    items: Items
    plan: Plan
    folder: Path
    batch_size: int
    workers: int | None

    def begin(self) -> list[int]:
        """Make the folder, or resume in it; returns the shards that are missing."""
        known = read_embed_note(self.folder)
        if known is None:
            if self.folder.exists() and any(self.folder.iterdir()):
                raise InputValueError(
                    f"{self.folder} holds other files, and no {NOTE}. Give a new folder with -o."
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self.plan.save(self.folder, finished=False)
            return list(range(self.plan.n_shards))
        self.plan.check_same(known, self.folder)
        return [number for number in range(self.plan.n_shards) if not self.has(number)]

    def has(self, number: int) -> bool:
        """Whether a shard is whole."""
        return self._table(METADATA, number).is_file()

    def write(self, number: int, count: Callable[[int], None]) -> None:
        """Embed the items of a shard and write its files, the metadata last."""
        first = number * self.plan.shard_items
        rows = range(first, min(first + self.plan.shard_items, len(self.items)))
        skipped: dict[str, str] = {}
        kept = list(rows)
        kind = self.items.kind
        options: dict[str, Any] = {"batch_size": self.batch_size, "workers": self.workers}
        if kind != "text":
            matrix, kept, skipped = embed_items(
                self.model, self.items, rows, count=count, **options
            )
            self._write_rows(EMBEDDED[kind], number, matrix)
        if "text" in self.plan.modalities:
            of_text = [row for row in kept for _ in self.items.captions(row)]
            captions = [text for row in kept for text in self.items.captions(row)]
            every = range(len(captions))
            done = count if kind == "text" else lambda _: None
            texts = embed_each(
                self.model, "text", every, captions.__getitem__, count=done, **options
            )
            self._write_rows(TEXTS, number, texts[0])
            if kind != "text" and not self.plan.one_caption_each:
                names = _strings([self.items.names[row] for row in of_text])
                described = {"image_path": names, "caption": _strings(captions)}
                self._write_table(TEXT_METADATA, number, described)
        self._write_table(METADATA, number, self._described(kept), skipped)
        count(len(rows))

    def _write_rows(self, kind: str, number: int, rows: np.ndarray) -> None:
        rows = unit(rows) if self.plan.normalise and len(rows) else rows
        with np.errstate(over="ignore"):  # refused below, in words
            stored = rows.astype(self.plan.dtype)
        if not np.isfinite(stored).all():
            raise InputValueError(
                f"{kind} has numbers that {self.plan.dtype} cannot hold. Use --dtype float32, or "
                "--normalise."
            )
        with atomic_path(self.folder / kind / f"{kind}_{number}.npy") as path:
            np.save(path, stored)

    def _described(self, kept: Sequence[int]) -> dict[str, Any]:
        """The columns that describe the items of a shard."""
        items = self.items
        columns: dict[str, Any] = {"image_path": [items.names[row] for row in kept]}
        if "text" in self.plan.modalities:
            columns["caption"] = [next(iter(items.captions(row)), "") for row in kept]
        if items.labels is not None:
            columns["label"] = [items.labels[row] for row in kept]
        columns = {name: _strings(values) for name, values in columns.items()}
        return columns | {name: values.take(kept) for name, values in self._fields.items()}

    @cached_property
    def _fields(self) -> dict[str, Any]:
        """The other fields of the source, as columns whose types are the same in every shard."""
        own = ("image_path", "caption", "label")
        fields = {name: values for name, values in self.items.fields.items() if name not in own}
        return {name: _arrow(values) for name, values in fields.items()}

    def _write_table(
        self,
        kind: str,
        number: int,
        columns: Mapping[str, Any],
        skipped: Mapping[str, str] | None = None,
    ) -> None:
        table = pa.table(dict(columns))
        if skipped is not None:
            note = json.dumps(skipped).encode()
            table = table.replace_schema_metadata({_SKIPPED: note})
        with atomic_path(self._table(kind, number)) as path:
            pq.write_table(table, path)

    def _table(self, kind: str, number: int) -> Path:
        return self.folder / kind / f"{kind}_{number}.parquet"

    def finish(self) -> tuple[dict[str, int], dict[str, str]]:
        """Count the rows, collect what was skipped, and say that the folder is whole."""
        skipped: dict[str, str] = {}
        for number in range(self.plan.n_shards):
            note = pq.read_schema(self._table(METADATA, number)).metadata or {}
            skipped |= json.loads(note.get(_SKIPPED, b"{}"))
        rows = {}
        for modality in self.plan.modalities:
            kind = EMBEDDED[modality]
            shards = (self.folder / kind / f"{kind}_{k}.npy" for k in range(self.plan.n_shards))
            rows[modality] = sum(open_npy(path).n_rows for path in shards)
        if not any(rows.values()):
            self._remove()
            first = "".join(f"; the first is {n} ({w})" for n, w in list(skipped.items())[:1])
            raise InputValueError(
                f"None of the {len(self.items)} items of {self.items.source} can be read{first}."
            )
        self.plan.save(self.folder, finished=True, rows=rows, skipped=skipped)
        return rows, skipped

    def _remove(self) -> None:
        """Take away what was written: there is nothing in it, and a new run shall look again."""
        for kind in {EMBEDDED[one] for one in self.plan.modalities} | {METADATA, TEXT_METADATA}:
            for path in (self.folder / kind).glob(f"{kind}_*"):
                path.unlink()
            with suppress(OSError):
                (self.folder / kind).rmdir()
        (self.folder / NOTE).unlink()
        with suppress(OSError):  # other files are in it
            self.folder.rmdir()


def _strings(values: Sequence[str | None]) -> Any:
    """Texts as a column, also where there are none."""
    return pa.array(values, pa.string())


def _arrow(values: Sequence[Any]) -> Any:
    """A column; values of several kinds become texts."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _strings([None if value is None else str(value) for value in values])
