"""``profile``: the distributions behind the numbers of ``measure``, ready to be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import (
    cosine_extremes,
    cosine_histogram,
    histogram,
    paired_cosine_histogram,
    shared_range,
    to_numpy,
    unit,
)
from modgap._results import Result
from modgap._validate import Array, check_count, check_same_space
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.conformity import conformity_among
from modgap.measures.ellipsoid import centred_radii
from modgap.moments import Moments, PairMoments

# Cosines of all pairs of so many rows of each side are millions: enough for any curve.
MAX_ROWS = 2_000
TYPICAL = 8
_BINS = 80


@dataclass(frozen=True, eq=False)
class CosineHistograms(Result):
    """Counts of cosines over shared bins: within each modality, of matches and of non-matches.

    ``matching`` is None where no matches are known; ``others`` are then all pairs across.
    """

    edges: np.ndarray
    within_x: np.ndarray
    within_y: np.ndarray
    matching: np.ndarray | None
    others: np.ndarray
    n: tuple[int, int]


@dataclass(frozen=True, eq=False)
class FeatureProfile(Result):
    """One number per feature, from the moments of every row; x and y stand side by side."""

    separability: np.ndarray
    variance: tuple[np.ndarray, np.ndarray]
    offset: tuple[np.ndarray, np.ndarray]
    dominance: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class SideBySide(Result):
    """Counts over shared bins of a number that each row of either modality has."""

    edges: np.ndarray
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Typical(Result):
    """The rows of highest and of lowest conformity in one modality, most extreme first."""

    most: np.ndarray
    most_values: np.ndarray
    least: np.ndarray
    least_values: np.ndarray


@dataclass(frozen=True, eq=False)
class Profile(Result):
    """Distributions of both modalities. What too few rows cannot tell is None."""

    names: tuple[str, ...]
    features: FeatureProfile
    cosines: CosineHistograms | None
    radii: SideBySide | None
    conformity: SideBySide | None
    typical: tuple[Typical, Typical] | None
    moments: PairMoments

    def to_dict(self) -> dict[str, Any]:
        """Everything but the moments, which have a file format of their own."""
        found = super().to_dict()
        del found["moments"]
        return found


def profile(
    X: Array | Embeddings | Modalities,
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    sample: int = MAX_ROWS,
    typical: int = TYPICAL,
    seed: int = 0,
) -> Profile:
    """Distributions that single numbers hide: cosines, features, radii and conformity.

    Features, radii and conformity use every row, in batches; the cosines of all pairs a seeded
    sample.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    sample : int
        At most this many rows of each side for the cosines.
    typical : int
        How many rows of highest and of lowest conformity to name.
    seed : int
        Seed of the sample.
    """
    check_count(sample, "sample", at_least=2)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    x, y = data.two()
    moments = data.moments()
    check_same_space(moments.x.given.mean[None, :], moments.y.given.mean[None, :], data.names)
    several = all(_varies(side) for side in (moments.x, moments.y))
    values = _conformities(x, y, moments) if several else None
    return Profile(
        names=data.names,
        features=_features(moments),
        cosines=_cosines(data, sample, seed) if several else None,
        radii=_radii(x, y, moments) if several else None,
        conformity=_side_by_side(*values) if values else None,
        typical=(_typical(values[0], typical), _typical(values[1], typical)) if values else None,
        moments=moments,
    )


def _varies(side: Moments) -> bool:
    return side.n >= 2 and bool(np.any(to_numpy(side.given.variance) > 0))


def _features(moments: PairMoments) -> FeatureProfile:
    sides = (moments.x, moments.y)

    def both(values: Iterator[Array]) -> tuple[np.ndarray, np.ndarray]:
        first, second = (to_numpy(one) for one in values)
        return first, second

    return FeatureProfile(
        separability=to_numpy(moments.separability()),
        variance=both(s.given.variance for s in sides),
        offset=both(s.feature_offset() for s in sides),
        dominance=both(s.off_diagonal_dominance() for s in sides),
    )


def _cosines(data: Modalities, sample: int, seed: int) -> CosineHistograms:
    x, y = data.two()
    rng = np.random.default_rng(seed)

    def some(n: int) -> np.ndarray:
        return np.sort(rng.choice(n, min(n, sample), replace=False))

    matching = None
    if data.paired:
        ix, iy = data.matches()
        chosen = some(len(ix))
        U, V = unit(x.take(ix[chosen])), unit(y.take(iy[chosen]))
        if len(chosen):
            matching = paired_cosine_histogram(U, V)
    if matching is None or len(U) < 2:
        U, V = unit(x.take(some(x.n_rows))), unit(y.take(some(y.n_rows)))
        matching = None
    across = cosine_histogram(U, V)
    counts = [cosine_extremes(U)[2], cosine_extremes(V)[2], across]
    if matching is not None:
        counts = [*counts[:2], np.maximum(across - matching, 0), matching]
    edges, coarse = _coarser(counts)
    return CosineHistograms(
        edges=edges,
        within_x=coarse[0],
        within_y=coarse[1],
        others=coarse[2],
        matching=coarse[3] if matching is not None else None,
        n=(len(U), len(V)),
    )


def _coarser(counts: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Fine histograms over [-1, 1] as about ``_BINS`` bins over what is not empty."""
    fine = len(counts[0])
    filled = np.flatnonzero(np.sum(counts, axis=0))
    first, last = int(filled[0]), int(filled[-1]) + 1
    width = -(-(last - first) // _BINS)
    starts = np.arange(first, last, width)
    edges = np.append(starts, starts[-1] + width) * 2.0 / fine - 1.0
    return np.minimum(edges, 1.0), [np.add.reduceat(c[:last], starts) for c in counts]


def _radii(x: Embeddings, y: Embeddings, moments: PairMoments) -> SideBySide:
    sides = ((x, moments.x.given.mean), (y, moments.y.given.mean))
    radii = [
        np.concatenate([to_numpy(centred_radii(batch, mean)) for batch in side.batches()])
        for side, mean in sides
    ]
    return _side_by_side(*radii)


def _conformities(
    x: Embeddings, y: Embeddings, moments: PairMoments
) -> tuple[np.ndarray, np.ndarray]:
    first, second = (
        np.concatenate([to_numpy(conformity_among(b, part.unit_rows())) for b in side.batches()])
        for side, part in ((x, moments.x), (y, moments.y))
    )
    return first, second


def _side_by_side(x: np.ndarray, y: np.ndarray) -> SideBySide:
    columns = x[:, None], y[:, None]
    low, high = shared_range(*columns)
    counts = [histogram(column, _BINS, low, high)[0] for column in columns]
    return SideBySide(np.linspace(float(low[0]), float(high[0]), _BINS + 1), *counts)


def _typical(values: np.ndarray, count: int) -> Typical:
    order = np.argsort(values, kind="stable")
    # A row is never shown as typical and as unusual at once.
    count = min(count, len(values) // 2)
    most, least = order[::-1][:count], order[:count]
    return Typical(most, values[most], least, values[least])
