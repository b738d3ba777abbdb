"""The gap between matching rows: what came after the four papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import namespace, to_numpy, unit, widen
from modgap.core.checks import Array, InputValueError
from modgap.core.door import check_groups, check_pairs, check_two
from modgap.core.results import Result
from modgap.moments.modality import moments_of_rows
from modgap.moments.pair import pair_moments_of


def pair_cosine(X: Array, Y: Array | None = None, *, groups: Any = None) -> float:
    """Mean cosine of matching rows, from −1 to 1 (Grassucci et al. 2026).

    Row i of X matches row i of Y; ``groups=(gx, gy)`` says otherwise.

    >>> import numpy as np
    >>> pair_cosine(np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]]))  # doctest: +ELLIPSIS
    0.7071...
    """
    return _pair_cosine(*_matching(X, Y, groups))


def relative_gap(X: Array, Y: Array | None = None, *, groups: Any = None) -> float:
    """How far matching rows are apart beside the rows of one modality (Schrodi et al. 2025).

    m/(m + (a + b)/2): m is the mean of (1 − cos)/2 over matching rows, a and b over the distinct
    rows of each modality. 0 where matching rows coincide; 1/2 where they are as far apart as two
    rows of one modality; near 1 where the modalities are two narrow cones.

    Row i of X matches row i of Y; ``groups=(gx, gy)`` says otherwise.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> relative_gap(X, X), relative_gap(X, -X)  # (1 − 0)/2 within, 0 and 1 between
    (0.0, 0.6666666666666666)
    """
    X, Y, codes = _matching(X, Y, groups, min_rows=2)
    between = (1.0 - _pair_cosine(X, Y, codes)) / 2
    within = sum((1.0 - _mean_cosine(rows)) / 2 for rows in (X, Y)) / 2
    if between + within == 0:
        raise InputValueError("All rows of X and Y point the same way: the gap is 0 beside 0.")
    return between / (between + within)


@dataclass(frozen=True)
class GapParts(Result):
    """Mean distance of matching rows, and its parts.

    ``raw`` is the mean distance of pairs at unit length, ``centroid`` the distance of the means,
    ``centred`` the mean distance of pairs once each modality's mean is subtracted.
    """

    raw: float
    centroid: float
    centred: float


def gap_parts(X: Array, Y: Array | None = None) -> GapParts:
    """Raw gap, centroid gap, and what centring leaves of the raw gap (after Liu et al. 2026).

    On unit rows; row i of X matches row i of Y. ``centred`` stays where only the means were moved:
    the two clouds have other shapes.

    >>> import numpy as np
    >>> gap_parts(np.array([[1.0, 0.0], [0.0, 1.0]]), -np.array([[0.0, 1.0], [1.0, 0.0]]))
    GapParts(raw=1.414, centroid=1.414, centred=0)
    """
    X, Y = check_pairs(X, Y, nonzero=True)
    apart = unit(widen(X)) - unit(widen(Y))
    xp = namespace(apart)
    gap = xp.mean(apart, axis=0)
    lengths = xp.linalg.vector_norm
    return GapParts(
        raw=float(xp.mean(lengths(apart, axis=1))),
        centroid=float(lengths(gap)),
        centred=float(xp.mean(lengths(apart - gap, axis=1))),
    )


Groups = tuple[np.ndarray, np.ndarray] | None


def _matching(X: Any, Y: Any, groups: Any, min_rows: int = 1) -> tuple[Array, Array, Groups]:
    """Checked rows, and the groups by which they match; None where they are pairs row by row."""
    if groups is None:
        return *check_pairs(X, Y, min_rows=min_rows, nonzero=True), None
    X, Y = check_two(X, Y, min_rows=min_rows, nonzero=True)
    return X, Y, check_groups(groups, X.shape[0], Y.shape[0])


def _pair_cosine(X: Array, Y: Array, groups: Groups) -> float:
    if groups is None:
        return pair_moments_of(X, Y, paired=True).mean_pair_cosine()
    return _matched_cosine(X, Y, groups)


def _mean_cosine(X: Array) -> float:
    """Over the distinct rows of one modality."""
    xp, n = namespace(X), X.shape[0]
    mean = moments_of_rows(X, detail="mean").unit_rows().mean
    return float((n * xp.sum(mean**2) - 1.0) / (n - 1))


def _matched_cosine(X: Array, Y: Array, groups: tuple[np.ndarray, np.ndarray]) -> float:
    """Over all rows of one group, from the sums of each group's unit rows."""
    shared = np.intersect1d(*groups)
    sums, counts = [], []
    for rows, own in zip((X, Y), groups, strict=True):
        kept = np.isin(own, shared)
        places = np.searchsorted(shared, own[kept])
        total = np.zeros((len(shared), rows.shape[1]))
        np.add.at(total, places, to_numpy(unit(widen(rows)))[kept])
        sums.append(total)
        counts.append(np.bincount(places, minlength=len(shared)))
    return float(np.sum(sums[0] * sums[1]) / np.sum(counts[0] * counts[1]))
