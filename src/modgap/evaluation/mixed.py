"""One index that holds several modalities: does a query find its match, whatever its modality?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap._arrays import like, namespace
from modgap._results import Result, plain
from modgap._validate import (
    Array,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
    check_groups,
    check_names,
    check_rows,
    check_same_space,
    check_two,
)
from modgap.corrections import Correction, Metric
from modgap.search import search
from modgap.search.scores import metric_of

NDCG_PLACES = 10
Targets = Literal["other", "both"]


@dataclass(frozen=True, eq=False)
class MixedQueries(Result):
    """The queries of one modality, one entry each: what their results were like.

    ``target`` is the modality, by its place in ``names``, in which the query's match is in the
    index. ``non_relevant_by`` (n, modalities) counts the wrong results of each modality among the
    k best, ``corpus_share`` (n, modalities) is each modality's share of the index searched.
    """

    modality: str
    group: np.ndarray
    target: np.ndarray
    ndcg: np.ndarray
    hit: np.ndarray
    non_relevant_by: np.ndarray
    corpus_share: np.ndarray

    @property
    def non_relevant(self) -> np.ndarray:
        """Wrong results among the k best."""
        return np.asarray(self.non_relevant_by.sum(axis=1))

    @property
    def non_relevant_x(self) -> np.ndarray:
        """Wrong results of the first modality among the k best."""
        return np.asarray(self.non_relevant_by[:, 0])

    @property
    def corpus_share_x(self) -> np.ndarray:
        """Share of the first modality in the index searched."""
        return np.asarray(self.corpus_share[:, 0])

    def figures(self, k: int, names: Sequence[str]) -> dict[str, Any]:
        """Means over the queries; NaN where there are none."""
        n, wrong = len(self.group), float(np.sum(self.non_relevant_by))
        nan = float("nan")
        figures: dict[str, Any] = {
            "n_queries": n,
            f"recall@{k}": float(np.mean(self.hit)) if n else nan,
            f"ndcg@{NDCG_PLACES}": float(np.mean(self.ndcg)) if n else nan,
        }
        off = nan
        for place, name in enumerate(names):
            share = float(np.sum(self.non_relevant_by[:, place])) / wrong if wrong else nan
            corpus = float(np.mean(self.corpus_share[:, place])) if n else nan
            figures[f"{name}_share@{k}"] = share
            figures[f"{name}_share_of_corpus"] = corpus
            off = float(np.fmax(off, abs(share - corpus)))
            aimed = self.ndcg[self.target == place]
            if len(aimed):
                figures[f"ndcg@{NDCG_PLACES}_of_{name}_targets"] = float(np.mean(aimed))
        figures["share_off"] = off
        return figures


@dataclass(frozen=True, eq=False)
class MixedRetrieval(Result):
    """What a mixed index returns, for queries of each modality and overall."""

    names: tuple[str, ...]
    metric: str
    k: int
    shares: tuple[float, ...]
    queries: tuple[MixedQueries, ...]

    @property
    def x_share(self) -> float:
        """Share of the groups that are in the index as the first modality."""
        return self.shares[0]

    @property
    def ndcg(self) -> float:
        """Mean NDCG@10 over all queries."""
        return float(np.mean(np.concatenate([q.ndcg for q in self.queries])))

    def ndcg_of(self, modality: str, target: str) -> float:
        """Mean NDCG@10 of the queries of a modality whose match is of another, or of its own."""
        check_choice(modality, "modality", self.names)
        place = self.names.index(check_choice(target, "target", self.names))
        queries = self.queries[self.names.index(modality)]
        aimed = queries.ndcg[queries.target == place]
        return float(np.mean(aimed)) if len(aimed) else float("nan")

    @property
    def share_off(self) -> float:
        """How far a modality's share of the results is from that of the corpus, at its worst."""
        off = [float(q.figures(self.k, self.names)["share_off"]) for q in self.queries]
        return float(np.fmax.reduce(off))  # NaN only when no query has a wrong result

    def to_dict(self) -> dict[str, Any]:
        """The figures, without each query's."""
        figures = {
            "names": self.names,
            "metric": self.metric,
            "k": self.k,
            "x_share": self.x_share,
            "shares": self.shares,
            f"ndcg@{NDCG_PLACES}": self.ndcg,
            "queries": {q.modality: q.figures(self.k, self.names) for q in self.queries},
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
    targets: Targets = "other",
    repeats: int = 2,
    seed: int = 0,
) -> MixedRetrieval:
    """Search one index in which each item is represented by either its X or its Y rows.

    A share ``x_share`` of the groups, drawn with ``seed``, is in the index as X, the others as Y.
    ``targets="other"`` asks with the side that is not in the index, so the match is of the other
    modality; ``"both"`` asks with every row, and where its own modality is in the index, the
    group's other rows there are its matches and it is left out of its own results.

    Reported are recall@k (at least one match among the k best), NDCG@10, and the share of each
    modality in the non-matching results among the k best, against its share of the corpus: far
    apart, the index returns one modality only. At one half, every second repeat is the complement
    of the one before, so that each group is asked from both sides.
    """
    first, second = check_names(names)
    X, Y = check_two(X, Y, names=(first, second))
    gx, gy = check_groups(groups, X.shape[0], Y.shape[0])
    check_finite(x_share, "x_share")
    if not 0 <= x_share <= 1:
        raise InputValueError(f"x_share must be between 0 and 1, got {x_share}.")
    sides = {first: (X, gx), second: (Y, gy)}
    shares = (float(x_share), 1 - float(x_share))
    return _mixed(sides, shares, k, metric, correction, targets, repeats, seed)


def mixed_corpus(
    rows: Mapping[str, Array],
    groups: Mapping[str, Any],
    shares: Mapping[str, float],
    k: int = 10,
    metric: Metric | None = None,
    *,
    correction: Correction | None = None,
    targets: Targets = "both",
    repeats: int = 1,
    seed: int = 0,
) -> MixedRetrieval:
    """``mixed_retrieval`` with any number of modalities: 70:20:10 of text, image and video, say.

    ``rows``, ``groups`` and ``shares`` are keyed by modality; rows of one group match. Groups that
    have rows of every modality are represented by one of them, drawn by the shares, and asked for;
    the others are in the index with the first modality they have, as distractors.
    """
    names = tuple(rows)
    if len(names) < 2 or set(groups) != set(names) or set(shares) != set(names):
        raise InputValueError(
            "rows, groups and shares must name the same modalities, at least two, "
            f"got {sorted(names)}, {sorted(groups)} and {sorted(shares)}."
        )
    weights = np.array([check_finite(shares[name], f"shares[{name!r}]") for name in names])
    if np.any(weights < 0) or weights.sum() <= 0:
        raise InputValueError(f"shares must be at least 0 and not all 0, got {dict(shares)}.")
    checked = {name: check_rows(rows[name], name) for name in names}
    for name in names[1:]:
        check_same_space(checked[names[0]], checked[name], (names[0], name))
    labels = [np.asarray(groups[name]) for name in names]
    for name, label in zip(names, labels, strict=True):
        if label.shape != (checked[name].shape[0],):
            raise InputValueError(
                f"groups[{name!r}] must give one label per row: {checked[name].shape[0]} rows, "
                f"got shape {label.shape}."
            )
    codes = np.unique(np.concatenate(labels), return_inverse=True)[1]
    parts = np.split(codes, np.cumsum([len(label) for label in labels])[:-1])
    sides = {name: (checked[name], part) for name, part in zip(names, parts, strict=True)}
    fair = tuple(float(w) for w in weights / weights.sum())
    return _mixed(sides, fair, k, metric, correction, targets, repeats, seed)


def _mixed(
    sides: Mapping[str, tuple[Array, np.ndarray]],
    shares: tuple[float, ...],
    k: int,
    metric: Metric | None,
    correction: Correction | None,
    targets: Targets,
    repeats: int,
    seed: int,
) -> MixedRetrieval:
    check_count(repeats, "repeats")
    check_count(k, "k")
    check_choice(targets, "targets", ("other", "both"))
    metric = metric_of(metric, correction, "cosine")
    names, groups = tuple(sides), [g for _, g in sides.values()]
    rows = {name: side[0] for name, side in sides.items()}
    documents = _mapped(rows, correction, "document")
    queries = _mapped(rows, correction, "query")
    rng = np.random.default_rng(seed)
    home = np.zeros(0, dtype=np.int64)
    found: list[list[list[np.ndarray]]] = []
    for repeat in range(repeats):
        if repeat % 2 and shares == (0.5, 0.5):
            home = np.where(home < 0, home, 1 - home)
        else:
            home = _assign(groups, shares, rng)
        found.append(_search(queries, documents, groups, home, k, metric, targets))
    per_modality = []
    for place, name in enumerate(names):
        columns = zip(*(result[place] for result in found), strict=True)
        per_modality.append(MixedQueries(name, *(np.concatenate(c) for c in columns)))
    return MixedRetrieval(names, metric, k, shares, tuple(per_modality))


def _mapped(rows: Mapping[str, Array], correction: Correction | None, role: Any) -> list[Array]:
    if correction is None:
        return list(rows.values())
    return [correction.apply(part, name, role) for name, part in rows.items()]


def _assign(
    groups: Sequence[np.ndarray], shares: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """For each group the modality it is in the index as; −1: whatever it has."""
    n_groups = int(max(g.max() for g in groups)) + 1
    whole = groups[0]
    for g in groups[1:]:
        whole = np.intersect1d(whole, g)
    if len(whole) == 0:
        raise InputValueError("No group has rows of every modality, so none can be asked for.")
    drawn = rng.permutation(np.unique(whole))
    ends = np.round(np.cumsum(shares) * len(drawn)).astype(int)
    home = np.full(n_groups, -1, dtype=np.int64)
    for place, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        home[drawn[start:end]] = place
    return home


def _search(
    queries: Sequence[Array],
    documents: Sequence[Array],
    groups: Sequence[np.ndarray],
    home: np.ndarray,
    k: int,
    metric: Metric,
    targets: Targets,
) -> list[list[np.ndarray]]:
    """Per-query figures for the queries of each modality, on one assignment."""
    held = [np.flatnonzero(_is_held(g, home, place, groups)) for place, g in enumerate(groups)]
    xp = namespace(documents[0])
    index = xp.concat([d[like(kept, d)] for d, kept in zip(documents, held, strict=True)])
    index_groups = np.concatenate([g[kept] for g, kept in zip(groups, held, strict=True)])
    kinds = np.repeat(np.arange(len(groups)), [len(kept) for kept in held])
    starts = np.cumsum([0, *(len(kept) for kept in held)])
    results = []
    for place, (rows, g) in enumerate(zip(queries, groups, strict=True)):
        own = np.full(len(g), -1)  # where a query's own row stands in the index
        own[held[place]] = starts[place] + np.arange(len(held[place]))
        matches = np.bincount(index_groups, minlength=len(home))[g] - (own >= 0)
        asks = (home[g] >= 0) & (matches > 0)
        if targets == "other":
            asks &= home[g] != place
        asking = np.flatnonzero(asks)
        judged = _judge(
            rows[like(asking, rows)],
            g[asking],
            own[asking],
            matches[asking],
            index,
            index_groups,
            kinds,
            len(groups),
            k,
            metric,
        )
        results.append([g[asking], home[g[asking]], *judged])
    return results


def _is_held(
    g: np.ndarray, home: np.ndarray, place: int, groups: Sequence[np.ndarray]
) -> np.ndarray:
    """Rows of this modality that are in the index: their group's home, or a group without one."""
    earlier = [np.isin(g, other) for other in groups[:place]]
    first = ~np.any(earlier, axis=0) if earlier and len(groups) > 2 else np.ones(len(g), dtype=bool)
    return np.asarray((home[g] == place) | ((home[g] < 0) & first))


def _judge(
    queries: Array,
    query_groups: np.ndarray,
    own: np.ndarray,
    matches: np.ndarray,
    index: Array,
    index_groups: np.ndarray,
    kinds: np.ndarray,
    n_kinds: int,
    k: int,
    metric: Metric,
) -> list[np.ndarray]:
    """NDCG@10, hits, wrong results by modality and the shares of the corpus, per query."""
    if len(query_groups) == 0:
        return [np.zeros(0), np.zeros(0), np.zeros((0, n_kinds)), np.zeros((0, n_kinds))]
    places = max(k, NDCG_PLACES)
    best, _ = search(queries, index, places, metric, leave_out=own, names=("queries", "index"))
    # Where the index runs short, −1.
    best = np.pad(best, ((0, 0), (0, places - best.shape[1])), constant_values=-1)
    relevant = (index_groups[best] == query_groups[:, None]) & (best >= 0)
    wrong = ~relevant[:, :k] & (best[:, :k] >= 0)
    by_kind = np.stack(
        [(wrong & (kinds[best[:, :k]] == kind)).sum(axis=1) for kind in range(n_kinds)], axis=1
    )
    shares = np.bincount(kinds, minlength=n_kinds) / len(kinds)
    return [
        ndcg(relevant[:, :NDCG_PLACES], matches),
        relevant[:, :k].any(axis=1).astype(float),
        by_kind.astype(float),
        np.tile(shares, (len(query_groups), 1)),
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
