"""Scores that at least k of each row reach: what is looked for among the best is above them."""

from __future__ import annotations

import numpy as np

from modgap._arrays.base import is_torch
from modgap._validate import Array


def floors(scores: Array, k: int) -> Array:
    """For each row a score that at least k reach, and hardly more do.

    Of NumPy rows that are long beside k it may lie a little below the k-th largest.

    >>> floors(np.array([[1.0, 3.0, 2.0]]), 2).tolist()
    [2.0]
    """
    if is_torch(scores):
        return scores.topk(k, dim=1).values[:, -1]
    if k == 1:
        return scores.max(axis=1)
    n_rows, n = scores.shape
    # More of them are found faster, and hold fewer scores that are not among the best.
    n_chunks = 16 * k if n >= 64 * k else 4 * k
    if n < 2 * n_chunks:
        # Where many are equal, partition takes many times as long, and sort no longer.
        return np.sort(scores, axis=1)[:, -k]
    # At least k scores reach the k-th largest maximum of chunks.
    depth = n // n_chunks
    maxima = scores[:, : depth * n_chunks].reshape(n_rows, depth, n_chunks).max(axis=1)
    return np.sort(maxima, axis=1)[:, -k]
