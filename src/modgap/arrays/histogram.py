"""Histograms of many features at once, bin for bin as ``numpy.histogram`` counts them."""

from __future__ import annotations

import numpy as np

from modgap.arrays.base import cached_blocks, is_torch, like, namespace, to_numpy, widen
from modgap.core.checks import Array
from modgap.core.threads import in_threads


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
    columns = A.shape[1]
    steps = widen(like(np.arange(bins + 1), A))
    edges = low[:, None] + steps[None, :] * ((high - low) / bins)[:, None]
    edges[:, -1] = high

    def count(rows: slice) -> np.ndarray:
        cells = to_numpy(_places(widen(A[rows]), bins, edges)) + np.arange(columns) * bins
        return np.bincount(cells.reshape(-1), minlength=columns * bins)

    counts = np.zeros(columns * bins, dtype=np.int64)
    for part in in_threads(count, cached_blocks(A), 1 if is_torch(A) else None):
        counts += part
    return counts.reshape(columns, bins)


def _places(values: Array, bins: int, edges: Array) -> Array:
    """The bin of each value; a product may round across an edge, so the edges decide."""
    xp = namespace(values)
    low, high = edges[:, 0], edges[:, -1]
    offsets = like(np.arange(values.shape[1]) * (bins + 1), values)
    index = xp.astype((values - low) / (high - low) * bins, xp.int64)
    index = xp.clip(index, 0, bins - 1)
    flat_edges = edges.reshape(-1)
    below = values < flat_edges[index + offsets]
    above = (values >= flat_edges[index + offsets + 1]) & (index < bins - 1)
    return index - xp.astype(below, xp.int64) + xp.astype(above, xp.int64)
