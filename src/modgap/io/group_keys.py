"""Keys of groups: whole numbers that stay the same wherever the rows of a group go.

Codes of groups are numbered anew when rows are taken. A key tells, in another split, in another
file or on another day, that two rows belong to one group, and does not show its label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal
from zlib import crc32

import numpy as np

from modgap.core.text import same_texts
from modgap.io.embeddings import Embeddings

# What the keys of the rows were made from: their numbers where rows are pairs, their numbers
# within the modality where they are not, their ids, or labels of groups.
KeyedBy = Literal["row", "own row", "id", "group"]
KEYED_BY = ("row", "own row", "id", "group")


def row_keys(n: int, side: str | None = None) -> np.ndarray:
    """The numbers of rows; those of one modality alone where ``side`` names it.

    >>> row_keys(3).tolist(), bool(np.any(row_keys(3, "image") == row_keys(3, "text")))
    ([0, 1, 2], False)
    """
    return np.arange(n, dtype=np.int64) + (0 if side is None else first_own_key(side))


def first_own_key(side: str) -> int:
    """The key of row 0 of a modality whose rows match no others."""
    return (crc32(side.encode()) + 1) << 30


def label_keys(labels: Any) -> np.ndarray:
    """A number for each label; 7 and "7" have the same, and so have texts that are one in NFC.

    The first 8 bytes of SHA-256, which databases have too.

    >>> label_keys([7, 8, 7]).tolist() == label_keys(["7", "8", "7"]).tolist()
    True
    """
    found, places = np.unique(same_texts(np.asarray(labels).astype(str)), return_inverse=True)
    keys = [hashlib.sha256(label.encode()).digest()[:8] for label in found.tolist()]
    return np.frombuffer(b"".join(keys), dtype=">i8").astype(np.int64)[places]


def id_keys(ids: np.ndarray, name: str, rows: np.ndarray | None = None) -> np.ndarray:
    """The keys of ids; a row without one has a key of its own. ``rows`` are their numbers."""
    if ids.dtype.kind == "f":  # what a table with missing whole numbers is read as
        missing = np.isnan(ids)
        labels = np.where(missing, 0, ids).astype(np.int64)
    else:
        missing = np.array([one is None for one in ids]) if ids.dtype.kind == "O" else None
        labels = ids
    keys = label_keys(labels)
    if missing is None:
        return keys
    own = row_keys(len(ids), name) if rows is None else rows + first_own_key(name)
    return np.where(missing, own, keys)


def document_keys(
    side: Embeddings, name: str, keyed_by: KeyedBy, *, first_row: int = 0
) -> np.ndarray | None:
    """The keys of a modality's rows read by themselves; None where what they need is missing.

    Rows that go on with a modality are numbered from ``first_row``.
    """
    if keyed_by in ("row", "own row"):
        return row_keys(side.n_rows, name if keyed_by == "own row" else None) + first_row
    if keyed_by == "id":
        return None if side.ids is None else id_keys(side.ids, name)
    return None if side.groups is None else label_keys(side.groups)


def named_keys(values: Sequence[str | None], name: str, keyed_by: KeyedBy) -> np.ndarray:
    """The keys of rows by what a table calls them: ids, labels of groups, or row numbers.

    A row that is called nothing, or by no number where rows go by number, has a key of no group.

    >>> named_keys(["2", "x"], "image", "row").tolist()
    [2, -1]
    """
    if keyed_by in ("id", "group"):
        called = np.array([value is not None for value in values])
        return np.where(called, label_keys([value or "" for value in values]), -1)
    first = first_own_key(name) if keyed_by == "own row" else 0
    numbers = [int(v) + first if v and v.isdecimal() and len(v) < 16 else -1 for v in values]
    return np.array(numbers, dtype=np.int64)
