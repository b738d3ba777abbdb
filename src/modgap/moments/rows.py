"""Count, mean and centred second moment of a set of rows: what adds up."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from modgap._arrays import namespace, to_numpy, wide_dtype
from modgap._results import Brief
from modgap._validate import Array, InputValueError

Detail = Literal["mean", "variance", "covariance"]


@dataclass(frozen=True)
class RowMoments(Brief):
    """Count, mean and centred second moment of a set of rows.

    ``scatter`` is Σ (x − mean)(x − mean)ᵀ, (d, d); only its diagonal, (d,), when the covariance
    was not asked for; None when only the mean was.
    """

    n: int
    mean: Array
    scatter: Array | None

    @classmethod
    def of(cls, rows: Array, detail: Detail = "covariance") -> RowMoments:
        """Moments of one block of rows, in float64 where the device has it."""
        return cls.of_scratch(namespace(rows).astype(rows, wide_dtype(rows), copy=True), detail)

    @classmethod
    def of_scratch(cls, rows: Array, detail: Detail = "covariance") -> RowMoments:
        """Moments of rows in wide precision, which are centred where they lie."""
        xp = namespace(rows)
        mean = xp.mean(rows, axis=0)
        if detail == "mean":
            return cls(rows.shape[0], mean, None)
        rows -= mean
        if detail == "covariance":
            return cls(rows.shape[0], mean, rows.T @ rows)
        rows *= rows
        return cls(rows.shape[0], mean, xp.sum(rows, axis=0))

    def __add__(self, other: RowMoments) -> RowMoments:
        return deepcopy(self).add(other)

    def add(self, other: RowMoments) -> RowMoments:
        """``self + other``; the scatter of this one is written over."""
        # Chan, Golub and LeVeque 1983: stable where sum(x**2) - n*mean**2 is not.
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        first, second = self.scatter, other.scatter
        if first is None or second is None:
            return RowMoments(n, mean, None)
        if first.ndim != second.ndim:  # a sum knows no more than the lesser part
            diagonal = namespace(delta).linalg.diagonal
            first, second = (1 * diagonal(s) if s.ndim == 2 else s for s in (first, second))
        between = delta[:, None] * delta[None, :] if first.ndim == 2 else delta**2
        between *= self.n * other.n / n
        first += second
        first += between
        return RowMoments(n, mean, first)

    @property
    def variance(self) -> Array:
        """Population variance of each feature."""
        scatter = self._scatter()
        if scatter.ndim == 2:
            scatter = namespace(scatter).linalg.diagonal(scatter)
        return scatter / self.n

    @property
    def covariance(self) -> Array:
        """Population covariance matrix."""
        scatter = self._scatter()
        if scatter.ndim != 2:
            raise InputValueError("These moments hold variances only; gather the covariance.")
        return scatter / self.n

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the covariance, smallest first, and its eigenvectors, one a column."""
        values, vectors = np.linalg.eigh(to_numpy(self.covariance))
        return values, vectors

    def _scatter(self) -> Array:
        if self.scatter is None:
            raise InputValueError("These moments hold means only; gather variances too.")
        return self.scatter


def ratio(size: Array, variance: Array) -> Array:
    """size / sqrt(variance); infinite where only the variance is 0, 0 where both are."""
    xp = namespace(size)
    safe = xp.where(variance > 0, variance, xp.ones_like(variance))
    at_zero = xp.where(size > 0, xp.full_like(size, float("inf")), xp.zeros_like(size))
    return xp.where(variance > 0, size / xp.sqrt(safe), at_zero)
