"""The chance that noise leaves the nearest candidate nearest (Chowers, th. 3.4, A.4).

With noises ε₁, ε₂ on two candidates, the nearer one stays so when s · t > 0, where
t = (x₁ + ε₁) − (x₂ + ε₂) and s = 2y − (x₁ + ε₁) − (x₂ + ε₂). Both are Gaussian, and for noise of
one covariance they are independent: ``pair_robustness`` follows from the law of s · t. With many
candidates the share of queries that keep theirs is computed without drawing noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr, xlogy

from modgap.arrays import to_numpy
from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_numbers,
    check_positive,
)
from modgap.core.door import check_two
from modgap.core.results import NOT_IN_JSON, Result

RobustnessMethod = Literal["exact", "normal"]

# Standard deviations between s · t and 0 beyond which its sign is certain.
_CERTAIN = 25.0
# From this dimension on Sankaran's approximation is within 1e-4 of the exact law.
_MANY = 64

# Nodes over ±9 standard deviations of the distance to the nearest candidate: a smooth integrand.
_NODES = 96
_REACH = 9.0
# A rival this many standard deviations away changes nothing that float64 can hold.
_FAR = 9.0
# Beyond this squared distance over variance, a disturbed distance is normal within 1e-6, and the
# series of the noncentral chi-square no longer end.
_LARGE = 1e8


def pair_robustness(
    query: Any,
    nearest: Any,
    rival: Any,
    std: float | None = None,
    *,
    covariance: Any = None,
    mean: Any = None,
    centred: bool = False,
    n_candidates: int = 2,
    method: RobustnessMethod = "exact",
) -> float:
    """Probability that ``nearest`` stays nearer to the query than ``rival`` under Gaussian noise.

    Noise falls on both candidates independently; distances are Euclidean.

    Parameters
    ----------
    query, nearest, rival : array (d,)
        The query and the two candidates, a and b being their squared distances to it.
    std : float, optional
        σ, the standard deviation of the noise per coordinate.
    covariance : array (d, d) or (d,), optional
        That of the noise instead, or its variances (A.4.2).
    mean : array (d,), optional
        That of the noise (A.4.1).
    centred : bool, default False
        Take the mean of the noises over all ``n_candidates`` away from each, as theorem 3.4
        assumes. For two candidates both methods are Φ((x₁ − x₂)·(y − μ) / (√2 σ ‖y − μ‖)), μ the
        midpoint: closer to the midpoint, along a direction orthogonal to x₁ − x₂, is safer. The
        mean of the noise then plays no part.
    n_candidates : int, default 2
        How many candidates there are.
    method : {"exact", "normal"}
        "normal" is Φ((b − a) / √(4σ²(a + b) + 4dσ⁴)) for plain noise, good for large d; "exact"
        integrates the characteristic function and holds for any d.

    >>> round(pair_robustness([3, 0.5], [0, 1], [0, 0], std=0.2, centred=True), 4)
    0.5
    >>> round(pair_robustness([3, 1], [0, 1], [0, 0], std=0.2, centred=True), 4)
    0.7195
    >>> round(pair_robustness([0, 1], [0, 1], [0, 0], std=0.2, centred=True), 4)  # gap closed
    0.9998
    """
    check_choice(method, "method", get_args(RobustnessMethod))
    y, x1, x2 = (
        check_numbers(value, name)
        for value, name in ((query, "query"), (nearest, "nearest"), (rival, "rival"))
    )
    if not len(y) == len(x1) == len(x2):
        raise InputValueError(
            "query, nearest and rival must have the same dimension, "
            f"got {len(y)}, {len(x1)} and {len(x2)}."
        )
    # Not from the squares of the distances: far from the candidates their difference drowns.
    if (x1 - x2) @ (2 * y - x1 - x2) < 0:
        raise InputValueError("nearest must be nearer to the query than rival is. Swap the two.")
    n_candidates = check_count(n_candidates, "n_candidates", at_least=2)
    variances, axes = _spectrum(std, covariance, len(y))
    offset = np.zeros_like(y) if mean is None or centred else check_numbers(mean, "mean")
    if len(offset) != len(y):
        raise InputValueError(
            f"mean must have the dimension of the query, {len(y)}, got {len(offset)}."
        )
    t, s = x1 - x2, 2 * (y - offset) - x1 - x2
    if axes is not None:
        t, s = axes.T @ t, axes.T @ s
    # Taking the mean of k noises away leaves of ε₁ + ε₂ this share of its variance.
    share = 1 - 2 / n_candidates if centred else 1.0
    return _chance_positive(s, t, 2 * share * variances, 2 * variances, method == "exact")


def _chance_positive(
    s: np.ndarray, t: np.ndarray, s_variance: np.ndarray, t_variance: np.ndarray, exact: bool
) -> float:
    """P(s · t > 0) for independent Gaussians with means and variances per coordinate.

    By inverting the characteristic function of s · t (Gil-Pelaez 1951), or without ``exact`` as if
    s · t were Gaussian, as it is where s does not vary.
    """
    spread = math.sqrt(s**2 @ t_variance + t**2 @ s_variance + s_variance @ t_variance)
    if spread == 0:  # s is zero and stays zero: both candidates are always equally near
        return 0.5
    mean = float(s @ t) / spread
    # Far out the integrand oscillates too fast, and the answer is 0 or 1 to rounding.
    if not exact or not np.any(s_variance) or abs(mean) > _CERTAIN:
        return float(ndtr(mean))
    both = s_variance * t_variance / spread**2
    drift = s * t / spread
    damping = (s**2 * t_variance + t**2 * s_variance) / (2 * spread**2)

    def integrand(w: float) -> float:
        widened = 1 + both * w**2
        size = -0.5 * np.log(widened) - damping * w**2 / widened
        angle = w * drift / widened
        return math.exp(size.sum()) * math.sin(angle.sum()) / w

    value = sum(
        quad(integrand, low, high, epsabs=1e-11, epsrel=1e-11, limit=400)[0]
        for low, high in ((0, 2), (2, 8), (8, np.inf))
    )
    return min(1.0, max(0.0, 0.5 + value / math.pi))


def _spectrum(
    std: float | None, covariance: Any, dimension: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Variances along axes in which the noise is uncorrelated, and those axes (none: as given)."""
    if (std is None) == (covariance is None):
        raise InputTypeError("Give either std or covariance: exactly one of them says the noise.")
    if covariance is None:
        return np.full(dimension, check_positive(std, "std") ** 2), None  # type: ignore[arg-type]
    C = np.asarray(covariance, dtype=np.float64)
    if C.shape not in ((dimension,), (dimension, dimension)):
        raise InputValueError(
            f"covariance must be {dimension} variances or a matrix ({dimension}, {dimension}), "
            f"got shape {C.shape}."
        )
    if not np.all(np.isfinite(C)) or (C.ndim == 2 and not np.allclose(C, C.T)):
        raise InputValueError("covariance must be finite and symmetric.")
    variances, axes = (C, None) if C.ndim == 1 else np.linalg.eigh(C)
    if variances.max() <= 0 or variances.min() < -1e-10 * variances.max():
        raise InputValueError(
            "covariance must have no negative variance and at least one above 0, "
            f"got a least of {variances.min():.3g} and a largest of {variances.max():.3g}."
        )
    return np.maximum(variances, 0), axes


@dataclass(frozen=True)
class ExpectedRobustness(Result):
    """What share of queries keeps its nearest candidate under Gaussian noise, in expectation.

    ``kept`` is each query's probability, ``product_bound`` and ``union_bound`` are lower bounds
    of it from the two-candidate probabilities p_j: ∏ p_j and 1 − Σ (1 − p_j), at least 0.
    ``share`` is the mean of ``kept``.
    """

    share: float
    product_share: float
    union_share: float
    kept: np.ndarray = field(metadata=NOT_IN_JSON)
    product_bound: np.ndarray = field(metadata=NOT_IN_JSON)
    union_bound: np.ndarray = field(metadata=NOT_IN_JSON)
    std: float


def expected_robustness(queries: Array, candidates: Array, std: float) -> ExpectedRobustness:
    """The share that ``evaluation.robustness`` estimates by drawing ``Gaussian(std)``, computed.

    Noise falls independently on every candidate; Euclidean metric (Chowers et al., eq. 10, with
    any number of candidates). Given the disturbed distance r of the nearest candidate the others
    are independent, so P(kept) = E ∏_j P(distance of rival j > r): an integral over r, with
    noncentral chi-square laws; from 64 dimensions on in Sankaran's approximation, within 1e-4 and
    some fifty times faster. Each factor falls with r, hence P(kept) ≥ ∏_j p_j, p_j being
    ``pair_robustness``, which is never below the union bound 1 − Σ (1 − p_j).

    Parameters
    ----------
    queries, candidates : array (n, d) and (m, d)
        Rows as given.
    std : float
        The standard deviation of the noise per coordinate.

    >>> import numpy as np
    >>> result = expected_robustness(np.array([[1.0, 0.0]]), np.eye(2), std=0.5)
    >>> round(result.share, 3), round(result.product_share, 3)
    (0.932, 0.932)
    >>> expected_robustness(np.array([[1.0, 0.0]]), np.eye(2), std=0.01).share
    1.0
    """
    from scipy.stats import ncx2  # slow to load, and seldom needed

    queries, candidates = check_two(
        queries, candidates, names=("queries", "candidates"), min_rows=1
    )
    std = check_positive(std, "std")
    Q, C = (np.asarray(to_numpy(A), dtype=np.float64) for A in (queries, candidates))
    law = ncx2.sf if C.shape[1] < _MANY else _sankaran
    results = np.array([_kept(np.sum((C - q) ** 2, axis=1), std, C.shape[1], law) for q in Q])
    kept, product, union = results.T
    return ExpectedRobustness(
        share=float(kept.mean()),
        product_share=float(product.mean()),
        union_share=float(union.mean()),
        kept=kept,
        product_bound=product,
        union_bound=union,
        std=std,
    )


def _kept(
    squares: np.ndarray, std: float, dimension: int, law: Callable[..., np.ndarray]
) -> tuple[float, float, float]:
    """Probability that the nearest stays nearest, with its product and union bounds."""
    from scipy.stats import ncx2

    nearest = int(np.argmin(squares))
    own = squares[nearest] / std**2
    rivals = np.delete(squares, nearest) / std**2
    # ‖u − ε‖/σ lies within a few units of its centre in any dimension, for it is 1-Lipschitz in ε.
    centre = np.sqrt(own + dimension)
    rivals = rivals[np.sqrt(rivals + dimension) < centre + 2 * _FAR]
    if not len(rivals):
        return 1.0, 1.0, 1.0
    low, high = max(0.0, centre - _REACH), centre + _REACH
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    distance = low + (high - low) * (nodes + 1) / 2
    if own > _LARGE:
        weights = weights * np.exp(-0.5 * (distance - np.sqrt(own + dimension - 1)) ** 2)
        farther = ndtr(np.sqrt(rivals[:, None] + dimension - 1) - distance)
    else:
        # Density of the distance, from that of its square.
        weights = weights * distance * ncx2.pdf(distance**2, dimension, own)
        farther = law(distance[None, :] ** 2, dimension, rivals[:, None])
    weights /= weights.sum()
    pairs = np.minimum(farther @ weights, 1.0)
    kept = float(np.prod(farther, axis=0) @ weights)
    return min(kept, 1.0), float(np.prod(pairs)), max(0.0, 1 - float(np.sum(1 - pairs)))


def _sankaran(x: np.ndarray, dimension: int, offset: np.ndarray) -> np.ndarray:
    """``ncx2.sf``, P(χ′² > x), as the normal tail of a power of x (Sankaran 1963)."""
    first, second, third = (dimension + k * offset for k in (1, 2, 3))
    h = 1 - 2 / 3 * first * third / second**2
    p = second / first**2
    m = (h - 1) * (1 - 3 * h)
    power = np.exp(xlogy(h, x / first))
    centre = 1 + h * p * (h - 1 - 0.5 * (2 - h) * m * p)
    return np.asarray(ndtr((centre - power) / (h * np.sqrt(2 * p) * (1 + 0.5 * m * p))))
