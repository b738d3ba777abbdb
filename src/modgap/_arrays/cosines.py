"""Cosines of all pairs of rows, each computed once: blocks, extremes and a fine histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import array_api_compat
import numpy as np

from modgap._arrays.base import (
    BLOCK_BYTES,
    is_torch,
    like,
    namespace,
    paired_dots,
    row_blocks,
    to_numpy,
)
from modgap._arrays.cuda import on_card
from modgap._arrays.passes import passed
from modgap._validate import Array

# Histogram bins over cosines in [-1, 1]: 1.2e-4 wide, so the middle of a bin is within 6.1e-5.
_COSINE_BINS = 2**14
# On a GPU a fine histogram of all cosines takes longer than they do. Of more rows than these, only
# the bins around the wanted quantiles are counted one by one; a sample of the rows says which, and
# the shares of its cosines that lie so far to each side.
_SAMPLE_ROWS, _SHARE_ASIDE = 8_192, 0.03


def square_block(itemsize: int) -> int:
    """Side of a square block of scores that fits the scratch budget."""
    return math.isqrt(BLOCK_BYTES // itemsize)


def cosine_blocks(U: Array) -> Iterator[Array]:
    """Cosines of all unordered pairs i < j of unit rows, in blocks that cover each pair once.

    Blocks above the diagonal come as matrices, those on it as the vector of their upper triangle.
    A block is only valid until the next one is asked for.
    """
    xp = namespace(U)
    n = U.shape[0]
    size = square_block(4 if U.dtype == xp.float32 else 8)
    scratch = np.empty((min(size, n), min(size, n)), dtype=U.dtype) if not is_torch(U) else None
    for rows in row_blocks(n, size):
        left = U[rows]
        for columns in row_blocks(n, size):
            if columns.start < rows.start:
                continue
            block = _product(left, U[columns], scratch)
            if columns.start == rows.start:
                block = _upper_triangle(block)
                if block.shape[0] == 0:
                    continue
            yield block
            passed(math.prod(block.shape) / (n * (n - 1) / 2))


def _product(left: Array, right: Array, scratch: np.ndarray | None) -> Array:
    if scratch is None:
        return left @ right.T
    flat = scratch.reshape(-1)[: left.shape[0] * right.shape[0]]
    return np.matmul(left, right.T, out=flat.reshape(left.shape[0], right.shape[0]))


def _upper_triangle(block: Array) -> Array:
    xp = namespace(block)
    n = block.shape[0]
    above = xp.triu(xp.ones((n, n), dtype=xp.bool, device=array_api_compat.device(block)), k=1)
    return block[above]


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
    lowest, highest = math.inf, -math.inf
    counts: Any = None
    for block in cosine_blocks(U):
        # Reductions over a contiguous vector are several times faster than over a matrix.
        flat = block.reshape(-1)
        lowest = min(lowest, float(flat.min()))
        highest = max(highest, float(flat.max()))
        found = _cosine_counts(flat)
        counts = found if counts is None else counts + found
    # Rounding may carry a cosine past 1 or -1: the outermost bins take it in.
    return max(lowest, -1.0), min(highest, 1.0), to_numpy(counts)


def _near_quantiles(U: Array, quantiles: Sequence[float]) -> tuple[float, float, np.ndarray] | None:
    """The same with single counts around the quantiles alone; None where these were missed."""
    from modgap._arrays.cuda.cosines import extremes_and_counts

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
    size = square_block(4 if U.dtype == namespace(U).float32 else 8)
    counts = np.zeros(_COSINE_BINS, dtype=np.int64)
    for rows in row_blocks(U.shape[0], size):
        for columns in row_blocks(V.shape[0], size):
            counts += to_numpy(_cosine_counts((U[rows] @ V[columns].T).reshape(-1)))
    return counts


def paired_cosine_histogram(U: Array, V: Array) -> np.ndarray:
    """The same for row i of U against row i of V."""
    return to_numpy(_cosine_counts(paired_dots(U, V)))


def _cosine_counts(cosines: Array) -> Array:
    half = _COSINE_BINS // 2
    if is_torch(cosines):
        xp = namespace(cosines)
        bins = xp.astype(xp.clip(cosines * half + half, 0, 2 * half - 1), xp.int64)
        return namespace(bins).bincount(bins, minlength=2 * half)
    cosines = cosines.astype(np.float32, copy=False)
    counts = np.zeros(2 * half, dtype=np.int64)
    # Small pieces keep the scaled copy and its integers in the cache.
    for piece in row_blocks(len(cosines), 2**15):
        bins = (cosines[piece] * half + half).astype(np.intp)
        np.clip(bins, 0, 2 * half - 1, out=bins)
        counts += np.bincount(bins, minlength=2 * half)
    return counts


def order_statistic(counts: np.ndarray, rank: int) -> float:
    """The cosine of the given rank (from 0) in a histogram of ``cosine_extremes``."""
    bin_index = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
    return (bin_index + 0.5) * 2.0 / len(counts) - 1.0
