"""The k best documents of each query, exactly, in blocks."""

from __future__ import annotations

import numpy as np

from modgap._arrays.base import is_torch, like, namespace, row_blocks, rows_per_block, to_numpy
from modgap._arrays.ranks import pair_scores, tie_tolerance
from modgap._validate import Array


def top_k(
    queries: Array, documents: Array, k: int, bias: Array | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Indices and scores, (n, k) each, of the k best documents, best first.

    The score of document j is q · d_j + bias_j. Equal scores go to the earlier document. What is
    near the k-th place is scored again in float64, so rounding and block size change nothing.
    """
    n, k = queries.shape[0], min(k, documents.shape[0])
    indices = np.empty((n, k), dtype=np.int64)
    values = np.empty((n, k), dtype=np.float64)
    # Two scores are compared, each off by at most the tolerance.
    margin = 2 * tie_tolerance(queries, documents, bias)
    size = rows_per_block(documents.shape[0], queries.dtype.itemsize)
    for rows in row_blocks(n, size):
        scores = queries[rows] @ documents.T
        if bias is not None:
            scores = scores + namespace(scores).astype(bias, scores.dtype)[None, :]
        floor = _kth_largest(scores, k) - margin
        i, j = (to_numpy(index) for index in namespace(scores).nonzero(scores >= floor[:, None]))
        exact = to_numpy(
            pair_scores(queries, documents, like(i + rows.start, queries), like(j, queries), bias)
        )
        order = np.lexsort((j, -exact, i))
        starts = np.searchsorted(i[order], np.arange(rows.stop - rows.start))
        chosen = order[starts[:, None] + np.arange(k)[None, :]]
        indices[rows], values[rows] = j[chosen], exact[chosen]
    return indices, values


def _kth_largest(scores: Array, k: int) -> Array:
    if is_torch(scores):
        return scores.topk(k, dim=1).values[:, -1]
    return scores.max(axis=1) if k == 1 else np.partition(scores, -k, axis=1)[:, -k]
