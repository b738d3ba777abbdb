"""Ranks held-out queries exactly among all documents, which are read shard by shard.

The best match of each query is found among the documents of its group, which are few. Workers then
count the documents of their shards that come before it, and the counts are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.arrays.ranks import best_matches, count_above
from modgap.core.checks import Array, InputValueError, check_count, check_values
from modgap.core.results import Progress, silent
from modgap.corrections import Correction, Metric, query_modalities
from modgap.corrections.row_map import RowMap
from modgap.engines.engine import Engine, open_engine
from modgap.engines.row_ranges import pieces
from modgap.evaluation.retrieval import DEFAULT_K, Corrected, Retrieval, check_searchable, matched
from modgap.io import Modalities
from modgap.io._matrices import BATCH_ROWS, Matrix
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
        The query modalities; by default all that the correction serves.
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
    taken = _Sample.of(data, chosen)
    check_searchable(taken.held, kind, correction)
    asking = query_modalities(queries, data.names, correction, default="all")
    runs = open_engine(engine)
    first, second = data.names
    ranks = [
        _ranks(taken, asks, found, kind, correction, runs, progress or silent)
        if asks in asking
        else np.full(len(taken.query_rows(asks)), -1)
        for asks, found in ((first, second), (second, first))
    ]
    places = tuple(k for k in DEFAULT_K if k <= min(s.n_rows for s in data.sides.values())) or (1,)
    return Retrieval(data.names, kind, places, ranks[0], ranks[1])


@dataclass(frozen=True, eq=False)
class _Sample:
    """The rows of the sampled groups in memory, and their numbers among all, in ascending order."""

    data: Modalities
    held: Modalities
    rows: dict[str, np.ndarray]
    apart: dict[str, np.ndarray]

    @classmethod
    def of(cls, data: Modalities, groups: np.ndarray) -> _Sample:
        sides, apart = data.rows_of_groups(groups)
        rows = dict(zip(data.names, sides, strict=True))
        return cls(data, data.take_groups(groups), rows, apart)

    def query_rows(self, name: str) -> np.ndarray:
        """The row numbers of the queries of a modality."""
        return self.apart[name] if name in self.data.asking else self.rows[name]


def _ranks(
    taken: _Sample,
    asks: str,
    found: str,
    metric: Metric,
    correction: Correction | None,
    engine: Engine,
    progress: Progress,
) -> np.ndarray:
    data, rows = taken.data, taken.rows[found]
    queries = to_numpy(Corrected(taken.held, correction, metric).queries(asks))
    groups = data.query_groups(asks)[taken.query_rows(asks)]
    codes = data.groups[data.names.index(found)]
    keys = data.keys_of(found) if correction is not None and correction.hubs else None
    mapping = None if correction is None else correction.map(found)
    work = _Count(queries, groups, metric, found, mapping)
    own = to_numpy(taken.held.sides[found].rows())
    score, index = best_matches(
        *work.operands(own, codes[rows], None if keys is None else keys[rows], 0)
    )
    work = replace(work, best=(score, np.where(index < 0, -1, rows[index])))
    tasks = [
        (piece, first, codes[first:end], None if keys is None else keys[first:end])
        for piece, first in pieces(data.sides[found].matrix)
        for end in [first + piece.shape[0]]
    ]
    above, step = np.zeros(len(queries), np.int64), f"{asks} queries among all {found} rows"
    progress(step, 0, len(codes))
    for (piece, first, *_), counted in zip(tasks, engine.map(work, tasks), strict=True):
        above += counted
        progress(step, first + piece.shape[0], len(codes))
    return np.where(index < 0, -1, above)


@dataclass(frozen=True, eq=False)
class _Count:
    """For each query, how many documents of a shard come before its best match.

    ``best`` holds the score and the row number of each match.
    """

    queries: np.ndarray
    groups: np.ndarray
    metric: Metric
    name: str
    mapping: RowMap | None
    best: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros(0))

    def __call__(self, task: tuple[Matrix, int, np.ndarray, np.ndarray | None]) -> np.ndarray:
        piece, first_row, codes, keys = task
        above = np.zeros(len(self.queries), np.int64)
        score, row = self.best
        done = 0
        for batch in piece.batches(BATCH_ROWS):
            own = slice(done, done + len(batch))
            Q, D, groups, bias = self.operands(
                batch, codes[own], None if keys is None else keys[own], first_row + done
            )
            before = np.clip(row - first_row - done, 0, len(batch))
            above += count_above(Q, D, groups, (score, before), bias)
            done += len(batch)
        if done != len(codes):
            raise InputValueError(f"A shard must have {len(codes)} rows, got {done}.")
        return above

    def operands(
        self, rows: np.ndarray, codes: np.ndarray, keys: np.ndarray | None, first_row: int
    ) -> tuple[Array, Array, tuple[np.ndarray, np.ndarray], Array | None]:
        """Queries, documents and their groups, and what is added to each document's score."""
        nonzero = self.metric == "cosine"
        if self.mapping is None:
            check_values(rows, self.name, nonzero=nonzero, first_row=first_row)
            documents = rows
        else:
            documents = self.mapping(
                rows, self.name, first_row=first_row, keys=keys, nonzero=nonzero
            )
        Q, D = rows_to_multiply(self.queries, documents, self.metric)
        return Q, D, (self.groups, codes), document_bias(D, self.metric)
