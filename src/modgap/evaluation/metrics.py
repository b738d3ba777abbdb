"""The metrics of a correction, each as numbers per group that can be resampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from modgap._arrays import namespace, row_norms, to_numpy, unit
from modgap._validate import Array
from modgap.corrections import Correction, asking_modalities
from modgap.evaluation.mixed import mixed_retrieval
from modgap.evaluation.noise import Gaussian, Noise
from modgap.evaluation.quantise import Int8, OneBit, Quantiser
from modgap.evaluation.retrieval import retrieval
from modgap.evaluation.robustness import nearest, robustness
from modgap.evaluation.significance import GroupBootstrap
from modgap.io import Modalities
from modgap.measures import gap_distance
from modgap.search import search

NDCG = "mixed_ndcg@10"
OWN_EXCESS = "own_modality_excess@10"
PLACES = 10
# Every query is disturbed this often; where there are many queries, fewer draws say as much.
MIN_DRAWS, MAX_DRAWS = 5, 20
_DRAWN_QUERIES = 5_000
# Noise half as long as an average row: enough to flip neighbours, not enough to drown them.
RELATIVE_NOISE = 0.5


@dataclass(frozen=True, eq=False)
class Sample:
    """A ratio of sums over groups: Σ values / Σ weights; without weights, a mean."""

    values: np.ndarray
    groups: np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class GapSample:
    """What the gap is resampled from: the rows of both modalities and their groups.

    Rows are in units of their root mean square length, so that a correction which stretches all of
    them alike changes nothing.
    """

    X: np.ndarray
    Y: np.ndarray
    gx: np.ndarray
    gy: np.ndarray


def metric_descriptions(
    names: Sequence[str], queries: Sequence[str] | None = None
) -> dict[str, str]:
    """Key and explanation of each metric for these asking modalities, in the order shown."""
    other = dict(zip(names, reversed(names), strict=True))
    return {
        "gap": "distance between the modalities' means, in lengths of an average row",
        **{
            _recall_name(other[asking]): f"{asking} queries whose best {other[asking]} is theirs"
            for asking in reversed(names)
            if queries is None or asking in queries
        },
        NDCG: "one index for both: how high the match of the other modality comes",
        OWN_EXCESS: "one index for both: share of the query's own modality in the "
        "wrong results, beyond its share of the index (0 is fair)",
        "robust_to_noise": "nearest neighbours kept under noise half as long as a row",
        "robust_to_int8": "nearest neighbours kept with int8 documents",
        "robust_to_1bit": "nearest neighbours kept with 1-bit documents",
        "neighbours_kept": "nearest neighbours that are those of the rows as they are",
    }


def recall_names(names: Sequence[str], queries: Sequence[str] | None = None) -> tuple[str, ...]:
    """The recall metrics: queries of the second modality finding the first, and back.

    Only of the modalities that ask, where those are given.
    """
    return tuple(
        _recall_name(found)
        for found, asking in zip(names, reversed(names), strict=True)
        if queries is None or asking in queries
    )


def _recall_name(found: str) -> str:
    return f"{found}_retrieval_recall@1"


def noise_for(data: Modalities) -> Gaussian:
    """Gaussian noise of a set length relative to an average row."""
    xp = namespace(data.X)
    length = float(xp.mean(xp.concat([row_norms(data.X), row_norms(data.Y)])))
    return Gaussian(RELATIVE_NOISE * length / data.dim**0.5)


def draws_for(n_queries: int) -> int:
    """How often to draw the noise: 20 times up to 250 queries, 5 times from 1,000 on."""
    return min(MAX_DRAWS, max(MIN_DRAWS, -(-_DRAWN_QUERIES // n_queries)))


def correction_metrics(
    data: Modalities,
    correction: Correction,
    noise: Noise,
    seed: int,
    wanted: Collection[str] | None = None,
    queries: str | Sequence[str] | None = None,
) -> dict[str, Sample | GapSample]:
    """The metrics of a correction, all or those wanted; without pairs, those that need none.

    ``queries`` are the modalities that ask, by default all that the correction serves. The gap is
    that of the documents.
    """
    asking = asking_modalities(queries, data.names, correction)
    steps: dict[tuple[str, ...], _Step] = {("gap",): lambda: {"gap": _gap(data, correction)}}
    if data.paired:
        steps[recall_names(data.names, asking)] = lambda: _recalls(data, correction, asking)
        steps[NDCG, OWN_EXCESS] = lambda: _mixed(data, correction, asking, seed)
    else:
        steps[(OWN_EXCESS,)] = lambda: {
            OWN_EXCESS: _own_excess_of_neighbours(data, correction, asking)
        }
    rows = data.pairs() if data.paired else data
    kinds: dict[str, Noise | Quantiser] = {
        "robust_to_noise": noise, "robust_to_int8": Int8(), "robust_to_1bit": OneBit(),
    }  # fmt: skip
    for name, kind in kinds.items():
        steps[(name,)] = partial(_robust, rows, correction, asking, name, kind, seed)
    steps[("neighbours_kept",)] = lambda: {
        "neighbours_kept": neighbours_kept(data, correction, asking)
    }
    found: dict[str, Sample | GapSample] = {}
    for names, step in steps.items():
        if wanted is None or any(name in wanted for name in names):
            found.update((n, v) for n, v in step().items() if wanted is None or n in wanted)
    return found


# Computes the metrics it is keyed by.
_Step = Callable[[], dict[str, Sample | GapSample]]


def _recalls(
    data: Modalities, correction: Correction, asking: Sequence[str]
) -> dict[str, Sample | GapSample]:
    found = retrieval(data, k=1, correction=correction)
    ranks = dict(zip(data.names, (found.ranks_x, found.ranks_y), strict=True))
    groups = dict(zip(data.names, data.groups, strict=True))
    in_order = [name for name in reversed(data.names) if name in asking]
    samples = [Sample((ranks[name] == 0).astype(float), groups[name]) for name in in_order]
    return dict(zip(recall_names(data.names, asking), samples, strict=True))


def _mixed(
    data: Modalities, correction: Correction, asking: Sequence[str], seed: int
) -> dict[str, Sample | GapSample]:
    queries = mixed_retrieval(
        data, k=PLACES, correction=correction, queries=asking, seed=seed
    ).queries
    groups = np.concatenate([q.group for q in queries])
    # Wrong results of the query's own modality beyond its share of the index, over all wrong.
    own = []
    for q in queries:
        place = data.names.index(q.modality)
        own.append(q.non_relevant_by[:, place] - q.non_relevant * q.corpus_share[:, place])
    wrong = np.concatenate([q.non_relevant for q in queries])
    return {
        NDCG: Sample(np.concatenate([q.ndcg for q in queries]), groups),
        OWN_EXCESS: Sample(np.concatenate(own), groups, wrong),
    }


@dataclass(frozen=True, eq=False)
class _Direction:
    """One modality asking, the other being searched."""

    asking: str
    found: str
    found_side: Literal["x", "y"]
    queries: Array
    candidates: Array
    groups: np.ndarray


def _directions(data: Modalities, asking: Sequence[str]) -> list[_Direction]:
    (first, second), (gx, gy) = data.names, data.groups
    both = [
        _Direction(first, second, "y", data.X, data.Y, gx),
        _Direction(second, first, "x", data.Y, data.X, gy),
    ]
    return [one for one in both if one.asking in asking]


def _robust(
    data: Modalities,
    correction: Correction,
    asking: Sequence[str],
    name: str,
    kind: Noise | Quantiser,
    seed: int,
) -> dict[str, Sample | GapSample]:
    ways = _directions(data, asking)
    kept = [
        robustness(
            way.queries, way.candidates, kind, draws_for(way.queries.shape[0]),
            correction=correction, candidate_side=way.found_side, seed=seed,
        ).kept[0]
        for way in ways
    ]  # fmt: skip
    return {name: Sample(np.concatenate(kept), np.concatenate([way.groups for way in ways]))}


def neighbours_kept(
    data: Modalities, correction: Correction, queries: str | Sequence[str] | None = None
) -> Sample:
    """Whether each query's nearest row of the other modality is that of the rows as they are.

    Both are ranked by the metric the correction is meant for, so that only the maps count; rows
    as they are, at unit length where the correction brings them there.
    """
    here, metric = np.zeros(1), correction.metric
    ways = _directions(data, asking_modalities(queries, data.names, correction))
    kept = []
    for way in ways:
        before = (way.queries, way.candidates)
        if correction.unit_rows:
            before = (unit(way.queries), unit(way.candidates))
        after = (
            correction.apply(way.queries, way.asking, "query"),
            correction.apply(way.candidates, way.found),
        )
        same = nearest(*before, metric, here)[0] == nearest(*after, metric, here)[0]
        kept.append(same.astype(float))
    return Sample(np.concatenate(kept), np.concatenate([way.groups for way in ways]))


def _gap(data: Modalities, correction: Correction) -> GapSample:
    X, Y = (to_numpy(correction.apply(s.rows(), name)) for name, s in data.sides.items())
    squares = np.concatenate([row_norms(X), row_norms(Y)]).astype(np.float64) ** 2
    length = float(np.mean(squares)) ** 0.5 or 1.0
    return GapSample(X / length, Y / length, *data.groups)


def _own_excess_of_neighbours(
    data: Modalities, correction: Correction, asking: Sequence[str]
) -> Sample:
    """Every row asks the index of all other rows; without matches every result counts as wrong."""
    xp = namespace(data.X)
    index = xp.concat([correction.x(data.X), correction.y(data.Y)])
    counts = [side.n_rows for side in data.sides.values()]
    own, groups, results = [], [], []
    for place, (name, side) in enumerate(data.sides.items()):
        if name not in asking:
            continue
        first = sum(counts[:place])
        best, _ = search(
            correction.apply(side.rows(), name, "query"), index, PLACES, correction.metric,
            leave_out=first + np.arange(counts[place]), names=("queries", "index"),
        )  # fmt: skip
        found = best >= 0
        of_own = found & (best >= first) & (best < first + counts[place])
        # There are as many rows of each modality, so one half is fair.
        own.append(of_own.sum(axis=1) - 0.5 * found.sum(axis=1))
        groups.append(data.groups[place])
        results.append(found.sum(axis=1).astype(float))
    return Sample(*(np.concatenate(part) for part in (own, groups, results)))


def whole(sample: Sample | GapSample) -> float:
    """A metric over all groups."""
    if isinstance(sample, GapSample):
        return gap_distance(sample.X, sample.Y)
    weight = len(sample.values) if sample.weights is None else float(np.sum(sample.weights))
    return float(np.sum(sample.values)) / weight if weight else float("nan")


def resample(bootstrap: GroupBootstrap, sample: Sample | GapSample) -> tuple[float, np.ndarray]:
    """A metric over all groups, and over each resample."""
    if isinstance(sample, Sample):
        return bootstrap.ratios(sample.values, sample.groups, sample.weights)
    differences: np.ndarray | float = 0.0
    for rows, groups, sign in ((sample.X, sample.gx, 1.0), (sample.Y, sample.gy, -1.0)):
        place = np.searchsorted(bootstrap.labels, groups)
        sums = np.zeros((len(bootstrap.labels), rows.shape[1]))
        np.add.at(sums, place, rows)
        sizes = np.bincount(place, minlength=len(bootstrap.labels))
        drawn = np.maximum(bootstrap.counts @ sizes, 1)
        differences = differences + sign * (bootstrap.counts @ sums) / drawn[:, None]
    return whole(sample), np.linalg.norm(differences, axis=1)
