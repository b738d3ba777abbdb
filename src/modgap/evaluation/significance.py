"""Before and after, with a paired test and an interval.

How it works:

1. Queries of one group, such as the captions of one image, are not independent. So whole groups
   are resampled, and a resample is a count for each group.
2. A metric is a ratio of two sums over groups. The sums of all resamples are one product of the
   counts with the groups' sums, and nothing is searched again.
3. Before and after use the same counts, so their difference is paired.
4. The interval is between quantiles of the resamples. The p-value is how rarely the difference has
   the other sign; for ungrouped hits it is McNemar's exact test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap.core.checks import InputValueError, check_choice, check_count, check_finite
from modgap.core.results import Result

DEFAULT_RESAMPLES = 1_000


@dataclass(frozen=True)
class Interval(Result):
    """A number with the bounds of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison(Result):
    """A number before and after, the difference with its interval, and a test's p-value."""

    before: Interval
    after: Interval
    difference: Interval
    p_value: float
    test: str
    n_groups: int
    level: float

    def _brief(self) -> str:
        change = self.difference
        return (
            f"{self.before.value:.3f} → {self.after.value:.3f}, difference {change.value:+.3f} "
            f"[{change.low:+.3f}, {change.high:+.3f}], p = {self.p_value:.3g}, "
            f"{self.n_groups:,} groups"
        )


class GroupBootstrap:
    """Resamples of groups, drawn once, so that every metric of a run is compared on the same ones.

    A metric is a ratio of sums over groups: a mean, a recall, a share.
    """

    def __init__(
        self, groups: Any, resamples: int = DEFAULT_RESAMPLES, seed: int = 0, level: float = 0.95
    ) -> None:
        self.labels = np.unique(groups)
        self.level = level
        check_count(resamples, "resamples", at_least=100)
        if not 0 < check_finite(level, "level") < 1:
            raise InputValueError(f"level must be between 0 and 1, got {level}.")
        rng = np.random.default_rng(seed)
        n = len(self.labels)
        # How often each group is drawn: resamples with replacement, as counts.
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
        self.counts = drawn.astype(np.float64)  # for products

    def sums(self, values: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Sum of the values of each group."""
        place = np.searchsorted(self.labels, groups)
        return np.bincount(place, weights=values, minlength=len(self.labels))

    def ratios(
        self, values: np.ndarray, groups: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Σ values / Σ weights over all groups, and over each resample; weights default to 1."""
        weights = np.ones(len(values)) if weights is None else weights
        top, bottom = self.sums(values, groups), self.sums(weights, groups)
        whole = float(top.sum() / bottom.sum()) if bottom.sum() > 0 else float("nan")
        resampled = self.counts @ bottom
        safe = np.where(resampled > 0, resampled, 1.0)
        return whole, np.where(resampled > 0, (self.counts @ top) / safe, np.nan)

    def interval(self, value: float, resampled: np.ndarray, level: float | None = None) -> Interval:
        """Percentile interval of a metric from its resamples, widened to hold the value itself.

        Where resamples are given in several ways, (ways, resamples), it spans the intervals of all:
        a gap's holds both the gap as measured on these groups and that of all groups there could
        be. ``level`` is that of all intervals unless another is given.
        """
        tail = (1 - (self.level if level is None else level)) / 2
        known = (way[np.isfinite(way)] for way in np.atleast_2d(resampled))
        ends = [np.quantile(way, [tail, 1 - tail]) for way in known if len(way)]
        if not ends:
            return Interval(value, float("nan"), float("nan"))
        low, high = np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]
        return Interval(value, min(float(low), value), max(float(high), value))


def compare(
    before: Any,
    after: Any,
    groups: Any = None,
    test: Literal["bootstrap", "mcnemar"] | None = None,
    *,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Comparison:
    """Compare the outcomes of the same queries before and after a change.

    Parameters
    ----------
    before, after : (n,) sequences
        One number per query, 0 or 1 for hits.
    groups : (n,) labels, optional
        Whole groups of queries are resampled; without them, each query by itself.
    test : {"bootstrap", "mcnemar"}, optional
        McNemar's exact test for hits of ungrouped queries, else the bootstrap's.
    resamples : int
        How many, at least 100.
    seed : int
        Seed of the resamples.
    level : float
        Level of the intervals.

    >>> result = compare([0, 0, 0, 1] * 30, [1, 0, 0, 1] * 30)
    >>> round(result.difference.value, 2), result.difference.low > 0, result.test
    (0.25, True, 'mcnemar')
    """
    first, second = (np.asarray(v, dtype=np.float64) for v in (before, after))
    if first.ndim != 1 or first.shape != second.shape or len(first) == 0:
        raise InputValueError(
            f"before and after must hold one number for each of the same queries, "
            f"got shapes {first.shape} and {second.shape}."
        )
    if not (np.all(np.isfinite(first)) and np.all(np.isfinite(second))):
        raise InputValueError("before and after must be finite; drop queries without a result.")
    labels = np.arange(len(first)) if groups is None else np.asarray(groups)
    if labels.shape != first.shape:
        raise InputValueError(
            f"groups must give one label per query: {len(first)} queries, got {labels.shape}."
        )
    hits = bool(np.all(np.isin(first, (0, 1))) and np.all(np.isin(second, (0, 1))))
    if test is None:
        test = "mcnemar" if hits and groups is None else "bootstrap"
    check_choice(test, "test", ("bootstrap", "mcnemar"))
    if test == "mcnemar" and not hits:
        raise InputValueError("McNemar's test is for hits: every number must be 0 or 1.")
    bootstrap = GroupBootstrap(labels, resamples, seed, level)
    a, a_resampled = bootstrap.ratios(first, labels)
    b, b_resampled = bootstrap.ratios(second, labels)
    changes = b_resampled - a_resampled
    return Comparison(
        before=bootstrap.interval(a, a_resampled),
        after=bootstrap.interval(b, b_resampled),
        difference=bootstrap.interval(b - a, changes),
        p_value=_mcnemar(first, second) if test == "mcnemar" else bootstrap_p_value(changes),
        test=test,
        n_groups=len(bootstrap.labels),
        level=level,
    )


def beyond_max_t(gains: Sequence[tuple[float, np.ndarray]], level: float = 0.95) -> list[bool]:
    """Which of several gains, each with its resamples, are beyond what the largest is by chance.

    The statistic of each gain is its value over its standard error; the bar is the quantile of the
    largest of all of them over the resamples, each counted from its own value. So the chance of
    passing any gain that is none is at most 1 − level, however many are tried.

    >>> rng = np.random.default_rng(0)
    >>> beyond_max_t([(0.5, rng.normal(0.5, 0.1, 1000)), (0.1, rng.normal(0.1, 0.1, 1000))])
    [True, False]
    """
    if not gains:
        return []
    values = np.array([value for value, _ in gains])
    draws = np.array([resampled for _, resampled in gains])
    errors = np.std(draws, axis=1)
    safe = np.where(errors > 0, errors, 1.0)  # a gain that never varies is certain
    largest = np.max((draws - values[:, None]) / safe[:, None], axis=0)
    bar = float(np.quantile(largest, level))
    return [bool(v > 0 and (e == 0 or v / e > bar)) for v, e in zip(values, errors, strict=True)]


def bootstrap_p_value(changes: np.ndarray) -> float:
    """Two-sided: how rarely the resampled change has the other sign; never exactly 0."""
    n = len(changes)
    tail = min(np.sum(changes <= 0), np.sum(changes >= 0))
    return float(min(1.0, 2 * (tail + 1) / (n + 1)))


def _mcnemar(before: np.ndarray, after: np.ndarray) -> float:
    """Exact: of the queries that changed, half should have improved by chance."""
    from scipy.stats import binomtest

    better, worse = int(np.sum(after > before)), int(np.sum(after < before))
    return 1.0 if better + worse == 0 else float(binomtest(better, better + worse).pvalue)


def chi_squared(before: float, after: float, n: int) -> float:
    """p-value that two accuracies over n items each are equal, as in Liang et al., table 5.

    Their test takes the two runs for independent samples and has no continuity correction. For
    runs over the same items ``compare`` is sharper.

    >>> f"{chi_squared(0.5494, 0.5686, 27_000):.3e}"
    '7.020e-06'
    """
    from scipy.stats import chi2_contingency

    check_count(n, "n")
    for name, share in (("before", before), ("after", after)):
        if not 0 <= check_finite(share, name) <= 1:
            raise InputValueError(f"{name} must be a share between 0 and 1, got {share}.")
    if before == after:
        return 1.0
    table = [[share * n, n - share * n] for share in (before, after)]
    return float(chi2_contingency(table, correction=False).pvalue)
