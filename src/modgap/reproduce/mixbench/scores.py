"""MixBench evaluated: the rows as they are, the method it was published with, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import Array, InputValueError, check_choice, check_finite
from modgap.core.results import Progress, Result, Table, number, silent
from modgap.evaluation.mixed import NDCG_PLACES, ndcg
from modgap.evaluation.significance import GroupBootstrap, Interval
from modgap.reproduce.mixbench.methods import METHODS, OURS, PUBLISHED, SOURCES, searches
from modgap.reproduce.mixbench.subsets import (
    KINDS,
    SUBSETS,
    MixBench,
    MixBenchSubset,
    open_mixbench,
)
from modgap.search import search

# NDCG by both definitions may differ by rounding.
_EQUAL = 1e-9
# Metrics of one method, each over all queries and over each resample of them.
_Resampled = dict[str, tuple[float, np.ndarray]]


@dataclass(frozen=True)
class MixBenchScore(Result):
    """NDCG@10 of one method, and its difference to others on the same queries.

    ``ndcg`` is taken as MixBench's script does, over the ten documents found; ``ndcg_of_all``
    compares them with all relevant documents. ``own_modality_excess`` is the share of the queries'
    own kind in the wrong results, beyond its share of the documents.
    """

    ndcg: Interval
    ndcg_of_all: Interval
    own_modality_excess: Interval
    over_raw: Interval | None
    over_gr_clip: Interval | None


@dataclass(frozen=True)
class MixBenchSubsetScores(Result):
    """One subset: what was searched, and the scores of each method."""

    subset: str
    asks: str
    n_queries: int
    documents: Mapping[str, int]
    drawn: bool
    joint: bool
    methods: Mapping[str, MixBenchScore]


@dataclass(frozen=True)
class MixBenchEvaluation(Result):
    """Scores of every subset and their mean; ``sweep`` has the means at other weights."""

    model: str | None
    weight: float
    given_means: bool
    subsets: tuple[MixBenchSubsetScores, ...]
    mean: Mapping[str, MixBenchScore]
    sweep: Mapping[str, Mapping[str, float]]
    published: Mapping[str, Mapping[str, float]]
    not_embedded: tuple[str, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that every subset was evaluated with."""
        return tuple(self.mean)

    @property
    def definitions_differ(self) -> bool:
        """Whether it matters over which documents NDCG is taken."""
        scores = [score for one in self.subsets for score in one.methods.values()]
        return any(abs(s.ndcg.value - s.ndcg_of_all.value) > _EQUAL for s in scores)

    def tables(self) -> dict[str, Table]:
        """Headings, each with the header and rows of its table: those that there is reason for."""
        header, lines = self._metric("ndcg")
        header += tuple(f"published {METHODS[method]}" for method in self.published)
        lines = [
            (*line, *(number(values.get(line[0]), 3) for values in self.published.values()))
            for line in lines
        ]
        found = {f"NDCG@{NDCG_PLACES}": (header, lines)}
        if self.definitions_differ:
            found[f"NDCG@{NDCG_PLACES}, over all relevant documents"] = self._metric("ndcg_of_all")
        found["Gain on GR-CLIP"] = self._gains()
        found[f"Own-modality excess@{NDCG_PLACES}"] = self._metric("own_modality_excess")
        if self.sweep:
            found[f"Mean NDCG@{NDCG_PLACES} by the weight of the text"] = self._sweep()
        return found

    def _metric(self, metric: str) -> Table:
        return ("", *(METHODS[method] for method in self.methods)), [
            (name, *(number(getattr(scores[m], metric).value, 3) for m in self.methods))
            for name, scores in self._lines()
        ]

    def _gains(self) -> Table:
        ours = [m for m in self.methods if m in OURS]
        lines = []
        for name, scores in self._lines():
            gains = [scores[m].over_gr_clip for m in ours]
            cells = [f"{i.value:+.3f} [{i.low:+.3f}, {i.high:+.3f}]" for i in gains if i]
            lines.append((name, *cells))
        return ("", *(METHODS[m] for m in ours)), lines

    def _sweep(self) -> Table:
        return ("", *(METHODS[m] for m in self.methods)), [
            (weight, *(number(values[m], 3) for m in self.methods))
            for weight, values in self.sweep.items()
        ]

    def notes(self) -> list[str]:
        """What a reader of the tables must know, a sentence each."""
        means = "the means of the benchmark's own rows, not of training splits as in the paper"
        if self.given_means:
            means = "the means that were given"
        notes = [
            f"NDCG@{NDCG_PLACES} as MixBench's script takes it, over the {NDCG_PLACES} documents "
            "found; 95 % intervals from 1,000 paired resamples of the queries.",
            f"GR-CLIP subtracts {means}. "
            "Calibration is fitted on the benchmark's own rows, without the qrels.",
            f"What has a text and an image is fused, the text with weight {self.weight:g}.",
            f"Published values are of {self.model}: {SOURCES[self.model]}."
            if self.model
            else f"--model puts published values beside: {', '.join(PUBLISHED)}.",
        ]
        joint = [one.subset for one in self.subsets if one.joint]
        if joint:
            notes.append(
                f"{' and '.join(joint)}: the model embedded texts with their images, without a "
                "weight. GR-CLIP subtracts the mean of such rows, which is not in its paper."
            )
        drawn = [one.subset for one in self.subsets if one.drawn]
        if drawn:
            notes.append(
                f"{' and '.join(drawn)}: no mixed_corpus.jsonl, so what documents show was drawn, "
                "a third each, as MixBench's script does."
            )
        if "hubs" not in self.mean:
            notes.append("Without hubs: these need *bank_embeddings, further queries, in each.")
        if self.not_embedded:
            notes.append(f"Left out, without embeddings: {', '.join(self.not_embedded)}.")
        return notes

    def _lines(self) -> list[tuple[str, Mapping[str, MixBenchScore]]]:
        return [*((one.subset, one.methods) for one in self.subsets), ("mean", self.mean)]


def evaluate_mixbench(
    data: MixBench | str | Path,
    *,
    weight: float = 0.5,
    sweep: Sequence[float] = (),
    means: Mapping[str, Array] | None = None,
    model: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> MixBenchEvaluation:
    """NDCG@10 of a mixed search: rows as they are, GR-CLIP's, and calibrated.

    Calibration takes images, texts and fused documents as three modalities, and the queries apart
    from all of them. Where a subset has a bank of further queries, hubs are subtracted too. No
    method looks at the qrels, and nothing is chosen by them.

    Parameters
    ----------
    data : MixBench or path
        The benchmark, or its folder.
    weight : float
        Share of the text in what has both parts, between 0 and 1.
    sweep : sequence of float
        Other weights, at which the mean over the subsets is reported too.
    means : mapping, optional
        The means that GR-CLIP subtracts: "query_text", "document_text" and "document_image", and
        "query_image" where queries have an image, of unit rows; "document_fused" and "query_fused"
        where the model embedded texts with their images. In the paper they come from
        training splits; without them, those of the benchmark's own rows are used, on which
        calibration is fitted as well.
    model : str, optional
        The model whose published values are put beside, a key of
        ``modgap.reproduce.mixbench.methods.PUBLISHED``.
    seed : int
        Seed of the resamples.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    say = progress or silent
    bench = data if isinstance(data, MixBench) else open_mixbench(data)
    if model is not None:
        check_choice(model, "model", tuple(PUBLISHED))
    for one in (weight, *sweep):
        if not 0 <= check_finite(one, "weight") <= 1:
            raise InputValueError(f"weight must be between 0 and 1, got {one}.")
    runs, scores = [], []
    for place, subset in enumerate(bench.subsets):
        say(subset.name, place, len(bench.subsets))
        bootstrap = GroupBootstrap(np.arange(len(subset.queries.ids)), seed=seed + place)
        found = _found(subset, weight, means)
        runs.append({m: _resampled(one, subset, bootstrap) for m, one in found.items()})
        scores.append(_scores(runs[-1], bootstrap))
    swept = {}
    for place, other in enumerate(sweep):
        say(f"weight {other:g}", place, len(sweep))
        every = [_found(subset, other, means) for subset in bench.subsets]
        swept[f"{other:g}"] = {
            method: float(np.mean([np.mean(found[method]["ndcg"]) for found in every]))
            for method in _common(every)
        }
    return MixBenchEvaluation(
        model=model,
        weight=float(weight),
        given_means=means is not None,
        subsets=tuple(
            MixBenchSubsetScores(
                subset.name,
                subset.asks,
                len(subset.queries.ids),
                {kind: len(subset.documents.places(kind)) for kind in KINDS},
                subset.drawn,
                subset.joint,
                of_methods,
            )
            for subset, of_methods in zip(bench.subsets, scores, strict=True)
        ),
        mean=_scores({m: _mean([run[m] for run in runs]) for m in _common(runs)}, bootstrap),
        sweep=swept,
        published=_published(model, [subset.name for subset in bench.subsets]) if model else {},
        not_embedded=bench.not_embedded,
    )


def _common(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The methods of every subset, in order; hubs need a bank in each."""
    return [method for method in METHODS if all(method in one for one in found)]


def _published(model: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """What was published of these subsets; their mean where it was of all."""
    values = {}
    for method, row in PUBLISHED[model].items():
        known = dict(zip(SUBSETS, row, strict=True))
        values[method] = {name: known[name] for name in names if name in known}
        if len(values[method]) == len(names):
            values[method]["mean"] = float(np.mean([known[name] for name in names]))
    return values


def _found(
    subset: MixBenchSubset, weight: float, means: Mapping[str, Array] | None
) -> dict[str, dict[str, np.ndarray]]:
    """What the queries find by each method in one index of all kinds, an entry per query."""
    documents, found = subset.documents, {}
    relevant = np.bincount(subset.qrels[:, 0], minlength=len(subset.queries.ids))
    for method, searched in searches(subset, weight, means).items():
        held = np.concatenate([documents.places(kind) for kind in searched.documents])
        stored = np.concatenate(list(searched.documents.values()))
        best, scores = search(searched.queries, stored, NDCG_PLACES, searched.metric)
        best = held[best]
        grades = _grades(subset, best)
        wrong = grades == 0
        found[method] = {
            "ndcg": ndcg_of_found(grades, scores),
            "ndcg_of_all": ndcg(grades > 0, relevant),
            "wrong": wrong.sum(axis=1),
            "wrong_of_own_kind": (wrong & (documents.kinds[best] == subset.asks)).sum(axis=1),
        }
    return found


def _resampled(
    found: Mapping[str, np.ndarray], subset: MixBenchSubset, bootstrap: GroupBootstrap
) -> _Resampled:
    every = np.arange(len(subset.queries.ids))
    own_share = float(np.mean(subset.documents.kinds == subset.asks))
    own, own_draws = bootstrap.ratios(found["wrong_of_own_kind"], every, found["wrong"])
    return {
        "ndcg": bootstrap.ratios(found["ndcg"], every),
        "ndcg_of_all": bootstrap.ratios(found["ndcg_of_all"], every),
        "own_modality_excess": (own - own_share, own_draws - own_share),
    }


def _grades(subset: MixBenchSubset, best: np.ndarray) -> np.ndarray:
    """How relevant each found document is; 0 where the qrels do not name it."""
    n = len(subset.documents.ids)
    judged = subset.qrels[:, 0] * n + subset.qrels[:, 1]
    order = np.argsort(judged)
    asked = np.arange(len(best))[:, None] * n + best
    place = np.minimum(np.searchsorted(judged, asked, sorter=order), len(judged) - 1)
    same = judged[order[place]] == asked
    return np.where(same, subset.qrels[order[place], 2], 0)


def ndcg_of_found(grades: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """NDCG of each query as MixBench's script takes it: scikit-learn's, over what was found.

    The best order it is compared with is that of the documents found, not of all relevant ones, so
    that with several relevant documents it may be 1 where one of them was missed. Documents of
    equal score share their gains.

    Parameters
    ----------
    grades, scores : (n, k) arrays
        How relevant the k found documents of each query are, and their scores, best first.

    >>> ndcg_of_found(np.array([[0, 1], [1, 0], [0, 0]]), np.array([[2, 1]] * 3)).round(4).tolist()
    [0.6309, 1.0, 0.0]
    """
    n, places = grades.shape
    discount = 1 / np.log2(np.arange(2, places + 2))
    starts = np.ones((n, places), dtype=bool)
    starts[:, 1:] = scores[:, 1:] != scores[:, :-1]
    tied = np.cumsum(starts.ravel()) - 1
    shared = (np.bincount(tied, grades.ravel()) / np.bincount(tied))[tied].reshape(n, places)
    ideal = -np.sort(-grades, axis=1) @ discount
    return np.where(ideal > 0, (shared @ discount) / np.where(ideal > 0, ideal, 1.0), 0.0)


def _mean(subsets: Sequence[_Resampled]) -> _Resampled:
    """The mean over subsets, each of them resampled by itself."""
    found = {}
    for metric in subsets[0]:
        values, draws = zip(*(one[metric] for one in subsets), strict=True)
        found[metric] = float(np.mean(values)), np.mean(draws, axis=0)
    return found


def _scores(run: Mapping[str, _Resampled], bootstrap: GroupBootstrap) -> dict[str, MixBenchScore]:
    def gain(method: str, other: str) -> Interval:
        """How much larger its NDCG is than another's on the same queries."""
        (value, draws), (before, draws_before) = run[method]["ndcg"], run[other]["ndcg"]
        return bootstrap.interval(value - before, draws - draws_before)

    return {
        method: MixBenchScore(
            **{metric: bootstrap.interval(*both) for metric, both in metrics.items()},
            over_raw=None if method == "raw" else gain(method, "raw"),
            over_gr_clip=gain(method, "gr_clip") if method in OURS else None,
        )
        for method, metrics in run.items()
    }
