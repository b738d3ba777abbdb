"""The share of queries that noise leaves with their nearest candidate, without drawing noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtr, xlogy

from modgap._arrays import to_numpy
from modgap._door import check_two
from modgap._results import Result
from modgap._validate import Array, check_choice, check_positive

Survival = Literal["auto", "exact", "fast"]

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
    kept: np.ndarray
    product_bound: np.ndarray
    union_bound: np.ndarray
    std: float

    def to_dict(self) -> dict[str, Any]:
        """The shares, without each query's probabilities."""
        left_out = ("kept", "product_bound", "union_bound")
        return {k: v for k, v in super().to_dict().items() if k not in left_out}


def expected_robustness(
    queries: Array, candidates: Array, std: float, survival: Survival = "auto"
) -> ExpectedRobustness:
    """The share that ``evaluation.robustness`` estimates by drawing ``Gaussian(std)``, computed.

    Noise falls independently on every candidate; Euclidean metric (Chowers et al., eq. 10, with
    any number of candidates). Given the disturbed distance r of the nearest candidate the others
    are independent, so P(kept) = E ∏_j P(distance of rival j > r): an integral over r, with
    noncentral chi-square laws. Each factor falls with r, hence P(kept) ≥ ∏_j p_j, p_j being
    ``pair_robustness``, which is never below the union bound 1 − Σ (1 − p_j).

    Parameters
    ----------
    queries, candidates : array (n, d) and (m, d)
        Rows as given.
    std : float
        The standard deviation of the noise per coordinate.
    survival : {"auto", "exact", "fast"}
        "exact" computes those laws; "fast" takes Sankaran's approximation of them, within 1e-4
        from 64 dimensions on and some fifty times faster; "auto" is exact below 64.

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
    check_choice(survival, "survival", get_args(Survival))
    Q, C = (np.asarray(to_numpy(A), dtype=np.float64) for A in (queries, candidates))
    exact = survival == "exact" or (survival == "auto" and C.shape[1] < _MANY)
    law = ncx2.sf if exact else _sankaran
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
