"""Each modality as a shifted, thin-shelled ellipsoid (Levi & Gilboa): per feature and as a whole.

Rows are used as given throughout; the statements are about rows before normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modgap.arrays import cached_blocks, histogram, like, namespace, shared_range, to_numpy, widen
from modgap.core.checks import Array, InputValueError, check_count
from modgap.core.door import check_rows, check_two
from modgap.core.results import Result
from modgap.moments import Moments, PairMoments, RowMoments
from modgap.moments.modality import moments_of_rows

# Added to every bin before a histogram is normalised, so that an empty bin has a logarithm.
BIN_FLOOR = 1e-10


def separability(X: Array, Y: Array | None = None) -> Array:
    """abs(mean_x − mean_y) / sqrt(var_x + var_y) of each feature (Levi & Gilboa, eq. 5).

    Above 1 a feature is a "tag" that nearly tells the modalities apart by itself. Infinite where
    neither side varies and the means differ.
    """
    return PairMoments.from_batch(X, Y, detail="variance", unit=False).separability()


def feature_offset(X: Array) -> Array:
    """abs(mean) / std of each feature (Levi & Gilboa, fig. 3): how far it sits off the origin."""
    return Moments.from_batch(X, detail="variance", unit=False).feature_offset()


def feature_divergence(X: Array, Y: Array | None = None, bins: int = 50) -> Array:
    """KL(x‖y) of each feature's two histograms over shared bins (Levi & Gilboa, sec. 4).

    1e-10 is added to each bin before normalising. The value depends on ``bins`` and on that floor:
    report both with the number.
    """
    X, Y = check_two(X, Y)
    return like(histogram_divergence(X, Y, check_count(bins, "bins")), X)


def histogram_divergence(X: Array, Y: Array, bins: int) -> np.ndarray:
    """KL(x‖y) of the histograms of each column, over bins that both sides share."""
    low, high = shared_range(X, Y)
    p, q = (histogram(A, bins, low, high) + BIN_FLOOR for A in (X, Y))
    p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
    return np.sum(p * np.log(p / q), axis=1)


@dataclass(frozen=True)
class Shell(Result):
    """Radii of the centred rows: a thin shell when the variance is far below the mean squared."""

    radius: float
    variance: float
    sqrt_trace: float
    relative_error: float
    offset: float


def shell(X: Array) -> Shell:
    """Mean radius and variance of the centred rows (Levi & Gilboa, sec. 4 and th. 3.1).

    On a thin shell sqrt(trace C) equals the mean radius; ``relative_error`` says how nearly.
    ``offset`` is norm(mean) / norm(std vector): how far the ellipsoid sits off the origin.
    """
    X = check_rows(X, min_rows=2)
    return shell_from(X, moments_of_rows(X, detail="variance", unit=False).given)


def shell_from(X: Array, rows: RowMoments) -> Shell:
    """The same from the moments of the rows."""
    xp = namespace(X)
    radii = centred_radii(X, rows.mean)
    radius, sqrt_trace = float(xp.mean(radii)), float(xp.sum(rows.variance)) ** 0.5
    if radius == 0:
        raise InputValueError("X must hold rows that differ: all of them are the same.")
    return Shell(
        radius=radius,
        variance=float(xp.var(radii)),
        sqrt_trace=sqrt_trace,
        relative_error=abs(sqrt_trace - radius) / radius,
        offset=float(xp.linalg.vector_norm(rows.mean)) / sqrt_trace,
    )


def centred_radii(X: Array, mean: Array) -> Array:
    """Distance of each row from the mean, in wide precision."""
    xp = namespace(X)
    blocks = cached_blocks(X)
    return xp.concat([xp.linalg.vector_norm(widen(X[block]) - mean, axis=1) for block in blocks])


def off_diagonal_dominance(X: Array) -> Array:
    """Σ_{k≠l} abs(C_lk) / C_ll of each feature l (Levi & Gilboa, eq. 6).

    0 for independent features; far above 1 the ellipsoid is tilted against the axes.
    """
    return Moments.from_batch(X, unit=False).off_diagonal_dominance()


@dataclass(frozen=True)
class FeatureVariance(Result):
    """Variance of each feature, and its tail: the largest over the median."""

    values: Array
    tail: float


def feature_variance(X: Array) -> FeatureVariance:
    """Population variance of each feature, with its tail (Levi & Gilboa, fig. 5)."""
    values = Moments.from_batch(X, detail="variance", unit=False).given.variance
    return FeatureVariance(values, variance_tail(to_numpy(values)))


def variance_tail(variance: np.ndarray) -> float:
    """The largest variance over the median; NaN where the median is 0."""
    median = float(np.median(variance))
    return float(np.max(variance)) / median if median > 0 else float("nan")


def vslerp(a: Array, b: Array, theta: float, alpha: float, mean: Array) -> Array:
    """Interpolate on the sphere around α·mean (Levi & Gilboa, eq. 12).

    slerp(a − α·mean, b − α·mean, θ) + α·mean, the angle being between the whole vectors; θ = 0
    gives a, θ = 1 gives b. ``a`` and ``b`` are (d,) or (n, d).

    >>> import numpy as np
    >>> middle = vslerp(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.5, 0.0, np.zeros(2))
    >>> middle.round(4).tolist()
    [0.7071, 0.7071]
    """
    xp = namespace(a, b, mean)
    a, b = widen(a) - alpha * widen(mean), widen(b) - alpha * widen(mean)
    norm_a = xp.linalg.vector_norm(a, axis=-1, keepdims=True)
    norm_b = xp.linalg.vector_norm(b, axis=-1, keepdims=True)
    if not bool(xp.all(norm_a > 0) & xp.all(norm_b > 0)):
        raise InputValueError("vslerp needs vectors that differ from alpha * mean.")
    cosine = xp.clip(xp.sum(a / norm_a * (b / norm_b), axis=-1, keepdims=True), -1.0, 1.0)
    angle = xp.acos(cosine)
    sine = xp.sin(angle)
    if bool(xp.any((cosine < 0) & (sine < 1e-7))):
        raise InputValueError("vslerp is undefined between opposite vectors: no arc is shortest.")
    # Along a vanishing arc the straight line is the limit.
    parallel = sine < 1e-7
    safe = xp.where(parallel, xp.ones_like(sine), sine)
    start = xp.where(parallel, xp.ones_like(sine) * (1 - theta), xp.sin((1 - theta) * angle) / safe)
    end = xp.where(parallel, xp.ones_like(sine) * theta, xp.sin(theta * angle) / safe)
    return start * a + end * b + alpha * widen(mean)


def vslerp_path(
    a: Array, b: Array, thetas: Sequence[float], alphas: Sequence[float], mean: Array
) -> Array:
    """Rows (alphas, thetas, d) along the way from a to b, by `vslerp` at every θ and α.

    >>> import numpy as np
    >>> path = vslerp_path(np.array([1.0, 0.0]), np.array([0.0, 1.0]), [0, 0.5, 1], [0], np.ones(2))
    >>> path.round(4).tolist()
    [[[1.0, 0.0], [0.7071, 0.7071], [0.0, 1.0]]]
    """
    xp = namespace(a, b, mean)
    paths = [
        xp.stack([vslerp(a, b, theta, alpha, mean) for theta in thetas], axis=-2)
        for alpha in alphas
    ]
    return xp.stack(paths, axis=-3)
