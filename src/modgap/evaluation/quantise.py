"""Small quantisers of our own, so that a verdict never depends on what else is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from modgap._arrays import as_float, namespace
from modgap._results import Brief
from modgap._validate import Array, InputValueError, check_count, check_finite


@runtime_checkable
class Quantiser(Protocol):
    """Stores documents in few bits. ``fit`` learns ranges and returns the fitted quantiser."""

    def fit(self, documents: Array) -> Quantiser:
        """A quantiser fitted to these documents."""

    def documents(self, rows: Array) -> Array:
        """Documents as they read after storing."""

    def queries(self, rows: Array) -> Array:
        """Queries as they are compared with the stored documents."""


@dataclass(frozen=True)
class UniformQuantiser:
    """Evenly spaced levels in a fixed range, on documents and queries (Chowers et al., 5.2)."""

    levels: int
    low: float = -3.0
    high: float = 3.0

    def __post_init__(self) -> None:
        check_count(self.levels, "levels", at_least=2)
        if not check_finite(self.low, "low") < check_finite(self.high, "high"):
            raise InputValueError(f"low must be below high, got {self.low} and {self.high}.")

    def fit(self, documents: Array) -> UniformQuantiser:
        """Nothing to learn: the range is fixed."""
        return self

    def documents(self, rows: Array) -> Array:
        """Each value at the nearest level."""
        step = (self.high - self.low) / (self.levels - 1)
        return _at_levels(as_float(rows), self.low, step, self.levels)

    def queries(self, rows: Array) -> Array:
        """Queries are quantised like documents."""
        return self.documents(rows)


@dataclass(frozen=True, eq=False)
class Int8(Brief):
    """256 levels between the least and the largest value of each dimension; queries stay floats."""

    low: Array | None = None
    high: Array | None = None

    def fit(self, documents: Array) -> Int8:
        """Ranges of these documents; a fitted quantiser keeps the ranges it has."""
        if self.low is not None:
            return self
        xp = namespace(documents)
        rows = as_float(documents)
        return Int8(xp.min(rows, axis=0), xp.max(rows, axis=0))

    def documents(self, rows: Array) -> Array:
        """Each value at the nearest level, clipped to the fitted range."""
        rows = as_float(rows)
        if self.low is None or self.high is None:
            raise InputValueError("Int8 must be fitted to documents first.")
        xp = namespace(rows)
        step = (self.high - self.low) / 255
        # A dimension without spread has one level; dividing by 1 keeps it there.
        step = xp.where(step > 0, step, xp.ones_like(step))
        return _at_levels(rows, self.low, step, 256)

    def queries(self, rows: Array) -> Array:
        """Queries as they are."""
        return as_float(rows)


@dataclass(frozen=True)
class OneBit:
    """The sign of each coordinate; queries stay floats."""

    def fit(self, documents: Array) -> OneBit:
        """Nothing to learn."""
        return self

    def documents(self, rows: Array) -> Array:
        """+1 or −1 for each coordinate, 0 counting as positive."""
        xp = namespace(rows)
        rows = as_float(rows)
        return xp.where(rows >= 0, xp.ones_like(rows), -xp.ones_like(rows))

    def queries(self, rows: Array) -> Array:
        """Queries as they are."""
        return as_float(rows)


def _at_levels(rows: Array, low: Array | float, step: Array | float, levels: int) -> Array:
    xp = namespace(rows)
    return low + xp.clip(xp.round((rows - low) / step), 0, levels - 1) * step
