"""Held-out queries against every document, shard by shard: exact ranks past what memory holds.

The best match of each query is found among the documents of its group, which are few. Workers then
count the documents of their shards that come before it, and the counts are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import like, row_blocks, rows_per_block, to_numpy
from modgap._arrays.ranks import pair_scores, tie_tolerance
from modgap._results import Progress, silent
from modgap._validate import Array, InputValueError, check_count
from modgap.corrections import Correction, Metric
from modgap.engines.engine import Engine, open_engine
from modgap.engines.row_ranges import pieces, starts
from modgap.evaluation.corrected import Corrected
from modgap.evaluation.retrieval import DEFAULT_K, Retrieval, matched
from modgap.io import Modalities
from modgap.io._matrix import BATCH_ROWS, Matrix
from modgap.search.scores import document_bias, metric_of, rows_to_multiply

MAX_GROUPS = 5_000


def retrieval_among_all(
    X: Any,
    Y: Any = None,
    correction: Correction | None = None,
    *,
    metric: Metric | None = None,
    queries: Sequence[str] | None = None,
    sample: int = MAX_GROUPS,
    seed: int = 0,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> Retrieval:
    """Recall of sampled queries among all documents, both ways, as `modgap.retrieval` ranks them.

    Documents are read once for each way, shard by shard, and never held together. The ranks are
    exact: with every group in the sample they are those of `modgap.retrieval`.

    Parameters
    ----------
    X, Y : modalities, paths or arrays
        Two modalities whose matches are known, as for `modgap.retrieval`.
    correction : Correction, optional
        Applied to documents and queries.
    metric : {"cosine", "inner_product", "euclidean"}, optional
        What the search ranks by; the correction's own metric, else the cosine.
    queries : sequence of str, optional
        The modalities that ask; by default all that the correction serves.
    sample : int
        Ask the queries of at most this many groups.
    seed : int
        Seed of the sample, which is that of ``evaluate_correction``.
    engine : str or Engine
        Where shards are read; see `open_engine`.
    progress : callable, optional
        Called as ``progress(step, done, total)`` after each shard.
    """
    check_count(sample, "sample")
    data = matched(X, Y, ("image", "text"), None)
    data.two()
    kind = metric_of(metric, correction, "cosine")
    chosen = data.matched_groups
    if len(chosen) > sample:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, sample, replace=False))
    sides, apart = data.rows_of_groups(chosen)
    taken = _Taken(data, data.take_groups(chosen), dict(zip(data.names, sides, strict=True)), apart)
    served = data.names if correction is None else correction.queries
    asking = [name for name in served if queries is None or name in queries]
    runs = open_engine(engine)
    first, second = data.names
    ranks = [
        _ranks(taken, asks, found, kind, correction, runs, progress or silent)
        if asks in asking
        else np.full(len(taken.asking_rows(asks)), -1)
        for asks, found in ((first, second), (second, first))
    ]
    places = tuple(k for k in DEFAULT_K if k <= min(s.n_rows for s in data.sides.values())) or (1,)
    return Retrieval(data.names, kind, places, ranks[0], ranks[1])


@dataclass(frozen=True, eq=False)
class _Taken:
    """The rows of the sampled groups in memory, and where they are among all."""

    data: Modalities
    held: Modalities
    rows: dict[str, np.ndarray]
    apart: dict[str, np.ndarray]

    def asking_rows(self, name: str) -> np.ndarray:
        """The row numbers of the queries of a modality."""
        return self.apart[name] if name in self.data.asking else self.rows[name]


def _ranks(
    taken: _Taken,
    asks: str,
    found: str,
    metric: Metric,
    correction: Correction | None,
    engine: Engine,
    progress: Progress,
) -> np.ndarray:
    data = taken.data
    queries = to_numpy(Corrected(taken.held, correction).queries(asks))
    groups = data.query_groups(asks)[taken.asking_rows(asks)]
    codes = data.groups[data.names.index(found)]
    keys = data.keys_of(found) if correction is not None and correction.hubs else None
    rows = taken.rows[found]
    corrected = _Documents(found, correction)
    own = corrected(to_numpy(taken.held.sides[found].rows()), None if keys is None else keys[rows])
    best = _best_matches(queries, own, groups, codes[rows], rows, metric)
    work = _Count(queries, groups, *best, metric, corrected)
    cut = pieces(data.sides[found].matrix)
    ends = [first + piece.shape[0] for piece, first in zip(cut, starts(cut), strict=True)]
    tasks = [
        (piece, first, codes[first:end], None if keys is None else keys[first:end])
        for piece, first, end in zip(cut, starts(cut), ends, strict=True)
    ]
    above, step = np.zeros(len(queries), np.int64), f"{asks} queries among all {found} rows"
    progress(step, 0, len(codes))
    for counted, end in zip(engine.map(work, tasks), ends, strict=True):
        above += counted
        progress(step, end, len(codes))
    return np.where(best[1] < 0, -1, above)


@dataclass(frozen=True, eq=False)
class _Documents:
    """Documents of a modality as they are searched."""

    name: str
    correction: Correction | None

    def __call__(self, rows: np.ndarray, keys: np.ndarray | None, first_row: int = 0) -> Array:
        if self.correction is None:
            return rows
        mapping = self.correction.map(self.name)
        return mapping(rows, self.name, first_row=first_row, keys=keys)


def _best_matches(
    queries: np.ndarray,
    documents: Array,
    asking: np.ndarray,
    groups: np.ndarray,
    rows: np.ndarray,
    metric: Metric,
) -> tuple[np.ndarray, np.ndarray]:
    """Score and row of each query's best match, ties to the earlier document; row −1 for none."""
    Q, D = rows_to_multiply(queries, documents, metric, ("queries", "documents"))
    bias = document_bias(D, metric)
    order = np.argsort(groups, kind="stable")
    low, high = (np.searchsorted(groups[order], asking, side=side) for side in ("left", "right"))
    best, row = np.full(len(Q), np.inf), np.full(len(Q), -1)
    sizes = high - low
    for part in row_blocks(len(Q), max(1, 100_000 // max(1, int(sizes.max(initial=1))))):
        i = np.repeat(np.arange(part.start, part.stop), sizes[part])
        ahead = np.arange(len(i)) - np.repeat(np.cumsum(sizes[part]) - sizes[part], sizes[part])
        j = order[low[i] + ahead]
        scores = to_numpy(pair_scores(Q, D, like(i, Q), like(j, Q), bias))
        line = np.lexsort((rows[j], -scores, i))
        i, j, scores = i[line], j[line], scores[line]
        first = np.flatnonzero(np.r_[True, i[1:] != i[:-1]][: len(i)])
        best[i[first]], row[i[first]] = scores[first], rows[j[first]]
    return best, row


@dataclass(frozen=True, eq=False)
class _Count:
    """For each query, how many documents of a shard come before its best match."""

    queries: np.ndarray
    groups: np.ndarray
    best: np.ndarray
    best_row: np.ndarray
    metric: Metric
    corrected: Callable[[np.ndarray, np.ndarray | None, int], Array]

    def __call__(self, task: tuple[Matrix, int, np.ndarray, np.ndarray | None]) -> np.ndarray:
        piece, first_row, codes, keys = task
        above = np.zeros(len(self.queries), np.int64)
        done = 0
        for batch in piece.batches(BATCH_ROWS):
            end = done + len(batch)
            own = None if keys is None else keys[done:end]
            documents = self.corrected(batch, own, first_row + done)
            above += self._of(documents, codes[done:end], first_row + done)
            done = end
        if done != len(codes):
            raise InputValueError(f"A shard must have {len(codes)} rows, got {done}.")
        return above

    def _of(self, documents: Array, codes: np.ndarray, first_row: int) -> np.ndarray:
        Q, D = rows_to_multiply(self.queries, documents, self.metric, ("queries", "documents"))
        bias = document_bias(D, self.metric)
        tolerance = tie_tolerance(Q, D, bias)
        upper, lower = ((self.best + t).astype(Q.dtype) for t in (tolerance, -tolerance))
        above = np.zeros(len(Q), np.int64)
        for block in row_blocks(len(D), rows_per_block(len(Q), Q.dtype.itemsize)):
            scores = Q @ D[block].T
            if bias is not None:
                scores += bias[block].astype(scores.dtype)[None, :]
            higher = scores > upper[:, None]
            above += higher.sum(axis=1)
            i, j = np.nonzero((scores >= lower[:, None]) & ~higher)
            j += block.start
            rivals = self.groups[i] != codes[j]
            i, j = i[rivals], j[rivals]
            exact = pair_scores(Q, D, i, j, bias)
            earlier = first_row + j < self.best_row[i]
            ahead = (exact > self.best[i]) | ((exact == self.best[i]) & earlier)
            above += np.bincount(i[ahead], minlength=len(Q))
        return above
