"""The figures a correction is judged by, each as numbers per group that can be resampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap._arrays import namespace, row_norms, to_numpy
from modgap._validate import Array
from modgap.corrections import Correction
from modgap.diagnosis.parts import Part
from modgap.evaluation import (
    Gaussian,
    GroupBootstrap,
    Int8,
    MixedRetrieval,
    Noise,
    OneBit,
    Quantiser,
    mixed_retrieval,
    nearest,
    retrieval,
    robustness,
)
from modgap.search import search

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


def figure_names(names: tuple[str, str]) -> dict[str, str]:
    """Key and explanation of each figure, in the order they are shown."""
    x, y = names
    return {
        "gap": "distance between the modalities' means",
        f"{x}_retrieval_recall@1": f"{y} queries whose best {x} is theirs",
        f"{y}_retrieval_recall@1": f"{x} queries whose best {y} is theirs",
        "mixed_ndcg@10": "one index for both: how high the match of the other modality comes",
        "own_modality_excess@10": "one index for both: share of the query's own modality in the "
        "wrong results, beyond its share of the index (0 is fair)",
        "robust_to_noise": "nearest neighbours kept under noise half as long as a row",
        "robust_to_int8": "nearest neighbours kept with int8 documents",
        "robust_to_1bit": "nearest neighbours kept with 1-bit documents",
        "neighbours_kept": "nearest neighbours that are those of the rows as they are",
    }


def noise_for(part: Part) -> Gaussian:
    """Gaussian noise of a set length relative to an average row."""
    xp = namespace(part.X)
    length = float(xp.mean(xp.concat([row_norms(part.X), row_norms(part.Y)])))
    return Gaussian(RELATIVE_NOISE * length / part.X.shape[1] ** 0.5)


def draws_for(n_queries: int) -> int:
    """How often to draw the noise: 20 times up to 250 queries, 5 times from 1,000 on."""
    return min(MAX_DRAWS, max(MIN_DRAWS, -(-_DRAWN_QUERIES // n_queries)))


def paired_figures(
    part: Part,
    correction: Correction,
    noise: Noise,
    seed: int,
    wanted: Collection[str] | None = None,
) -> dict[str, Sample | GapSample]:
    """The figures of a correction on a part whose matches are known; all, or those wanted."""
    groups, names = (part.gx, part.gy), correction.names

    def recalls() -> dict[str, Sample | GapSample]:
        found = retrieval(part.X, part.Y, 1, groups=groups, names=names, correction=correction)
        return {
            f"{names[0]}_retrieval_recall@1": Sample((found.ranks_y == 0).astype(float), part.gy),
            f"{names[1]}_retrieval_recall@1": Sample((found.ranks_x == 0).astype(float), part.gx),
        }

    def mixed() -> dict[str, Sample | GapSample]:
        found = mixed_retrieval(
            part.X, part.Y, PLACES, groups=groups, names=names, correction=correction, seed=seed
        )
        ndcg = Sample(
            np.concatenate([q.ndcg for q in found.queries]),
            np.concatenate([q.group for q in found.queries]),
        )
        return {"mixed_ndcg@10": ndcg, "own_modality_excess@10": _own_excess(found)}

    X, Y, shared = part.pairs()
    recall_names = tuple(f"{name}_retrieval_recall@1" for name in names)
    steps: dict[tuple[str, ...], _Step] = {
        ("gap",): lambda: {"gap": _gap(part, correction)},
        recall_names: recalls,
        ("mixed_ndcg@10", "own_modality_excess@10"): mixed,
        **_robust_steps(X, Y, (shared, shared), correction, noise, seed),
        ("neighbours_kept",): lambda: {"neighbours_kept": neighbours_kept(part, correction)},
    }
    return _run(steps, wanted)


def unpaired_figures(
    part: Part,
    correction: Correction,
    noise: Noise,
    seed: int,
    wanted: Collection[str] | None = None,
) -> dict[str, Sample | GapSample]:
    """The figures that need no matches; all, or those wanted."""
    groups, own = (part.gx, part.gy), "own_modality_excess@10"
    steps: dict[tuple[str, ...], _Step] = {
        ("gap",): lambda: {"gap": _gap(part, correction)},
        (own,): lambda: {own: _own_excess_of_neighbours(part, correction)},
        **_robust_steps(part.X, part.Y, groups, correction, noise, seed),
        ("neighbours_kept",): lambda: {"neighbours_kept": neighbours_kept(part, correction)},
    }
    return _run(steps, wanted)


# Computes the figures it is keyed by.
_Step = Callable[[], dict[str, Sample | GapSample]]


def _run(
    steps: Mapping[tuple[str, ...], _Step], wanted: Collection[str] | None
) -> dict[str, Sample | GapSample]:
    figures: dict[str, Sample | GapSample] = {}
    for names, step in steps.items():
        if wanted is None or any(name in wanted for name in names):
            found = step()
            figures.update((n, v) for n, v in found.items() if wanted is None or n in wanted)
    return figures


def neighbours_kept(part: Part, correction: Correction) -> Sample:
    """Whether each query's nearest row of the other modality is that of the rows as they are.

    Both are ranked by the metric the correction is meant for, so that only the maps count.
    """
    here, metric = np.zeros(1), correction.metric
    kept = []
    for before, after in (
        ((part.X, part.Y), (correction.x(part.X, "query"), correction.y(part.Y))),
        ((part.Y, part.X), (correction.y(part.Y, "query"), correction.x(part.X))),
    ):
        same = nearest(*before, metric, here)[0] == nearest(*after, metric, here)[0]
        kept.append(same.astype(float))
    return Sample(np.concatenate(kept), np.concatenate([part.gx, part.gy]))


def _gap(part: Part, correction: Correction) -> GapSample:
    return GapSample(
        to_numpy(correction.x(part.X)), to_numpy(correction.y(part.Y)), part.gx, part.gy
    )


def _own_excess(mixed: MixedRetrieval) -> Sample:
    """Wrong results of the query's own modality beyond its share of the index, over all wrong."""
    own, wrong, groups = [], [], []
    for place, queries in enumerate(mixed.queries):
        fair = queries.non_relevant * queries.corpus_share[:, place]
        own.append(queries.non_relevant_by[:, place] - fair)
        wrong.append(queries.non_relevant)
        groups.append(queries.group)
    return Sample(*(np.concatenate(parts) for parts in (own, groups, wrong)))


def _own_excess_of_neighbours(part: Part, correction: Correction) -> Sample:
    """Every row asks the index of all other rows; without matches every result counts as wrong."""
    xp = namespace(part.X)
    index = xp.concat([correction.x(part.X), correction.y(part.Y)])
    asked = xp.concat([correction.x(part.X, "query"), correction.y(part.Y, "query")])
    n, total = part.X.shape[0], index.shape[0]
    best, _ = search(asked, index, PLACES + 1, correction.metric, names=("queries", "index"))
    me = np.arange(total)[:, None]
    others = best != me
    own = others & ((best < n) == (me < n))
    # As many rows of each modality are judged, so one half is fair.
    return Sample(
        own.sum(axis=1) - 0.5 * others.sum(axis=1),
        np.concatenate([part.gx, part.gy]),
        others.sum(axis=1).astype(float),
    )


def _robust_steps(
    X: Array,
    Y: Array,
    groups: tuple[np.ndarray, np.ndarray],
    correction: Correction,
    noise: Noise,
    seed: int,
) -> dict[tuple[str, ...], _Step]:
    sides: tuple[tuple[Array, Array, Literal["x", "y"]], ...] = ((X, Y, "y"), (Y, X, "x"))

    def step(name: str, kind: Noise | Quantiser) -> dict[str, Sample | GapSample]:
        kept = [
            robustness(
                queries, candidates, kind, draws_for(queries.shape[0]), correction=correction,
                candidate_side=side, seed=seed,
            ).kept[0]
            for queries, candidates, side in sides
        ]  # fmt: skip
        return {name: Sample(np.concatenate(kept), np.concatenate(groups))}

    return {
        ("robust_to_noise",): lambda: step("robust_to_noise", noise),
        ("robust_to_int8",): lambda: step("robust_to_int8", Int8()),
        ("robust_to_1bit",): lambda: step("robust_to_1bit", OneBit()),
    }


def whole(sample: Sample | GapSample) -> float:
    """A figure over all groups."""
    if isinstance(sample, GapSample):
        means = [rows.mean(axis=0, dtype=np.float64) for rows in (sample.X, sample.Y)]
        return float(np.linalg.norm(means[0] - means[1]))
    weight = len(sample.values) if sample.weights is None else float(np.sum(sample.weights))
    return float(np.sum(sample.values)) / weight if weight else float("nan")


def resample(bootstrap: GroupBootstrap, sample: Sample | GapSample) -> tuple[float, np.ndarray]:
    """A figure over all groups, and over each resample."""
    if isinstance(sample, Sample):
        return bootstrap.ratios(sample.values, sample.groups, sample.weights)
    differences: np.ndarray | float = 0.0
    whole: np.ndarray | float = 0.0
    for rows, groups, sign in ((sample.X, sample.gx, 1.0), (sample.Y, sample.gy, -1.0)):
        place = np.searchsorted(bootstrap.labels, groups)
        sums = np.zeros((len(bootstrap.labels), rows.shape[1]))
        np.add.at(sums, place, rows)
        sizes = np.bincount(place, minlength=len(bootstrap.labels))
        drawn = np.maximum(bootstrap.counts @ sizes, 1)
        differences = differences + sign * (bootstrap.counts @ sums) / drawn[:, None]
        whole = whole + sign * sums.sum(axis=0) / sizes.sum()
    return float(np.linalg.norm(whole)), np.linalg.norm(differences, axis=1)
