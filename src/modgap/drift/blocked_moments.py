"""Moments of a stream with the sums of its consecutive blocks: how far chance moves each number.

Rows come in sessions, sorted files and crawls, so they are not independent, and a mean of n rows
is less certain than n independent rows would make it. Means of consecutive blocks that are longer
than a session are about independent: their spread says how uncertain the mean of all is (batch
means, as in simulation). Of each block the sum of its rows is kept, of their squared lengths, and
of their squared products with a few fixed random directions, which stand for the covariance:
O(d) numbers a block, where a covariance would take d².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from modgap._results import Brief
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

    def then(self, rows: np.ndarray) -> Blocks:
        """The blocks once these rows, in float64, have come after the others."""
        features = _features(rows)
        size = max(FIRST_BLOCK, int(self.counts.max(initial=0)))
        room = 0
        if len(self.counts) and self.counts[-1] < size:  # the last block is not full yet
            room = min(size - int(self.counts[-1]), len(rows))
        starts = np.arange(room, len(rows), size)
        counts = np.diff(np.append(starts, len(rows)))
        added = np.add.reduceat(features, starts, axis=0) if len(starts) else features[:0]
        before = Blocks(self.counts.copy(), self.sums.copy())
        if room:
            before.counts[-1] += room
            before.sums[-1] += features[:room].sum(axis=0)
        return before.with_blocks(counts, added).halved()

    def with_blocks(self, counts: np.ndarray, sums: np.ndarray) -> Blocks:
        """These blocks, then others."""
        return Blocks(
            np.concatenate([self.counts, counts.astype(np.int64)]),
            np.concatenate([self.sums, sums]),
        )

    def halved(self) -> Blocks:
        """Each two neighbours as one until there are few enough."""
        found = self
        while len(found.counts) > MOST_BLOCKS:
            starts = np.arange(0, len(found.counts), 2)
            found = Blocks(
                np.add.reduceat(found.counts, starts), np.add.reduceat(found.sums, starts, axis=0)
            )
        return found

    def evened(self, wanted: int = USED_BLOCKS) -> Blocks:
        """At most so many blocks of about equal size, of neighbours."""
        if len(self.counts) <= wanted:
            return self
        middle = np.cumsum(self.counts) - self.counts / 2
        place = np.minimum((middle / self.counts.sum() * wanted).astype(int), wanted - 1)
        starts = np.flatnonzero(np.diff(place, prepend=-1))
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
            both = self.blocks.with_blocks(other.blocks.counts, other.blocks.sums)
        return BlockedMoments(self.moments + other.moments, both, self.rows)

    def then(self, rows: np.ndarray) -> BlockedMoments:
        """The same with more rows, in float64 and of the right length."""
        assert self.blocks is not None
        return BlockedMoments(self.moments + RowMoments.of(rows), self.blocks.then(rows), self.rows)

    @classmethod
    def of(cls, rows: np.ndarray, kind: str = "unit") -> BlockedMoments:
        """Of rows in float64 that are of the right length."""
        blocks = Blocks.none(rows.shape[1]).then(rows)
        return cls(RowMoments.of(rows), blocks, kind)


def _features(rows: np.ndarray) -> np.ndarray:
    """What is summed over a block, a line for each row."""
    probes = rows @ probe_directions(rows.shape[1]).T
    return np.hstack([rows, np.sum(rows**2, axis=1, keepdims=True), probes**2])
