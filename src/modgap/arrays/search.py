"""The k best documents of each query, exactly, in blocks.

How it works: a block of scores in the rows' own precision gives each query its k-th largest.
Documents within the rounding of it are scored again in float64 and
sorted, so neither precision nor block size changes a result. Where very many are so near, equal
documents are scored once, and the block is computed again in float64.
"""

from __future__ import annotations

import threading
from functools import cached_property

import numpy as np

from modgap.arrays.base import (
    CACHE_BYTES,
    is_torch,
    like,
    namespace,
    row_blocks,
    rows_per_block,
    to_numpy,
    widen,
)
from modgap.arrays.cuda import scratch_bytes
from modgap.arrays.equal_rows import EqualRows, equal_rows
from modgap.arrays.product import Scratch
from modgap.arrays.wide_scores import pair_scores, tie_tolerance
from modgap.core.checks import Array
from modgap.core.stopping import stop_here
from modgap.core.threads import in_threads, processors

# Where so many times k documents a query are near the k-th place, equal ones are scored once.
_CROWDED = 4
# On a processor: room for scores, shared out among its cores, and queries a core has at least.
_SCORES_BYTES, _FEW_QUERIES = 2**27, 128


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
    search = _Search(queries, documents, k, bias)
    spans = list(row_blocks(n, _queries_at_once(queries, documents)))
    workers = 1 if is_torch(queries) else None
    for rows, found in zip(spans, in_threads(search.best, spans, workers), strict=True):
        indices[rows], values[rows] = found
        stop_here()  # threads are not asked
    return indices, values


def _queries_at_once(queries: Array, documents: Array) -> int:
    """Queries whose scores with all documents fit the scratch, as many for each core."""
    n_documents, itemsize = documents.shape[0], queries.dtype.itemsize
    size = rows_per_block(n_documents, itemsize, scratch_bytes(queries))
    if is_torch(queries):
        return size
    # A product of few rows is slow: where documents are many, scores may take more room.
    most = rows_per_block(n_documents, itemsize, _SCORES_BYTES // processors())
    size = max(size, min(_FEW_QUERIES, most))
    return min(size, max(_FEW_QUERIES, -(-queries.shape[0] // processors())))


class _Search:
    """Finds the best documents of some queries; several threads may ask at once."""

    def __init__(self, queries: Array, documents: Array, k: int, bias: Array | None) -> None:
        self.queries, self.documents, self.k, self.bias = queries, documents, k, bias
        # Two scores are compared, each off by at most the tolerance.
        self.margin = 2 * tie_tolerance(queries, documents, bias)
        self._lock, self._scratch = threading.Lock(), Scratch()

    @cached_property
    def _equal(self) -> EqualRows:
        """Which documents are equal; looked for where many score alike."""
        return equal_rows(self.documents, self.bias)

    def best(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Indices and scores of the best documents of the queries in these rows."""
        queries, documents, k, bias = self.queries, self.documents, self.k, self.bias
        scores = self._scratch.product(queries[rows], documents)
        if bias is not None:
            scores += namespace(scores).astype(bias, scores.dtype, copy=False)[None, :]
        near = scores >= (_kth_largest(scores, k) - self.margin)[:, None]
        equal: EqualRows | None = None
        if _is_crowded(near, k):
            with self._lock:
                equal = self._equal
            if not equal.all_apart:
                near = near & like(equal.is_first, near)[None, :]
            if _is_crowded(near, k):
                near = _nearer(near, queries[rows], documents, k, bias)
        i, j = _places(near)
        place = like(i + rows.start, queries), like(j, queries)
        exact = to_numpy(pair_scores(queries, documents, *place, bias))
        if equal is not None and not equal.all_apart:
            i, j, exact = _with_equal(i, j, exact, k, equal)
        order = np.lexsort((j, -exact, i))
        starts = np.flatnonzero(np.r_[True, np.diff(i[order]) > 0])
        chosen = order[starts[:, None] + np.arange(k)[None, :]]
        return j[chosen], exact[chosen]


def _kth_largest(scores: Array, k: int) -> Array:
    """The k-th largest score of each row; a few rows at a time, for NumPy copies them."""
    if is_torch(scores):
        return scores.topk(k, dim=1).values[:, -1]
    size = rows_per_block(scores.shape[1], scores.itemsize, CACHE_BYTES)
    blocks = row_blocks(len(scores), size)
    return np.concatenate([np.partition(scores[rows], -k, axis=1)[:, -k] for rows in blocks])


def _places(near: Array) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of what is true."""
    if is_torch(near):
        i, j = (to_numpy(index) for index in namespace(near).nonzero(near))
        return i, j
    i, j = np.divmod(np.flatnonzero(near), near.shape[1])
    return i, j


def _is_crowded(near: Array, k: int) -> bool:
    """Whether many more than k documents a query are near the k-th place."""
    count = int(near.sum()) if is_torch(near) else int(np.count_nonzero(near))
    return count > _CROWDED * k * near.shape[0]


def _nearer(near: Array, queries: Array, documents: Array, k: int, bias: Array | None) -> Array:
    """Of the documents that are near, those that are by scores in float64."""
    xp = namespace(queries)
    parts = []
    for block in row_blocks(documents.shape[0], rows_per_block(documents.shape[1])):
        scores = widen(queries) @ widen(documents[block]).T
        if bias is not None:
            scores = scores + widen(bias[block])[None, :]
        parts.append(xp.where(near[:, block], scores, xp.full_like(scores, -float("inf"))))
    scores = xp.concat(parts, axis=1)
    margin = 2 * tie_tolerance(queries, documents, bias, wide=True)
    return near & (scores >= (_kth_largest(scores, k) - margin)[:, None])


def _with_equal(
    i: np.ndarray, j: np.ndarray, exact: np.ndarray, k: int, equal: EqualRows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with the documents that equal those at ``j``, as far as they may be needed.

    Every entry must be the first of its kind.
    """
    is_first = equal.is_first[j]
    i, j, exact = i[is_first], j[is_first], exact[is_first]
    order = np.lexsort((j, -exact, i))
    i, kinds, exact = i[order], equal.kind[j[order]], exact[order]
    sizes = equal.sizes[kinds]
    # How many documents score higher: all before the first of those that score the same.
    starts = np.r_[True, i[1:] != i[:-1]]
    runs = starts | np.r_[True, exact[1:] != exact[:-1]]
    before = np.cumsum(sizes) - sizes
    lines = np.arange(len(i))
    ahead = before[np.maximum.accumulate(np.where(runs, lines, 0))]
    ahead -= before[np.maximum.accumulate(np.where(starts, lines, 0))]
    needed = ahead < k
    i, kinds, exact, sizes = i[needed], kinds[needed], exact[needed], sizes[needed]
    counts = np.minimum(sizes, k)
    places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    j = equal.by_kind[np.repeat(equal.starts[kinds], counts) + places]
    return np.repeat(i, counts), j, np.repeat(exact, counts)
