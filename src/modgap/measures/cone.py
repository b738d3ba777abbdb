"""The cone: cosines over all pairs of rows of one modality (Liang et al. 2022, sec. 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modgap.arrays import at_unit_length, cosine_extremes, namespace, order_statistic
from modgap.core.checks import Array, InputValueError, check_count, check_finite
from modgap.core.door import check_rows
from modgap.core.results import Result
from modgap.moments import Moments
from modgap.moments.modality import moments_of_rows

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Cone(Result):
    """Cosines over all ordered pairs of different rows.

    Where the rows are a sample, ``standard_error`` is that of the mean.
    """

    mean: float
    std: float
    min: float
    q1: float
    median: float
    q3: float
    max: float
    count: int
    standard_error: float | None = None


def cone(X: Array) -> Cone:
    """Distribution of the cosines over all ordered pairs i ≠ j (Liang et al., fig. 2a and 6).

    Mean and standard deviation are exact from moments, the extremes exact, the quartiles within
    1e-4. A mean near 1 is a narrow cone, near 0 rows all over the sphere. Never holds n × n.

    >>> import numpy as np
    >>> result = cone(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> result.count, round(result.mean, 4), round(result.max, 4)
    (6, 0.4714, 0.7071)
    """
    X = check_rows(X, min_rows=2, nonzero=True)
    U = at_unit_length(X)
    return cone_from(moments_of_rows(X), cosine_extremes(U, QUARTILES))


def cone_from(moments: Moments, spread: tuple[float, float, np.ndarray]) -> Cone:
    """From the moments of the rows, and the extremes and the histogram of their cosines."""
    n = moments.n
    mean, std = moments.cone_mean_and_std()
    lowest, highest, counts = spread
    q1, median, q3 = (_quantile(counts, share, lowest, highest) for share in QUARTILES)
    return Cone(mean, std, lowest, q1, median, q3, highest, n * (n - 1))


def mean_standard_error(conformity: Array, n_all: int) -> float:
    """Standard error of the mean cosine of a sample of rows, from their conformity.

    The mean over pairs is a U-statistic, to which each row adds twice its conformity (Hoeffding
    1948).
    ``n_all`` is how many rows the sample is of; none is left to chance where it holds all.
    """
    n = conformity.shape[0]
    spread = float(namespace(conformity).std(conformity))
    return 2 * spread / n**0.5 * max(1 - n / n_all, 0.0) ** 0.5


def _quantile(counts: np.ndarray, share: float, lowest: float, highest: float) -> float:
    """The quantile over ordered pairs, of which the histogram holds every second one."""
    ordered = 2 * int(counts.sum())
    place = share * (ordered - 1)
    below = order_statistic(counts, math.floor(place) // 2)
    above = order_statistic(counts, math.ceil(place) // 2)
    value = below + (above - below) * (place - math.floor(place))
    return min(max(value, lowest), highest)


def log10_cap_fraction(cosine: float, dim: int) -> float:
    """log10 of the share of the unit sphere that a cone of the given opening covers.

    The cap's opening angle is arccos(cosine), its half angle half of that (Liang et al., sec. 2).
    Computed in log space, so thousands of dimensions do not underflow.

    >>> round(10 ** log10_cap_fraction(0.56, 2), 4)
    0.1554
    >>> round(log10_cap_fraction(0.56, 512), 1)
    -169.7
    """
    cosine = check_finite(cosine, "cosine")
    if not -1 <= cosine < 1:
        raise InputValueError(f"cosine must be at least -1 and below 1, got {cosine}.")
    dim = check_count(dim, "dim", at_least=2)
    from scipy.special import betainc

    # Half the sphere beyond the equator; sin² of the half angle is (1 − cosine)/2.
    a, x = (dim - 1) / 2, (1 - cosine) / 2
    share = 0.5 * float(betainc(a, 0.5, x))
    return math.log10(share) if share > 1e-250 else _log10_small_cap(a, x)


def _log10_small_cap(a: float, x: float) -> float:
    """log10 of ½ I_x(a, ½) by its series, all of whose terms are positive."""
    from scipy.special import betaln

    total, term, k = 1.0, 1.0, 0
    while term > 1e-17 * total:
        term *= (a + 0.5 + k) / (a + 1 + k) * x
        total += term
        k += 1
    log = a * math.log(x) + 0.5 * math.log1p(-x) - math.log(a) - float(betaln(a, 0.5))
    return (log + math.log(total) + math.log(0.5)) / math.log(10)
