"""A lower bound on the k-th largest score of each row, found faster than by sorting.

The columns are cut into chunks. At least k scores reach the k-th largest of the chunks' maxima,
and there are far fewer maxima than scores.
"""

from __future__ import annotations

import numpy as np

from modgap.arrays.base import is_torch
from modgap.core.checks import Array


def floors(scores: Array, k: int) -> Array:
    """For each row a score that at least k scores reach, and few others.

    It is the k-th largest, or for long NumPy rows a little less.

    >>> floors(np.array([[1.0, 3.0, 2.0]]), 2).tolist()
    [2.0]
    """
    if is_torch(scores):
        return scores.topk(k, dim=1).values[:, -1]
    if k == 1:
        return scores.max(axis=1)
    n_rows, n = scores.shape
    # Long rows have more chunks: that is faster, and fewer other scores reach the floor.
    n_chunks = 16 * k if n >= 64 * k else 4 * k
    if n < 2 * n_chunks:
        # Where many are equal, partition takes many times as long, and sort no longer.
        return np.sort(scores, axis=1)[:, -k]
    depth = n // n_chunks
    maxima = scores[:, : depth * n_chunks].reshape(n_rows, depth, n_chunks).max(axis=1)
    return np.sort(maxima, axis=1)[:, -k]
