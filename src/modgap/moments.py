"""Counts, means and second moments that add: the part of every measure that one pass can give.

``Moments`` describe one modality, ``PairMoments`` two; ``a + b`` describes the rows of both.
A measure that needs only moments has its one formula here; the array form calls it on the
moments of its arrays, the streamed form on moments gathered from shards.

>>> import numpy as np
>>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> first, rest = Moments.from_batch(X[:1]), Moments.from_batch(X[1:])
>>> (first + rest).given.mean.round(3).tolist()
[0.667, 0.667]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

from modgap._arrays import namespace, row_blocks, to_numpy, widen
from modgap._tensors import read_tensors, write_tensors
from modgap._validate import (
    Array,
    InputValueError,
    check_matrix,
    check_same_space,
    check_values,
)

Detail = Literal["mean", "variance", "covariance"]

# Rows taken together: the float64 copies of 4,096 x 512 take 17 MB each.
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class RowMoments:
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
        xp = namespace(rows)
        rows = widen(rows)
        mean = xp.mean(rows, axis=0)
        if detail == "mean":
            return cls(rows.shape[0], mean, None)
        centred = rows - mean
        scatter = centred.T @ centred if detail == "covariance" else xp.sum(centred**2, axis=0)
        return cls(rows.shape[0], mean, scatter)

    def __add__(self, other: RowMoments) -> RowMoments:
        # Chan, Golub and LeVeque 1983: stable where sum(x**2) - n*mean**2 is not.
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        if self.scatter is None or other.scatter is None:
            return RowMoments(n, mean, None)
        weight = self.n * other.n / n
        first, second = self.scatter, other.scatter
        if first.ndim != second.ndim:  # a sum knows no more than the lesser part
            diagonal = namespace(delta).linalg.diagonal
            first, second = (diagonal(s) if s.ndim == 2 else s for s in (first, second))
        between = delta[:, None] * delta[None, :] if first.ndim == 2 else delta**2
        return RowMoments(n, mean, first + second + between * weight)

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

    def _scatter(self) -> Array:
        if self.scatter is None:
            raise InputValueError("These moments hold means only; gather variances too.")
        return self.scatter


@dataclass(frozen=True)
class Moments:
    """Moments of one modality: of the rows as given, and of the rows at unit length."""

    given: RowMoments
    unit: RowMoments | None

    @classmethod
    def from_batch(
        cls,
        X: Array,
        *,
        name: str = "X",
        detail: Detail = "covariance",
        unit: bool = True,
        first_row: int = 0,
    ) -> Moments:
        """Moments of a matrix of rows, gathered in blocks. ``unit=False`` leaves that half out.

        ``first_row`` is the number of the first row in error messages, for batches of a stream.
        """
        X = check_matrix(X, name)
        parts = []
        for rows in row_blocks(X.shape[0], _BLOCK_ROWS):
            block = X[rows]
            check_values(block, name, nonzero=unit, first_row=first_row + rows.start)
            block = widen(block)
            parts.append(
                cls(
                    RowMoments.of(block, detail),
                    RowMoments.of(_unit(block), detail) if unit else None,
                )
            )
        return reduce(cls.__add__, parts)

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Array],
        *,
        name: str = "X",
        detail: Detail = "covariance",
        unit: bool = True,
    ) -> Moments:
        """Moments of rows that come in batches; one batch is held at a time."""
        total: Moments | None = None
        for batch, first_row in _counted(batches):
            part = cls.from_batch(batch, name=name, detail=detail, unit=unit, first_row=first_row)
            if total is not None:
                check_same_space(total.given.mean[None, :], part.given.mean[None, :])
            total = part if total is None else total + part
        if total is None:
            raise InputValueError(f"{name} must have at least one row, got no batches.")
        return total

    def __add__(self, other: Moments) -> Moments:
        _check_dims(self.dim, other.dim)
        both = self.unit is not None and other.unit is not None
        return Moments(
            self.given + other.given,
            self.unit + other.unit if both else None,  # type: ignore[operator]
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.given.n

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.given.mean.shape[0])

    def unit_rows(self) -> RowMoments:
        """Moments of the unit rows, or an error where they were left out."""
        if self.unit is None:
            raise InputValueError("These moments leave out the unit rows; gather them too.")
        return self.unit

    # The formulas. Definitions: docs/definitions.md.

    def feature_offset(self) -> Array:
        """abs(mean) / std of each feature; 0 where a feature is always 0."""
        return _ratio(abs(self.given.mean), self.given.variance)

    def off_diagonal_dominance(self) -> Array:
        """Σ_{k≠l} abs(C_lk) / C_ll of each feature l; 0 where a feature is constant."""
        xp = namespace(self.given.mean)
        C, variance = self.given.covariance, self.given.variance
        off = xp.sum(xp.abs(C), axis=1) - xp.abs(variance)
        safe = xp.where(variance > 0, variance, xp.ones_like(variance))
        return xp.where(variance > 0, off / safe, xp.zeros_like(off))

    def cone_mean_and_std(self) -> tuple[float, float]:
        """Mean and standard deviation of the cosines over all ordered pairs i ≠ j."""
        xp = namespace(self.given.mean)
        rows = self.unit_rows()
        n, pairs = rows.n, rows.n * (rows.n - 1)
        second = rows.covariance * n + n * rows.mean[:, None] * rows.mean[None, :]
        total = n * n * float(xp.sum(rows.mean**2)) - n
        squares = float(xp.sum(second**2)) - n
        mean = total / pairs
        return mean, max(squares / pairs - mean * mean, 0.0) ** 0.5

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file."""
        write_tensors(path, "set of moments", _tensors(self, "x"), {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read what ``save`` wrote."""
        return _moments(read_tensors(path, "set of moments")[1], "x")


@dataclass(frozen=True)
class Cross:
    """Σ (x − mean_x)(y − mean_y)ᵀ over pairs, of the rows as given and of the unit rows."""

    given: Array
    unit: Array


@dataclass(frozen=True)
class PairMoments:
    """Moments of two modalities, and across them where rows are pairs (else ``cross`` is None)."""

    x: Moments
    y: Moments
    cross: Cross | None = None

    @classmethod
    def from_batch(
        cls,
        X: Array,
        Y: Array,
        *,
        names: tuple[str, str] = ("X", "Y"),
        detail: Detail = "covariance",
        unit: bool = True,
        paired: bool = False,
        first_row: int = 0,
    ) -> PairMoments:
        """Moments of two matrices; ``paired=True`` when row i of X belongs to row i of Y.

        Paired moments hold everything, whatever ``detail`` and ``unit`` say.
        """
        X, Y = check_matrix(X, names[0]), check_matrix(Y, names[1])
        check_same_space(X, Y, names)
        if not paired:
            options: dict[str, Any] = {"detail": detail, "unit": unit, "first_row": first_row}
            return cls(
                Moments.from_batch(X, name=names[0], **options),
                Moments.from_batch(Y, name=names[1], **options),
            )
        if X.shape[0] != Y.shape[0]:
            raise InputValueError(
                f"{names[0]} and {names[1]} must hold the same pairs row by row, "
                f"got {tuple(X.shape)} and {tuple(Y.shape)}."
            )
        parts = []
        for rows in row_blocks(X.shape[0], _BLOCK_ROWS):
            parts.append(_paired_block(X[rows], Y[rows], names, first_row + rows.start))
        return reduce(cls.__add__, parts)

    @classmethod
    def from_batches(
        cls,
        batches_x: Iterable[Array],
        batches_y: Iterable[Array],
        *,
        names: tuple[str, str] = ("X", "Y"),
        paired: bool = False,
    ) -> PairMoments:
        """Moments of two streams; batches of pairs must have equal lengths."""
        if not paired:
            return cls(
                Moments.from_batches(batches_x, name=names[0]),
                Moments.from_batches(batches_y, name=names[1]),
            )
        total: PairMoments | None = None
        for (X, first_row), Y in zip(_counted(batches_x), batches_y, strict=True):
            part = cls.from_batch(X, Y, names=names, paired=True, first_row=first_row)
            total = part if total is None else total + part
        if total is None:
            raise InputValueError(f"{names[0]} must have at least one row, got no batches.")
        return total

    def __add__(self, other: PairMoments) -> PairMoments:
        cross = None
        if self.cross is not None and other.cross is not None:
            cross = Cross(
                self.cross.given
                + other.cross.given
                + _between(self.x.given, other.x.given, self.y.given, other.y.given),
                self.cross.unit
                + other.cross.unit
                + _between(
                    self.x.unit_rows(), other.x.unit_rows(), self.y.unit_rows(), other.y.unit_rows()
                ),
            )
        return PairMoments(self.x + other.x, self.y + other.y, cross)

    def gap_vector(self) -> Array:
        """mean(X) − mean(Y)."""
        return self.x.given.mean - self.y.given.mean

    def gap_distance(self) -> float:
        """Euclidean norm of the gap vector."""
        xp = namespace(self.x.given.mean)
        return float(xp.linalg.vector_norm(self.gap_vector()))

    def separability(self) -> Array:
        """abs(mean_x − mean_y) / sqrt(var_x + var_y) of each feature."""
        return _ratio(abs(self.gap_vector()), self.x.given.variance + self.y.given.variance)

    def mean_pair_cosine(self) -> float:
        """Mean cosine of the pairs."""
        xp = namespace(self.x.given.mean)
        x, y = self.x.unit_rows(), self.y.unit_rows()
        if self.cross is None:
            raise InputValueError("The mean cosine of pairs needs moments of paired rows.")
        within = xp.linalg.trace(self.cross.unit) / x.n
        return float(within + xp.sum(x.mean * y.mean))

    def alignment(self) -> float:
        """Mean squared distance of the pairs at unit length."""
        return max(2.0 - 2.0 * self.mean_pair_cosine(), 0.0)

    def wasserstein_uniformity(self) -> float:
        """−W₂ between a Gaussian of the stacked unit rows' moments and N(0, I/d)."""
        xp = namespace(self.x.given.mean)
        stacked = self.x.unit_rows() + self.y.unit_rows()
        C, d = stacked.covariance, stacked.mean.shape[0]
        spectrum = xp.clip(xp.linalg.eigvalsh(C), 0.0, None)
        roots = float(xp.sum(xp.sqrt(spectrum)))
        squared = float(xp.sum(stacked.mean**2)) + 1.0 + float(xp.linalg.trace(C))
        return -(max(squared - 2.0 * roots / d**0.5, 0.0) ** 0.5)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file."""
        tensors = {**_tensors(self.x, "x"), **_tensors(self.y, "y")}
        if self.cross is not None:
            tensors["cross.given"] = to_numpy(self.cross.given)
            tensors["cross.unit"] = to_numpy(self.cross.unit)
        write_tensors(path, "set of pair moments", tensors, {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PairMoments:
        """Read what ``save`` wrote."""
        tensors = read_tensors(path, "set of pair moments")[1]
        cross = None
        if "cross.given" in tensors:
            cross = Cross(tensors["cross.given"], tensors["cross.unit"])
        return cls(_moments(tensors, "x"), _moments(tensors, "y"), cross)


def _unit(block: Array) -> Array:
    """Unit rows of a checked block in wide precision."""
    return block / namespace(block).linalg.vector_norm(block, axis=1, keepdims=True)


def _paired_block(X: Array, Y: Array, names: tuple[str, str], first_row: int) -> PairMoments:
    sides, units = [], []
    for A, name in ((X, names[0]), (Y, names[1])):
        check_values(A, name, nonzero=True, first_row=first_row)
        rows = widen(A)
        sides.append((rows, RowMoments.of(rows)))
        unit_rows = _unit(rows)
        units.append((unit_rows, RowMoments.of(unit_rows)))
    cross = [(x - mx.mean).T @ (y - my.mean) for (x, mx), (y, my) in (sides, units)]
    return PairMoments(
        Moments(sides[0][1], units[0][1]), Moments(sides[1][1], units[1][1]), Cross(*cross)
    )


def _between(xa: RowMoments, xb: RowMoments, ya: RowMoments, yb: RowMoments) -> Array:
    """What two parts' cross moments lack when their means differ."""
    weight = xa.n * xb.n / (xa.n + xb.n)
    return (xb.mean - xa.mean)[:, None] * (yb.mean - ya.mean)[None, :] * weight


def _ratio(size: Array, variance: Array) -> Array:
    """size / sqrt(variance); infinite where only the variance is 0, 0 where both are."""
    xp = namespace(size)
    safe = xp.where(variance > 0, variance, xp.ones_like(variance))
    at_zero = xp.where(size > 0, xp.full_like(size, float("inf")), xp.zeros_like(size))
    return xp.where(variance > 0, size / xp.sqrt(safe), at_zero)


def _counted(batches: Iterable[Array]) -> Iterator[tuple[Array, int]]:
    """Each batch with the number of rows before it."""
    first_row = 0
    for batch in batches:
        yield batch, first_row
        first_row += len(batch)


def _check_dims(first: int, second: int) -> None:
    if first != second:
        raise InputValueError(
            f"Moments can be added when they have the same number of columns, "
            f"got {first} and {second}."
        )


def _tensors(moments: Moments, side: str) -> dict[str, np.ndarray]:
    tensors = {f"{side}.n": np.array(moments.n, dtype=np.int64)}
    for kind, rows in (("given", moments.given), ("unit", moments.unit)):
        if rows is not None:
            tensors[f"{side}.{kind}.mean"] = to_numpy(rows.mean)
            if rows.scatter is not None:
                tensors[f"{side}.{kind}.scatter"] = to_numpy(rows.scatter)
    return tensors


def _moments(tensors: dict[str, np.ndarray], side: str) -> Moments:
    n = int(tensors[f"{side}.n"].item())

    def rows(kind: str) -> RowMoments | None:
        if f"{side}.{kind}.mean" not in tensors:
            return None
        return RowMoments(n, tensors[f"{side}.{kind}.mean"], tensors.get(f"{side}.{kind}.scatter"))

    given = rows("given")
    assert given is not None
    return Moments(given, rows("unit"))
