"""A few pairs on a sphere, some of them mismatched: why the loss keeps a gap (Liang, sec. 4.3)."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from modgap.core.checks import (
    InputValueError,
    check_count,
    check_finite,
    check_positive,
)
from modgap.measures.loss import contrastive_loss


def make_sphere_pairs(
    angle: float,
    n_pairs: int = 6,
    spacing: float = 15.0,
    mismatches: int = 2,
    dimension: int = 3,
) -> tuple[np.ndarray, np.ndarray]:
    """Images on the equator and their texts at a polar angle, in degrees (Liang, fig. 3e and 9).

    Parameters
    ----------
    angle : float
        Of the texts. At 90° every text lies on an image, at 0° all are at the pole.
    n_pairs, spacing
        How many pairs, and the degrees of longitude between two of them.
    mismatches : int, default 2
        The first so many texts are passed on in a ring, so that each lies over its neighbour's
        image; two of them are swapped.
    dimension : int, default 3
        Columns beyond the third are zero.

    >>> X, Y = make_sphere_pairs(90, n_pairs=2, spacing=90)
    >>> X.round(3).tolist(), Y.round(3).tolist()
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    """
    angle = check_finite(angle, "angle")
    longitudes, places = _arrangement(n_pairs, spacing, mismatches)
    dimension = check_count(dimension, "dimension", at_least=3)
    X, Y = np.zeros((2, len(longitudes), dimension))
    X[:, 0], X[:, 1] = np.cos(longitudes), np.sin(longitudes)
    polar = math.radians(angle)
    Y[:, :2] = math.sin(polar) * X[places, :2]
    Y[:, 2] = math.cos(polar)
    return X, Y


def _arrangement(n_pairs: int, spacing: float, mismatches: int) -> tuple[np.ndarray, np.ndarray]:
    """Longitude of each image in radians, and the image over which each text lies."""
    n_pairs = check_count(n_pairs, "n_pairs", at_least=2)
    spacing = check_positive(spacing, "spacing")
    mismatches = check_count(mismatches, "mismatches", at_least=0)
    if mismatches > n_pairs:
        raise InputValueError(
            f"mismatches must be at most the number of pairs, {n_pairs}, got {mismatches}. "
            "Ask for more pairs or for fewer mismatches."
        )
    if mismatches == 1:
        raise InputValueError(
            "mismatches must be 0 or at least 2, got 1: one text alone has no other to trade "
            "places with."
        )
    if n_pairs * spacing > 360:
        raise InputValueError(
            f"{n_pairs} pairs {spacing:g} degrees apart do not fit on the equator. "
            f"Let spacing be at most {360 / n_pairs:g}."
        )
    places = np.arange(n_pairs)
    places[:mismatches] = np.roll(places[:mismatches], -1)
    return np.radians(spacing * np.arange(n_pairs)), places


def critical_temperature(n_pairs: int = 6, spacing: float = 15.0, mismatches: int = 2) -> float:
    """The temperature below which the loss of pairs on the sphere keeps the gap open.

    0 where every text is nearest its own image: closing the gap is then best at any temperature.
    Infinite where the mismatches outweigh the matches, so that texts at the pole are always best.
    The cosines are sin(angle) · cos(difference of longitude), so the loss is a convex function of
    sin(angle)/temperature and of nothing else. Hence its one least value lies at sin(angle) =
    temperature / critical temperature, the same at every temperature below the critical one, and
    the barrier, where there is one, is at the equator.

    Parameters
    ----------
    n_pairs, spacing, mismatches
        The pairs, as in ``make_sphere_pairs``.

    >>> round(critical_temperature(), 4)
    0.0267
    >>> critical_temperature(mismatches=0), critical_temperature(n_pairs=2)
    (0.0, inf)
    """
    X, Y = make_sphere_pairs(90.0, n_pairs, spacing, mismatches)
    cosines = X @ Y.T
    own = np.diag(cosines)
    if np.all(own >= cosines.max(axis=0)) and np.all(own >= cosines.max(axis=1)):
        return 0.0
    # Slope of the loss at the pole: convex, so what does not fall there never falls.
    if cosines.mean() - own.mean() >= 0:
        return math.inf
    # The scale of temperatures is that of the differences between cosines; the nearest images'
    # is 1 − cos(spacing).
    least = 2 * math.sin(math.radians(spacing) / 2) ** 2
    found = minimize_scalar(
        lambda log: contrastive_loss(X, Y, math.exp(log)),
        bounds=(math.log(least / 1e3), math.log(1e4)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(found.x)
