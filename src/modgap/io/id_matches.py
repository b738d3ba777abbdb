"""Finds the rows of several modalities that have the same id.

How it works:

1. The ids of each side become one Arrow column: of whole numbers, or of texts in Unicode's NFC. If
   one side has numbers and another texts, all become texts, so 7 and "7" match.
2. Columns that are equal row by row need nothing more: row i matches row i.
3. Else Arrow's dictionary of all columns gives every different id a number, and a row without an id
   gets one of its own. Rows of the same number match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.lazy import pa, pc
from modgap.io.embeddings import Embeddings

# Ids that match on fewer rows than this share of either side were hardly meant to.
FEW = 0.5


class PairingWarning(UserWarning):
    """The rows may not be the pairs that they are taken for."""


@dataclass(frozen=True, eq=False)
class IdMatches:
    """The ids of the sides as whole numbers, the same number for the same id.

    ``matched`` has how many rows of each side have a match on another. ``codes`` is None where
    the ids of all sides are the same in the same order. ``first`` are the first ids.
    """

    n_rows: tuple[int, ...]
    matched: tuple[int, ...]
    codes: tuple[np.ndarray, ...] | None = None
    first: tuple[Any, ...] | None = None

    @property
    def few(self) -> bool:
        """Whether less than half of the rows match, on every side."""
        return all(m < FEW * n for m, n in zip(self.matched, self.n_rows, strict=True))

    def words(self, names: tuple[str, ...]) -> str:
        """How many rows match.

        >>> IdMatches((4, 5), (3, 3)).words(("image", "text"))
        '3 of 4 image rows and 3 of 5 text rows match'
        """
        counts = zip(self.matched, self.n_rows, names, strict=True)
        said = (f"{matched:,} of {n:,} {name} rows" for matched, n, name in counts)
        return f"{' and '.join(said)} match"

    def examples(self) -> str:
        """The first id of each side, so that a reader sees what was compared."""
        assert self.first is not None
        return f"they start with {' and '.join(map(repr, self.first))}"


def match_ids(*sides: Embeddings) -> IdMatches | None:
    """Which rows of sides with ids have the same one; None where ids cannot be compared.

    7 and "7" are the same id, and so are texts that are one in NFC. Rows without an id match
    nothing.
    """
    n_rows = tuple(side.n_rows for side in sides)
    if len({id(side.columns["ids"]) for side in sides}) == 1:  # one for all, nothing to read
        return IdMatches(n_rows, n_rows)
    found: list[Any] = [None]
    # Python objects in a file, which are never loaded, and numbers that no integer holds.
    with suppress(InputTypeError, OverflowError, pa.ArrowException):
        found = [_comparable(side.ids) for side in sides]
    if any(ids is None for ids in found):
        return None
    # Texts as they are compared, see `modgap.core.text`.
    found = [
        pc.utf8_normalize(ids, form="NFC") if pa.types.is_large_string(ids.type) else ids
        for ids in found
    ]
    if len({ids.type for ids in found}) > 1:
        found = [ids.cast(pa.large_string()) for ids in found]
    if found[0].null_count == 0 and all(found[0].equals(ids) for ids in found[1:]):
        return IdMatches(n_rows, n_rows)
    encoded = pa.concat_arrays(found).dictionary_encode()
    numbers = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    missing = np.flatnonzero(numbers < 0)  # a row without an id gets a number of its own
    numbers[missing] = len(encoded.dictionary) + np.arange(len(missing))
    codes = np.split(numbers, np.cumsum(n_rows)[:-1])
    n_codes = 1 + int(numbers.max())
    on_sides = np.sum([np.bincount(one, minlength=n_codes) > 0 for one in codes], axis=0)
    matched = tuple(int(np.sum(on_sides[one] > 1)) for one in codes)
    return IdMatches(n_rows, matched, tuple(codes), tuple(ids[0].as_py() for ids in found))


def _comparable(ids: np.ndarray | None) -> Any:
    """Ids as an Arrow array of whole numbers or strings, null where one is missing."""
    assert ids is not None
    if ids.dtype.kind == "f":  # what a table with missing whole numbers is read as
        whole = np.isnan(ids) | (ids == np.round(ids))
        return pa.array(ids, mask=np.isnan(ids)).cast(pa.int64()) if whole.all() else None
    if ids.dtype.kind in "iu":
        fits = ids.dtype != np.uint64 or int(ids.max()) <= np.iinfo(np.int64).max
        return pa.array(ids).cast(pa.int64() if fits else pa.large_string())
    if ids.dtype.kind == "U":
        return pa.array(ids, pa.large_string())
    if ids.dtype.kind != "O":
        return None
    known = {type(one) for one in ids}
    if known <= {int, type(None)}:
        return pa.array(ids, pa.int64(), from_pandas=True)
    if not known <= {str, int, np.str_, type(None)}:
        return None
    if int in known:
        ids = np.array([one if one is None else str(one) for one in ids], object)
    return pa.array(ids, pa.large_string(), from_pandas=True)


def refuse_repeated(sides: Mapping[str, Embeddings]) -> None:
    """Refuse ids that are on several rows of every side: they do not say which rows match."""
    again = []
    for side in sides.values():
        # A missing id is None, or NaN, which is not equal to itself.
        ids = [str(one) for one in np.asarray(side.ids).tolist() if one is not None and one == one]
        again.append({one for one, count in Counter(ids).items() if count > 1})
    if repeated := set.intersection(*again):
        raise InputValueError(
            f"The id {min(repeated)!r} is on more than one row of {' and of '.join(sides)}, so it "
            "does not say which rows match. Give each pair an id of its own, or, where all rows of "
            "an id belong together, name the column as groups (--groups)."
        )
