"""One index of all modalities, drawn from rows whose matches are known, and what it finds.

How it works:

1. Every group, such as an image and its captions, has a home: one modality, drawn by the shares.
   The index holds the group's rows of this modality alone. A group that lacks a modality is there
   as the first it has, and documents without a match are all there.
2. With "other" as targets, the queries are rows whose modality is not their group's home, so every
   match is of another modality.
3. At equal shares, each further index moves every home to the next modality, so that a group is
   searched for from every side.
4. Without a background, one search ranks all documents. With one, each modality is searched on its
   own, and the lists are merged by expected wrong results. These depend on the number of documents,
   so the bank searches this very index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.arrays import like, namespace, query_ranks, to_numpy
from modgap.core.checks import Array
from modgap.corrections import Metric
from modgap.corrections.list_background import (
    LEAST_PLACES,
    PLACES,
    Levels,
    ListBackground,
    in_one_list,
    list_background,
)
from modgap.evaluation.retrieval import Corrected
from modgap.io import Modalities
from modgap.search.exact import best_documents
from modgap.search.scores import document_bias, rows_to_multiply

Targets = Literal["other", "both"]


@dataclass(frozen=True, eq=False)
class IndexFound:
    """What queries found, a line each, the best first.

    ``query`` are the row numbers of the queries, ``kind`` the modality of each result by its place,
    ``row`` its row number there; both are −1 where the index runs short. ``match`` marks results of
    the query's group, of which the index holds ``n_matches``. ``expected_wrong`` is NaN where
    results are not merged by it.
    """

    query: np.ndarray
    kind: np.ndarray
    row: np.ndarray
    score: np.ndarray
    expected_wrong: np.ndarray
    match: np.ndarray
    n_matches: np.ndarray


@dataclass(frozen=True, eq=False)
class DrawnIndex:
    """One index of all modalities, in which every group is there as one of them.

    ``home`` is the modality of each group, −1 for one that is there with the first it has. ``held``
    are the rows of each modality that are in the index, one modality after the other; other
    documents are numbered after the rows of their modality and have no group, −1. With a
    ``background``, one for each modality, results are merged by expected wrong results.
    """

    home: np.ndarray
    held: list[np.ndarray]
    rows: Array
    groups: np.ndarray
    metric: Metric
    background: tuple[ListBackground | None, ...] = ()

    @classmethod
    def of(
        cls,
        rows: Corrected,
        home: np.ndarray,
    ) -> DrawnIndex:
        """The index of corrected documents.

        With a correction that has a background, its bank is searched for in this very index.
        """
        data, held, parts, groups = rows.data, [], [], []
        for place, g in enumerate(data.groups):
            # A group without a home is there with the first modality it has.
            earlier = [np.isin(g, other) for other in data.groups[:place]]
            several = bool(earlier) and len(data.groups) > 2
            first = ~np.any(earlier, axis=0) if several else np.ones(len(g), dtype=bool)
            documents, codes = rows.searched(data.names[place])
            others = np.arange(len(g), len(codes))
            kept = np.flatnonzero((home[g] == place) | ((home[g] < 0) & first))
            held.append(np.concatenate([kept, others]))
            parts.append(documents[like(held[-1], documents)])
            groups.append(codes[held[-1]])
        return cls(
            home,
            held,
            namespace(parts[0]).concat(parts),
            np.concatenate(groups),
            rows.metric,
            cls._backgrounds(rows, parts, held),
        )

    @staticmethod
    def _backgrounds(
        rows: Corrected, parts: Sequence[Array], held: Sequence[np.ndarray]
    ) -> tuple[ListBackground | None, ...]:
        """What the bank of a correction finds in each list; none for a list that is too small."""
        correction = rows.correction
        if correction is None or correction.background is None:
            return ()
        hubs = correction.hubs
        assert hubs is not None
        found: list[ListBackground | None] = []
        for name, part, kept in zip(rows.data.names, parts, held, strict=True):
            if len(kept) < LEAST_PLACES:
                found.append(None)
                continue
            own = rows.data.keys_of(name)
            keys = np.concatenate([own, np.full(kept.max() + 1, -1)])[kept]
            found.append(
                list_background(hubs, [(to_numpy(part)[:, :-1], keys)], may_match=hubs.keys is None)
            )
        return tuple(found)

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
            mine = self.held[place] < len(g)
            own[self.held[place][mine]] = sum(counts[:place]) + np.flatnonzero(mine)
        matches = np.bincount(self.groups + 1, minlength=len(self.home) + 1)[g + 1] - (own >= 0)
        asks = np.ones(len(g), dtype=bool)
        if data.paired:
            asks = (self.home[g] >= 0) & (matches > 0)
            if targets == "other" and not apart:
                asks &= self.home[g] != place
        asking = np.flatnonzero(asks)
        best = np.zeros((0, k), dtype=np.int64)
        scores = expected = np.zeros((0, k))
        if len(asking):
            asked, itself = queries[like(asking, queries)], None if apart else own[asking]
            best, scores, expected = self._best(asked, k, itself)
        # Where the index runs short, −1.
        short = ((0, 0), (0, k - best.shape[1]))
        best = np.pad(best, short, constant_values=-1)
        kinds = np.repeat(np.arange(len(counts)), counts)
        return IndexFound(
            query=asking,
            kind=np.where(best < 0, -1, kinds[best]),
            row=np.where(best < 0, -1, np.concatenate(self.held)[best]),
            score=np.pad(scores, short, constant_values=-np.inf),
            expected_wrong=np.pad(expected, short, constant_values=np.nan),
            match=(self.groups[best] == g[asking, None]) & (best >= 0),
            n_matches=matches[asking],
        )

    def _best(
        self, queries: Array, k: int, own: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Documents, scores and expected wrong results of the k best.

        With a background, of the lists merged by it.
        """
        if not self.background:
            best, scores = best_documents(queries, self.rows, k, self.metric, own)
            return best, scores, np.full(best.shape, np.nan)
        lists, expected, first = [], [], 0
        for part, found in zip(self.held, self.background, strict=True):
            if not len(part):
                continue
            rows = self.rows[first : first + len(part)]
            itself = None
            if own is not None:
                within = (own >= first) & (own < first + len(part))
                itself = np.where(within, own - first, -1)
            places = PLACES if found is None else found.places
            best, scores = best_documents(queries, rows, max(k, places), self.metric, itself)
            levels = Levels.of(scores, places)
            if found is None:
                expected.append(levels.expected_without_bank(scores))
            else:
                expected.append(found.expected(levels.heights(scores, found.slope)))
            lists.append((np.where(best < 0, -1, best + first), scores))
            first += len(part)
        order, merged = in_one_list([len(lists) * of for of in expected])
        every = (*(np.hstack([one[place] for one in lists]) for place in (0, 1)), merged)
        best, scores, merged = (np.take_along_axis(part, order[:, :k], axis=1) for part in every)
        return best, scores, merged

    def ranks(self, queries: Array, groups: np.ndarray) -> np.ndarray:
        """How many documents of other groups come before each query's best match."""
        if self.background:
            # Every document is asked for, and those of other groups are counted.
            best, _, _ = self._best(queries, self.rows.shape[0], None)
            match = (self.groups[best] == groups[:, None]) & (best >= 0)
            return np.asarray(np.argmax(match, axis=1))
        Q, D = rows_to_multiply(queries, self.rows, self.metric)
        return query_ranks(Q, D, (groups, self.groups), document_bias(D, self.metric))


def drawn_indexes(
    rows: Corrected, shares: Sequence[float], repeats: int, seed: int
) -> Iterator[DrawnIndex]:
    """One index after the other; at equal shares a group changes its modality from draw to draw."""
    rng = np.random.default_rng(seed)
    home = np.zeros(0, dtype=np.int64)
    for repeat in range(repeats):
        if repeat % len(shares) and len({*shares}) == 1:
            home = np.where(home < 0, home, (home + 1) % len(shares))
        else:
            home = _assign(rows.data, shares, rng)
        yield DrawnIndex.of(rows, home)


def _assign(data: Modalities, shares: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """For each group the modality it is in the index as; −1: whatever it has."""
    drawn = rng.permutation(data.matched_groups)
    ends = np.round(np.cumsum(shares) * len(drawn)).astype(int)
    codes = (*data.groups, *data.asking_codes.values())
    home = np.full(int(max(g.max() for g in codes)) + 1, -1, dtype=np.int64)
    for place, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        home[drawn[start:end]] = place
    return home
