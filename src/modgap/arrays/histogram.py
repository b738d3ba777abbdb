"""Histograms of many features at once, bin for bin as ``numpy.histogram`` counts them."""

from __future__ import annotations

import numpy as np

from modgap.arrays.base import is_torch, namespace, to_numpy, widen
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
    """Counts (columns, bins) of the values of each column between its ``low`` and ``high``.

    Sorted values are cut at the edges, so that no rounding carries one across.
    """
    first, last = to_numpy(low)[:, None], to_numpy(high)
    edges = first + np.arange(bins + 1) * ((last[:, None] - first) / bins)
    edges[:, -1] = np.nextafter(last, np.inf)  # which the last bin holds

    def count(column: int) -> np.ndarray:
        values = np.sort(to_numpy(A[:, column]).astype(np.float64))
        return np.diff(np.searchsorted(values, edges[column]))

    return np.stack(list(in_threads(count, range(A.shape[1]), 1 if is_torch(A) else None)))
