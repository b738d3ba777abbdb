"""The metrics of a correction, each as numbers per group that can be resampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from modgap.arrays import as_float, namespace, row_norms, to_numpy, unit
from modgap.core.stopping import stop_here
from modgap.corrections import Correction, Metric
from modgap.evaluation.metric_names import NDCG, OWN_EXCESS, directions
from modgap.evaluation.mixed import mixed_of
from modgap.evaluation.mixed_index import drawn_indexes
from modgap.evaluation.noise import Draws, Gaussian, Int8, Noise, OneBit, Quantiser
from modgap.evaluation.retrieval import Corrected, ranks_across
from modgap.evaluation.robustness import DisturbedSearch, Robustness, nearest_of
from modgap.evaluation.significance import GroupBootstrap
from modgap.io import Modalities

PLACES = 10
# Every query is disturbed this often; where there are many queries, fewer draws say as much.
MIN_DRAWS, MAX_DRAWS = 5, 20
_DRAWN_QUERIES = 5_000
# Documents under noise are kept for the next correction where all draws take no more than this.
_KEPT_BYTES = 32 * 2**20
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
    """What the gap is resampled from: the rows of each modality and their groups.

    Rows are in units of their root mean square length, so that a correction which stretches all of
    them alike changes nothing.
    """

    rows: tuple[np.ndarray, ...]
    groups: tuple[np.ndarray, ...]


def noise_for(data: Modalities) -> Gaussian:
    """Gaussian noise of a set length relative to an average row."""
    norms = [row_norms(side.rows()) for side in data.sides.values()]
    xp = namespace(norms[0])
    length = float(xp.mean(xp.concat(norms)))
    return Gaussian(RELATIVE_NOISE * length / data.dim**0.5)


def draws_for(n_queries: int) -> int:
    """How often to draw the noise: 20 times up to 250 queries, 5 times from 1,000 on."""
    return min(MAX_DRAWS, max(MIN_DRAWS, -(-_DRAWN_QUERIES // n_queries)))


class AsTheyAre:
    """What is the same for every correction of some rows: found once, and kept where it is small.

    ``seed`` is that of the noise and of the indexes that are drawn.
    """

    def __init__(self, data: Modalities, seed: int = 0) -> None:
        self.data, self.seed = data, seed
        self._nearest: dict[tuple[str, str, Metric, bool], np.ndarray] = {}
        self._draws: dict[tuple[str, int], Draws] = {}

    @cached_property
    def pairs(self) -> Modalities:
        """One row of each modality for every group, where it is known which rows match."""
        data = self.data
        if not data.paired:
            return data
        in_order = [np.arange(side.n_rows) for side in data.sides.values()]
        if all(map(np.array_equal, data.matches(), in_order)):
            return data  # and what was mapped of it
        return data.pairs()

    @cached_property
    def _noise(self) -> Noise:
        return noise_for(self.data)

    def nearest(self, asks: str, searched: str, correction: Correction) -> np.ndarray:
        """Each query's nearest document, by the metric of a correction.

        At unit length where the correction brings rows there.
        """
        key = (asks, searched, correction.metric, correction.unit_rows)
        if key not in self._nearest:
            rows = self.data.queries_of(asks).rows(), self.data.sides[searched].rows()
            if correction.unit_rows:
                rows = unit(rows[0]), unit(rows[1])
            self._nearest[key] = nearest_of(*rows, correction.metric)[0]
        return self._nearest[key]

    def draws(self, searched: str, count: int) -> Draws:
        """Documents of the pairs under noise."""
        if (searched, count) not in self._draws:
            rows = as_float(self.pairs.sides[searched].rows())
            few = count * rows.shape[0] * rows.shape[1] * 4 <= _KEPT_BYTES
            self._draws[searched, count] = Draws(self._noise, rows, count, self.seed, kept=few)
        return self._draws[searched, count]


def correction_metrics(
    before: AsTheyAre,
    correction: Correction,
    asking: Sequence[str],
    wanted: Collection[str] | None = None,
) -> dict[str, Sample | GapSample]:
    """The metrics of a correction, all or those wanted; without pairs, those that need none.

    ``asking`` are the query modalities, each served by the correction. The gap is that of the
    documents.
    """
    data = before.data
    rows = Corrected(data, correction)
    steps: dict[tuple[str, ...], _Step] = {("gap",): lambda: {"gap": _gap(rows)}}
    if data.paired:
        recalls = tuple(directions(data.names, asking, data.asking))
        steps[recalls] = lambda: recall_samples(rows, asking)
        steps[NDCG, OWN_EXCESS] = lambda: mixed_samples(rows, asking, before.seed)
    else:
        steps[(OWN_EXCESS,)] = lambda: {OWN_EXCESS: _own_excess_of_neighbours(rows, asking)}
    searches = _Searches(rows, before, asking)
    steps[("robust_to_noise",)] = lambda: {"robust_to_noise": searches.under_noise()}
    steps[("robust_to_int8",)] = lambda: {"robust_to_int8": searches.coded(Int8())}
    steps[("robust_to_1bit",)] = lambda: {"robust_to_1bit": searches.coded(OneBit())}
    steps[("neighbours_kept",)] = lambda: {
        "neighbours_kept": neighbours_kept(rows, before, asking, searches.nearest)
    }
    found: dict[str, Sample | GapSample] = {}
    for names, step in steps.items():
        if wanted is None or any(name in wanted for name in names):
            found.update((n, v) for n, v in step().items() if wanted is None or n in wanted)
    return found


# Computes the metrics it is keyed by.
_Step = Callable[[], Mapping[str, Sample | GapSample]]


def recall_samples(rows: Corrected, asking: Sequence[str]) -> dict[str, Sample]:
    """Whether each query finds a match first, by the recall metric."""
    data = rows.data
    found: dict[str, Sample] = {}
    for name, (asks, searched) in directions(data.names, asking, data.asking).items():
        ranks = ranks_across(rows, asks, searched)
        answered = ranks >= 0
        found[name] = Sample(
            (ranks[answered] == 0).astype(float), data.query_groups(asks)[answered]
        )
    return found


def mixed_samples(rows: Corrected, asking: Sequence[str], seed: int) -> dict[str, Sample]:
    """NDCG@10 and own-modality excess in one index."""
    queries = mixed_of(rows, asking, k=PLACES, seed=seed).queries
    groups = np.concatenate([q.group for q in queries])
    own = [q.own_excess(rows.data.names) for q in queries]
    wrong = np.concatenate([q.non_relevant for q in queries])
    return {
        NDCG: Sample(np.concatenate([q.ndcg for q in queries]), groups),
        OWN_EXCESS: Sample(np.concatenate(own), groups, wrong),
    }


class _Searches:
    """Searches across modalities, one row of each where they are pairs, that noise may disturb."""

    def __init__(self, rows: Corrected, before: AsTheyAre, asking: Sequence[str]) -> None:
        self._whole, self._before, self._asking = rows, before, asking

    @cached_property
    def _rows(self) -> Corrected:
        alone = self._before.pairs
        return (
            self._whole if alone is self._whole.data else Corrected(alone, self._whole.correction)
        )

    @cached_property
    def _searched(self) -> dict[tuple[str, str], DisturbedSearch]:
        """By the query modality and the one that is searched."""
        rows, correction = self._rows, self._rows.correction
        assert correction is not None
        return {
            (asks, searched): DisturbedSearch(
                as_float(rows.queries(asks)),
                rows.documents(searched),
                correction.map(searched),
                rows.data.keys_of(searched) if correction.hubs else None,
                correction.metric,
                np.zeros(1),
            )
            for asks, searched in directions(rows.data.names, self._asking).values()
        }

    def nearest(self, asks: str, searched: str) -> np.ndarray:
        """Each query's nearest document, of all rows."""
        if self._rows is self._whole:
            return to_numpy(self._searched[asks, searched].nearest[0])
        return nearest_after(self._whole, asks, searched)

    def under_noise(self) -> Sample:
        """How many queries keep their nearest document under noise."""
        return self._kept(
            search.under(self._before.draws(searched, draws_for(search.queries.shape[0])))
            for (_, searched), search in self._searched.items()
        )

    def coded(self, quantiser: Quantiser) -> Sample:
        """How many queries keep it when documents are stored in few bits."""
        return self._kept(search.coded(quantiser) for search in self._searched.values())

    def _kept(self, found: Iterable[Robustness]) -> Sample:
        kept = [one.kept[0] for one in found]
        groups = [self._rows.data.query_groups(asks) for asks, _ in self._searched]
        return Sample(np.concatenate(kept), np.concatenate(groups))


def nearest_after(rows: Corrected, asks: str, searched: str) -> np.ndarray:
    """Each query's nearest document after a correction."""
    return nearest_of(rows.queries(asks), rows.documents(searched), rows.metric)[0]


def neighbours_kept(
    rows: Corrected,
    before: AsTheyAre,
    asking: Sequence[str],
    after: Callable[[str, str], np.ndarray] | None = None,
) -> Sample:
    """Whether each query's nearest row of another modality is that of the rows as they are.

    Both are ranked by the metric the correction is meant for, so that only the maps count; rows
    as they are, at unit length where the correction brings them there. ``after`` has the nearest
    after the correction, where someone knows it already.
    """
    after = after or partial(nearest_after, rows)
    data, correction = rows.data, rows.correction
    assert correction is not None
    kept, groups = [], []
    for asks, searched in directions(data.names, asking).values():
        same = after(asks, searched) == before.nearest(asks, searched, correction)
        kept.append(same.astype(float))
        groups.append(data.query_groups(asks))
    return Sample(np.concatenate(kept), np.concatenate(groups))


def _gap(corrected: Corrected) -> GapSample:
    rows = [to_numpy(corrected.documents(name)) for name in corrected.data.names]
    if corrected.correction is not None and corrected.correction.hubs is not None:
        rows = [part[:, :-1] for part in rows]  # a column of hubs is no place in the space
    squares = np.concatenate([row_norms(part) for part in rows]).astype(np.float64) ** 2
    length = float(np.mean(squares)) ** 0.5 or 1.0
    return GapSample(tuple(part / length for part in rows), corrected.data.groups)


def _own_excess_of_neighbours(rows: Corrected, asking: Sequence[str]) -> Sample:
    """Every row asks the index of all other rows; without matches every result counts as wrong."""
    data, n = rows.data, len(rows.data.names)
    (index,) = drawn_indexes(rows, (1 / n,) * n, 1, 0)
    own, groups, results = [], [], []
    for place, name in enumerate(data.names):
        if name not in asking:
            continue
        found = index.find(data, rows.queries(name), place, PLACES)
        count = (found.kind >= 0).sum(axis=1)
        own.append((found.kind == place).sum(axis=1) - count * index.shares[place])
        groups.append(data.query_groups(name))
        results.append(count.astype(float))
    return Sample(*(np.concatenate(part) for part in (own, groups, results)))


def whole(sample: Sample | GapSample) -> float:
    """A metric over all groups; of gaps the largest."""
    if isinstance(sample, GapSample):
        means = [rows.mean(axis=0, dtype=np.float64) for rows in sample.rows]
        return max(float(np.linalg.norm(a - b)) for a, b in combinations(means, 2))
    weight = len(sample.values) if sample.weights is None else float(np.sum(sample.weights))
    return float(np.sum(sample.values)) / weight if weight else float("nan")


def resample(bootstrap: GroupBootstrap, sample: Sample | GapSample) -> tuple[float, np.ndarray]:
    """A metric over all groups, and over each resample; those of a gap in two ways, (2, resamples).

    Chance lengthens a distance between means: its square by V, on average, in the groups at hand,
    and by V once more in a resample of them. With V taken off once, resamples spread around the gap
    of these groups, as it was measured; with V taken off twice, around that of all groups there
    could be.
    """
    stop_here()
    if isinstance(sample, Sample):
        return bootstrap.ratios(sample.values, sample.groups, sample.weights)
    means = [_Means(bootstrap, *side) for side in zip(sample.rows, sample.groups, strict=True)]
    gaps = []
    for first, second in combinations(means, 2):
        gap, draws = first.whole - second.whole, first.drawn_less(second)
        added = float(np.mean(np.sum((draws - gap) ** 2, axis=1)))
        squares = np.sum(draws**2, axis=1) - np.outer((1, 2), [added])
        gaps.append(np.sqrt(np.maximum(squares, 0.0)))
    return whole(sample), np.max(gaps, axis=0)


class _Means:
    """The mean of rows, and that of each resample of their groups."""

    def __init__(self, bootstrap: GroupBootstrap, rows: np.ndarray, groups: np.ndarray) -> None:
        self.bootstrap, labels = bootstrap, bootstrap.labels
        place = np.searchsorted(labels, groups)
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        self.sums = np.zeros((len(labels), rows.shape[1]))
        self.sums[place[order[starts]]] = np.add.reduceat(rows[order], starts, axis=0, dtype=float)
        self.sizes = np.bincount(place, minlength=len(labels))
        self.whole = self.sums.sum(axis=0) / len(rows)

    def drawn_less(self, other: _Means) -> np.ndarray:
        """This mean less another in each resample."""
        if np.array_equal(self.sizes, other.sizes):  # one product serves both
            return self._drawn(self.sums - other.sums)
        return self._drawn(self.sums) - other._drawn(other.sums)

    def _drawn(self, sums: np.ndarray) -> np.ndarray:
        counts = self.bootstrap.counts
        drawn = np.maximum(counts @ self.sizes, 1)
        return np.asarray((counts @ sums) / drawn[:, None])
