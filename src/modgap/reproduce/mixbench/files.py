"""What the files of a MixBench subset state: what items show, and which are relevant.

What does not fit is refused with the file and the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
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
        name = id_of(item, keys, where)
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


def read_qrels(path: Path, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
    """Query, document and how relevant it is, as (m, 3) places and whole numbers, from 1 up."""
    asked = {name: place for place, name in enumerate(queries)}
    held = {name: place for place, name in enumerate(documents)}
    judged: dict[tuple[int, int], int] = {}
    for line, item in records(path):
        where = f"{path}, line {line}"
        query, document = id_of(item, QUERY_IDS[:2], where), id_of(item, DOCUMENT_IDS[:2], where)
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


def id_of(item: Mapping[str, Any], keys: Sequence[str], where: str) -> str:
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
