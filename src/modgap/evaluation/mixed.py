"""One index that holds several modalities: does a query find its match, whatever its modality?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from modgap.core.checks import Array, InputValueError, check_choice, check_count, check_finite
from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    HasFigure,
    Result,
    notebook_html,
    notebook_table,
    number,
    plain,
    spoken,
)
from modgap.core.tables import HasTable
from modgap.corrections import Correction, Metric, query_modalities
from modgap.evaluation.mixed_index import DrawnIndex, Targets, drawn_indexes
from modgap.evaluation.retrieval import Corrected, check_searchable, matched
from modgap.io import Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search.scores import metric_of

NDCG_PLACES = 10
Queries = TypeVar("Queries")


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

    def _brief(self) -> str:
        ndcg = float(np.mean(self.ndcg)) if len(self.ndcg) else float("nan")
        return f"{self.modality}, {len(self.group):,} queries, NDCG@{NDCG_PLACES} {ndcg:.3f}"

    @property
    def non_relevant(self) -> np.ndarray:
        """Wrong results among the k best."""
        return np.asarray(self.non_relevant_by.sum(axis=1))

    def own_excess(self, names: Sequence[str]) -> np.ndarray:
        """Wrong results of the query's own modality beyond its share of the index.

        Their sum over that of ``non_relevant`` is the excess: 0 is balanced.
        """
        place = list(names).index(self.modality)
        fair = self.non_relevant * self.corpus_share[:, place]
        return np.asarray(self.non_relevant_by[:, place] - fair)

    def metrics(self, k: int, names: Sequence[str]) -> dict[str, Any]:
        """Means over the queries; NaN where there are none."""
        n, wrong = len(self.group), float(np.sum(self.non_relevant_by))
        nan = float("nan")
        metrics: dict[str, Any] = {
            "n_queries": n,
            f"recall@{k}": float(np.mean(self.hit)) if n else nan,
            f"ndcg@{NDCG_PLACES}": float(np.mean(self.ndcg)) if n else nan,
        }
        off = nan
        for place, name in enumerate(names):
            share = float(np.sum(self.non_relevant_by[:, place])) / wrong if wrong else nan
            corpus = float(np.mean(self.corpus_share[:, place])) if n else nan
            metrics[f"{name}_share@{k}"] = share
            metrics[f"{name}_share_of_corpus"] = corpus
            off = float(np.fmax(off, abs(share - corpus)))
            aimed = self.ndcg[self.target == place]
            if len(aimed):
                metrics[f"ndcg@{NDCG_PLACES}_of_{name}_targets"] = float(np.mean(aimed))
        metrics["share_off"] = off
        excess = float(np.sum(self.own_excess(names)))
        metrics[f"own_modality_excess@{k}"] = excess / wrong if wrong else nan
        return metrics


@dataclass(frozen=True, eq=False)
class MixedRetrieval(HasTable, HasFigure, Result):
    """What a mixed index returns, for queries of each query modality and overall."""

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

    @property
    def own_excess(self) -> float:
        """Share of the query's own modality in the wrong results, beyond its share of the index."""
        wrong = sum(float(np.sum(q.non_relevant)) for q in self.queries)
        excess = sum(float(np.sum(q.own_excess(self.names))) for q in self.queries)
        return excess / wrong if wrong else float("nan")

    def ndcg_of(self, modality: str, target: str) -> float:
        """Mean NDCG@10 of the queries of a modality whose match is of another, or of its own."""
        asked = {queries.modality: queries for queries in self.queries}
        queries = asked[check_choice(modality, "modality", tuple(asked))]
        place = self.names.index(check_choice(target, "target", self.names))
        aimed = queries.ndcg[queries.target == place]
        return float(np.mean(aimed)) if len(aimed) else float("nan")

    @property
    def share_off(self) -> float:
        """How far a modality's share of the results is from that of the corpus, at its worst."""
        off = [float(q.metrics(self.k, self.names)["share_off"]) for q in self.queries]
        return float(np.fmax.reduce(off))  # NaN only when no query has a wrong result

    def _brief(self) -> str:
        asking = " and ".join(q.modality for q in self.queries)
        return (
            f"{asking} queries by {self.metric.replace('_', ' ')}, NDCG@{NDCG_PLACES} "
            f"{self.ndcg:.3f}, own-modality excess@{self.k} {self.own_excess:+.3f}"
        )

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: what the queries of each modality get."""
        heads = [f"recall@{self.k}", f"NDCG@{NDCG_PLACES}"]
        shares = [f"{name}_share@{self.k}" for name in self.names]
        shown = [f"{name} in wrong results" for name in self.names]
        excess = f"own_modality_excess@{self.k}"
        rows: list[tuple[str, ...]] = []
        for queries in self.queries:
            found = queries.metrics(self.k, self.names)
            cells = [number(found[key], 3) for key in (heads[0], heads[1].lower(), *shares)]
            rows.append(
                (f"{queries.modality} queries", number(len(queries.group)), *cells,
                 f"{found[excess]:+.3f}")
            )  # fmt: skip
        return ("", "queries", *heads, *shown, "own excess"), rows

    def ranges(self) -> Ranges:
        """The share of each modality in the wrong results, for drawings."""
        lines = []
        for queries in self.queries:
            found = queries.metrics(self.k, self.names)
            for name in self.names:
                share, fair = found[f"{name}_share@{self.k}"], found[f"{name}_share_of_corpus"]
                own = name == queries.modality
                label = f"{queries.modality} queries, {name} results"
                lines.append(Range(label, share, fair, share, (fair, share), marked=own))
        title = f"Share of the wrong results among {self.k}; bars start at the share of the index"
        return Ranges(title, lines, span=(0.0, 1.0))

    def _repr_html_(self) -> str:
        said = (
            f"One index of {spoken(self.names)}, by {self.metric.replace('_', ' ')}. Own excess: "
            "wrong results of the query's own modality, less its share of the index; 0 is balanced."
        )
        return notebook_html(self.ranges().svg(), notebook_table(*self.table(), said))

    def to_dict(self) -> dict[str, Any]:
        """The metrics, without each query's."""
        metrics = {
            "names": self.names,
            "metric": self.metric,
            "k": self.k,
            "x_share": self.x_share,
            "shares": self.shares,
            f"ndcg@{NDCG_PLACES}": self.ndcg,
            "queries": {q.modality: q.metrics(self.k, self.names) for q in self.queries},
        }
        return {name: plain(value) for name, value in metrics.items()}


def mixed_retrieval(
    X: Array | Modalities,
    Y: Array | None = None,
    k: int = 10,
    metric: Metric | None = None,
    groups: tuple[Any, Any] | None = None,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    correction: Correction | None = None,
    queries: str | Sequence[str] | None = None,
    x_share: float = 0.5,
    shares: Mapping[str, float] | None = None,
    targets: Targets = "other",
    repeats: int | None = None,
    seed: int = 0,
) -> MixedRetrieval:
    """Search one index in which each item is represented by its rows of one modality.

    Reported are recall@k (at least one match among the k best), NDCG@10, and the share of each
    modality in the non-matching results among the k best, against its share of the corpus: far
    apart, the index returns one modality only.

    Parameters
    ----------
    X, Y, metric, groups, names, correction
        The modalities, as for ``retrieval``.
    k : int
        Places to look at for recall and shares; NDCG looks at ten.
    queries : str or several, optional
        The query modalities; by default all that the correction serves.
    x_share : float
        Share of the groups that are in the index as the first of two modalities.
    shares : mapping of str to float, optional
        The same for any number, by name; by default equal. Groups that do not have rows of every
        modality are there with the first they have, as distractors.
    targets : {"other", "both"}
        "other" asks with rows whose modality is not in the index, so the match is of another
        modality. "both" asks with every row; where its own modality is in the index, the group's
        other rows there are its matches, and it is left out of its own results. Queries that are
        not documents (``Modalities.with_queries``) ask for matches of every modality.
    repeats : int, optional
        How often groups are drawn, by default once for each modality. At equal shares a group
        changes its modality from one draw to the next, so that it is asked from every side.
    seed : int
        Seed of the draws.
    """
    data = matched(X, Y, names, groups)
    check_count(k, "k")
    check_choice(targets, "targets", ("other", "both"))
    fair = check_share(x_share, "x_share")
    if shares is not None:
        fair = _shares(shares, data.names)
    elif len(data.names) > 2:
        fair = (1 / len(data.names),) * len(data.names)
    asking = query_modalities(queries, data.names, correction, default="all")
    times = len(data.names) if repeats is None else check_count(repeats, "repeats")
    metric = metric_of(metric, correction, "cosine")
    check_searchable(data, metric, correction)
    return mixed_of(Corrected(data, correction, metric), asking, fair, k, targets, times, seed)


def check_share(x_share: float, name: str) -> tuple[float, ...]:
    """The shares of two modalities, from that of the first."""
    if not 0 <= check_finite(x_share, name) <= 1:
        raise InputValueError(f"{name} must be between 0 and 1, got {x_share}.")
    return float(x_share), 1 - float(x_share)


def mixed_of(
    rows: Corrected,
    asking: Sequence[str],
    shares: tuple[float, ...] | None = None,
    k: int = 10,
    targets: Targets = "other",
    repeats: int | None = None,
    seed: int = 0,
) -> MixedRetrieval:
    """``mixed_retrieval`` of rows that are checked and corrected; equal shares unless given."""
    data = rows.data
    n, repeats = len(data.names), len(data.names) if repeats is None else repeats
    shares = shares or (1 / n,) * n
    found = [
        [
            _asked(index, data, rows.queries(name), data.names.index(name), k, targets)
            for name in asking
        ]
        for index in drawn_indexes(rows, shares, repeats, seed)
    ]
    joined = tuple(joined_draws(same) for same in zip(*found, strict=True))
    return MixedRetrieval(data.names, rows.metric, k, shares, joined)


def joined_draws(draws: Sequence[Queries]) -> Queries:
    """The queries of one modality in several draws, one after the other."""
    columns = [f.name for f in fields(draws[0]) if f.name != "modality"]  # type: ignore[arg-type]
    joined = {name: np.concatenate([getattr(draw, name) for draw in draws]) for name in columns}
    return replace(draws[0], **joined)  # type: ignore[type-var]


def _shares(shares: Mapping[str, float], names: Sequence[str]) -> tuple[float, ...]:
    """Shares in the order of the modalities, adding up to 1."""
    if set(shares) != set(names):
        raise InputValueError(
            f"shares must name the same modalities as the rows, {', '.join(names)}, got "
            f"{', '.join(shares)}."
        )
    weights = np.array([check_finite(shares[name], f"shares[{name!r}]") for name in names])
    if np.any(weights < 0) or weights.sum() <= 0:
        raise InputValueError(f"shares must be at least 0 and not all 0, got {dict(shares)}.")
    return tuple(float(w) for w in weights / weights.sum())


def _asked(
    index: DrawnIndex, data: Modalities, queries: Array, place: int, k: int, targets: Targets
) -> MixedQueries:
    """What the queries of one modality, by its place, find."""
    found = index.find(data, queries, place, max(k, NDCG_PLACES), targets)
    group = data.query_groups(data.names[place])[found.query]
    wrong = ~found.match[:, :k] & (found.kind[:, :k] >= 0)
    return MixedQueries(
        modality=data.names[place],
        group=group,
        target=index.home[group],
        ndcg=ndcg(found.match[:, :NDCG_PLACES], found.n_matches),
        hit=found.match[:, :k].any(axis=1).astype(float),
        non_relevant_by=np.stack(
            [
                (wrong & (found.kind[:, :k] == kind)).sum(axis=1).astype(float)
                for kind in range(len(data.names))
            ],
            axis=1,
        ),
        corpus_share=np.tile(index.shares, (len(group), 1)),
    )


def ndcg(relevant: np.ndarray, n_relevant: np.ndarray) -> np.ndarray:
    """Normalised discounted cumulative gain of each line of hits, best place first.

    >>> ndcg(np.array([[True, False], [False, True]]), np.array([1, 1])).round(4).tolist()
    [1.0, 0.6309]
    """
    places = relevant.shape[1]
    discount = 1 / np.log2(np.arange(2, places + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(n_relevant, places)]
    return (relevant @ discount) / ideal
