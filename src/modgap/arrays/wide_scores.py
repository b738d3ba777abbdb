"""Scores of listed pairs in float64, and how far two scores may be apart through rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modgap.arrays.base import (
    cached_blocks,
    is_torch,
    largest_norm,
    namespace,
    rows_per_cached_block,
    wide_dtype,
    widen,
)
from modgap.core.checks import Array

# Scores nearer than this to the one they are compared with are computed again in float64. It is
# relative to the largest product of norms, that is absolute for cosines.
TIE_TOLERANCE = 1e-6
# The same, as a share of it, for products that were computed in float64 already.
WIDE_SHARE = 1e-6


def tie_tolerance(X: Array, Y: Array, bias: Array | None = None, *, wide: bool = False) -> float:
    """How far two scores of these rows may be apart through rounding, generously.

    ``wide`` is for products in float64, where the device has it.
    """
    xp = namespace(X)
    if wide and wide_dtype(X) == xp.float64:
        bias = None if bias is None else widen(bias)
        return WIDE_SHARE * tie_tolerance(X, Y) + _bias_tolerance(bias)
    scale = largest_norm(X) * largest_norm(Y)
    # Rounding of a sum grows with the root of its length; 1e-6 covers 1,024 columns of float32.
    tolerance = TIE_TOLERANCE * max(1.0, math.sqrt(X.shape[1] / 1024)) * scale
    return tolerance + _bias_tolerance(None if bias is None else xp.astype(bias, X.dtype))


def _bias_tolerance(bias: Array | None) -> float:
    """A bias is rounded, added and compared in its precision; it may outweigh the products."""
    if bias is None:
        return 0.0
    xp = namespace(bias)
    return 4 * float(xp.finfo(bias.dtype).eps) * float(xp.max(xp.abs(bias)))


def pair_scores(X: Array, Y: Array, i: Any, j: Any, bias: Array | None = None) -> Array:
    """x_i · y_j + bias_j for listed pairs, in float64; equal rows give bitwise equal scores."""
    xp = namespace(X)
    scores = xp.zeros_like(j, dtype=wide_dtype(X))
    x, y = (_WideRows(A, min(len(j), rows_per_cached_block(A))) for A in (X, Y))
    for piece in cached_blocks(X, len(j)):
        scores[piece] = xp.linalg.vecdot(x.take(i[piece]), y.take(j[piece]))
    return scores if bias is None else scores + widen(bias)[j]


class _WideRows:
    """Rows of a matrix in float64; those of NumPy always in the same room, which is 10 × faster."""

    def __init__(self, A: Array, most: int) -> None:
        self.A = A
        if not is_torch(A):
            self._given = np.empty((most, A.shape[1]), dtype=A.dtype)
            self._wide = np.empty((most, A.shape[1]))

    def take(self, numbers: Array) -> Array:
        """Those of some numbers, valid until others are taken."""
        if is_torch(self.A):
            return widen(self.A[numbers])
        given, wide = self._given[: len(numbers)], self._wide[: len(numbers)]
        # Numbers are never out of bounds; only with clip does NumPy write straight into out.
        wide[...] = np.take(self.A, numbers, axis=0, out=given, mode="clip")
        return wide
