"""The metrics of a correction, each as numbers per group that can be resampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from modgap._arrays import namespace, row_norms, to_numpy
from modgap._validate import Array
from modgap.corrections import Correction
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
    """What the gap is resampled from: the rows of both modalities and their groups."""

    X: np.ndarray
    Y: np.ndarray
    gx: np.ndarray
    gy: np.ndarray


def metric_descriptions(names: Sequence[str]) -> dict[str, str]:
    """Key and explanation of each metric, in the order they are shown."""
    x, y = names
    return {
        "gap": "distance between the modalities' means",
        f"{x}_retrieval_recall@1": f"{y} queries whose best {x} is theirs",
        f"{y}_retrieval_recall@1": f"{x} queries whose best {y} is theirs",
        NDCG: "one index for both: how high the match of the other modality comes",
        OWN_EXCESS: "one index for both: share of the query's own modality in the "
        "wrong results, beyond its share of the index (0 is fair)",
        "robust_to_noise": "nearest neighbours kept under noise half as long as a row",
        "robust_to_int8": "nearest neighbours kept with int8 documents",
        "robust_to_1bit": "nearest neighbours kept with 1-bit documents",
        "neighbours_kept": "nearest neighbours that are those of the rows as they are",
    }


def recall_names(names: Sequence[str]) -> tuple[str, str]:
    """The two recall metrics: queries of the second modality finding the first, and back."""
    return f"{names[0]}_retrieval_recall@1", f"{names[1]}_retrieval_recall@1"


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
) -> dict[str, Sample | GapSample]:
    """The metrics of a correction, all or those wanted; without pairs, those that need none."""
    steps: dict[tuple[str, ...], _Step] = {("gap",): lambda: {"gap": _gap(data, correction)}}
    if data.paired:
        steps[recall_names(data.names)] = lambda: _recalls(data, correction)
        steps[NDCG, OWN_EXCESS] = lambda: _mixed(data, correction, seed)
    else:
        steps[(OWN_EXCESS,)] = lambda: {OWN_EXCESS: _own_excess_of_neighbours(data, correction)}
    rows = data.pairs() if data.paired else data
    kinds: dict[str, Noise | Quantiser] = {
        "robust_to_noise": noise, "robust_to_int8": Int8(), "robust_to_1bit": OneBit(),
    }  # fmt: skip
    for name, kind in kinds.items():
        steps[(name,)] = partial(_robust, rows, correction, name, kind, seed)
    steps[("neighbours_kept",)] = lambda: {"neighbours_kept": neighbours_kept(data, correction)}
    found: dict[str, Sample | GapSample] = {}
    for names, step in steps.items():
        if wanted is None or any(name in wanted for name in names):
            found.update((n, v) for n, v in step().items() if wanted is None or n in wanted)
    return found


# Computes the metrics it is keyed by.
_Step = Callable[[], dict[str, Sample | GapSample]]


def _recalls(data: Modalities, correction: Correction) -> dict[str, Sample | GapSample]:
    found = retrieval(data, k=1, correction=correction)
    ranks = zip((found.ranks_y, found.ranks_x), reversed(data.groups), strict=True)
    samples = [Sample((rank == 0).astype(float), groups) for rank, groups in ranks]
    return dict(zip(recall_names(data.names), samples, strict=True))


def _mixed(data: Modalities, correction: Correction, seed: int) -> dict[str, Sample | GapSample]:
    queries = mixed_retrieval(data, k=PLACES, correction=correction, seed=seed).queries
    groups = np.concatenate([q.group for q in queries])
    # Wrong results of the query's own modality beyond its share of the index, over all wrong.
    own = [
        q.non_relevant_by[:, place] - q.non_relevant * q.corpus_share[:, place]
        for place, q in enumerate(queries)
    ]
    wrong = np.concatenate([q.non_relevant for q in queries])
    return {
        NDCG: Sample(np.concatenate([q.ndcg for q in queries]), groups),
        OWN_EXCESS: Sample(np.concatenate(own), groups, wrong),
    }


def _robust(
    data: Modalities, correction: Correction, name: str, kind: Noise | Quantiser, seed: int
) -> dict[str, Sample | GapSample]:
    sides: tuple[tuple[Array, Array, Literal["x", "y"]], ...] = (
        (data.X, data.Y, "y"),
        (data.Y, data.X, "x"),
    )
    kept = [
        robustness(
            queries, candidates, kind, draws_for(queries.shape[0]), correction=correction,
            candidate_side=side, seed=seed,
        ).kept[0]
        for queries, candidates, side in sides
    ]  # fmt: skip
    return {name: Sample(np.concatenate(kept), np.concatenate(data.groups))}


def neighbours_kept(data: Modalities, correction: Correction) -> Sample:
    """Whether each query's nearest row of the other modality is that of the rows as they are.

    Both are ranked by the metric the correction is meant for, so that only the maps count.
    """
    here, metric = np.zeros(1), correction.metric
    kept = []
    for before, after in (
        ((data.X, data.Y), (correction.x(data.X, "query"), correction.y(data.Y))),
        ((data.Y, data.X), (correction.y(data.Y, "query"), correction.x(data.X))),
    ):
        same = nearest(*before, metric, here)[0] == nearest(*after, metric, here)[0]
        kept.append(same.astype(float))
    return Sample(np.concatenate(kept), np.concatenate(data.groups))


def _gap(data: Modalities, correction: Correction) -> GapSample:
    return GapSample(to_numpy(correction.x(data.X)), to_numpy(correction.y(data.Y)), *data.groups)


def _own_excess_of_neighbours(data: Modalities, correction: Correction) -> Sample:
    """Every row asks the index of all other rows; without matches every result counts as wrong."""
    xp = namespace(data.X)
    index = xp.concat([correction.x(data.X), correction.y(data.Y)])
    asked = xp.concat([correction.x(data.X, "query"), correction.y(data.Y, "query")])
    n, total = data.x.n_rows, index.shape[0]
    best, _ = search(asked, index, PLACES + 1, correction.metric, names=("queries", "index"))
    me = np.arange(total)[:, None]
    others = best != me
    own = others & ((best < n) == (me < n))
    # There are as many rows of each modality, so one half is fair.
    return Sample(
        own.sum(axis=1) - 0.5 * others.sum(axis=1),
        np.concatenate(data.groups),
        others.sum(axis=1).astype(float),
    )


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
