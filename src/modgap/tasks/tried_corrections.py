"""The corrections that a sweep tries on a task, each at several amounts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from modgap.arrays import like, to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_numbers
from modgap.core.results import Brief
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    Corrector,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    row_length,
)
from modgap.corrections.bank import with_hubs
from modgap.corrections.hubs import MIN_BANK, NEIGHBOURS, WEIGHTS
from modgap.corrections.interpolated import interpolated
from modgap.io import Modalities
from modgap.tasks.task import Task

# Shares of the gap that are closed: −1 doubles it, 1 closes it.
BOTH_WAYS = tuple(k / 20 for k in (-20, -16, -12, *range(-8, 9), 12, 16, 20, 24, 28))
CLOSING = tuple(k / 10 for k in (*range(1, 11), 12, 14))
# A probe is fitted anew at every point.
FEW_BOTH_WAYS, FEW_CLOSING = (-1.0, -0.5, 0.5, 1.0), (0.5, 1.0)


@dataclass(frozen=True, eq=False)
class TaskRows(Brief):
    """A task with the rows that its corrections are fitted on.

    ``halves`` are the groups that choose and those that test. ``bank`` are rows of X's kind that
    are in no item; without one, each half is the bank of the other.
    """

    task: Task
    fit: Modalities
    halves: tuple[np.ndarray, np.ndarray]
    bank: Array | None = None

    @cached_property
    def as_they_are(self) -> Correction:
        """The correction that changes nothing, ranked as the task ranks."""
        return Correction.identity(self.fit.dim, self.task.names, metric=self.task.metric)

    @cached_property
    def gap(self) -> np.ndarray:
        """From the mean of Y to that of X, before any correction."""
        return _gap(self.as_they_are, *self.task.rows())

    def judged(self, correction: Correction | None = None) -> tuple[np.ndarray, float]:
        """The outcome of each item, and the distance between the means, after a correction.

        The distance is negative once the means have crossed, and NaN where a correction gives
        queries and documents other lengths, so that there is none.
        """
        used = correction or self.as_they_are
        X, Y = self.task.rows(correction)
        outcomes = self.task.checked(self.task.judge(X, Y, used.metric))
        if used.metric == "inner_product" and correction is not None:
            return outcomes, float("nan")
        left = _gap(used, X, Y)
        moved = all(m.matrix is None and m.blocks is None for m in used.maps.values())
        crossed = moved and left @ self.gap < 0
        return outcomes, float(np.linalg.norm(left)) * (-1 if crossed else 1)

    def fitted(self, corrector: Corrector) -> Correction:
        """A correction of the task's rows; InputError where it cannot be fitted."""
        correction, reason = corrector.try_fit(
            self.fit, queries=self.task.names[0], rows=row_length(self.task.metric)
        )
        if correction is None:
            raise InputValueError(reason)
        return correction


def _gap(correction: Correction, *rows: Array) -> np.ndarray:
    """The difference of the means of mapped rows, at unit length where cosines rank them."""
    given = correction.metric != "cosine" or all(
        m.gives_unit_rows for m in correction.maps.values()
    )
    X, Y = (to_numpy(side if given else unit(side)).mean(axis=0, dtype=np.float64) for side in rows)
    return np.asarray(X - Y)


# Given an amount: the outcome of each item, and the gap that is left.
AtAmount = Callable[[float], tuple[np.ndarray, float]]


@dataclass(frozen=True, eq=False)
class Way(Brief, ABC):
    """One way of changing rows, at several amounts; 0 would be the uncorrected rows."""

    name: str
    amounts: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = check_numbers(self.amounts, "amounts")
        object.__setattr__(self, "amounts", tuple(float(a) for a in numbers))

    @abstractmethod
    def fitted(self, rows: TaskRows) -> AtAmount:
        """The function from an amount to the outcomes; InputError where it cannot be fitted."""


@dataclass(frozen=True, eq=False)
class CorrectionWay(Way):
    """A correction: all of it at amount 1; in part where it only moves rows."""

    corrector: Corrector

    def fitted(self, rows: TaskRows) -> AtAmount:
        """The correction, fitted once."""
        correction = rows.fitted(self.corrector)
        return lambda amount: rows.judged(
            correction if amount == 1 else interpolated(correction, amount)
        )


@dataclass(frozen=True, eq=False)
class HubWay(Way):
    """Candidates that are near to every row of a bank count for less; the amount is α."""

    neighbours: int = 10
    mode: Literal["keep", "mixed"] = "keep"

    def fitted(self, rows: TaskRows) -> AtAmount:
        """Calibrated, with the bank given or with each half as the bank of the other."""
        task, plain = rows.task, rows.fitted(Calibrate(self.mode))
        whole = np.ones(task.n_items, dtype=bool)
        banks = _halves_as_banks(rows) if rows.bank is None else [(whole, rows.bank)]
        if 2 * self.neighbours > min(bank.shape[0] for _, bank in banks):
            raise InputValueError(f"the bank has fewer than {2 * self.neighbours} rows")

        def at(amount: float) -> tuple[np.ndarray, float]:
            found = np.empty(task.n_items)
            for items, bank in banks:
                used = with_hubs(plain, rows.fit, amount, self.neighbours, bank)
                found[items] = task.score(used).outcomes[items]
            return found, float("nan")

        return at


def _halves_as_banks(rows: TaskRows) -> list[tuple[np.ndarray, Array]]:
    """Items of each half, with the rows of the other as their bank."""
    task = rows.task
    if task.x_groups is None:
        raise InputValueError("it needs a bank: which rows of X belong to which items is not known")
    banks = []
    for half in rows.halves:
        others = np.flatnonzero(~np.isin(task.x_groups, half))
        if len(others) < MIN_BANK:
            raise InputValueError(
                f"it needs {MIN_BANK} rows in each half to be the bank of the other"
            )
        banks.append((np.isin(task.groups, half), task.X[like(others, task.X)]))
    return banks


def default_ways(task: Task) -> tuple[Way, ...]:
    """What ``sweep_task`` tries by default.

    Liang et al.'s shift along the gap, from doubled over closed to beyond; centring and Chowers et
    al.'s orthogonal shift of the candidates, from none to a little beyond; the other corrections
    as they are; and, where X are queries, hubs with several k and α. Where both sides are
    documents, as for a probe, there are fewer amounts.
    """
    asks = task.roles[0] == "query"
    moved: Literal["x", "y"] = "y" if asks else "x"
    closing = CLOSING if asks else FEW_CLOSING
    ways: list[Way] = [
        CorrectionWay("Shift", BOTH_WAYS if asks else FEW_BOTH_WAYS, Shift(0.5)),
        CorrectionWay("Center", closing, Center()),
        CorrectionWay("OrthogonalShift, 100 %", closing, OrthogonalShift(moved)),
        CorrectionWay("OrthogonalShift, 95 %", closing, OrthogonalShift(moved, 0.95)),
        CorrectionWay("Calibrate", (1.0,), Calibrate()),
        CorrectionWay("Calibrate, mixed", (1.0,), Calibrate("mixed")),
        CorrectionWay("Whiten", (1.0,), Whiten()),
        CorrectionWay("Procrustes", (1.0,), Procrustes()),
    ]
    if asks:
        ways += [HubWay(f"hubs, k = {k}", WEIGHTS, k) for k in NEIGHBOURS]
    return tuple(ways)
