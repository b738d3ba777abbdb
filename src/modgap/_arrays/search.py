"""The k best documents of each query, exactly, in blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from modgap._arrays.base import (
    is_torch,
    like,
    namespace,
    row_blocks,
    rows_per_block,
    to_numpy,
    widen,
)
from modgap._arrays.cuda import full_precision, scratch_bytes
from modgap._arrays.equal_rows import EqualRows, equal_rows
from modgap._arrays.floors import floors
from modgap._arrays.product import Scratch
from modgap._arrays.ranks import pair_scores, tie_tolerance
from modgap._stopping import stop_here
from modgap._threads import in_threads, processors
from modgap._validate import Array

# Where so many times k documents a query are near the k-th place, equal ones are scored once.
_CROWDED = 4
# On a processor: queries of a block, and scores of a tile of it, at least so many documents high.
_QUERIES, _TILE, _DOCUMENTS = 2560, 2**20, 2048
# Queries that are shared out among processors are at least so many each.
_FEW_QUERIES = 128
# The highest of so many scores is looked at first.
_DEPTH = 16


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
    block = _Block(queries, documents, k, bias)
    if is_torch(queries):
        spans, best, workers = list(block.parts(slice(0, n))), block.best_of_all, 1
    else:
        spans, best, workers = list(_shared_out(n)), block.best, None
    for rows, found in zip(spans, in_threads(best, spans, workers), strict=True):
        indices[rows], values[rows] = found
        stop_here()  # threads are not asked
    return indices, values


def _shared_out(n: int) -> Iterator[slice]:
    """Blocks of queries, as many for each processor as for the others."""
    workers = processors()
    blocks = -(-n // _QUERIES)
    if n >= 2 * _FEW_QUERIES:
        blocks = -(-blocks // workers) * workers
    # Products of multiples of 16 rows have no ragged edge.
    return row_blocks(n, max(_FEW_QUERIES, -(-n // (16 * blocks)) * 16))


class _Block:
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

    def parts(self, rows: slice) -> Iterator[slice]:
        """Queries whose scores with all documents fit the scratch."""
        n_documents, itemsize = self.documents.shape[0], self.queries.dtype.itemsize
        size = rows_per_block(n_documents, itemsize, scratch_bytes(self.queries))
        for part in row_blocks(rows.stop - rows.start, size):
            yield slice(rows.start + part.start, rows.start + part.stop)

    def best(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Indices and scores of the best documents of the queries in these rows, of NumPy."""
        found = self._near_in_tiles(rows)
        if found is None:  # very many score alike
            every = [self.best_of_all(part) for part in self.parts(rows)]
            indices, values = zip(*every, strict=True)
            return np.concatenate(indices), np.concatenate(values)
        i, j = found
        counts = np.bincount(i, minlength=rows.stop - rows.start)
        indices = np.empty((len(counts), self.k), dtype=np.int64)
        values = np.empty((len(counts), self.k))
        # Of most queries nothing else is near.
        clear = counts == self.k
        few = j[clear[i]].reshape(-1, self.k)
        exact = self._exact(np.flatnonzero(clear)[:, None], few, rows)
        order = np.argsort(-exact, axis=1, kind="stable")
        indices[clear] = np.take_along_axis(few, order, axis=1)
        values[clear] = np.take_along_axis(exact, order, axis=1)
        if not clear.all():
            others = ~clear[i]
            i, j = i[others], j[others]
            found = self._sorted(i, j, self._exact(i, j, rows))
            indices[~clear], values[~clear] = found
        return indices, values

    def _near_in_tiles(self, rows: slice) -> tuple[np.ndarray, np.ndarray] | None:
        """Queries and documents that are near the k-th place, in order; None where too many are.

        Scores come in tiles, documents by queries: a product is fastest so. What the tiles so far
        have seen says how high a score must be to matter in the next one.
        """
        queries, n_documents = self.queries[rows], self.documents.shape[0]
        n = queries.shape[0]
        height = min(max(_DOCUMENTS, _TILE // n, 8 * self.k), n_documents)
        depth = max(1, min(_DEPTH, height // (8 * self.k)))
        seen = _Seen(n, self.k, self.margin, queries.dtype)
        for part in row_blocks(n_documents, height):
            count = part.stop - part.start
            room = self._scratch.room((-(-count // depth) * depth, n), queries.dtype, 0)
            scores = np.matmul(self.documents[part], queries.T, out=room[:count])
            if self.bias is not None:
                scores += self.bias[part].astype(scores.dtype, copy=False)[:, None]
            room[count:] = -np.inf
            if not seen.take(room.reshape(-1, depth, n), part.start):
                return None
        return seen.near()

    def best_of_all(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """The same from all scores of the queries at once, which tell what is near to what."""
        queries, documents, k, bias = self.queries, self.documents, self.k, self.bias
        with full_precision(queries):
            scores = queries[rows] @ documents.T
        if bias is not None:
            scores = scores + namespace(scores).astype(bias, scores.dtype)[None, :]
        near = scores >= (floors(scores, k) - self.margin)[:, None]
        equal: EqualRows | None = None
        if _is_crowded(near, k, near.shape[0]):
            with self._lock:
                equal = self._equal
            if not equal.all_apart:
                near = near & like(equal.is_first, near)[None, :]
            if _is_crowded(near, k, near.shape[0]):
                near = _nearer(near, queries[rows], documents, k, bias)
        i, j = _places(near)
        exact = self._exact(i, j, rows)
        if equal is not None and not equal.all_apart:
            i, j, exact = _with_equal(i, j, exact, k, equal)
        return self._sorted(i, j, exact)

    def _exact(self, i: np.ndarray, j: np.ndarray, rows: slice) -> np.ndarray:
        """Scores in float64 of listed queries, counted from the first of these rows."""
        queries = self.queries
        i, j = like(i + rows.start, queries), like(j, queries)
        return to_numpy(pair_scores(queries, self.documents, i, j, self.bias))

    def _sorted(
        self, i: np.ndarray, j: np.ndarray, exact: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best of what is listed for each query."""
        order = np.lexsort((j, -exact, i))
        starts = np.flatnonzero(np.r_[True, np.diff(i[order]) > 0])
        chosen = order[starts[:, None] + np.arange(self.k)[None, :]]
        return j[chosen], exact[chosen]


class _Seen:
    """What the tiles so far hold near the k-th place of each query."""

    def __init__(self, n: int, k: int, margin: float, dtype: Any) -> None:
        self.n, self.k, self.margin = n, k, np.asarray(margin, dtype=dtype)
        self._floors = np.full(n, -np.inf, dtype=dtype)
        self._highest = np.full((n, k), -np.inf, dtype=dtype)
        self._near: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def take(self, scores: np.ndarray, first: int) -> bool:
        """Take in scores (chunks, documents of a chunk, queries) of the documents from ``first``.

        False where very many are near.
        """
        _, depth, n = scores.shape
        highest = scores.max(axis=1)
        near = highest >= self._floors
        if _is_crowded(near, self.k, n):  # as in the first tile, or where every tile is better
            self._raise_floors(highest.T)
            near = highest >= self._floors
            if _is_crowded(near, self.k, n):
                return False
            chunk, i = np.divmod(np.flatnonzero(near), n)
        else:
            chunk, i = np.divmod(np.flatnonzero(near), n)
            order = _in_order(i, n)
            self._raise_floors(_listed(i[order], highest[chunk, i][order], n))
            reach = highest[chunk, i] >= self._floors[i]
            chunk, i = chunk[reach], i[reach]
        values = scores[chunk, :, i]
        place = np.flatnonzero(values >= self._floors[i][:, None])
        which, within = np.divmod(place, depth)
        if len(which) > _CROWDED * self.k * n:
            return False
        j = first + chunk[which] * depth + within
        self._near.append((i[which], j, values.reshape(-1)[place]))
        return True

    def _raise_floors(self, highest: np.ndarray) -> None:
        """At least k documents reach the k-th largest of the highest scores of chunks."""
        every = np.concatenate([self._highest, highest], axis=1)
        every.partition(every.shape[1] - self.k, axis=1)
        self._highest = every[:, -self.k :]
        self._floors = np.maximum(self._floors, self._highest[:, 0] - self.margin)

    def near(self) -> tuple[np.ndarray, np.ndarray]:
        """Queries and documents that are near the k-th place, in order."""
        i, j, values = (np.concatenate(part) for part in zip(*self._near, strict=True))
        reach = values >= self._floors[i]
        i, j, values = i[reach], j[reach], values[reach]
        order = _in_order(i, self.n)  # documents of one query are in order already
        i, j, values = i[order], j[order], values[order]
        listed = _listed(i, values, self.n)
        listed.partition(listed.shape[1] - self.k, axis=1)
        keep = values >= (listed[:, -self.k] - self.margin)[i]
        return i[keep], j[keep]


def _in_order(i: np.ndarray, n: int) -> np.ndarray:
    """What sorts numbers below n, equal ones as they come; small numbers are sorted in one go."""
    return np.argsort(i.astype(np.uint16) if n < 2**16 else i, kind="stable")


def _listed(i: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """The values of each line, (n, most of a line), ``i`` being sorted; −∞ fills it up.

    >>> _listed(np.array([0, 2, 2]), np.array([5.0, 6.0, 7.0]), 3).tolist()
    [[5.0, -inf], [-inf, -inf], [6.0, 7.0]]
    """
    counts = np.bincount(i, minlength=n)
    found = np.full((n, int(counts.max())), -np.inf, dtype=values.dtype)
    found[i, np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)] = values
    return found


def _places(near: Array) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of what is true."""
    if is_torch(near):
        i, j = (to_numpy(index) for index in namespace(near).nonzero(near))
        return i, j
    i, j = np.divmod(np.flatnonzero(near), near.shape[1])
    return i, j


def _is_crowded(near: Array, k: int, n: int) -> bool:
    """Whether many more than k documents of each of n queries are near the k-th place."""
    count = int(near.sum()) if is_torch(near) else int(np.count_nonzero(near))
    return count > _CROWDED * k * n


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
    return near & (scores >= (floors(scores, k) - margin)[:, None])


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
