"""Blocks of rows on their way into moments: looked at, widened and added in threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modgap._arrays import has_unit_lengths, is_torch, namespace, row_blocks, wide_dtype
from modgap._threads import workers_for
from modgap._validate import Array, check_matrix, check_same_space, check_values, is_checked

# Rows taken together at most, and the bytes of their float64 copy. With fewer rows than the least,
# adding the parts would take longer than making them.
BLOCK_ROWS, BLOCK_BYTES, _LEAST_ROWS = 4096, 8 * 2**20, 512


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are taken together, and where they are; ``checked`` where they were looked at."""

    rows: Array
    name: str
    first_row: int
    nonzero: bool
    checked: bool

    def wide(self) -> Array:
        """A copy in wide precision."""
        return namespace(self.rows).astype(self.rows, wide_dtype(self.rows), copy=True)

    def lengths(self, wide: Array) -> Array:
        """The length of each row, (n, 1); NaN and infinity are refused, and zero where it must be.

        Squares of narrower floats do not leave the range of ``wide``, so that their sums tell
        whether every number has to be looked at.
        """
        xp = namespace(wide)
        narrow = self.rows.dtype != wide.dtype
        if not (self.checked or narrow):
            self._check()
        squares = xp.linalg.vecdot(wide, wide)
        good = xp.isfinite(squares) & ((squares > 0) | (not self.nonzero))
        if narrow and not self.checked and not bool(xp.all(good)):
            self._check()
        return xp.sqrt(squares)[:, None]

    def is_unit(self, lengths: Array) -> bool:
        """Whether the rows have these lengths because they are unit rows, up to rounding."""
        return has_unit_lengths(self.rows, lengths)

    def _check(self) -> None:
        check_values(self.rows, self.name, nonzero=self.nonzero, first_row=self.first_row)

    def workers(self, n_sides: int = 1) -> int:
        """How many threads may take such blocks: each holds two copies and two scatters a side."""
        if is_torch(self.rows):
            return 1
        n, dim = self.rows.shape
        return workers_for(n_sides * 16 * dim * (n + dim))


def moment_blocks(n: int, dim: int = 1) -> Iterator[slice]:
    """Slices of ``n`` rows of ``dim`` columns that are taken together."""
    return row_blocks(n, min(BLOCK_ROWS, max(_LEAST_ROWS, BLOCK_BYTES // (8 * dim))))


def blocks_of(X: Array, name: str, *, nonzero: bool, first_row: int = 0) -> Iterator[Block]:
    """The blocks of a matrix."""
    X = check_matrix(X, name)
    checked = is_checked(X, nonzero=nonzero)
    for rows in moment_blocks(*X.shape):
        yield Block(X[rows], name, first_row + rows.start, nonzero, checked)


def blocks_of_all(
    batches: Iterable[Array], name: str, *, nonzero: bool, first_row: int = 0
) -> Iterator[Block]:
    """The blocks of a stream of batches, each of which stays as it is while it is in use."""
    first = None
    for batch, row in counted(batches, first_row):
        first = batch[:1] if first is None else first
        check_same_space(first, batch)
        yield from blocks_of(batch, name, nonzero=nonzero, first_row=row)


def counted(batches: Iterable[Array], first_row: int = 0) -> Iterator[tuple[Array, int]]:
    """Each batch with the number of its first row."""
    for batch in batches:
        yield batch, first_row
        first_row += len(batch)
