"""Cosines of all pairs of rows, each computed once: extremes, a fine histogram, sums of exp.

How it works:

1. The products of unit rows come in tiles (`arrays/product.py`), in which every two rows meet once.
2. A tile is reduced to its extremes, to counts in 16,384 equal bins from -1 to 1, or to a sum of
   exponentials. These add up, so no cosine is kept.
3. A quantile is the middle of the bin in which the counts reach it (`order_statistic`), so it is
   within 6.1e-5 of the exact one.
4. On a GPU, counting takes longer than multiplying. Where there are many rows, a sample of them
   tells which bins are around the wanted quantiles; only cosines in these are counted bin by bin.
   If the sample was wrong, all are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap.arrays.base import (
    filled,
    is_torch,
    like,
    namespace,
    paired_dots,
    to_numpy,
    wide_dtype,
    widen,
)
from modgap.arrays.cuda import on_card
from modgap.arrays.product import Tile, half_product_pass, product_pass
from modgap.core.checks import Array

# Histogram bins over cosines in [-1, 1]: 1.2e-4 wide, so the middle of a bin is within 6.1e-5.
_COSINE_BINS = 2**14
# On a GPU a fine histogram of all cosines takes longer than they do. Of more rows than these, only
# the bins around the wanted quantiles are counted one by one; a sample of the rows says which, and
# the shares of its cosines that lie so far to each side.
_SAMPLE_ROWS, _SHARE_ASIDE = 8_192, 0.03
# Cosines that NumPy counts at a time.
_PIECE = 2**16
# Counts that torch makes of this many numbers on a GPU are whole, being float32.
_WHOLE = 2**24


class CosineSpread:
    """Smallest and largest cosine, and a histogram of ``_COSINE_BINS`` equal bins from -1 to 1.

    A consumer of half products; ``order_statistic`` reads the histogram.
    """

    def __init__(self, U: Array) -> None:
        self._lowest = filled(math.inf, 1, U, U.dtype)
        self._highest = filled(-math.inf, 1, U, U.dtype)
        self._counts: Array | None = None

    def look(self, values: Array, scratch: Array) -> tuple[Array, Array, Array]:
        """Extremes and counts of some cosines."""
        xp = namespace(values)
        return xp.min(values), xp.max(values), _cosine_counts(values)

    def add(self, told: tuple[Array, Array, Array]) -> None:
        """Take them in."""
        xp = namespace(self._lowest)
        self._lowest = xp.minimum(self._lowest, told[0])
        self._highest = xp.maximum(self._highest, told[1])
        self._counts = told[2] if self._counts is None else self._counts + told[2]

    def result(self) -> tuple[float, float, np.ndarray]:
        """Smallest, largest, and the histogram."""
        # Rounding may carry a cosine past 1 or -1: the outermost bins take it in.
        return (
            max(float(self._lowest[0]), -1.0),
            min(float(self._highest[0]), 1.0),
            to_numpy(self._counts),
        )


class CosineExponentials:
    """Σ exp(4 cos − 4), which is Σ exp(−2 ‖x − y‖²) of unit rows; a consumer of half products."""

    def __init__(self, U: Array) -> None:
        self._total = filled(0.0, 1, U, wide_dtype(U))

    def look(self, values: Array, scratch: Array) -> Array:
        """The sum over some cosines."""
        xp = namespace(values)
        found = xp.multiply(values, 4.0, out=scratch)
        found -= 4.0
        return widen(xp.sum(xp.exp(found, out=found)))

    def add(self, told: Array) -> None:
        """Take it in."""
        self._total = self._total + told

    def result(self) -> float:
        """The sum over everything taken in."""
        return float(self._total[0])


def cosine_extremes(
    U: Array, quantiles: Sequence[float] | None = None
) -> tuple[float, float, np.ndarray]:
    """Smallest and largest cosine over pairs i < j of unit rows, and a histogram of all of them.

    The histogram has ``_COSINE_BINS`` equal bins from -1 to 1; ``order_statistic`` reads it. Where
    only some quantiles will be read, bins away from them may be counted together.
    """
    if quantiles is not None and on_card(U) and U.shape[0] > 4 * _SAMPLE_ROWS:
        found = _near_quantiles(U, quantiles)
        if found is not None:
            return found
    spread = CosineSpread(U)
    half_product_pass(U, [spread])
    return spread.result()


def _near_quantiles(U: Array, quantiles: Sequence[float]) -> tuple[float, float, np.ndarray] | None:
    """The same with single counts around the quantiles alone; None where these were missed."""
    from modgap.arrays.cuda.cosines import extremes_and_counts

    n = U.shape[0]
    some = np.linspace(0, n - 1, _SAMPLE_ROWS).astype(np.int64)
    _, _, sampled = cosine_extremes(U[like(some, U)])
    shares = np.cumsum(sampled) / sampled.sum()
    ends = min(quantiles) - _SHARE_ASIDE, max(quantiles) + _SHARE_ASIDE
    first, last = (int(np.searchsorted(shares, share)) for share in ends)
    bins = slice(max(first - 1, 1), min(last + 2, _COSINE_BINS - 1))
    lowest, highest, counts = extremes_and_counts(U, bins, _COSINE_BINS)
    below = np.cumsum(counts)
    total = int(below[-1])
    for quantile in quantiles:
        # One place to each side, for a quantile between two of them.
        if not below[bins.start - 1] < quantile * total - 1 < below[bins.stop - 1] - 2:
            return None
    return max(lowest, -1.0), min(highest, 1.0), counts


def cosine_histogram(U: Array, V: Array) -> np.ndarray:
    """The histogram of ``cosine_extremes`` for every unit row of U against every one of V."""
    counts = _Counts()
    product_pass(U, V, [counts])
    return to_numpy(counts.total)


class _Counts:
    """The histogram of all products."""

    def __init__(self) -> None:
        self.total: Array | int = 0

    def look(self, tile: Tile) -> Array:
        return _cosine_counts(tile.products.reshape(-1))

    def add(self, told: Array, tile: Tile) -> None:
        self.total = self.total + told


def paired_cosine_histogram(U: Array, V: Array) -> np.ndarray:
    """The same for row i of U against row i of V."""
    return to_numpy(_cosine_counts(paired_dots(U, V)))


def _cosine_counts(cosines: Array) -> Array:
    half = _COSINE_BINS // 2
    if is_torch(cosines):
        return _torch_counts(cosines, half)
    cosines = cosines.astype(np.float32, copy=False)
    counts = np.zeros(2 * half + 1, dtype=np.int64)
    # Small pieces keep the scaled copy and its integers in the cache.
    for start in range(0, len(cosines), _PIECE):
        scaled = cosines[start : start + _PIECE] * np.float32(half)
        scaled += np.float32(half)
        # Towards zero, so that what rounding carried below -1 is in the first bin. Floats become
        # int32 and these intp far faster than at once.
        bins = scaled.astype(np.int32).astype(np.intp)
        counts += np.bincount(bins, minlength=2 * half + 1)
    counts[-2] += counts[-1]  # what is 1, or was carried beyond it
    return counts[:-1]


def _torch_counts(cosines: Any, half: int) -> Any:
    xp = namespace(cosines)
    if cosines.device.type != "cuda":
        bins = xp.astype(xp.clip(cosines * half + half, 0, 2 * half - 1), xp.int64)
        return bins.bincount(minlength=2 * half)
    counts = xp.zeros(2 * half, dtype=xp.int64, device=cosines.device)
    for piece in xp.clip(cosines, -1.0, 1.0).split(_WHOLE):
        counts += xp.astype(piece.histc(2 * half, -1.0, 1.0), xp.int64)
    return counts


def order_statistic(counts: np.ndarray, rank: int) -> float:
    """The cosine of the given rank (from 0) in a histogram of ``cosine_extremes``."""
    bin_index = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
    return (bin_index + 0.5) * 2.0 / len(counts) - 1.0
