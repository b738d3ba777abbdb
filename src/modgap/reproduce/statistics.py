"""Statistics that checks of several papers use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from modgap.evaluation.significance import Interval
from modgap.measures.gap import gap_distance, linear_separability

Values = Sequence[float] | np.ndarray
LEVEL = 0.95
# Percentiles at the ends of an interval.
_TAILS = (50 * (1 - LEVEL), 100 - 50 * (1 - LEVEL))


def mean_interval(values: Values) -> Interval:
    """The mean, with the interval of Student's t; that of a single value is unbounded.

    >>> mean_interval([-0.02, -0.03, -0.04]).high < 0
    True
    """
    from scipy.stats import t  # slow to load, and seldom needed

    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Interval(mean, -np.inf, np.inf)
    half = float(t.ppf((1 + LEVEL) / 2, n - 1) * np.std(values, ddof=1) / n**0.5)
    return Interval(mean, mean - half, mean + half)


def around(value: float, drawn: np.ndarray) -> Interval:
    """The value with the interval of 95 % that the draws give it.

    As far below the value as the draws lie above it, so that their bias is taken off and not added
    once more.
    """
    low, high = np.percentile(drawn, _TAILS)
    return Interval(float(value), float(2 * value - high), float(2 * value - low))


def between(value: float, drawn: np.ndarray) -> Interval:
    """The value with the percentiles of the draws: for places, ranks, and KL with its floor."""
    low, high = np.percentile(drawn, _TAILS)
    return Interval(float(value), min(value, float(low)), max(value, float(high)))


def rank_correlation_interval(
    x: Sequence[Values], y: Sequence[Values], draws: int = 2000, seed: int = 0
) -> Interval:
    """Spearman's over the means of some settings, with the spread of their repetitions.

    ``x[k]`` and ``y[k]`` are the repetitions of setting k, in one order. The settings are given, so
    that only their repetitions are drawn anew: each mean plus the mean of as many residuals, taken
    from those of all settings together.
    """
    from scipy.stats import rankdata

    pairs = [np.column_stack([a, b]) for a, b in zip(x, y, strict=True)]
    means = np.array([pair.mean(axis=0) for pair in pairs])
    # The residuals of n values are too small by the root of (n − 1)/n.
    residuals = np.concatenate(
        [(p - p.mean(axis=0)) * (len(p) / (len(p) - 1)) ** 0.5 for p in pairs if len(p) > 1]
    )
    rng = np.random.default_rng(seed)
    drawn = means[:, None] + [
        residuals[rng.integers(len(residuals), size=(draws, len(p)))].mean(axis=1) for p in pairs
    ]
    ranks = rankdata(drawn, axis=0)  # settings × draws × (x, y)
    ranks -= ranks.mean(axis=0)
    cross, (x_square, y_square) = (ranks[..., 0] * ranks[..., 1]).sum(0), (ranks**2).sum(0).T
    low, high = np.percentile(cross / np.sqrt(x_square * y_square), _TAILS)
    return Interval(rank_correlation(*means.T), float(low), float(high))


def rank_correlation(a: Values, b: Values) -> float:
    """Spearman's: 1 when b rises with a throughout."""
    from scipy.stats import spearmanr  # slow to load, and seldom needed

    return float(spearmanr(a, b).statistic)


def size_of(found: Interval) -> Interval:
    """How far a number is from nought, whatever its sign."""
    ends = sorted(map(abs, (found.low, found.high)))
    low = 0.0 if found.low <= 0 <= found.high else ends[0]
    return Interval(abs(found.value), low, ends[1])


def by_chance(n: int) -> float:
    """Four standard errors of a rank correlation of unrelated values: more is not chance."""
    return 4 / (n - 1) ** 0.5


def best_of_other_half(values: np.ndarray, seed: int) -> np.ndarray:
    """Of values (choices, items), each item's at the choice that is best on the other half.

    >>> best_of_other_half(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), seed=0)
    array([1., 1., 1.])
    """
    halves = np.array_split(np.random.default_rng(seed).permutation(values.shape[1]), 2)
    found = np.empty(values.shape[1])
    for chosen, tested in (halves, halves[::-1]):
        found[tested] = values[int(np.argmax(values[:, chosen].mean(axis=1))), tested]
    return found


def falls(values: Values) -> bool:
    """Whether each value is smaller than the one before it."""
    return all(after < before for before, after in pairwise(values))


def gap_beside_chance(
    X: np.ndarray, Y: np.ndarray, rng: np.random.Generator, seed: int = 0
) -> dict[str, float]:
    """How far apart and how separable two sides are, and where every row takes a side at random.

    Metrics are NaN where a number is not finite.
    """
    mixed = np.array_split(rng.permutation(np.concatenate([X, Y])), 2)
    found = {}
    for suffix, (A, B) in (("", (X, Y)), ("_by_chance", mixed)):
        finite = np.isfinite(A).all() and np.isfinite(B).all()
        separable = linear_separability(A, B, seed).all_features if finite else np.nan
        found[f"gap{suffix}"] = gap_distance(A, B) if finite else np.nan
        found[f"told_apart{suffix}"] = separable
    return found


def share_along(rows: np.ndarray, direction: np.ndarray) -> float:
    """Share of the variance of rows that lies along a direction."""
    centred = rows - rows.mean(axis=0)
    along = centred @ (direction / np.linalg.norm(direction))
    return float(along.var() / centred.var(axis=0).sum())
