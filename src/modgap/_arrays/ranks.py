"""Rank of each row's best match among all rows of the other side, both ways from one product.

The blocks are computed in the rows' own precision. Whatever scores within a small tolerance of
the best match is scored again in float64, so neither rounding nor block size changes a rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap._arrays.base import (
    BLOCK_BYTES,
    is_torch,
    like,
    namespace,
    row_blocks,
    row_norms,
    rows_per_block,
    to_numpy,
    widen,
)
from modgap._validate import Array

# Scores nearer than this to the one they are compared with are computed again in float64. It is
# relative to the largest product of norms, that is absolute for cosines.
TIE_TOLERANCE = 1e-6


def tie_tolerance(X: Array, Y: Array, bias: Array | None = None) -> float:
    """How far two scores of these rows may be apart through rounding, generously."""
    xp = namespace(X)
    scale = float(row_norms(X).max()) * float(row_norms(Y).max())
    # Rounding of a sum grows with the root of its length; 1e-6 covers 1,024 columns of float32.
    tolerance = TIE_TOLERANCE * max(1.0, math.sqrt(X.shape[1] / 1024)) * scale
    if bias is None:
        return tolerance
    # The bias is rounded, added and compared in the rows' precision; it may outweigh the products.
    return tolerance + 4 * float(xp.finfo(X.dtype).eps) * float(xp.max(xp.abs(bias)))


def pair_scores(X: Array, Y: Array, i: Any, j: Any, bias: Array | None = None) -> Array:
    """x_i · y_j + bias_j for listed pairs, in float64; equal rows give bitwise equal scores."""
    xp = namespace(X)
    parts = [xp.sum(widen(X[i[:0]]), axis=1)]
    for piece in row_blocks(len(i), rows_per_block(X.shape[1])):
        parts.append(xp.sum(widen(X[i[piece]]) * widen(Y[j[piece]]), axis=1))
    scores = xp.concat(parts)
    return scores if bias is None else scores + widen(bias)[j]


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
    n, m = X.shape[0], Y.shape[0]
    best_x = _best_matches(X, Y, groups, bias_y)
    flipped = None if groups is None else (groups[1], groups[0])
    best_y = _best_matches(Y, X, flipped, bias_x)
    gx, gy = (np.arange(n), np.arange(m)) if groups is None else groups
    rows = _Counter(best_x, tie_tolerance(X, Y, bias_y), X, Y, gx, gy, bias_y)
    columns = _Counter(best_y, tie_tolerance(Y, X, bias_x), Y, X, gy, gx, bias_x)
    side = math.isqrt(BLOCK_BYTES // X.dtype.itemsize)
    for a in row_blocks(n, side):
        left = X[a]
        for b in row_blocks(m, side):
            scores = left @ Y[b].T
            rows.add(scores, a, b)
            columns.add(scores.T, b, a)
    return rows.ranks(), columns.ranks()


class _Counter:
    """Counts, block by block, the documents that outrank each query's best match."""

    def __init__(
        self,
        best: tuple[np.ndarray, np.ndarray],
        tolerance: float,
        queries: Array,
        documents: Array,
        query_groups: np.ndarray,
        document_groups: np.ndarray,
        bias: Array | None,
    ) -> None:
        self.best_score, self.best_index = best
        self.queries, self.documents = queries, documents
        self.query_groups, self.document_groups = query_groups, document_groups
        self.bias = bias
        self.upper = like(self.best_score + tolerance, queries, queries.dtype)
        self.lower = like(self.best_score - tolerance, queries, queries.dtype)
        self.above = np.zeros(queries.shape[0], dtype=np.int64)

    def add(self, scores: Array, q: slice, d: slice) -> None:
        """Take in a block of scores, queries by documents."""
        if self.bias is not None:
            scores = scores + namespace(scores).astype(self.bias[d], scores.dtype)[None, :]
        above, near = _compare(scores, self.upper[q], self.lower[q])
        self.above[q] += above
        self._settle(near[0] + q.start, near[1] + d.start)

    def _settle(self, i: np.ndarray, j: np.ndarray) -> None:
        """Decide near ties in float64; the best match itself is always among them."""
        rival = self.query_groups[i] != self.document_groups[j]
        i, j = i[rival], j[rival]
        if len(i) == 0:
            return
        bias = None if self.bias is None else self.bias
        exact = to_numpy(
            pair_scores(
                self.queries, self.documents, like(i, self.queries), like(j, self.queries), bias
            )
        )
        best = self.best_score[i]
        ahead = (exact > best) | ((exact == best) & (j < self.best_index[i]))
        np.add.at(self.above, i[ahead], 1)

    def ranks(self) -> np.ndarray:
        return np.where(self.best_index < 0, -1, self.above)


def _compare(
    scores: Array, upper: Array, lower: Array
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Per query, how many documents are clearly above; and which (query, document) are near."""
    if is_torch(scores):
        higher = scores > upper[:, None]
        near = (scores >= lower[:, None]) & ~higher
        i, j = namespace(scores).nonzero(near)
        return to_numpy(higher.sum(1)), (to_numpy(i), to_numpy(j))
    transposed = not scores.flags.c_contiguous
    if transposed:  # work along memory, whichever side is the query
        higher = np.greater(scores.T, upper[None, :])
        near = np.greater_equal(scores.T, lower[None, :])
        above = np.add.reduce(higher.view(np.uint8), axis=0, dtype=np.uint16)
    else:
        higher = np.greater(scores, upper[:, None])
        near = np.greater_equal(scores, lower[:, None])
        above = np.fromiter((np.count_nonzero(row) for row in higher), np.int64, len(higher))
    np.not_equal(near, higher, out=near)
    # divmod of flat positions: nonzero of a vector is far faster than of a matrix.
    first, second = np.divmod(np.flatnonzero(near), near.shape[1])
    return above, (second, first) if transposed else (first, second)


def _best_matches(
    queries: Array,
    documents: Array,
    groups: Sequence[np.ndarray] | None,
    bias: Array | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Score and index of each query's best match, ties to the earlier document; -1 for none."""
    n = queries.shape[0]
    if groups is None:
        index = np.arange(n)
        order = like(index, queries)
        return to_numpy(pair_scores(queries, documents, order, order, bias)), index
    i, j = _candidate_matches(queries, documents, groups, bias)
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
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (query, document) of one group that may be the query's best match."""
    xp = namespace(queries)
    # These products are in float64 already: only their own rounding is left to allow for.
    slack = 1e-3 * tie_tolerance(queries, documents, bias)
    found_i, found_j = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    query_rows, document_rows = _members(groups[0]), _members(groups[1])
    for group in sorted(query_rows.keys() & document_rows.keys()):
        i, j = query_rows[group], document_rows[group]
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


def _members(codes: np.ndarray) -> dict[int, np.ndarray]:
    """Rows of each group, in ascending order."""
    order = np.argsort(codes, kind="stable")
    labels, starts = np.unique(codes[order], return_index=True)
    return dict(zip(labels.tolist(), np.split(order, starts[1:]), strict=True))
