"""Cosines of all pairs of rows, each computed once: blocks, extremes and a fine histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np

from modgap._arrays.base import (
    BLOCK_BYTES,
    is_torch,
    namespace,
    paired_dots,
    row_blocks,
    to_numpy,
)
from modgap._arrays.passes import passed
from modgap._validate import Array

# Histogram bins over cosines in [-1, 1]: 1.2e-4 wide, so the middle of a bin is within 6.1e-5.
_COSINE_BINS = 2**14


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


def cosine_extremes(U: Array) -> tuple[float, float, np.ndarray]:
    """Smallest and largest cosine over pairs i < j of unit rows, and a histogram of all of them.

    The histogram has ``_COSINE_BINS`` equal bins from -1 to 1; ``order_statistic`` reads it.
    """
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
