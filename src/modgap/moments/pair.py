"""Moments of two modalities and across them, and the measures that need nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations
from typing import Any

import numpy as np

from modgap.arrays import namespace, to_numpy
from modgap.core.checks import Array, InputValueError, check_same_space
from modgap.core.door import check_matrix, opened_two
from modgap.core.results import Brief
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.core.threads import in_threads
from modgap.moments.modality import Moments, from_tensors, moments_of_rows, to_tensors
from modgap.moments.rows import Block, Detail, RowMoments, blocks_of, copied, ratio


@dataclass(frozen=True)
class Cross(Brief):
    """Σ (x − mean_x)(y − mean_y)ᵀ over pairs, of the rows as given and of the unit rows."""

    given: Array
    unit: Array


@dataclass(frozen=True)
class PairMoments(Brief):
    """Moments of two modalities, and across them where rows are pairs (else ``cross`` is None)."""

    x: Moments
    y: Moments
    cross: Cross | None = None

    def _brief(self) -> str:
        pairs = "" if self.cross is None else ", pairs"
        return f"{self.x.n:,} and {self.y.n:,} rows, {self.x.dim} columns{pairs}"

    @classmethod
    def from_batch(
        cls,
        X: Array,
        Y: Array | None = None,
        *,
        names: tuple[str, str] = ("X", "Y"),
        detail: Detail = "covariance",
        unit: bool = True,
        paired: bool = False,
    ) -> PairMoments:
        """Moments of two matrices; ``paired=True`` when row i of X belongs to row i of Y.

        Paired moments hold everything, whatever ``detail`` and ``unit`` say.
        """
        X, Y = opened_two(X, Y, names, matched=paired)
        X, Y = _checked(X, Y, names, paired=paired)
        return pair_moments_of(X, Y, names, detail=detail, unit=unit, paired=paired)

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
        X, Y = opened_two(batches_x, batches_y, names, matched=True)
        if X is not batches_x:
            return cls.from_batch(X, Y, names=names, paired=True)
        both = zip(batches_x, batches_y, strict=True)
        checked = (map(copied, _checked(X, Y, names, paired=True)) for X, Y in both)
        return _total(_blocks_of_all(checked, names), names)

    @classmethod
    def from_stream(
        cls,
        batches_x: Iterable[Array],
        batches_y: Iterable[Array],
        *,
        names: tuple[str, str] = ("X", "Y"),
        first_row: int = 0,
    ) -> PairMoments:
        """``from_batches`` of pairs where no batch is written over once it was given out."""
        both = zip(batches_x, batches_y, strict=True)
        return _total(_blocks_of_all(both, names, first_row), names)

    def __add__(self, other: PairMoments) -> PairMoments:
        return deepcopy(self).add(other)

    def add(self, other: PairMoments) -> PairMoments:
        """``self + other``; what this one holds is written over."""
        cross = self.cross
        if cross is None or other.cross is None:
            return PairMoments(self.x.add(other.x), self.y.add(other.y))
        a, b = (self.x, self.y), (other.x, other.y)
        given = _between(a[0].given, b[0].given, a[1].given, b[1].given)
        unit = _between(*(side.unit_rows() for two in zip(a, b, strict=True) for side in two))
        for total, part, between in (
            (cross.given, other.cross.given, given),
            (cross.unit, other.cross.unit, unit),
        ):
            total += part
            total += between
        return PairMoments(self.x.add(other.x), self.y.add(other.y), cross)

    def at_unit_length(self) -> PairMoments:
        """The moments of the unit rows, as if those had been given."""
        cross = None if self.cross is None else Cross(self.cross.unit, self.cross.unit)
        return PairMoments(self.x.at_unit_length(), self.y.at_unit_length(), cross)

    def gap_vector(self) -> Array:
        """mean(X) − mean(Y)."""
        return self.x.given.mean - self.y.given.mean

    def gap_distance(self) -> float:
        """Euclidean norm of the gap vector."""
        xp = namespace(self.x.given.mean)
        return float(xp.linalg.vector_norm(self.gap_vector()))

    def separability(self) -> Array:
        """abs(mean_x − mean_y) / sqrt(var_x + var_y) of each feature."""
        return ratio(abs(self.gap_vector()), self.x.given.variance + self.y.given.variance)

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
        return stacked_uniformity((self.x, self.y))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file."""
        tensors = {**to_tensors(self.x, "x"), **to_tensors(self.y, "y")}
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
            if "cross.unit" not in tensors:
                raise InputValueError(f"{path} holds no whole moments: those of pairs are missing.")
            cross = Cross(tensors["cross.given"], tensors["cross.unit"])
        return cls(from_tensors(tensors, "x"), from_tensors(tensors, "y"), cross)


def pair_moments_of(
    X: Array,
    Y: Array,
    names: tuple[str, str] = ("X", "Y"),
    *,
    detail: Detail = "covariance",
    unit: bool = True,
    paired: bool = False,
) -> PairMoments:
    """``PairMoments.from_batch`` of two matrices in memory, of one space."""
    if paired:
        return _total(_blocks_of_all([(X, Y)], names), names)
    options: dict[str, Any] = {"detail": detail, "unit": unit}
    return PairMoments(
        moments_of_rows(X, names[0], **options), moments_of_rows(Y, names[1], **options)
    )


def _checked(X: Any, Y: Any, names: tuple[str, str], *, paired: bool) -> tuple[Array, Array]:
    X, Y = check_matrix(X, names[0]), check_matrix(Y, names[1])
    check_same_space(X, Y, names)
    if paired and X.shape[0] != Y.shape[0]:
        raise InputValueError(
            f"{names[0]} and {names[1]} must hold the same pairs row by row, "
            f"got {tuple(X.shape)} and {tuple(Y.shape)}."
        )
    return X, Y


def mean_distances(sides: Sequence[Moments]) -> np.ndarray:
    """Distance between the means of every two modalities, (k, k)."""
    found = np.zeros((len(sides), len(sides)))
    for i, j in combinations(range(len(sides)), 2):
        found[i, j] = found[j, i] = PairMoments(sides[i], sides[j]).gap_distance()
    return found


def stacked_uniformity(sides: Sequence[Moments]) -> float:
    """Wasserstein uniformity of the unit rows of all modalities together."""
    stacked = reduce(RowMoments.__add__, (side.unit_rows() for side in sides))
    C, d = stacked.covariance, stacked.mean.shape[0]
    xp = namespace(stacked.mean)
    spectrum = xp.clip(xp.linalg.eigvalsh(C), 0.0, None)
    roots = float(xp.sum(xp.sqrt(spectrum)))
    squared = float(xp.sum(stacked.mean**2)) + 1.0 + float(xp.linalg.trace(C))
    return -(max(squared - 2.0 * roots / d**0.5, 0.0) ** 0.5)


def _blocks_of_all(
    batches: Iterable[Iterable[Array]], names: tuple[str, str], first_row: int = 0
) -> Iterator[tuple[Block, Block]]:
    """The blocks of a stream of paired batches."""
    for X, Y in batches:
        yield from zip(
            blocks_of(X, names[0], first_row), blocks_of(Y, names[1], first_row), strict=True
        )
        first_row += len(X)


def _total(blocks: Iterable[tuple[Block, Block]], names: tuple[str, str]) -> PairMoments:
    """The moments of blocks of pairs, made in threads and added in order."""
    left = iter(blocks)
    first = next(left, None)
    if first is None:
        raise InputValueError(f"{names[0]} must have at least one row, got no batches.")
    parts = in_threads(_of_pairs, chain([first], left), first[0].workers(n_sides=3))
    return reduce(PairMoments.add, parts)


def _of_pairs(blocks: tuple[Block, Block]) -> PairMoments:
    given = [block.wide() for block in blocks]
    lengths = [block.lengths(wide, nonzero=True) for wide, block in zip(given, blocks, strict=True)]
    alike = all(block.is_unit(own) for block, own in zip(blocks, lengths, strict=True))
    units = given if alike else [w / own for w, own in zip(given, lengths, strict=True)]
    x, y = (RowMoments.of_scratch(rows) for rows in given)
    u, v = (x, y) if alike else (RowMoments.of_scratch(rows) for rows in units)
    # All of them are centred by now.
    across = given[0].T @ given[1]
    cross = Cross(across, across.copy() if alike else units[0].T @ units[1])
    return PairMoments(Moments(x, u), Moments(y, v), cross)


def _between(xa: RowMoments, xb: RowMoments, ya: RowMoments, yb: RowMoments) -> Array:
    """What two parts' cross moments lack when their means differ."""
    weight = xa.n * xb.n / (xa.n + xb.n)
    return (xb.mean - xa.mean)[:, None] * (yb.mean - ya.mean)[None, :] * weight
