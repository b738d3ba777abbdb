"""The ways in which the rows of a task can be changed, each at several amounts."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from modgap._arrays import like, to_numpy
from modgap._validate import Array, InputValueError, check_numbers
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    Corrector,
    OrthogonalShift,
    Procrustes,
    RecognitionWarning,
    Shift,
    Whiten,
    row_length,
)
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.hubs import MIN_BANK, NEIGHBOURS, WEIGHTS
from modgap.corrections.partly import partly
from modgap.evaluation.tasks.task import Task
from modgap.io import Modalities

# Shares of the gap that are closed: −1 doubles it, 1 closes it.
BOTH_WAYS = tuple(k / 20 for k in (-20, -16, -12, *range(-8, 9), 12, 16, 20, 24))
CLOSING = tuple(k / 10 for k in range(1, 13))


@dataclass(frozen=True, eq=False)
class TaskRows:
    """A task with what its corrections are fitted on.

    ``halves`` are the groups that choose and those that test. ``bank`` are rows of X's kind that
    are in no item; without one, each half is the bank of the other.
    """

    task: Task
    fit: Modalities
    halves: tuple[np.ndarray, np.ndarray]
    bank: Array | None = None

    @cached_property
    def gap(self) -> np.ndarray:
        """From the mean of Y to that of X, of the rows that a correction starts with."""
        identity = Correction.identity(self.fit.dim, self.task.names, metric=self.task.metric)
        return self._gap(identity)

    def gap_after(self, correction: Correction | None = None) -> float:
        """The distance between the means, negative once they have crossed.

        NaN where a correction gives queries and documents other lengths, so that there is none.
        """
        if correction is None:
            return float(np.linalg.norm(self.gap))
        if correction.metric == "inner_product":
            return float("nan")
        left = self._gap(correction)
        moved = all(m.matrix is None and m.blocks is None for m in correction.maps.values())
        sign = np.sign(left @ self.gap) if moved and left @ self.gap else 1.0
        return float(sign * np.linalg.norm(left))

    def _gap(self, correction: Correction) -> np.ndarray:
        means = []
        for rows in self.task.rows(correction):
            wide = to_numpy(rows).astype(np.float64)
            if correction.metric == "cosine":
                wide /= np.linalg.norm(wide, axis=1, keepdims=True)
            means.append(wide.mean(axis=0))
        found: np.ndarray = means[0] - means[1]
        return found


# Given an amount: the outcome of each item, and the gap that is left.
AtAmount = Callable[[float], tuple[np.ndarray, float]]


@dataclass(frozen=True, eq=False)
class Way(ABC):
    """One way of changing rows, at several amounts; 0 would be the rows as they are."""

    name: str
    amounts: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = check_numbers(self.amounts, "amounts")
        object.__setattr__(self, "amounts", tuple(float(a) for a in numbers))

    @abstractmethod
    def fitted(self, rows: TaskRows) -> AtAmount:
        """What gives the outcomes at an amount; InputError where it cannot be fitted."""


@dataclass(frozen=True, eq=False)
class CorrectionWay(Way):
    """A correction: all of it at amount 1; in part where it only moves rows."""

    corrector: Corrector

    def fitted(self, rows: TaskRows) -> AtAmount:
        """The correction, fitted once."""
        task = rows.task
        correction, reason = self.corrector.try_fit(
            rows.fit, queries=task.names[0], rows=row_length(task.metric)
        )
        if correction is None:
            raise InputValueError(reason)

        def at(amount: float) -> tuple[np.ndarray, float]:
            used = correction if amount == 1 else partly(correction, amount)
            return task.outcomes(used), rows.gap_after(used)

        return at


@dataclass(frozen=True, eq=False)
class HubWay(Way):
    """Candidates that are near to every row of a bank count for less; the amount is α."""

    neighbours: int = 10
    mode: Literal["keep", "mixed"] = "keep"

    def fitted(self, rows: TaskRows) -> AtAmount:
        """Calibrated, with the bank given or with each half as the bank of the other."""
        task, asking = rows.task, rows.task.names[0]
        plain, reason = Calibrate(self.mode).try_fit(
            rows.fit, queries=asking, rows=row_length(task.metric)
        )
        if plain is None:
            raise InputValueError(reason)
        whole = np.ones(task.n_items, dtype=bool)
        banks = _halves_as_banks(rows) if rows.bank is None else [(whole, rows.bank)]
        if rows.bank is not None:
            check_bank(plain, rows.bank, rows.fit)
        if 2 * self.neighbours > min(bank.shape[0] for _, bank in banks):
            raise InputValueError(f"the bank has fewer than {2 * self.neighbours} rows")

        def at(amount: float) -> tuple[np.ndarray, float]:
            found = np.empty(task.n_items)
            for items, bank in banks:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RecognitionWarning)  # said before
                    used = with_hubs(plain, rows.fit, amount, self.neighbours, bank)
                found[items] = task.outcomes(used)[items]
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
    """What is tried where nothing else is asked for.

    Liang et al.'s shift along the gap, from doubled over closed to beyond; centring and Chowers et
    al.'s orthogonal shift of the candidates, from none to a little beyond; the other corrections
    as they are; and, where X asks, hubs with several k and α.
    """
    asks = task.roles[0] == "query"
    moved: Literal["x", "y"] = "y" if asks else "x"
    exact, most = OrthogonalShift(moved), OrthogonalShift(moved, 0.95)
    ways: list[Way] = [
        CorrectionWay("Shift", BOTH_WAYS, Shift(0.5)),
        CorrectionWay("Center", CLOSING, Center()),
        CorrectionWay("OrthogonalShift, 100 %", CLOSING, exact),
        CorrectionWay("OrthogonalShift, 95 %", CLOSING, most),
        CorrectionWay("Calibrate", (1.0,), Calibrate()),
        CorrectionWay("Calibrate, mixed", (1.0,), Calibrate("mixed")),
        CorrectionWay("Whiten", (1.0,), Whiten()),
        CorrectionWay("Procrustes", (1.0,), Procrustes()),
    ]
    if asks:
        ways += [HubWay(f"hubs, k = {k}", WEIGHTS, k) for k in NEIGHBOURS]
    return tuple(ways)
