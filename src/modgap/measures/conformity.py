"""Conformity: how typical a row is of its modality (Levi & Gilboa, sec. 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modgap.arrays import along, namespace, row_norms, to_numpy, unit, widen
from modgap.core.checks import Array, InputValueError, check_count, check_same_space
from modgap.core.door import check_pairs, check_rows, check_two
from modgap.core.results import Result
from modgap.measures.ellipsoid import histogram_divergence, shell_from
from modgap.moments import RowMoments
from modgap.moments.modality import moments_of_rows

# Bins of the histograms behind a divergence.
BINS = 50


def conformity(X: Array, reference: Array | None = None) -> Array:
    """Mean cosine of each row to every other row, or to every row of a reference set (def. 1).

    From the sum of the unit rows, in O(n d). High for common things, low for unusual ones.

    >>> import numpy as np
    >>> conformity(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).tolist()
    [0.5, 0.5, 0.0]
    """
    X = check_rows(X, min_rows=2 if reference is None else 1, nonzero=True)
    if reference is None:
        return _conformity(X)
    reference = check_rows(reference, "reference", nonzero=True)
    check_same_space(X, reference, ("X", "reference"))
    return along(unit(X), moments_of_rows(reference, "reference", detail="mean").unit_rows().mean)


def _conformity(X: Array) -> Array:
    """That of each row among the others."""
    return conformity_of_unit(unit(X), moments_of_rows(X, detail="mean").unit_rows())


def conformity_of_unit(U: Array, everyone: RowMoments) -> Array:
    """Conformity of some unit rows, from the mean of all unit rows, themselves included."""
    total = along(U, everyone.mean) * everyone.n
    return (total - 1.0) / (everyone.n - 1)


def conformity_difference(X: Array, Y: Array | None = None) -> Array:
    """Conformity of each x among X minus that of its pair y among Y (Levi & Gilboa, fig. 10)."""
    X, Y = check_pairs(X, Y, min_rows=2, nonzero=True)
    return _conformity(X) - _conformity(Y)


@dataclass(frozen=True)
class EstimatedConformity(Result):
    """Cosine of each row to the mean, as a stand-in for conformity, and how good it is.

    ``slope`` and ``intercept`` are of the line cosine ≈ slope · conformity + intercept,
    ``inverse_slope`` and ``inverse_intercept`` of conformity on cosine. ``predicted`` is the A of
    proposition 1, conformity ≈ A · cosine. NaN where the rows do not vary.
    """

    values: Array
    slope: float
    intercept: float
    inverse_slope: float
    inverse_intercept: float
    pearson: float
    predicted: float


def estimated_conformity(X: Array) -> EstimatedConformity:
    """Cosine of each row to the mean of the rows as given (Levi & Gilboa, def. 2 and prop. 1).

    Pearson correlation with ``conformity`` is near 1 on thin shells, exactly 1 on unit rows.
    """
    X = check_rows(X, min_rows=2, nonzero=True)
    moments = moments_of_rows(X, detail="variance")
    U, radius = unit(X), shell_from(X, moments.given).radius
    typical = conformity_of_unit(U, moments.unit_rows())
    return estimate_from(U, row_norms(X), moments.given.mean, radius, typical)


def estimate_from(
    U: Array, lengths: Array, mean: Array, radius: float, typical: Array
) -> EstimatedConformity:
    """From unit rows, the lengths and the mean of the rows as given, their shell and conformity."""
    xp = namespace(U)
    length = float(xp.linalg.vector_norm(mean))
    values = along(U, mean / length if _has_direction(lengths, mean) else xp.zeros_like(mean))
    slope, intercept, inverse, inverse_intercept, pearson = _lines(
        to_numpy(typical), to_numpy(values), xp.finfo(U.dtype).eps
    )
    return EstimatedConformity(
        values=values,
        slope=slope,
        intercept=intercept,
        inverse_slope=inverse,
        inverse_intercept=inverse_intercept,
        pearson=pearson,
        predicted=length / (length**2 + radius**2) ** 0.5,
    )


def _has_direction(lengths: Array, mean: Array) -> bool:
    """Whether the mean of rows of these lengths differs from zero by more than rounding."""
    xp = namespace(mean)
    return float(xp.linalg.vector_norm(mean)) > 1e-14 * float(xp.max(lengths))


def _lines(c: np.ndarray, v: np.ndarray, eps: float) -> tuple[float, float, float, float, float]:
    """Least-squares lines of v on c and of c on v, and their correlation.

    NaN where one of them varies by no more than the rounding ``eps`` of the cosines.
    """
    dc, dv = c - c.mean(), v - v.mean()
    cc, vv, cv = float(dc @ dc), float(dv @ dv), float(dc @ dv)
    if min(cc, vv) <= len(c) * (16 * eps) ** 2:
        return (float("nan"),) * 5
    slope, inverse = cv / cc, cv / vv
    return (
        slope,
        float(v.mean() - slope * c.mean()),
        inverse,
        float(c.mean() - inverse * v.mean()),
        cv / (cc * vv) ** 0.5,
    )


def conformity_divergence(X: Array, Y: Array | None = None, bins: int = BINS) -> float:
    """KL(x‖y) between the conformity distributions of the modalities (Levi & Gilboa, fig. 11).

    Bins are shared; 1e-10 is added to each before normalising. Report ``bins`` with the number.
    """
    X, Y = check_two(X, Y, min_rows=2, nonzero=True)
    check_count(bins, "bins")
    return float(histogram_divergence(_conformity(X)[:, None], _conformity(Y)[:, None], bins)[0])


@dataclass(frozen=True)
class Blur(Result):
    """Cosines of the rows to their mean, and of the other rows to the least typical one."""

    to_mean: Array
    to_outlier: Array
    outlier: int


def blur(X: Array) -> Blur:
    """Cosines to the mean and to the row of least cosine to it (Levi & Gilboa, sec. 6, fig. 7).

    Around the origin both are near 0; off the origin the mean is close to all rows, which blurs
    what is false among the negatives. Rows are used as given.
    """
    X = check_rows(X, min_rows=2, nonzero=True)
    U = unit(X)
    mean = moments_of_rows(X, detail="mean", unit=False).given.mean
    if not _has_direction(row_norms(X), mean):
        raise InputValueError("X must lie off the origin: the mean of X is zero.")
    to_mean = along(U, mean / namespace(X).linalg.vector_norm(mean))
    outlier = int(namespace(X).argmin(to_mean))
    others = np.delete(np.arange(X.shape[0]), outlier)
    to_outlier = along(U, widen(U[outlier]))
    return Blur(to_mean, to_outlier[others.tolist()], outlier)
