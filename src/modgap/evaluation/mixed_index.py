"""One index of all modalities that holds each item as one of them, and what queries find there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap._arrays import like, namespace, query_ranks
from modgap._validate import Array
from modgap.corrections import Metric
from modgap.io import Modalities
from modgap.search.exact import best_documents
from modgap.search.scores import document_bias, rows_to_multiply

Targets = Literal["other", "both"]


@dataclass(frozen=True, eq=False)
class IndexFound:
    """What queries found, a line each, the best first.

    ``query`` are the row numbers of the queries, ``kind`` the modality of each result by its place,
    ``row`` its row number there; both are −1 where the index runs short. ``match`` marks results of
    the query's group, of which the index holds ``n_matches``.
    """

    query: np.ndarray
    kind: np.ndarray
    row: np.ndarray
    score: np.ndarray
    match: np.ndarray
    n_matches: np.ndarray


@dataclass(frozen=True, eq=False)
class DrawnIndex:
    """One index of all modalities, in which every group is there as one of them.

    ``home`` is the modality of each group, −1 for one that is there with the first it has. ``held``
    are the rows of each modality that are in the index, one modality after the other.
    """

    home: np.ndarray
    held: list[np.ndarray]
    rows: Array
    groups: np.ndarray
    metric: Metric

    @classmethod
    def of(
        cls, data: Modalities, documents: Sequence[Array], home: np.ndarray, metric: Metric
    ) -> DrawnIndex:
        """The index of these documents, one array for each modality."""
        held = []
        for place, g in enumerate(data.groups):
            # A group without a home is there with the first modality it has.
            earlier = [np.isin(g, other) for other in data.groups[:place]]
            several = bool(earlier) and len(data.groups) > 2
            first = ~np.any(earlier, axis=0) if several else np.ones(len(g), dtype=bool)
            held.append(np.flatnonzero((home[g] == place) | ((home[g] < 0) & first)))
        rows = [d[like(kept, d)] for d, kept in zip(documents, held, strict=True)]
        groups = np.concatenate([g[kept] for g, kept in zip(data.groups, held, strict=True)])
        return cls(home, held, namespace(rows[0]).concat(rows), groups, metric)

    @property
    def shares(self) -> np.ndarray:
        """The share of each modality."""
        counts = np.array([len(kept) for kept in self.held])
        return np.asarray(counts / counts.sum())

    def find(
        self, data: Modalities, queries: Array, place: int, k: int, targets: Targets = "other"
    ) -> IndexFound:
        """The k best for the queries of one modality, by its place.

        Those ask that have a match in the index, of another modality where ``targets`` says so.
        Without pairs every row asks, and none has a match. No query finds itself.
        """
        name, counts = data.names[place], [len(kept) for kept in self.held]
        g, apart = data.query_groups(name), data.asks_apart(name)
        own = np.full(len(g), -1)  # where a query's own row stands in the index
        if not apart:
            own[self.held[place]] = sum(counts[:place]) + np.arange(counts[place])
        matches = np.bincount(self.groups, minlength=len(self.home))[g] - (own >= 0)
        asks = np.ones(len(g), dtype=bool)
        if data.paired:
            asks = (self.home[g] >= 0) & (matches > 0)
            if targets == "other" and not apart:
                asks &= self.home[g] != place
        asking = np.flatnonzero(asks)
        best = np.zeros((0, k), dtype=np.int64)
        scores = np.zeros((0, k))
        if len(asking):
            asked, itself = queries[like(asking, queries)], None if apart else own[asking]
            best, scores = best_documents(asked, self.rows, k, self.metric, itself)
        # Where the index runs short, −1.
        short = ((0, 0), (0, k - best.shape[1]))
        best = np.pad(best, short, constant_values=-1)
        kinds = np.repeat(np.arange(len(counts)), counts)
        return IndexFound(
            query=asking,
            kind=np.where(best < 0, -1, kinds[best]),
            row=np.where(best < 0, -1, np.concatenate(self.held)[best]),
            score=np.pad(scores, short, constant_values=-np.inf),
            match=(self.groups[best] == g[asking, None]) & (best >= 0),
            n_matches=matches[asking],
        )

    def ranks(self, queries: Array, groups: np.ndarray) -> np.ndarray:
        """How many documents of other groups come before each query's best match."""
        Q, D = rows_to_multiply(queries, self.rows, self.metric)
        return query_ranks(Q, D, (groups, self.groups), document_bias(D, self.metric))


def drawn_indexes(
    data: Modalities,
    documents: Sequence[Array],
    shares: Sequence[float],
    repeats: int,
    metric: Metric,
    seed: int,
) -> Iterator[DrawnIndex]:
    """One index after the other; at equal shares a group changes its modality from draw to draw."""
    rng = np.random.default_rng(seed)
    home = np.zeros(0, dtype=np.int64)
    for repeat in range(repeats):
        if repeat % len(shares) and len({*shares}) == 1:
            home = np.where(home < 0, home, (home + 1) % len(shares))
        else:
            home = _assign(data, shares, rng)
        yield DrawnIndex.of(data, documents, home, metric)


def _assign(data: Modalities, shares: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """For each group the modality it is in the index as; −1: whatever it has."""
    drawn = rng.permutation(data.matched_groups)
    ends = np.round(np.cumsum(shares) * len(drawn)).astype(int)
    codes = (*data.groups, *data.asking_codes.values())
    home = np.full(int(max(g.max() for g in codes)) + 1, -1, dtype=np.int64)
    for place, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        home[drawn[start:end]] = place
    return home
