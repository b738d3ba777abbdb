"""Rank of each row's best match among all rows of the other side, both ways from one product.

How it works:

1. The best match of each query is found first, among the documents of its group, in float64.
2. The products X Yᵀ are computed in blocks, in the precision of the rows. A block serves both ways:
   its rows hold the scores of the queries X, its columns those of the queries Y.
3. The rank is the number of scores above that of the best match. Rounding moves no score by more
   than a tolerance, so scores above best match + tolerance are counted as they are (`_compare`).
4. The few scores within the tolerance are computed again in float64; equal ones go to the earlier
   document (`settle`). So neither precision nor block size changes a rank.
5. Where very many are within the tolerance, the whole block is computed again in float64.
6. Equal rows have equal scores: one of them is scored and counts for all (`equal_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from modgap.arrays.base import (
    BLOCK_BYTES,
    is_torch,
    like,
    namespace,
    row_blocks,
    rows_per_block,
    to_numpy,
    wide_dtype,
    widen,
)
from modgap.arrays.cuda import full_precision, has_kernels
from modgap.arrays.equal_rows import EqualRows, equal_rows
from modgap.arrays.wide_scores import pair_scores, tie_tolerance
from modgap.core.checks import Array

# Where more than one score in so many is near, the block is computed again as a whole.
_CROWDED = 64
# Up to so many matches a row are all scored in float64, without a look at each group.
_MATCHES_A_ROW = 16


def match_ranks(
    X: Array,
    Y: Array,
    groups: Sequence[np.ndarray] | None,
    bias_x: Array | None = None,
    bias_y: Array | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks (from 0) of the best match: for each row of X among Y, and for each row of Y among X.

    Row i of X and row j of Y match when their groups are equal (without groups, when i = j). The
    rank counts the non-matching rows that score higher, and those that score the same and stand
    earlier. Rows without a match have rank -1. The score of document j is q · d_j + bias_j.
    """
    equal_x, equal_y = equal_rows(X, bias_x), equal_rows(Y, bias_y)
    flipped = None if groups is None else (groups[1], groups[0])
    rows = _counter(X, Y, groups, (equal_x, equal_y), bias_y)
    columns = _counter(Y, X, flipped, (equal_y, equal_x), bias_x)
    if has_kernels(X) and equal_x.all_apart and equal_y.all_apart and _count_on_card(rows, columns):
        return rows.ranks(), columns.ranks()
    for scores, a, b in _blocks(X, Y, equal_x, equal_y):
        rows.add(scores, a, b)
        columns.add(scores.T, b, a)
    return rows.ranks(), columns.ranks()


def query_ranks(
    queries: Array,
    documents: Array,
    groups: Sequence[np.ndarray],
    bias: Array | None = None,
) -> np.ndarray:
    """``match_ranks`` of the queries alone."""
    if has_kernels(queries):
        return match_ranks(queries, documents, groups, None, bias)[0]
    equal = equal_rows(queries), equal_rows(documents, bias)
    counter = _counter(queries, documents, groups, equal, bias)
    counter.add_all()
    return counter.ranks()


def count_above(
    queries: Array,
    documents: Array,
    groups: Sequence[np.ndarray],
    best: tuple[np.ndarray, np.ndarray],
    bias: Array | None = None,
) -> np.ndarray:
    """How many documents outrank each query's best match, which need not be among them.

    ``best`` is the score of the match, and how many of these documents stand before it.
    """
    equal = equal_rows(queries), equal_rows(documents, bias)
    counter = _Counter(best, queries, documents, (groups[0], groups[1]), equal, bias)
    counter.add_all()
    return counter.above


def _counter(
    queries: Array,
    documents: Array,
    groups: Sequence[np.ndarray] | None,
    equal: tuple[EqualRows, EqualRows],
    bias: Array | None,
) -> _Counter:
    best = best_matches(queries, documents, groups, bias, equal[1])
    if groups is None:
        groups = np.arange(queries.shape[0]), np.arange(documents.shape[0])
    return _Counter(best, queries, documents, (groups[0], groups[1]), equal, bias)


def _blocks(
    X: Array, Y: Array, equal_x: EqualRows, equal_y: EqualRows
) -> Iterator[tuple[Array, slice, slice]]:
    """Products of each kind of row with each, and where they stand."""
    side = math.isqrt(BLOCK_BYTES // X.dtype.itemsize)
    with full_precision(X):
        for a in row_blocks(len(equal_x.first), side):
            left = _of_kinds(X, equal_x, a)
            for b in row_blocks(len(equal_y.first), side):
                yield left @ _of_kinds(Y, equal_y, b).T, a, b


def _count_on_card(rows: _Counter, columns: _Counter) -> bool:
    """Count both ways on an NVIDIA GPU; not where very many scores are near each other."""
    from modgap.arrays.cuda.ranks import count_both_ways

    found = count_both_ways(
        rows.queries, rows.documents, rows.bounds, columns.bounds, columns.bias, rows.bias
    )
    if found is None:
        return False
    for counter, counts in zip((rows, columns), found, strict=True):
        counter.above += counts.above
        counter.settle(*counts.near)
    return True


def _of_kinds(A: Array, equal: EqualRows, kinds: slice) -> Array:
    """The first row of each kind."""
    return A[kinds] if equal.all_apart else A[like(equal.first[kinds], A)]


class _Counter:
    """Counts, block by block, the documents that outrank each query's best match.

    Blocks hold the scores of each kind of query with each kind of document, see `EqualRows`. No
    document of a query's own group outranks the best match, so only others are counted.
    """

    def __init__(
        self,
        best: tuple[np.ndarray, np.ndarray],
        queries: Array,
        documents: Array,
        groups: tuple[np.ndarray, np.ndarray],
        equal: tuple[EqualRows, EqualRows],
        bias: Array | None,
    ) -> None:
        self.best_score, self.best_index = best
        self.queries, self.documents = queries, documents
        self.groups, self.bias = groups, bias
        self.equal_queries, self.equal_documents = equal
        self.bounds = self._bounds(tie_tolerance(queries, documents, bias), queries.dtype)
        self.above = np.zeros(queries.shape[0], dtype=np.int64)

    def _bounds(self, tolerance: float, dtype: Any) -> tuple[Array, Array]:
        upper, lower = self.best_score + tolerance, self.best_score - tolerance
        return like(upper, self.queries, dtype), like(lower, self.queries, dtype)

    @cached_property
    def _wide_bounds(self) -> tuple[Array, Array]:
        tolerance = tie_tolerance(self.queries, self.documents, self.bias, wide=True)
        return self._bounds(tolerance, wide_dtype(self.queries))

    def add_all(self) -> None:
        """Score every query with every document."""
        equal = self.equal_queries, self.equal_documents
        for block in _blocks(self.queries, self.documents, *equal):
            self.add(*block)

    def add(self, scores: Array, q: slice, d: slice) -> None:
        """Take in a block of scores, kinds of queries by kinds of documents."""
        if self.bias is not None:
            bias = _of_kinds(self.bias, self.equal_documents, d)
            scores = scores + namespace(scores).astype(bias, scores.dtype)[None, :]
        if self.equal_queries.all_apart:
            self._count(scores, np.arange(q.start, q.stop), d)
            return
        members = self.equal_queries.members(q)
        # Any number of queries may be of one kind.
        for piece in row_blocks(len(members), rows_per_block(scores.shape[1])):
            i = members[piece]
            self._count(scores[like(self.equal_queries.kind[i] - q.start, scores)], i, d)

    def _count(self, scores: Array, i: np.ndarray, d: slice) -> None:
        """Count for queries ``i``, whose scores with kinds ``d`` these are."""
        place = like(i, self.queries)
        sizes = None if self.equal_documents.all_apart else self.equal_documents.sizes[d]
        upper, lower = self.bounds
        above, near = _compare(scores, upper[place], lower[place], sizes)
        if len(near[0]) * _CROWDED > max(scores.shape[0] * scores.shape[1], _CROWDED * len(i)):
            upper, lower = self._wide_bounds
            wide = self._wide_scores(place, d)
            above, near = _compare(wide, upper[place], lower[place], sizes)
        self.above[i] += above
        self.settle(i[near[0]], near[1] + d.start)

    def _wide_scores(self, place: Array, d: slice) -> Array:
        """The block of scores in float64."""
        documents = widen(_of_kinds(self.documents, self.equal_documents, d))
        scores = widen(self.queries[place]) @ documents.T
        if self.bias is None:
            return scores
        return scores + widen(_of_kinds(self.bias, self.equal_documents, d))[None, :]

    def settle(self, i: np.ndarray, kinds: np.ndarray) -> None:
        """Decide near ties in float64; the best match itself is always among them."""
        equal = self.equal_documents
        if equal.all_apart:
            rival = self.groups[0][i] != self.groups[1][kinds]
            i, kinds = i[rival], kinds[rival]
        if len(i) == 0:
            return
        j = like(equal.first[kinds], self.queries)
        exact = to_numpy(
            pair_scores(self.queries, self.documents, like(i, self.queries), j, self.bias)
        )
        best = self.best_score[i]
        earlier = equal.before(kinds, np.maximum(self.best_index[i], 0))
        ahead = np.where(exact > best, equal.sizes[kinds], np.where(exact == best, earlier, 0))
        self.above += np.bincount(i, ahead, minlength=len(self.above)).astype(np.int64)

    def ranks(self) -> np.ndarray:
        return np.where(self.best_index < 0, -1, self.above)


def _compare(
    scores: Array, upper: Array, lower: Array, sizes: np.ndarray | None
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Per query, how many documents are clearly above; and which (query, document) are near.

    Each document counts for ``sizes`` equal ones where they are given.
    """
    if is_torch(scores):
        higher = scores > upper[:, None]
        near = (scores >= lower[:, None]) & ~higher
        i, j = namespace(scores).nonzero(near)
        above = higher.sum(1) if sizes is None else (higher * like(sizes, scores)).sum(1)
        return to_numpy(above), (to_numpy(i), to_numpy(j))
    transposed = not scores.flags.c_contiguous
    if transposed:  # work along memory, whichever side is the query
        higher = np.greater(scores.T, upper[None, :])
        near = np.greater_equal(scores.T, lower[None, :])
        above = np.add.reduce(higher.view(np.uint8), axis=0, dtype=np.uint16)
    else:
        higher = np.greater(scores, upper[:, None])
        near = np.greater_equal(scores, lower[:, None])
        above = np.fromiter((np.count_nonzero(row) for row in higher), np.int64, len(higher))
    if sizes is not None:
        above = (higher.T if transposed else higher) @ sizes
    np.not_equal(near, higher, out=near)
    # divmod of flat positions: nonzero of a vector is far faster than of a matrix.
    first, second = np.divmod(np.flatnonzero(near), near.shape[1])
    return above, (second, first) if transposed else (first, second)


def best_matches(
    queries: Array,
    documents: Array,
    groups: Sequence[np.ndarray] | None,
    bias: Array | None = None,
    equal: EqualRows | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Score and index of each query's best match, ties to the earlier document; -1 for none."""
    n = queries.shape[0]
    if groups is None:
        index = np.arange(n)
        order = like(index, queries)
        return to_numpy(pair_scores(queries, documents, order, order, bias)), index
    equal = equal_rows(documents, bias) if equal is None else equal
    i, j = _candidate_matches(queries, documents, groups, bias, equal)
    scores = to_numpy(pair_scores(queries, documents, like(i, queries), like(j, queries), bias))
    # Best score first, then the earlier document; the first line of each query is its best.
    order = np.lexsort((j, -scores, i))
    i, j, scores = i[order], j[order], scores[order]
    first = np.flatnonzero(np.r_[True, i[1:] != i[:-1]]) if len(i) else np.zeros(0, np.int64)
    best_score = np.full(n, math.inf)
    best_index = np.full(n, -1, dtype=np.int64)
    best_score[i[first]], best_index[i[first]] = scores[first], j[first]
    return best_score, best_index


def _candidate_matches(
    queries: Array,
    documents: Array,
    groups: Sequence[np.ndarray],
    bias: Array | None,
    equal: EqualRows,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (query, document) of one group that may be the query's best match."""
    xp = namespace(queries)
    # These products are in float64 already: only their own rounding is left to allow for.
    slack = tie_tolerance(queries, documents, bias, wide=True)
    found_i, found_j = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    if equal.all_apart:
        listed = _all_matches(groups)
        if listed is not None:
            return listed
    query_rows, document_rows = _members(groups[0]), _members(groups[1])
    for group in sorted(query_rows.keys() & document_rows.keys()):
        i, j = query_rows[group], document_rows[group]
        if not equal.all_apart:  # of equal documents the first of the group is the best
            j = j[np.sort(np.unique(equal.kind[j], return_index=True)[1])]
        if len(j) == 1:
            found_i.append(i)
            found_j.append(np.full(len(i), j[0]))
            continue
        members = widen(documents[like(j, documents)])
        for piece in row_blocks(len(i), rows_per_block(len(j))):
            scores = widen(queries[like(i[piece], queries)]) @ members.T
            if bias is not None:
                scores = scores + widen(bias)[like(j, bias)][None, :]
            best = xp.max(scores, axis=1, keepdims=True)
            a, b = (to_numpy(index) for index in xp.nonzero(scores >= best - slack))
            found_i.append(i[piece][a])
            found_j.append(j[b])
    return np.concatenate(found_i), np.concatenate(found_j)


def _all_matches(groups: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Every pair (query, document) of one group; None where they are many times the rows.

    >>> [found.tolist() for found in _all_matches((np.array([7, 8]), np.array([8, 9, 8])))]
    [[1, 1], [0, 2]]
    """
    asking, asked = (np.asarray(codes) for codes in groups)
    order = np.argsort(asked, kind="stable")
    starts, stops = (np.searchsorted(asked[order], asking, side) for side in ("left", "right"))
    counts = stops - starts
    total = int(counts.sum())
    if total > _MATCHES_A_ROW * (len(asking) + len(asked)):
        return None
    i = np.repeat(np.arange(len(asking)), counts)
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return i, order[np.repeat(starts, counts) + within]


def _members(codes: np.ndarray) -> dict[int, np.ndarray]:
    """Rows of each group, in ascending order."""
    order = np.argsort(codes, kind="stable")
    labels, starts = np.unique(codes[order], return_index=True)
    return dict(zip(labels.tolist(), np.split(order, starts[1:]), strict=True))
