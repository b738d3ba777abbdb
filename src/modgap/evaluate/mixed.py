"""One index that holds both modalities: does a query find its match of the other modality?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import like, namespace, top_k
from modgap._results import Result, plain
from modgap._validate import (
    Array,
    InputValueError,
    check_count,
    check_finite,
    check_groups,
    check_names,
    check_two,
)
from modgap.correct import Correction, Metric
from modgap.evaluate.scores import document_bias, metric_of, prepare

NDCG_PLACES = 10


@dataclass(frozen=True, eq=False)
class MixedQueries(Result):
    """The queries of one modality, one entry each: what their results were like."""

    modality: str
    group: np.ndarray
    ndcg: np.ndarray
    hit: np.ndarray
    non_relevant: np.ndarray
    non_relevant_x: np.ndarray
    corpus_share_x: np.ndarray

    def figures(self, k: int, x_name: str) -> dict[str, float | int]:
        """Means over the queries; NaN where there are none."""
        n, strangers = len(self.group), int(np.sum(self.non_relevant))
        nan = float("nan")
        share = float(np.sum(self.non_relevant_x)) / strangers if strangers else nan
        corpus = float(np.mean(self.corpus_share_x)) if n else nan
        return {
            "n_queries": n,
            f"recall@{k}": float(np.mean(self.hit)) if n else nan,
            f"ndcg@{NDCG_PLACES}": float(np.mean(self.ndcg)) if n else nan,
            f"{x_name}_share@{k}": share,
            f"{x_name}_share_of_corpus": corpus,
            "share_off": abs(share - corpus),
        }


@dataclass(frozen=True, eq=False)
class MixedRetrieval(Result):
    """What a mixed index returns, for queries of each modality and overall."""

    names: tuple[str, str]
    metric: str
    k: int
    x_share: float
    queries: tuple[MixedQueries, MixedQueries]

    @property
    def ndcg(self) -> float:
        """Mean NDCG@10 over all queries."""
        return float(np.mean(np.concatenate([q.ndcg for q in self.queries])))

    @property
    def share_off(self) -> float:
        """How far the modality share of the results is from that of the corpus; worse direction."""
        off = [q.figures(self.k, "x")["share_off"] for q in self.queries]
        return float(np.fmax(off[0], off[1]))  # NaN only when no query has a wrong result

    def to_dict(self) -> dict[str, Any]:
        """The figures, without each query's."""
        figures = {
            "names": self.names,
            "metric": self.metric,
            "k": self.k,
            "x_share": self.x_share,
            f"ndcg@{NDCG_PLACES}": self.ndcg,
            "queries": {q.modality: q.figures(self.k, self.names[0]) for q in self.queries},
        }
        return {name: plain(value) for name, value in figures.items()}


def mixed_retrieval(
    X: Array,
    Y: Array,
    k: int = 10,
    metric: Metric | None = None,
    groups: tuple[Any, Any] | None = None,
    *,
    names: Sequence[str] = ("image", "text"),
    correction: Correction | None = None,
    x_share: float = 0.5,
    repeats: int = 2,
    seed: int = 0,
) -> MixedRetrieval:
    """Search one index in which each item is represented by either its X or its Y rows.

    A share ``x_share`` of the groups, drawn with ``seed``, is in the index as X, the others as Y.
    The query is the side that is not in the index, so its match is of the other modality. Reported
    are recall@k (at least one match among the k best), NDCG@10, and which share of the
    non-matching results among the k best is X, against its share of the corpus: far apart, the
    index returns one modality only. At one half, every second repeat is the complement of the one
    before, so that each group is asked from both sides.
    """
    first, second = check_names(names)
    X, Y = check_two(X, Y, names=(first, second))
    gx, gy = check_groups(groups, X.shape[0], Y.shape[0])
    check_finite(x_share, "x_share")
    if not 0 <= x_share <= 1:
        raise InputValueError(f"x_share must be between 0 and 1, got {x_share}.")
    check_count(repeats, "repeats")
    check_count(k, "k")
    metric = metric_of(metric, correction, "cosine")
    documents = X, Y
    queries = X, Y
    if correction is not None:
        documents = correction.x(X), correction.y(Y)
        queries = correction.x(X, "query"), correction.y(Y, "query")
    rng = np.random.default_rng(seed)
    found: list[tuple[list[Any], list[Any]]] = []
    in_x = np.zeros(0, dtype=bool)
    for repeat in range(repeats):
        in_x = ~in_x if repeat % 2 and x_share == 0.5 else _assign(gx, gy, x_share, rng)
        found.append(_search(queries, documents, (gx, gy), in_x, k, metric))
    sides = []
    for side, name in enumerate((first, second)):
        parts = [result[side] for result in found]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        sides.append(MixedQueries(name, *columns))
    return MixedRetrieval((first, second), metric, k, x_share, (sides[0], sides[1]))


def _assign(gx: np.ndarray, gy: np.ndarray, x_share: float, rng: np.random.Generator) -> np.ndarray:
    """For each group whether it is in the index as X; groups of one side are there as that."""
    n_groups = int(max(gx.max(), gy.max())) + 1
    both = np.intersect1d(gx, gy)
    chosen = rng.choice(both, size=round(x_share * len(both)), replace=False)
    in_x = np.zeros(n_groups, dtype=bool)
    in_x[chosen] = True
    return in_x


def _search(
    queries: tuple[Array, Array],
    documents: tuple[Array, Array],
    groups: tuple[np.ndarray, np.ndarray],
    in_x: np.ndarray,
    k: int,
    metric: Metric,
) -> tuple[list[Any], list[Any]]:
    """Per-query figures for X queries and for Y queries, on one assignment."""
    gx, gy = groups
    both = np.isin(np.arange(len(in_x)), np.intersect1d(gx, gy))
    keep_x = np.flatnonzero(in_x[gx] | ~both[gx])
    keep_y = np.flatnonzero(~in_x[gy] | ~both[gy])
    xp = namespace(documents[0])
    index = xp.concat(
        [documents[0][like(keep_x, documents[0])], documents[1][like(keep_y, documents[1])]]
    )
    index_groups = np.concatenate([gx[keep_x], gy[keep_y]])
    is_x = np.arange(len(index_groups)) < len(keep_x)
    results = []
    for rows, g, asks in (
        (queries[0], gx, ~in_x[gx] & both[gx]),
        (queries[1], gy, in_x[gy] & both[gy]),
    ):
        asking = np.flatnonzero(asks)
        results.append(
            _judge(rows[like(asking, rows)], g[asking], index, index_groups, is_x, k, metric)
        )
    return results[0], results[1]


def _judge(
    queries: Array,
    query_groups: np.ndarray,
    index: Array,
    index_groups: np.ndarray,
    is_x: np.ndarray,
    k: int,
    metric: Metric,
) -> list[Any]:
    if len(query_groups) == 0:
        return [np.zeros(0, dtype=np.int64)] + [np.zeros(0) for _ in range(5)]
    Q, D = prepare(queries, index, metric, ("queries", "index"))
    places = max(k, NDCG_PLACES)
    best, _ = top_k(Q, D, places, document_bias(D, metric))
    relevant = index_groups[best] == query_groups[:, None]
    n_relevant = np.bincount(index_groups, minlength=query_groups.max() + 1)[query_groups]
    head = ~relevant[:, :k]
    return [
        query_groups,
        ndcg(relevant[:, :NDCG_PLACES], n_relevant),
        relevant[:, :k].any(axis=1).astype(float),
        head.sum(axis=1).astype(float),
        (head & is_x[best[:, :k]]).sum(axis=1).astype(float),
        np.full(len(query_groups), is_x.mean()),
    ]


def ndcg(relevant: np.ndarray, n_relevant: np.ndarray) -> np.ndarray:
    """Normalised discounted cumulative gain of each line of hits, best place first.

    >>> ndcg(np.array([[True, False], [False, True]]), np.array([1, 1])).round(4).tolist()
    [1.0, 0.6309]
    """
    places = relevant.shape[1]
    discount = 1 / np.log2(np.arange(2, places + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(n_relevant, places)]
    return (relevant @ discount) / ideal
