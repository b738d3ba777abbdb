"""What chance does to means, spread and covariance of a stream, and how unlikely a change is.

A change D of a vector of means, whose error has covariance V, has ‖D‖² of mean tr V and variance
2 tr V² by chance; it is compared by F = ‖D‖² / tr V with ν = (tr V)² / tr V² degrees of freedom
(Box 1954), and those of the estimate of tr V below. V comes from the blocks of a stream, or from
its covariance where rows are taken as independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import stats

from modgap.arrays import to_numpy
from modgap.drift.blocked_moments import LEAST_BLOCKS, BlockedMoments, probe_directions

# Beyond this many standard deviations a probability is 0 in float64.
MOST_Z = 37.0
# Times the median beyond which the difference of two neighbouring blocks is a step.
_FAR_OUT = 20.0


@dataclass(frozen=True)
class Error:
    """The error of a vector that was estimated: tr V, tr V² and the degrees of freedom of tr V."""

    trace: float
    square: float
    freedom: float

    def __add__(self, other: Error) -> Error:
        trace = self.trace + other.trace
        # tr V₁V₂ is at most the geometric mean of the two squares.
        square = (self.square**0.5 + other.square**0.5) ** 2
        parts = self.trace**2 / self.freedom + other.trace**2 / other.freedom
        return Error(trace, square, trace**2 / parts if parts > 0 else np.inf)

    def z(self, squared_change: float) -> float:
        """How unlikely by chance a change of this squared length is, as a normal deviate."""
        if self.trace <= 0:
            return MOST_Z if squared_change > 0 else 0.0
        freedom = max(self.trace**2 / self.square, 1.0)
        log_p = stats.f.logsf(squared_change / self.trace, freedom, min(self.freedom, 1e9))
        return deviate(float(log_p))


def deviate(log_p: float) -> float:
    """The normal deviate that is exceeded with this probability.

    >>> round(deviate(np.log(0.025)), 2), deviate(-np.inf), round(deviate(np.log(0.9)), 2)
    (1.96, 37.0, -1.28)
    """
    if log_p > -700.0:
        return float(np.clip(stats.norm.isf(np.exp(log_p)), -MOST_Z, MOST_Z))
    return MOST_Z


class Estimate:
    """Mean, spread and shape of a stream with their errors.

    The spread is tr Σ, the mean squared distance to the mean; the shape is the variance along each
    probe, as a share of the spread. ``clustering`` is how many times as uncertain the mean is as
    that of independent rows: at least 1, and what is given where there are no blocks.
    """

    def __init__(self, sample: BlockedMoments, clustering: float = 1.0) -> None:
        self.sample, self._given_clustering = sample, clustering
        self.n, self.mean = sample.n, to_numpy(sample.moments.mean)
        self.covariance = to_numpy(sample.moments.covariance)
        self.trace = float(np.trace(self.covariance))
        self.square = float(np.sum(self.covariance**2))
        blocks = None if sample.blocks is None else sample.blocks.evened()
        self._blocks = blocks if blocks is not None and len(blocks.counts) >= LEAST_BLOCKS else None

    @property
    def knows_clustering(self) -> bool:
        """Whether there are blocks enough to tell."""
        return self._blocks is not None

    @cached_property
    def clustering(self) -> float:
        """Variance of the mean over that of independent rows."""
        if self._blocks is None:
            return self._given_clustering
        independent = self.trace / self.n
        found = self._between(self._residuals[:, : len(self.mean)]).trace
        return max(1.0, found / independent) if independent > 0 else 1.0

    @cached_property
    def spread(self) -> float:
        """tr Σ, without what the mean of so many rows has taken of it."""
        return self.trace * (1 + min(self.clustering / self.n, 1.0))

    @cached_property
    def shape(self) -> np.ndarray:
        """Variance along each probe as a share of the spread."""
        probes = probe_directions(len(self.mean))
        along = np.einsum("pd,de,pe->p", probes, self.covariance, probes, optimize=True)
        return along / self.trace if self.trace > 0 else along

    @cached_property
    def mean_error(self) -> Error:
        """Error of the mean."""
        V = self.clustering / self.n
        by_rows = Error(self.trace * V, self.square * V**2, self._freedom(self.trace, self.square))
        if self._blocks is None:
            return by_rows
        return _larger(self._between(self._residuals[:, : len(self.mean)]), by_rows)

    @cached_property
    def spread_error(self) -> tuple[float, float]:
        """Variance of the logarithm of the spread, and its degrees of freedom."""
        if self.trace <= 0:
            return 0.0, np.inf
        if self.sample.rows == "unit":
            # On unit rows ‖x − m‖² is linear in x · m.
            single = 4 * float(self.mean @ self.covariance @ self.mean)
        else:
            single = 2 * self.square  # that of a normal distribution
        by_rows = self.clustering * single / self.n / self.trace**2
        if self._blocks is None:
            return by_rows, max(self.n / self.clustering - 1, 1.0)
        between = self._between(self._residuals[:, [len(self.mean)]] / self.trace)
        return max(between.trace, by_rows if self.sample.rows == "unit" else 0.0), between.freedom

    @cached_property
    def shape_error(self) -> Error:
        """Error of the shape."""
        if self.trace <= 0:
            return Error(0.0, 0.0, np.inf)
        probes = probe_directions(len(self.mean))
        along = (probes @ self.covariance @ probes.T) / self.trace
        V = 2 * along**2 * (self.clustering / self.n)  # that of a normal distribution
        trace, square = float(np.trace(V)), float(np.sum(V**2))
        by_rows = Error(trace, square, self._freedom(trace, square))
        if self._blocks is None:
            return by_rows
        d = len(self.mean)
        own, spread = self._residuals[:, d + 1 :], self._residuals[:, [d]]
        return _larger(self._between((own - self.shape * spread) / self.trace), by_rows)

    def error_along(self, direction: np.ndarray) -> float:
        """Variance of the product of the mean with a direction."""
        by_rows = float(direction @ self.covariance @ direction) * self.clustering / self.n
        if self._blocks is None:
            return by_rows
        along = self._residuals[:, : len(self.mean)] @ direction
        return max(self._between(along[:, None]).trace, by_rows)

    def _freedom(self, trace: float, square: float) -> float:
        rows = max(self.n / self.clustering - 1, 1.0)
        return rows * (trace**2 / square if square > 0 else 1.0)

    @cached_property
    def _residuals(self) -> np.ndarray:
        """What each block's mean, spread and probes are off by; the mean of all is 0.

        Squares are taken about the mean of all rows, to first order.
        """
        assert self._blocks is not None
        d = len(self.mean)
        found = self._blocks.sums / self._blocks.counts[:, None]
        mean = (self._blocks.counts @ found[:, :d]) / self._blocks.counts.sum()
        probes = probe_directions(d)
        found[:, d] -= 2 * found[:, :d] @ mean
        found[:, d + 1 :] -= 2 * (found[:, :d] @ probes.T) * (probes @ mean)
        weights = self._blocks.counts / self._blocks.counts.sum()
        return np.asarray(found - weights @ found)

    def _between(self, residuals: np.ndarray) -> Error:
        """The error of a mean from the residuals of its blocks.

        Sessions that reach over the end of a block make neighbours alike, and the error seem too
        small by a share that falls as 1 over the length of a block. So blocks twice and four times
        as long are looked at too, and what they say of still longer ones; the largest counts.
        """
        assert self._blocks is not None
        counts, summed = self._blocks.counts, residuals * self._blocks.counts[:, None]
        found: list[Error] = []
        while len(counts) >= LEAST_BLOCKS and len(found) < 3:
            found.append(_error_of_pairs(counts, summed))
            starts = np.arange(0, len(counts) - len(counts) % 2, 2)  # an odd one joins the last
            counts = np.add.reduceat(counts, starts)
            summed = np.add.reduceat(summed, starts, axis=0)
        traces = [error.trace for error in found]
        longer = [2 * second - first for first, second in pairwise(traces)]
        trace = max(*traces, *longer, 0.0)
        share = max(one.square / one.trace**2 if one.trace > 0 else 1.0 for one in found[:2])
        freedom = min(one.freedom for one in found[:2])
        return Error(trace, share * trace**2, freedom)


def _error_of_pairs(counts: np.ndarray, summed: np.ndarray) -> Error:
    """The error of a mean from the differences of neighbouring blocks, each block in one pair.

    Differences, because a step within the window is a change to be found and no clustering: it
    falls into one pair, and a pair that is far out is left aside.
    """
    n = 2 * (len(counts) // 2)
    means = summed[:n] / counts[:n, None]
    apart = (means[1::2] - means[0:-1:2]) / np.sqrt(1 / counts[1:n:2] + 1 / counts[0:n:2])[:, None]
    sizes = np.sum(apart**2, axis=1)
    usual = sizes <= _FAR_OUT * np.median(sizes)
    if np.sum(~usual) == 1:
        apart = apart[usual]
    k = len(apart)
    gram = (apart @ apart.T) / (k * counts.sum())
    trace, raw = float(np.trace(gram)), float(np.sum(gram**2))
    # Unbiased for tr V² where the blocks' means are normal (Bai and Saranadasa 1996).
    square = k**2 / ((k + 2) * (k - 1)) * (raw - trace**2 / k)
    square = min(max(square, trace**2 / summed.shape[1]), trace**2)
    return Error(trace, square, k * (trace**2 / square if square > 0 else 1.0))


def _larger(between: Error, by_rows: Error) -> Error:
    """The more cautious of what blocks and rows say."""
    if between.trace <= 0 or by_rows.trace <= 0:
        return by_rows
    trace = max(between.trace, by_rows.trace)
    own = between.square / between.trace**2
    share = max(own, by_rows.square / by_rows.trace**2)
    return Error(trace, share * trace**2, between.freedom * own / share)


def z_of_log_ratio(change: float, first: tuple[float, float], second: tuple[float, float]) -> float:
    """How unlikely by chance a logarithm of a ratio is, as a normal deviate (Welch)."""
    variance = first[0] + second[0]
    if variance <= 0:
        return MOST_Z if change else 0.0
    freedom = variance**2 / (first[0] ** 2 / first[1] + second[0] ** 2 / second[1])
    log_p = stats.t.logsf(abs(change) / variance**0.5, freedom) + np.log(2)
    return deviate(float(log_p))
