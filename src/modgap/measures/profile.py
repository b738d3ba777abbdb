"""``profile``: the distributions behind the numbers of ``measure``, ready to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from modgap.arrays import (
    cosine_extremes,
    cosine_histogram,
    histogram,
    paired_cosine_histogram,
    shared_range,
    to_numpy,
    unit,
)
from modgap.core.checks import Array, check_count, check_same_space
from modgap.core.results import NOT_IN_JSON, HasFigure, Result, by_side
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.conformity import conformity_of_unit
from modgap.measures.ellipsoid import centred_radii
from modgap.moments import Moments, PairMoments

# Cosines of all pairs of so many rows of each side are millions: enough for any curve.
MAX_ROWS = 2_000
TYPICAL = 8
_BINS = 80


@dataclass(frozen=True, eq=False)
class CosineHistograms(Result):
    """Counts of cosines over shared bins: within each modality, of matches and of non-matches.

    ``matching`` is None where no matches are known; ``others`` are then all pairs across. Of more
    than two modalities, both count the pairs of every two.
    """

    edges: np.ndarray
    within: tuple[np.ndarray, ...]
    matching: np.ndarray | None
    others: np.ndarray
    n: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; of two modalities ``within_x`` and ``within_y``."""
        found = super().to_dict()
        edges, within = found.pop("edges"), found.pop("within")
        return {"edges": edges, **by_side(within, "within"), **found}


@dataclass(frozen=True, eq=False)
class FeatureProfile(Result):
    """One number per feature, from the moments of every row, for each modality.

    ``separability`` is that of two modalities; of more it is None.
    """

    separability: np.ndarray | None
    variance: tuple[np.ndarray, ...]
    offset: tuple[np.ndarray, ...]
    dominance: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class SideBySide(Result):
    """Counts over shared bins of a number that each row of any modality has."""

    edges: np.ndarray
    sides: tuple[np.ndarray, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; the counts of two modalities under x and y."""
        found = super().to_dict()
        return {"edges": found["edges"], **by_side(found["sides"])}


@dataclass(frozen=True, eq=False)
class Typical(Result):
    """The rows of highest and of lowest conformity in one modality, most extreme first."""

    most: np.ndarray
    most_values: np.ndarray
    least: np.ndarray
    least_values: np.ndarray


@dataclass(frozen=True, eq=False)
class Profile(HasFigure, Result):
    """Distributions of the modalities. What too few rows cannot tell is None.

    ``moments`` are those of every row, by name.
    """

    names: tuple[str, ...]
    features: FeatureProfile
    cosines: CosineHistograms | None
    radii: SideBySide | None
    conformity: SideBySide | None
    typical: tuple[Typical, ...] | None
    moments: Mapping[str, Moments] = field(metadata=NOT_IN_JSON)

    def _brief(self) -> str:
        rows = ", ".join(f"{name} {found.n:,} rows" for name, found in self.moments.items())
        return f"{rows}, {next(iter(self.moments.values())).dim} columns"


def profile(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
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
    moments = data.side_moments()
    means = {name: side.given.mean[None, :] for name, side in moments.items()}
    for name in data.names[1:]:
        check_same_space(means[data.names[0]], means[name], (data.names[0], name))
    sides = tuple(moments.values())
    features = FeatureProfile(
        separability=to_numpy(PairMoments(*sides).separability()) if len(sides) == 2 else None,
        variance=tuple(to_numpy(side.given.variance) for side in sides),
        offset=tuple(to_numpy(side.feature_offset()) for side in sides),
        dominance=tuple(to_numpy(side.off_diagonal_dominance()) for side in sides),
    )
    if not all(m.n >= 2 and np.any(to_numpy(m.given.variance) > 0) for m in moments.values()):
        return Profile(data.names, features, None, None, None, None, moments)
    radii, conformity = _radii_and_conformity(data, moments)
    return Profile(
        names=data.names,
        features=features,
        cosines=_cosines(data, sample, seed),
        radii=_side_by_side(radii),
        conformity=_side_by_side(conformity),
        typical=tuple(_typical(one, typical) for one in conformity),
        moments=moments,
    )


def _cosines(data: Modalities, sample: int, seed: int) -> CosineHistograms:
    rng = np.random.default_rng(seed)
    sides = tuple(data.sides.values())

    def some(n: int) -> np.ndarray:
        return np.sort(rng.choice(n, min(n, sample), replace=False))

    rows: list[Array] = []
    if data.paired:
        matches = data.matches()
        chosen = some(len(matches[0]))
        rows = [unit(s.take(ix[chosen])) for s, ix in zip(sides, matches, strict=True)]
    paired = bool(rows) and len(rows[0]) >= 2
    if not paired:
        rows = [unit(side.take(some(side.n_rows))) for side in sides]
    every_two = list(combinations(rows, 2))
    others = np.sum([cosine_histogram(U, V) for U, V in every_two], axis=0)
    counts = [*(cosine_extremes(U)[2] for U in rows), others]
    if paired:
        matching = np.sum([paired_cosine_histogram(U, V) for U, V in every_two], axis=0)
        counts = [*counts[:-1], np.maximum(others - matching, 0), matching]
    edges, coarse = _coarser(counts)
    k = len(rows)
    return CosineHistograms(
        edges=edges,
        within=tuple(coarse[:k]),
        others=coarse[k],
        matching=coarse[k + 1] if paired else None,
        n=tuple(len(U) for U in rows),
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


def _radii_and_conformity(
    data: Modalities, moments: Mapping[str, Moments]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Both of every row of each modality, in one pass over the batches."""
    radii: list[np.ndarray] = []
    conformity: list[np.ndarray] = []
    for name, side in data.sides.items():
        mean, everyone = moments[name].given.mean, moments[name].unit_rows()
        found = [
            (
                to_numpy(centred_radii(batch, mean)),
                to_numpy(conformity_of_unit(unit(batch), everyone)),
            )
            for batch in side.batches()
        ]
        for every, parts in zip((radii, conformity), zip(*found, strict=True), strict=True):
            every.append(np.concatenate(parts))
    return radii, conformity


def _side_by_side(values: Sequence[np.ndarray]) -> SideBySide:
    columns = [one[:, None] for one in values]
    low, high = shared_range(*columns)
    counts = tuple(histogram(column, _BINS, low, high)[0] for column in columns)
    return SideBySide(np.linspace(float(low[0]), float(high[0]), _BINS + 1), counts)


def _typical(values: np.ndarray, count: int) -> Typical:
    order = np.argsort(values, kind="stable")
    # A row is never shown as typical and as unusual at once.
    count = min(count, len(values) // 2)
    most, least = order[::-1][:count], order[:count]
    return Typical(most, values[most], least, values[least])
