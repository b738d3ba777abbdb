"""The rows of the items of a MixBench subset, in the benchmark's own format or any other.

MixBench's scripts save a list of dicts, one an item. Every other format that modgap reads holds one
matrix, a row for each item, or matrices of texts, images and both. What does not fit is refused
with the file and the entry or row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, check_values, require
from modgap.core.results import Brief
from modgap.core.steady_file import SteadyFile
from modgap.io import Embeddings, open_embeddings, open_modality
from modgap.io.column_roles import own_prefixes
from modgap.io.file_formats import open_contents
from modgap.io.formats.torch_file import SAFE_SINCE, load_torch
from modgap.reproduce.mixbench.files import Kind, Shown, id_of, item_kind

# What the benchmark's scripts call the row of a text, of an image, and of both as its script for
# VLM2Vec embeds them: together.
KEYS: Mapping[Kind, str] = {
    "text": "text_embedding",
    "image": "image_embedding",
    "fused": "vlm_mixed_embedding",
}

_WORDS: Mapping[Kind, str] = {"text": "text", "image": "image", "fused": "text with image"}


@dataclass(frozen=True, eq=False)
class SavedRows(Brief):
    """The rows of each part of every item, None where it has no such part."""

    path: Path
    ids: tuple[str, ...]
    parts: Mapping[Kind, tuple[np.ndarray | None, ...]]
    dim: int

    @property
    def kinds(self) -> list[Kind]:
        """What each item shows, going by the rows that are there."""
        both = zip(self.parts["text"], self.parts["image"], strict=True)
        return [item_kind(t is not None, i is not None, str(self.path)) for t, i in both]

    @property
    def joint(self) -> bool:
        """Whether what has a text and an image has one row, made by the model of both."""
        return any(row is not None for row in self.parts["fused"])

    def rows(self, part: Kind, places: np.ndarray) -> np.ndarray:
        """The rows of a part of these items; every one of them must have it."""
        held = self.parts[part]
        for place in places:
            if held[place] is None:
                raise InputValueError(
                    f"{self.path}, entry {place}: {self.ids[place]!r} has no {KEYS[part]}, "
                    f"and its {_WORDS[part]} is searched."
                )
        return np.array([held[place] for place in places], np.float32).reshape(-1, self.dim)

    def check_ids(self, shown: Mapping[str, Shown], stated: Path) -> None:
        """Refuse rows of other items than those that a file states."""
        known = set(self.ids)
        for name, one in shown.items():
            if name not in known:
                raise InputValueError(f"{stated}, line {one.line}: {self.path} has no {name!r}.")
        for entry, name in enumerate(self.ids):
            if name not in shown:
                raise InputValueError(f"{self.path}, entry {entry}: {stated} has no {name!r}.")


def read_list(path: Path, keys: Sequence[str]) -> SavedRows:
    """The list of dicts, one an item, that the benchmark's scripts save; nothing is unpickled."""
    torch = require("torch", "torch", f"Reading {path}", since=SAFE_SINCE)
    form = f"a list of dicts with {keys[0]}, text_embedding and image_embedding"
    file = SteadyFile(path)
    saved = load_torch(torch, file, f"Save {form} with torch.save.")
    if not isinstance(saved, (list, tuple)) or not saved:
        got = "none" if isinstance(saved, (list, tuple)) else type(saved).__name__
        raise InputTypeError(f"{path} must hold {form}, got {got}.")
    entries: dict[str, int] = {}
    parts: dict[Kind, list[np.ndarray | None]] = {part: [] for part in KEYS}
    dim = 0
    for entry, item in enumerate(saved):
        where = f"{path}, entry {entry}"
        if not isinstance(item, Mapping):
            raise InputTypeError(f"{where}: must be a dict, got {type(item).__name__}.")
        name = id_of(item, keys, where)
        if name in entries:
            raise InputValueError(f"{where}: {name!r} is there already, in entry {entries[name]}.")
        entries[name] = entry
        values = {part: item.get(key) for part, key in KEYS.items()}
        item_kind(values["text"] is not None, values["image"] is not None, where)
        for part, value in values.items():
            file.check()
            row = None if value is None else _row(torch, value, f"{where}: {KEYS[part]}")
            if row is not None:
                dim = dim or len(row)
                if len(row) != dim:
                    raise InputValueError(
                        f"{where}: {KEYS[part]} must have {dim} columns as the first one, "
                        f"got {len(row)}. Embed all with one model."
                    )
            parts[part].append(row)
    return SavedRows(path, tuple(entries), {p: tuple(held) for p, held in parts.items()}, dim)


def _row(torch: Any, value: Any, where: str) -> np.ndarray:
    if not isinstance(value, torch.Tensor) or value.ndim != 1 or not value.is_floating_point():
        got = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputTypeError(f"{where} must be a tensor of floats with one dimension, got {got}.")
    # A copy: the tensor may be a map of the file.
    row: np.ndarray = value.detach().to(torch.float32, copy=True).numpy()
    if not np.isfinite(row).all():
        raise InputValueError(f"{where} holds NaN or infinity.")
    if not row.any():
        raise InputValueError(f"{where} has length zero, so it has no direction.")
    return row


def matrix_names(path: Path) -> dict[Kind, str] | None:
    """The matrix of each part in a file or folder; None where it holds one matrix."""
    contents = open_contents(path)
    if len(contents.embeddings) < 2:
        return None
    found: dict[Kind, str] = {
        part: name
        for part in KEYS
        for name in contents.embeddings
        if name.lower().startswith(own_prefixes(part))
    }
    if not {"text", "image"} <= found.keys() or len(found) != len(contents.embeddings):
        raise InputValueError(
            f"{path} must hold one matrix, or matrices called text, image and perhaps fused, got "
            f"{contents.listing()}."
        )
    return found


def unlisted(path: Path, names: Mapping[Kind, str] | None, kind: Kind) -> dict[str, Shown]:
    """Items of one kind that no file states: by the ids of their rows, or counted."""
    column = None if names is None else names["text"]
    side = open_modality(path, "text", column=column)
    ids = range(side.n_rows) if side.ids is None else side.ids.tolist()
    return {str(name): Shown(kind, line) for line, name in enumerate(ids, 1)}


def read_matrices(
    path: Path, names: Mapping[Kind, str] | None, shown: Mapping[str, Shown], stated: Path
) -> SavedRows:
    """Rows in any format that modgap reads, of the items that a file states.

    Rows that have ids are matched by these, others are in the order of the lines.

    Parameters
    ----------
    path : path
        The file, or the folder that ``modgap embed`` wrote.
    names : mapping, optional
        The matrix of each part. Without it, the one matrix has a row of each item, made of all that
        it shows.
    shown, stated
        The items, and the file that states them.
    """
    parts: dict[Kind, list[np.ndarray | None]] = {part: [None] * len(shown) for part in KEYS}
    if names is None:
        side = open_embeddings(path)
        dims = {"all": side.dim}
        rows = _rows_of(shown, side, path, stated, "")
        for place, (one, row) in enumerate(zip(shown.values(), rows, strict=True)):
            parts[one.kind][place] = row
    else:
        sides = {part: open_modality(path, part, column=name) for part, name in names.items()}
        dims = {part: side.dim for part, side in sides.items()}
        for part, side in sides.items():
            having = {name: one for name, one in shown.items() if one.kind in (part, "fused")}
            places = [place for place, name in enumerate(shown) if name in having]
            rows = _rows_of(having, side, path, stated, f" with {_WORDS[part]}")
            for place, row in zip(places, rows, strict=True):
                parts[part][place] = row
    if len(set(dims.values())) > 1:
        got = " and ".join(f"{dim} of {part}" for part, dim in dims.items())
        raise InputValueError(f"All rows of {path} must have as many columns, got {got}.")
    held = {part: tuple(of_items) for part, of_items in parts.items()}
    return SavedRows(path, tuple(shown), held, max(dims.values()))


def _rows_of(
    items: Mapping[str, Shown], side: Embeddings, path: Path, stated: Path, having: str
) -> np.ndarray:
    """The row of each item; ``having`` says which items of the file these are."""
    if side.ids is None and side.n_rows != len(items):
        raise InputValueError(
            f"{path} must have one row for each of the {len(items)} items of {stated}{having}, "
            f"got {side.n_rows}."
        )
    names = [*items] if side.ids is None else [str(name) for name in side.ids.tolist()]
    row_of: dict[str, int] = {}
    for row, name in enumerate(names):
        if name not in items:
            raise InputValueError(f"{path}, row {row}: {stated} has no {name!r}{having}.")
        if name in row_of:
            raise InputValueError(
                f"{path}, row {row}: {name!r} is there already, in row {row_of[name]}."
            )
        row_of[name] = row
    for name, one in items.items():
        if name not in row_of:
            raise InputValueError(f"{stated}, line {one.line}: {path} has no row of {name!r}.")
    with np.errstate(over="ignore"):  # which infinity would be the sign of
        rows = side.rows().astype(np.float32)
    check_values(rows, str(path), nonzero=True, advice="Embed these items again.")
    return rows[[row_of[name] for name in items]]
