"""Histograms of many features at once, bin for bin as ``numpy.histogram`` counts them."""

from __future__ import annotations

import numpy as np

from modgap._arrays.base import like, namespace, row_blocks, rows_per_block, to_numpy, widen
from modgap._validate import Array


def shared_range(*sets: Array) -> tuple[Array, Array]:
    """Smallest and largest value of each column over all sets; a constant column gets width 1."""
    xp = namespace(*sets)
    low = widen(xp.min(sets[0], axis=0))
    high = widen(xp.max(sets[0], axis=0))
    for A in sets[1:]:
        low = xp.minimum(low, widen(xp.min(A, axis=0)))
        high = xp.maximum(high, widen(xp.max(A, axis=0)))
    # Half a unit as numpy.histogram has it, but never lost in the rounding of a large value.
    width = xp.maximum(xp.full_like(low, 0.5), 1e-6 * xp.abs(low))
    half = xp.where(low == high, width, xp.zeros_like(low))
    return low - half, high + half


def histogram(A: Array, bins: int, low: Array, high: Array) -> np.ndarray:
    """Counts (columns, bins) of the values of each column between its ``low`` and ``high``."""
    xp = namespace(A)
    columns = A.shape[1]
    steps = widen(like(np.arange(bins + 1), A))
    edges = low[:, None] + steps[None, :] * ((high - low) / bins)[:, None]
    edges[:, -1] = high
    flat_edges = edges.reshape(-1)
    offsets = like(np.arange(columns) * (bins + 1), A)
    counts = np.zeros(columns * bins, dtype=np.int64)
    for rows in row_blocks(A.shape[0], rows_per_block(columns)):
        values = widen(A[rows])
        index = xp.astype((values - low) / (high - low) * bins, xp.int64)
        index = xp.clip(index, 0, bins - 1)
        # A product may round across an edge; the edges themselves decide.
        below = values < flat_edges[index + offsets]
        above = (values >= flat_edges[index + offsets + 1]) & (index < bins - 1)
        index = index - xp.astype(below, xp.int64) + xp.astype(above, xp.int64)
        cells = to_numpy(index) + np.arange(columns) * bins
        counts += np.bincount(cells.reshape(-1), minlength=columns * bins)
    return counts.reshape(columns, bins)
