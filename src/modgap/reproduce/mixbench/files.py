"""The files of a MixBench subset, one by one: what items show, their embeddings, the qrels.

What does not fit is refused with the file and the line, or the entry of a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, require
from modgap.core.results import Brief
from modgap.core.steady_file import SteadyFile
from modgap.io.formats.torch_file import SAFE_SINCE, load_torch
from modgap.io.items.records import records

Kind = Literal["image", "text", "fused"]

QUERY_IDS = ("query_id", "query-id", "id", "_id")
DOCUMENT_IDS = ("corpus_id", "corpus-id", "id", "_id")


@dataclass(frozen=True)
class Shown:
    """What an item shows in a search, and the line of the file that says so."""

    kind: Kind
    line: int


def read_shown(path: Path, keys: Sequence[str]) -> dict[str, Shown]:
    """The items of a JSONL file by id: which of text and image each of them has."""
    found: dict[str, Shown] = {}
    for line, item in records(path):
        where = f"{path}, line {line}"
        name = _id_of(item, keys, where)
        if name in found:
            first = found[name].line
            raise InputValueError(f"{where}: {name!r} is there already, in line {first}.")
        text, image = (item.get(part) not in (None, "") for part in ("text", "image"))
        kind = item_kind(text, image, where)
        found[name] = Shown(kind, line)
    return found


def item_kind(text: bool, image: bool, where: str) -> Kind:
    """What an item is called that has a text, an image or both."""
    if not (text or image):
        raise InputValueError(f"{where}: has neither a text nor an image.")
    return "text" if not image else "fused" if text else "image"


@dataclass(frozen=True, eq=False)
class SavedRows(Brief):
    """The rows of each part of every item, None where it has no such part."""

    path: Path
    ids: tuple[str, ...]
    text: tuple[np.ndarray | None, ...]
    image: tuple[np.ndarray | None, ...]
    dim: int

    @property
    def kinds(self) -> list[Kind]:
        """What each item shows, going by the rows that are there."""
        both = zip(self.text, self.image, strict=True)
        return [item_kind(t is not None, i is not None, str(self.path)) for t, i in both]

    def rows(self, part: Literal["text", "image"], places: np.ndarray) -> np.ndarray:
        """The texts or images of these items; every one of them must have its row."""
        held = getattr(self, part)
        for place in places:
            if held[place] is None:
                raise InputValueError(
                    f"{self.path}, entry {place}: {self.ids[place]!r} has no {part}_embedding, "
                    f"and its {part} is searched."
                )
        return np.array([held[place] for place in places], np.float32).reshape(-1, self.dim)

    def check_ids(self, shown: Mapping[str, Shown], stated: Path) -> None:
        """Refuse embeddings of other items than those that a file states."""
        known = set(self.ids)
        for name, one in shown.items():
            if name not in known:
                raise InputValueError(f"{stated}, line {one.line}: {self.path} has no {name!r}.")
        for entry, name in enumerate(self.ids):
            if name not in shown:
                raise InputValueError(f"{self.path}, entry {entry}: {stated} has no {name!r}.")


def read_embedded(path: Path, keys: Sequence[str]) -> SavedRows:
    """The list of dicts, one an item, that the benchmark's scripts save; nothing is unpickled."""
    torch = require("torch", "torch", f"Reading {path}", since=SAFE_SINCE)
    form = f"a list of dicts with {keys[0]}, text_embedding and image_embedding"
    file = SteadyFile(path)
    saved = load_torch(torch, file, f"Save {form} with torch.save.")
    if not isinstance(saved, (list, tuple)) or not saved:
        got = "none" if isinstance(saved, (list, tuple)) else type(saved).__name__
        raise InputTypeError(f"{path} must hold {form}, got {got}.")
    entries: dict[str, int] = {}
    parts: dict[str, list[np.ndarray | None]] = {"text": [], "image": []}
    dim = 0
    for entry, item in enumerate(saved):
        where = f"{path}, entry {entry}"
        if not isinstance(item, Mapping):
            raise InputTypeError(f"{where}: must be a dict, got {type(item).__name__}.")
        name = _id_of(item, keys, where)
        if name in entries:
            raise InputValueError(f"{where}: {name!r} is there already, in entry {entries[name]}.")
        entries[name] = entry
        values = {part: item.get(f"{part}_embedding") for part in parts}
        item_kind(values["text"] is not None, values["image"] is not None, where)
        for part, value in values.items():
            file.check()
            row = None if value is None else _row(torch, value, f"{where}: {part}_embedding")
            if row is not None:
                dim = dim or len(row)
                if len(row) != dim:
                    raise InputValueError(
                        f"{where}: {part}_embedding must have {dim} columns as the first one, "
                        f"got {len(row)}. Embed all with one model."
                    )
            parts[part].append(row)
    return SavedRows(path, tuple(entries), tuple(parts["text"]), tuple(parts["image"]), dim)


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


def read_qrels(path: Path, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
    """Query, document and how relevant it is, as (m, 3) places and whole numbers, from 1 up."""
    asked = {name: place for place, name in enumerate(queries)}
    held = {name: place for place, name in enumerate(documents)}
    judged: dict[tuple[int, int], int] = {}
    for line, item in records(path):
        where = f"{path}, line {line}"
        query, document = _id_of(item, QUERY_IDS[:2], where), _id_of(item, DOCUMENT_IDS[:2], where)
        for name, known, what in ((query, asked, "query"), (document, held, "document")):
            if name not in known:
                raise InputValueError(f"{where}: no {what} has the id {name!r}.")
        pair = asked[query], held[document]
        if pair in judged:
            raise InputValueError(f"{where}: {query!r} and {document!r} are there already.")
        judged[pair] = _score(item, where)
    found = np.array([(*pair, score) for pair, score in judged.items() if score], np.int64)
    found = found.reshape(-1, 3)
    alone = np.setdiff1d(np.arange(len(queries)), found[:, 0])
    if len(alone):
        raise InputValueError(
            f"{path} must name a relevant document for every query, and has none for "
            f"{queries[alone[0]]!r}."
        )
    return found


def _score(item: Mapping[str, Any], where: str) -> int:
    given = item.get("score", 1)
    try:
        score = int(given)
    except (TypeError, ValueError, OverflowError):
        score = -1
    if not 0 <= score < 2**31:
        raise InputValueError(f"{where}: score must be a whole number from 0 up, got {given!r}.")
    return score


def _id_of(item: Mapping[str, Any], keys: Sequence[str], where: str) -> str:
    """An id as a string: what is a number in one file is a string in another."""
    for key in keys:
        if key in item:
            found = item[key]
            if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
                raise InputTypeError(f"{where}: {key} must be a string or a number, got {found!r}.")
            if isinstance(found, int) and abs(found) >= 2**63:
                raise InputValueError(f"{where}: {key} must be a number of 64 bits, or a string.")
            return str(found)
    raise InputValueError(f"{where}: has no {keys[0]}.")
