"""Blocks of rows on their way into moments: looked at, widened and added in threads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from modgap._arrays import has_unit_lengths, is_torch, namespace, row_blocks, wide_dtype
from modgap._threads import workers_for
from modgap._validate import Array, check_same_space, check_values

# Rows taken together at most, and the bytes of their float64 copy. With fewer rows than the least,
# adding the parts would take longer than making them.
BLOCK_ROWS, BLOCK_BYTES, _LEAST_ROWS = 4096, 8 * 2**20, 512
# Between these, the sum of the squares of a row in wide precision says that no number of it has to
# be refused (`check_values`); beyond them, every number is looked at.
_SQUARES = 1e-30, 1e30


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are taken together, and where they are."""

    rows: Array
    name: str
    first_row: int

    def wide(self) -> Array:
        """A copy in wide precision."""
        return namespace(self.rows).astype(self.rows, wide_dtype(self.rows), copy=True)

    def lengths(self, wide: Array, *, nonzero: bool) -> Array:
        """The length of each row, (n, 1); NaN and infinity are refused, and zero where it must be.

        The sums of squares tell whether every number has to be looked at.
        """
        xp = namespace(wide)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = xp.linalg.vecdot(wide, wide)
        least, most = _SQUARES if self.rows.dtype == wide.dtype else (0.0, math.inf)
        good = (squares < most) & ((squares > least) | (not nonzero))  # NaN is neither
        if not bool(xp.all(good)):
            check_values(self.rows, self.name, nonzero=nonzero, first_row=self.first_row)
        return xp.sqrt(squares)[:, None]

    def is_unit(self, lengths: Array) -> bool:
        """Whether the rows have these lengths because they are unit rows, up to rounding."""
        return has_unit_lengths(self.rows, lengths)

    def workers(self, n_sides: int = 1) -> int:
        """How many threads may take such blocks: each holds two copies and two scatters a side."""
        if is_torch(self.rows):
            return 1
        n, dim = self.rows.shape
        return workers_for(n_sides * 16 * dim * (n + dim))


def moment_blocks(n: int, dim: int = 1) -> Iterator[slice]:
    """Slices of ``n`` rows of ``dim`` columns that are taken together."""
    return row_blocks(n, min(BLOCK_ROWS, max(_LEAST_ROWS, BLOCK_BYTES // (8 * dim))))


def blocks_of(X: Array, name: str, first_row: int = 0) -> Iterator[Block]:
    """The blocks of a matrix."""
    for rows in moment_blocks(*X.shape):
        yield Block(X[rows], name, first_row + rows.start)


def blocks_of_all(batches: Iterable[Array], name: str, first_row: int = 0) -> Iterator[Block]:
    """The blocks of a stream of batches, each of which stays as it is while it is in use."""
    first = None
    for batch, row in counted(batches, first_row):
        first = batch[:1] if first is None else first
        check_same_space(first, batch)
        yield from blocks_of(batch, name, row)


def counted(batches: Iterable[Array], first_row: int = 0) -> Iterator[tuple[Array, int]]:
    """Each batch with the number of its first row."""
    for batch in batches:
        yield batch, first_row
        first_row += len(batch)


def copied(batch: Array) -> Array:
    """A copy, which stays as it is whatever becomes of the batch."""
    return namespace(batch).asarray(batch, copy=True)
