"""Moments of rows, which add up, and the blocks of rows that they are gathered from in threads.

How it works: a block of rows is copied to float64, its mean is taken off, and the centred products
are summed. Two such parts are added with the distance of their means (Chan, Golub and LeVeque
1983), which stays accurate where sums of squares do not. So files, shards, threads and
interrupted runs give their parts, and the sum is that of all rows.

The lengths of a block tell whether it can be used: NaN, infinity and zero rows show in the sums of
squares. Only where one is suspicious is every number looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from modgap.arrays import has_unit_lengths, is_torch, namespace, row_blocks, to_numpy, wide_dtype
from modgap.core.checks import Array, InputValueError, check_same_space, check_values
from modgap.core.results import Brief
from modgap.core.threads import workers_for

Detail = Literal["mean", "variance", "covariance"]


@dataclass(frozen=True)
class RowMoments(Brief):
    """Count, mean and centred second moment of a set of rows.

    ``scatter`` is Σ (x − mean)(x − mean)ᵀ, (d, d); only its diagonal, (d,), when the covariance
    was not asked for; None when only the mean was.
    """

    n: int
    mean: Array
    scatter: Array | None

    @classmethod
    def of(cls, rows: Array, detail: Detail = "covariance") -> RowMoments:
        """Moments of one block of rows, in float64 where the device has it."""
        return cls.of_scratch(namespace(rows).astype(rows, wide_dtype(rows), copy=True), detail)

    @classmethod
    def of_scratch(cls, rows: Array, detail: Detail = "covariance") -> RowMoments:
        """Moments of rows in wide precision, which are centred where they lie."""
        xp = namespace(rows)
        mean = xp.mean(rows, axis=0)
        if detail == "mean":
            return cls(rows.shape[0], mean, None)
        rows -= mean
        if detail == "covariance":
            return cls(rows.shape[0], mean, rows.T @ rows)
        rows *= rows
        return cls(rows.shape[0], mean, xp.sum(rows, axis=0))

    def __add__(self, other: RowMoments) -> RowMoments:
        return deepcopy(self).add(other)

    def add(self, other: RowMoments) -> RowMoments:
        """``self + other``; the scatter of this one is written over."""
        # Chan, Golub and LeVeque 1983: stable where sum(x**2) - n*mean**2 is not.
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        first, second = self.scatter, other.scatter
        if first is None or second is None:
            return RowMoments(n, mean, None)
        if first.ndim != second.ndim:  # a sum knows no more than the lesser part
            diagonal = namespace(delta).linalg.diagonal
            first, second = (1 * diagonal(s) if s.ndim == 2 else s for s in (first, second))
        between = delta[:, None] * delta[None, :] if first.ndim == 2 else delta**2
        between *= self.n * other.n / n
        first += second
        first += between
        return RowMoments(n, mean, first)

    @property
    def variance(self) -> Array:
        """Population variance of each feature."""
        scatter = self._scatter()
        if scatter.ndim == 2:
            scatter = namespace(scatter).linalg.diagonal(scatter)
        return scatter / self.n

    @property
    def covariance(self) -> Array:
        """Population covariance matrix."""
        scatter = self._scatter()
        if scatter.ndim != 2:
            raise InputValueError("These moments hold variances only; gather the covariance.")
        return scatter / self.n

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the covariance, smallest first, and its eigenvectors, one a column."""
        values, vectors = np.linalg.eigh(to_numpy(self.covariance))
        return values, vectors

    def _scatter(self) -> Array:
        if self.scatter is None:
            raise InputValueError("These moments hold means only; gather variances too.")
        return self.scatter


def ratio(size: Array, variance: Array) -> Array:
    """size / sqrt(variance); infinite where only the variance is 0, 0 where both are."""
    xp = namespace(size)
    safe = xp.where(variance > 0, variance, xp.ones_like(variance))
    at_zero = xp.where(size > 0, xp.full_like(size, float("inf")), xp.zeros_like(size))
    return xp.where(variance > 0, size / xp.sqrt(safe), at_zero)


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
