"""What people see of one index of all modalities: the first ten results of every query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modgap.arrays import like
from modgap.core.checks import Array, check_count
from modgap.core.results import Result
from modgap.corrections import Correction, Metric
from modgap.evaluation.mixed import NDCG_PLACES, joined_draws, ndcg
from modgap.evaluation.mixed_index import DrawnIndex, drawn_indexes
from modgap.evaluation.retrieval import Corrected, check_searchable
from modgap.io import Modalities
from modgap.search.scores import metric_of


@dataclass(frozen=True)
class FirstTen(Result):
    """The first ten results of many queries in a few numbers.

    ``own_share`` is the share of the query's own modality among them. ``median_place`` is the first
    place, counted from 1, at or before which the match of at least half of the queries comes,
    ``found_first`` and ``found`` the shares of queries whose match comes first and among the ten;
    these three are None without pairs. ``n_documents`` is the size of the index, on average.
    """

    n_queries: int
    n_documents: int
    own_share: float
    median_place: int | None = None
    found_first: float | None = None
    found: float | None = None


@dataclass(frozen=True, eq=False)
class MixedResults:
    """The k best results of queries of one modality whose match is of another, a line each.

    ``query`` are row numbers of the queries. ``kind`` (n, k) is the modality of each result by its
    place, ``row`` its row number there, −1 where the index runs short, ``match`` whether it is the
    right one. ``expected_wrong`` (n, k) is NaN where results are not merged by it. ``rank`` counts
    what comes before the match, −1 without pairs; ``n_documents`` is the size of the index that
    was asked.
    """

    modality: str
    query: np.ndarray
    kind: np.ndarray
    row: np.ndarray
    score: np.ndarray
    expected_wrong: np.ndarray
    match: np.ndarray
    rank: np.ndarray
    ndcg: np.ndarray
    n_documents: np.ndarray


def mixed_results(
    data: Modalities,
    *,
    correction: Correction | None = None,
    metric: Metric | None = None,
    queries: Sequence[str],
    k: int = NDCG_PLACES,
    seed: int = 0,
) -> tuple[MixedResults, ...]:
    """The results behind ``mixed_retrieval``, in the same indexes, for each query modality.

    Queries ask whose match is of another modality: as many times as there are other modalities,
    each time in another index. Without pairs one index holds every row, and every row asks. The
    same seed gives the same queries in the same order, with and without a correction.

    Parameters
    ----------
    data : Modalities
        What is searched; in memory.
    correction, metric
        As for ``mixed_retrieval``.
    queries : sequence of str
        The query modalities.
    k : int
        How many results to keep of each query.
    seed : int
        Seed of the draws.
    """
    check_count(k, "k")
    metric = metric_of(metric, correction, "cosine")
    check_searchable(data, metric, correction)
    rows = Corrected(data, correction, metric)
    n = len(data.names)
    draws = n if data.paired else 1
    found = [
        [_asked(index, data, rows.queries(name), name, k) for name in queries]
        for index in drawn_indexes(rows, (1 / n,) * n, draws, seed)
    ]
    return tuple(joined_draws(same) for same in zip(*found, strict=True))


def _asked(index: DrawnIndex, data: Modalities, queries: Array, name: str, k: int) -> MixedResults:
    place = data.names.index(name)
    found = index.find(data, queries, place, max(k, NDCG_PLACES))
    group = data.query_groups(name)[found.query]
    across = np.ones(len(group), dtype=bool)
    rank = np.full(len(group), -1)
    if data.paired and len(group):
        across = index.home[group] != place  # queries apart also look for their own modality
        rank = index.ranks(queries[like(found.query, queries)], group)
    return MixedResults(
        modality=name,
        query=found.query[across],
        kind=found.kind[across, :k],
        row=found.row[across, :k],
        score=found.score[across, :k],
        expected_wrong=found.expected_wrong[across, :k],
        match=found.match[across, :k],
        rank=rank[across],
        ndcg=ndcg(found.match[across, :NDCG_PLACES], found.n_matches[across])
        if data.paired
        else np.full(len(group), np.nan),
        n_documents=np.full(int(across.sum()), len(index.groups)),
    )


def first_ten(results: Sequence[MixedResults], names: Sequence[str]) -> FirstTen | None:
    """The first ten results of all queries in a few numbers; None where nothing was asked."""
    own, n_found = 0, 0
    for one in results:
        kinds = one.kind[:, :NDCG_PLACES]
        own += int(np.sum(kinds == list(names).index(one.modality)))
        n_found += int(np.sum(kinds >= 0))
    if not n_found:
        return None
    ranks = np.concatenate([one.rank for one in results])
    size = round(float(np.mean(np.concatenate([one.n_documents for one in results]))))
    if np.any(ranks < 0):
        return FirstTen(len(ranks), size, own / n_found)
    return FirstTen(
        n_queries=len(ranks),
        n_documents=size,
        own_share=own / n_found,
        median_place=int(np.quantile(ranks, 0.5, method="inverted_cdf")) + 1,
        found_first=float(np.mean(ranks == 0)),
        found=float(np.mean(ranks < NDCG_PLACES)),
    )
