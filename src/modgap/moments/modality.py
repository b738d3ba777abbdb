"""Moments of one modality, and the measures that need nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np

from modgap.arrays import namespace, to_numpy
from modgap.core.checks import Array, InputValueError, check_all_finite, check_count
from modgap.core.door import check_matrix, opened_batches
from modgap.core.results import Brief
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.core.threads import in_threads
from modgap.moments.rows import Block, Detail, RowMoments, blocks_of, blocks_of_all, copied, ratio


@dataclass(frozen=True)
class Moments(Brief):
    """Moments of one modality: of the rows as given, and of the rows at unit length."""

    given: RowMoments
    unit: RowMoments | None

    def _brief(self) -> str:
        return f"{self.n:,} rows, {self.dim} columns"

    @classmethod
    def from_batch(
        cls,
        X: Array,
        *,
        name: str = "X",
        detail: Detail = "covariance",
        unit: bool = True,
        nonzero: bool | None = None,
        only_unit: bool = False,
        first_row: int = 0,
    ) -> Moments:
        """Moments of a matrix of rows, gathered in blocks. ``unit=False`` leaves that half out.

        Rows of length zero are refused with ``nonzero``, which is the same as ``unit`` when left
        out. With ``only_unit`` both halves are those of the unit rows, in half the time.
        ``first_row`` is the number of the first row in error messages, for batches of a stream.
        """
        gather = Gather(detail, unit, nonzero, only_unit)
        return gather.total(blocks_of(check_matrix(X, name), name, first_row), name)

    @classmethod
    def from_batches(cls, batches: Iterable[Array], *, name: str = "X", **options: Any) -> Moments:
        """Moments of rows that come in batches, of which a few are held at a time.

        A path or a table is read in batches. ``options`` are those of ``from_batch``.
        """
        opened = opened_batches(batches, name)
        if opened is batches:  # whose owner may write the next batch over the last
            opened = (copied(check_matrix(batch, name)) for batch in batches)
        return cls.from_stream(opened, name=name, **options)

    @classmethod
    def from_stream(
        cls, batches: Iterable[Array], *, name: str = "X", first_row: int = 0, **options: Any
    ) -> Moments:
        """``from_batches`` where no batch is written over once it was given out.

        The next one is asked for while threads still work on the blocks of the last. Options as
        for ``from_batch``.
        """
        return Gather(**options).total(blocks_of_all(batches, name, first_row), name)

    def __add__(self, other: Moments) -> Moments:
        return deepcopy(self).add(other)

    def add(self, other: Moments) -> Moments:
        """``self + other``; what this one holds is written over."""
        if self.dim != other.dim:
            raise InputValueError(
                f"Moments can be added when they have the same number of columns, "
                f"got {self.dim} and {other.dim}."
            )
        unit, shared = self.unit, self.given is self.unit
        if shared and other.given is other.unit:
            given = self.given.add(other.given)
            return Moments(given, given)
        if shared:
            unit = deepcopy(unit)  # one array cannot become two
        both = unit is not None and other.unit is not None
        return Moments(
            self.given.add(other.given),
            unit.add(other.unit) if both else None,  # type: ignore[union-attr, arg-type]
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.given.n

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.given.mean.shape[0])

    def at_unit_length(self) -> Moments:
        """The moments of the unit rows, as if those had been given."""
        return Moments(self.unit_rows(), self.unit_rows())

    def unit_rows(self) -> RowMoments:
        """Moments of the unit rows, or an error where they were left out."""
        if self.unit is None:
            raise InputValueError("These moments leave out the unit rows; gather them too.")
        return self.unit

    # The formulas. Definitions: docs/reference/definitions.md.

    def feature_offset(self) -> Array:
        """abs(mean) / std of each feature; 0 where a feature is always 0."""
        return ratio(abs(self.given.mean), self.given.variance)

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
        write_tensors(path, "set of moments", to_tensors(self, "x"), {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read what ``save`` wrote."""
        return from_tensors(read_tensors(path, "set of moments")[1], "x")


@dataclass(frozen=True)
class Gather:
    """What is gathered of every block, see ``Moments.from_batch``."""

    detail: Detail = "covariance"
    unit: bool = True
    nonzero: bool | None = None
    only_unit: bool = False

    def total(self, blocks: Iterable[Block], name: str) -> Moments:
        """The moments of all blocks, made in threads and added in order."""
        left = iter(blocks)
        first = next(left, None)
        if first is None:
            raise InputValueError(f"{name} must have at least one row, got no batches.")
        return reduce(Moments.add, in_threads(self.of, chain([first], left), first.workers()))

    def of(self, block: Block) -> Moments:
        """The moments of one block."""
        wide = block.wide()
        lengths = block.lengths(wide, nonzero=self.unit if self.nonzero is None else self.nonzero)
        is_unit = block.is_unit(lengths)
        if self.only_unit and not is_unit:
            wide /= lengths
        if self.only_unit or (self.unit and is_unit):
            alike = RowMoments.of_scratch(wide, self.detail)
            return Moments(alike, alike)
        unit = RowMoments.of_scratch(wide / lengths, self.detail) if self.unit else None
        return Moments(RowMoments.of_scratch(wide, self.detail), unit)


def moments_of_rows(X: Array, name: str = "X", **options: Any) -> Moments:
    """``Moments.from_batch`` of a matrix in memory, whose values are looked at on the way."""
    return Gather(**options).total(blocks_of(X, name), name)


def to_tensors(moments: Moments, side: str) -> dict[str, np.ndarray]:
    """The moments as named arrays, for a file."""
    tensors = {f"{side}.n": np.array(moments.n, dtype=np.int64)}
    for kind, rows in (("given", moments.given), ("unit", moments.unit)):
        if rows is not None:
            tensors[f"{side}.{kind}.mean"] = to_numpy(rows.mean)
            if rows.scatter is not None:
                tensors[f"{side}.{kind}.scatter"] = to_numpy(rows.scatter)
    return tensors


def from_tensors(tensors: dict[str, np.ndarray], side: str) -> Moments:
    """The moments that ``to_tensors`` gave the names of."""
    if f"{side}.n" not in tensors or f"{side}.given.mean" not in tensors:
        raise InputValueError("The file holds no whole moments: their number or mean is missing.")
    if tensors[f"{side}.n"].size != 1 or tensors[f"{side}.n"].dtype.kind not in "iu":
        raise InputValueError("The number of rows of moments must be one whole number.")
    n = check_count(tensors[f"{side}.n"].item(), "the number of rows of moments")
    for name, values in tensors.items():
        check_all_finite(values, f"{name} of a set of moments")

    def rows(kind: str) -> RowMoments | None:
        if f"{side}.{kind}.mean" not in tensors:
            return None
        return RowMoments(n, tensors[f"{side}.{kind}.mean"], tensors.get(f"{side}.{kind}.scatter"))

    given = rows("given")
    assert given is not None
    return Moments(given, rows("unit"))
