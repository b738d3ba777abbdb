"""Finds equal rows. They have equal scores, so one of them is scored for all.

How it works:

1. Every row is multiplied by one vector of random weights. Equal rows have bitwise equal products.
2. Where few products are equal, no row is taken for another: their few near ties cost less than
   telling the rows apart.
3. Else each row is compared, number by number, with the first row of the same product. Equal ones
   become one kind; a row that differs becomes a kind of its own.
4. Kinds are numbered by their first rows, so equal scores still go to the earlier row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from modgap.arrays.base import (
    along,
    like,
    namespace,
    row_blocks,
    rows_per_block,
    to_numpy,
    wide_dtype,
)
from modgap.core.checks import Array


@dataclass(frozen=True, eq=False)
class EqualRows:
    """Rows by kind: those of one kind are equal, kinds are numbered by their first rows.

    ``kind`` (n,) is that of each row, ``first`` the first row of each kind.
    """

    kind: np.ndarray
    first: np.ndarray

    @property
    def all_apart(self) -> bool:
        """Whether every row is taken by itself."""
        return len(self.first) == len(self.kind)

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many rows there are of each kind."""
        return np.bincount(self.kind, minlength=len(self.first))

    @property
    def is_first(self) -> np.ndarray:
        """Whether each row is the first of its kind."""
        return self.first[self.kind] == np.arange(len(self.kind))

    @cached_property
    def by_kind(self) -> np.ndarray:
        """The rows, kind after kind, in ascending order within each."""
        return np.argsort(self.kind, kind="stable")

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each kind starts in ``by_kind``, and where the last one ends."""
        return np.r_[0, np.cumsum(self.sizes)]

    def members(self, kinds: slice) -> np.ndarray:
        """The rows of a range of kinds."""
        return self.by_kind[self.starts[kinds.start] : self.starts[kinds.stop]]

    def before(self, kinds: np.ndarray, row: np.ndarray) -> np.ndarray:
        """For each kind, how many of its rows stand before a row."""
        n = len(self.kind)
        places = np.searchsorted(self._keys, kinds * n + row)
        return places - self.starts[kinds]

    @cached_property
    def _keys(self) -> np.ndarray:
        """Kind and row as one number, ascending."""
        return self.kind[self.by_kind] * len(self.kind) + self.by_kind


def equal_rows(A: Array, bias: Array | None = None) -> EqualRows:
    """Rows that are equal and have equal biases; if few are, every row counts as different.

    >>> equal_rows(np.repeat(np.eye(2), 20, axis=0)).first.tolist()
    [0, 20]
    """
    n, d = A.shape
    # Equal rows have bitwise equal sums; other rows with equal sums are separated below.
    weights = np.random.default_rng(0).uniform(1.0, 2.0, d)
    sums = to_numpy(along(A, like(weights, A, wide_dtype(A))))
    _, sizes = np.unique(sums, return_counts=True)
    # Equal rows meet in the square of their number; below this, that is little work.
    if float(sizes @ (sizes - 1.0)) <= 4 * n:
        return EqualRows(np.arange(n), np.arange(n))
    _, first, kind = np.unique(sums, return_index=True, return_inverse=True)
    first_of = first[kind]
    apart = _differ(A, bias, first_of)
    first_of[apart] = apart
    found, kind = np.unique(first_of, return_inverse=True)
    return EqualRows(kind.astype(np.int64), found.astype(np.int64))


def _differ(A: Array, bias: Array | None, first_of: np.ndarray) -> np.ndarray:
    """The rows that are not equal to the one that stands for them."""
    xp = namespace(A)
    later = np.flatnonzero(first_of != np.arange(len(first_of)))
    differ = [np.zeros(0, dtype=bool)]
    for piece in row_blocks(len(later), rows_per_block(A.shape[1])):
        own, other = like(later[piece], A), like(first_of[later[piece]], A)
        unequal = xp.any(A[own] != A[other], axis=1)
        if bias is not None:
            unequal = unequal | (bias[own] != bias[other])
        differ.append(to_numpy(unequal))
    return later[np.concatenate(differ)]
