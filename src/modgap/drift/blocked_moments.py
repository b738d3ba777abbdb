"""Moments of a stream with the sums of its consecutive blocks, which show what chance does.

Rows come in sessions, sorted files and crawls. They are not independent, so their mean is less
certain than the mean of as many independent rows. Means of consecutive blocks that are longer than
a session are about independent, and their spread tells how uncertain the overall mean is (batch
means, as in simulation). A block keeps the sums of its rows, of their squared lengths and of their
squared products with a few fixed random directions. These stand for the covariance: O(d) numbers a
block instead of d².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from modgap.core.results import Brief
from modgap.moments import RowMoments

# Blocks are this long at first; beyond MOST_BLOCKS each two neighbours become one.
FIRST_BLOCK, MOST_BLOCKS = 8, 64
# So many are compared: few, so that each is long, and enough to tell how they spread.
USED_BLOCKS, LEAST_BLOCKS = 48, 12
# Random directions in which variances are followed.
N_PROBES = 64


@lru_cache(maxsize=4)
def probe_directions(dim: int) -> np.ndarray:
    """Fixed random directions, (N_PROBES, dim), of length about 1: the same on every machine."""
    # Of raw bits: those of a bit generator never change, its normal numbers may.
    bits = np.random.PCG64(19).random_raw(N_PROBES * dim)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    found = ndtri(uniform).reshape(N_PROBES, dim) / dim**0.5
    found.setflags(write=False)
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Blocks(Brief):
    """Rows in each consecutive block, and sums over them, (blocks, d + 1 + probes).

    A column of ``sums`` is a feature, then the squared length, then the squared product with each
    probe.
    """

    counts: np.ndarray
    sums: np.ndarray

    def _brief(self) -> str:
        return f"{len(self.counts)} blocks of {int(self.counts.sum()):,} rows"

    @classmethod
    def none(cls, dim: int) -> Blocks:
        """No rows yet."""
        return cls(np.zeros(0, np.int64), np.zeros((0, dim + 1 + N_PROBES)))

    def __add__(self, other: Blocks) -> Blocks:
        """The blocks of both, the other's after these."""
        counts = np.concatenate([self.counts, other.counts])
        return Blocks(counts, np.concatenate([self.sums, other.sums]))

    def then(self, rows: np.ndarray) -> Blocks:
        """The blocks with more rows, in float64, which fill the last block first."""
        probes = rows @ probe_directions(rows.shape[1]).T
        features = np.hstack([rows, np.sum(rows**2, axis=1, keepdims=True), probes**2])
        size = max(FIRST_BLOCK, int(self.counts.max(initial=0)))
        room = size - int(self.counts[-1]) if len(self.counts) else 0
        starts = np.r_[0 : min(room, 1), room : len(rows) : size]
        found = self + Blocks(
            np.diff(np.append(starts, len(rows))), np.add.reduceat(features, starts, axis=0)
        )
        if room:
            found = found._joined(np.delete(np.arange(len(found.counts)), len(self.counts)))
        while len(found.counts) > MOST_BLOCKS:
            found = found._joined(np.arange(0, len(found.counts), 2))
        return found

    def evened(self, wanted: int = USED_BLOCKS) -> Blocks:
        """Neighbours joined into at most so many blocks of about equal size."""
        if len(self.counts) <= wanted:
            return self
        middle = np.cumsum(self.counts) - self.counts / 2
        place = np.minimum((middle / self.counts.sum() * wanted).astype(int), wanted - 1)
        return self._joined(np.flatnonzero(np.diff(place, prepend=-1)))

    def _joined(self, starts: np.ndarray) -> Blocks:
        """One block from each start to the next."""
        return Blocks(
            np.add.reduceat(self.counts, starts), np.add.reduceat(self.sums, starts, axis=0)
        )


@dataclass(frozen=True, eq=False)
class BlockedMoments(Brief):
    """Moments of rows, and their blocks where rows came in an order; ``rows`` says which rows.

    ``rows`` is "unit" where they were brought to unit length first, else "given".
    """

    moments: RowMoments
    blocks: Blocks | None = None
    rows: str = "unit"

    def _brief(self) -> str:
        return f"{self.n:,} {self.rows} rows, {self.dim} columns"

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.moments.n

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.moments.mean)

    def __add__(self, other: BlockedMoments) -> BlockedMoments:
        """The rows of both, the other's after these."""
        both = None
        if self.blocks is not None and other.blocks is not None:
            both = self.blocks + other.blocks
        return BlockedMoments(self.moments + other.moments, both, self.rows)

    def then(self, rows: np.ndarray) -> BlockedMoments:
        """The same with more rows, in float64 and of the right length."""
        assert self.blocks is not None
        return BlockedMoments(self.moments + RowMoments.of(rows), self.blocks.then(rows), self.rows)

    @classmethod
    def of(cls, rows: np.ndarray, kind: str = "unit") -> BlockedMoments:
        """Of rows in float64 that are of the right length."""
        return cls(RowMoments.of(rows), Blocks.none(rows.shape[1]).then(rows), kind)
