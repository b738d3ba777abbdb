"""Alignment of pairs and uniformity on the sphere (Wang & Isola 2020; Yaras et al., E.2)."""

from __future__ import annotations

import math

from modgap.arrays import (
    CosineExponentials,
    at_unit_length,
    cached_blocks,
    half_product_pass,
    namespace,
    unit,
    widen,
)
from modgap.core.checks import Array
from modgap.core.door import check_pairs, check_rows, check_two
from modgap.moments.pair import pair_moments_of


def alignment(X: Array, Y: Array | None = None) -> float:
    """Mean squared distance of the pairs at unit length: 0 aligned, 4 opposite.

    >>> import numpy as np
    >>> alignment(np.array([[2.0, 0.0]]), np.array([[0.0, 1.0]]))
    2.0
    """
    return alignment_of(*check_pairs(X, Y, nonzero=True))


def alignment_of(X: Array, Y: Array) -> float:
    """``alignment`` of checked pairs."""
    xp, total = namespace(X), 0.0
    for rows in cached_blocks(X):
        total = total + xp.sum(unit(widen(X[rows])) * unit(widen(Y[rows])))
    return max(2.0 - 2.0 * float(total) / X.shape[0], 0.0)


def uniformity(X: Array) -> float:
    """log mean exp(−2‖x_i − x_j‖²) over pairs i ≠ j at unit length; lower is more uniform.

    0 when all rows are the same, about −4 in many dimensions when they are spread evenly.
    """
    X = check_rows(X, min_rows=2, nonzero=True)
    U = at_unit_length(X)
    total = CosineExponentials(U)
    half_product_pass(U, [total])
    return uniformity_from(total, X.shape[0])


def uniformity_from(total: CosineExponentials, n: int) -> float:
    """From the sum over the pairs of n rows."""
    return math.log(total.result() / (n * (n - 1) / 2))


def wasserstein_uniformity(X: Array, Y: Array | None = None) -> float:
    """−W₂ between N(μ̂, Σ̂) of the stacked unit rows and N(0, I/d); 0 is perfectly uniform.

    Depends on the number of rows: report n with the value (Yaras et al. 2024, E.2).
    """
    X, Y = check_two(X, Y, nonzero=True)
    return pair_moments_of(X, Y).wasserstein_uniformity()
