"""Which rows of two modalities match by their ids."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._validate import InputTypeError
from modgap.io.embeddings import Embeddings

# Ids that match on fewer rows than this share of either side were hardly meant to.
FEW = 0.5


class PairingWarning(UserWarning):
    """The rows may not be the pairs that they are taken for."""


@dataclass(frozen=True, eq=False)
class IdMatches:
    """The ids of two sides as whole numbers, the same number for the same id.

    ``matched`` has how many rows of each side have a match on the other. ``codes`` is None where
    the ids of both sides are the same in the same order. ``first`` are the first ids.
    """

    n_rows: tuple[int, int]
    matched: tuple[int, int]
    codes: tuple[np.ndarray, np.ndarray] | None = None
    first: tuple[Any, Any] | None = None

    @property
    def few(self) -> bool:
        """Whether less than half of the rows match, on both sides."""
        return all(m < FEW * n for m, n in zip(self.matched, self.n_rows, strict=True))

    def words(self, names: tuple[str, str]) -> str:
        """How many rows match.

        >>> IdMatches((4, 5), (3, 3)).words(("image", "text"))
        '3 of 4 image rows and 3 of 5 text rows match'
        """
        said = (
            f"{matched:,} of {n:,} {name} rows"
            for matched, n, name in zip(self.matched, self.n_rows, names, strict=True)
        )
        return f"{' and '.join(said)} match"

    def examples(self) -> str:
        """The first id of each side, so that a reader sees what was compared."""
        assert self.first is not None
        return f"they start with {self.first[0]!r} and {self.first[1]!r}"


def match_ids(x: Embeddings, y: Embeddings) -> IdMatches | None:
    """Which rows have the same id; None where a side has none, or ids that cannot be compared.

    7 and "7" are the same id. Rows without an id match nothing.
    """
    import pyarrow as pa

    if not ("ids" in x.columns and "ids" in y.columns):
        return None
    n_rows = x.n_rows, y.n_rows
    if x.columns["ids"] is y.columns["ids"]:  # one column for both, nothing to read
        return IdMatches(n_rows, n_rows)
    first = second = None
    # Python objects in a file, which are never loaded, and numbers that no integer holds.
    with suppress(InputTypeError, OverflowError, pa.ArrowException):
        first, second = _comparable(x.ids), _comparable(y.ids)
    if first is None or second is None:
        return None
    if first.type != second.type:
        first, second = first.cast(pa.large_string()), second.cast(pa.large_string())
    if first.null_count == 0 and first.equals(second):
        return IdMatches(n_rows, n_rows)
    codes = _codes(pa.concat_arrays([first, second]))
    in_x, in_y = np.split(codes, [len(first)])
    shared = np.bincount(in_x, minlength=codes.max() + 1) > 0
    shared &= np.bincount(in_y, minlength=codes.max() + 1) > 0
    matched = int(np.sum(shared[in_x])), int(np.sum(shared[in_y]))
    return IdMatches(n_rows, matched, (in_x, in_y), (first[0].as_py(), second[0].as_py()))


def _comparable(ids: np.ndarray | None) -> Any:
    """Ids as an Arrow array of whole numbers or strings, null where one is missing."""
    import pyarrow as pa

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


def _codes(ids: Any) -> np.ndarray:
    """A number for every id; a row without one gets a number of its own."""
    encoded = ids.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    missing = np.flatnonzero(codes < 0)
    codes[missing] = len(encoded.dictionary) + np.arange(len(missing))
    return codes
