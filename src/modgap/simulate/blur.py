"""Spheres in high dimension: thin shells, and how an offset blurs cosines (Levi & Gilboa)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modgap.arrays import row_norms
from modgap.core.checks import InputValueError, check_count, check_numbers
from modgap.core.results import Result
from modgap.measures.conformity import Blur, blur, conformity, estimated_conformity

# The shifted centre of fig. 7; further features are 0.
SHIFTED = (10.0, 5.0, 5.0)


def make_shifted_sphere(
    centre: Sequence[float] | None = None,
    n: int = 1000,
    dimension: int = 512,
    seed: int = 0,
) -> np.ndarray:
    """Standard normal rows around a centre (Levi & Gilboa, fig. 7).

    In many dimensions they fill a thin shell of radius √dimension.

    Parameters
    ----------
    centre : list of float, optional
        The first features of the centre, the others being 0; the origin without it.
    n, dimension : int
        How many rows, and how many features.
    seed : int, default 0
        Of the rows.

    >>> make_shifted_sphere((10, 5, 5), n=4, dimension=8).shape
    (4, 8)
    """
    n = check_count(n, "n", at_least=2)
    dimension = check_count(dimension, "dimension", at_least=2)
    rows = np.random.default_rng(seed).standard_normal((n, dimension))
    if centre is not None:
        start = check_numbers(centre, "centre")
        if len(start) > dimension:
            raise InputValueError(
                f"centre must have at most dimension = {dimension} numbers, got {len(start)}. "
                "Raise dimension or shorten centre."
            )
        rows[:, : len(start)] += start
    return rows


@dataclass(frozen=True)
class BlurContrast(Result):
    """Cosines to the mean and to the least typical row, around the origin and off it.

    ``expected_origin`` and ``expected_shifted`` are the mean cosine to the mean that the centre,
    the number of rows and the dimension imply.
    """

    origin: Blur
    shifted: Blur
    expected_origin: float
    expected_shifted: float
    n: int
    dimension: int


def blur_contrast(
    centre: Sequence[float] = SHIFTED, n: int = 1000, dimension: int = 512, seed: int = 0
) -> BlurContrast:
    """A sphere around the origin against a shifted one (Levi & Gilboa, sec. 6 and fig. 7).

    Around the origin the mean is no closer to the rows than any row is. Off the origin a row at
    the mean is similar to all rows, which blurs what is false among the negatives, and the least
    typical row stays sharp. Both spheres hold the same draws.

    Parameters
    ----------
    centre, n, dimension, seed
        As in ``make_shifted_sphere``.

    >>> result = blur_contrast()
    >>> round(result.expected_shifted, 2), round(float(result.shifted.to_mean.mean()), 2)
    (0.48, 0.48)
    """
    start = check_numbers(centre, "centre")
    origin = make_shifted_sphere(None, n, dimension, seed)
    shifted = make_shifted_sphere(start.tolist(), n, dimension, seed)
    return BlurContrast(
        origin=blur(origin),
        shifted=blur(shifted),
        expected_origin=_expected_cosine(0.0, n, dimension),
        expected_shifted=_expected_cosine(float(start @ start), n, dimension),
        n=n,
        dimension=dimension,
    )


def _expected_cosine(squared_offset: float, n: int, dimension: int) -> float:
    """√((‖c‖² + d/n) / (‖c‖² + d)): the mean of n rows is itself d/n off the centre, squared."""
    return math.sqrt((squared_offset + dimension / n) / (squared_offset + dimension))


@dataclass(frozen=True)
class ThinShell(Result):
    """Norms of standard normal rows in each dimension: radius √d, and a width that does not grow.

    ``width`` is the thin-shell parameter √E(‖x‖ − √d)², and ``expected_width`` =
    √((E x⁴ − 1)/4) = √½ what it tends to, so that the width relative to the
    radius falls as 1/√d.
    """

    dimensions: np.ndarray
    radius: np.ndarray
    root_dimension: np.ndarray
    width: np.ndarray
    relative_width: np.ndarray
    expected_width: float


def thin_shell(
    dimensions: Sequence[int] = (2, 8, 32, 128, 512), n: int = 2000, seed: int = 0
) -> ThinShell:
    """How norms of normal rows concentrate at √d (Levi & Gilboa, theorem 3.1).

    The theorem bounds the width by c·(log d)^α over all log-concave distributions; independent
    features do better, with a width that does not grow at all.

    Parameters
    ----------
    dimensions : list of int
        To draw rows in.
    n : int, default 2000
        Rows in each dimension.
    seed : int, default 0
        Of the rows in the first dimension; the next ones have the seeds after it.

    >>> shell = thin_shell(dimensions=(512,))
    >>> round(float(shell.radius[0] / 512**0.5), 2), round(shell.expected_width, 3)
    (1.0, 0.707)
    """
    sizes = [check_count(size, "dimensions", at_least=2) for size in dimensions]
    check_numbers(sizes, "dimensions")
    roots = np.sqrt(sizes)
    # One seed per dimension: the draws of one must not be the first columns of the next.
    norms = [
        row_norms(make_shifted_sphere(None, n, size, seed + place))
        for place, size in enumerate(sizes)
    ]
    width = np.array(
        [np.sqrt(np.mean((radii - root) ** 2)) for radii, root in zip(norms, roots, strict=True)]
    )
    radius = np.array([radii.mean() for radii in norms])
    return ThinShell(
        dimensions=np.array(sizes),
        radius=radius,
        root_dimension=roots,
        width=width,
        relative_width=width / radius,
        expected_width=0.5**0.5,
    )


@dataclass(frozen=True)
class ShellConformity(Result):
    """Conformity against A times the cosine to the mean, on a made-up shell.

    ``predicted`` is proposition 1's A = ‖m‖/√(‖m‖² + R²); ``fitted`` is the best A for these
    rows. ``error`` is the root mean square of conformity − A·cosine, relative to the standard
    deviation of the conformity: well below 1 the cosine stands in for the conformity.
    """

    predicted: float
    fitted: float
    pearson: float
    error: float
    relative_width: float


def shell_conformity(X: np.ndarray) -> ShellConformity:
    """How well proposition 1, C ≈ A·cos(m, v), holds on given rows (Levi & Gilboa, C.1).

    The thinner the shell, the better. (The proposition prints A's inverse; its proof has A.)

    >>> result = shell_conformity(make_shifted_sphere((10, 5, 5)))
    >>> round(result.predicted, 2), round(result.fitted, 2), round(result.pearson, 2)
    (0.48, 0.48, 1.0)
    """
    estimate = estimated_conformity(X)
    # Definition 1 leaves the row itself out of its mean, proposition 1 does not.
    n = len(X)
    with_itself = (np.asarray(conformity(X), dtype=np.float64) * (n - 1) + 1) / n
    cosines = np.asarray(estimate.values, dtype=np.float64)
    fitted = float(with_itself @ cosines / (cosines @ cosines))
    residual = with_itself - estimate.predicted * cosines
    radii = np.linalg.norm(X - X.mean(axis=0), axis=1)
    return ShellConformity(
        predicted=estimate.predicted,
        fitted=fitted,
        pearson=estimate.pearson,
        error=float(np.sqrt(np.mean(residual**2)) / with_itself.std()),
        relative_width=float(radii.std() / radii.mean()),
    )
