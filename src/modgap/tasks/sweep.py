"""Every task at every amount of every correction; the best is chosen on one half of the items.

The groups of items are halved at random. Each way of changing rows is tried at each of its amounts.
The point that is best on the first half is compared with the uncorrected rows on the second half,
item by item: only that comparison may claim a gain. Corrections see rows, never outcomes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from modgap.arrays import like, to_numpy, unit
from modgap.core.checks import Array, InputError, InputValueError, check_numbers
from modgap.core.door import check_rows
from modgap.core.results import Brief, Progress, silent
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
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.hubs import MIN_BANK, NEIGHBOURS, WEIGHTS
from modgap.corrections.interpolated import interpolated
from modgap.evaluation.significance import (
    DEFAULT_RESAMPLES,
    Comparison,
    GroupBootstrap,
    compare,
)
from modgap.io import Modalities
from modgap.tasks.result import AS_THEY_ARE, TaskPoint, TaskSweep, TaskTest
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


class _Tried(NamedTuple):
    """A way at an amount, the gap that is left, and one outcome per item."""

    way: str
    amount: float
    gap: float
    outcomes: np.ndarray


def sweep_task(
    task: Task,
    ways: Sequence[Way] | None = None,
    *,
    fit_on: Modalities | tuple[Array, Array] | None = None,
    bank: Array | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> TaskSweep:
    """The outcomes of a task as its rows are moved and corrected, with a test that is fair.

    Parameters
    ----------
    task : Task
        What is judged.
    ways : sequence of Way, optional
        What is tried; by default ``default_ways(task)``.
    fit_on : (X, Y) or Modalities, optional
        Reference rows to fit on instead of those of the task, as Liang et al. took the gap of
        MS-COCO: as many rows on both sides are pairs.
    bank : (n, d) array, optional
        Rows of X's kind that are in no item, for hubs; by default each half is the bank of the
        other.
    resamples, level, seed
        Of the intervals; the seed is that of the halves as well.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    chosen_ways = default_ways(task) if ways is None else tuple(ways)
    names = [way.name for way in chosen_ways]
    if len({*names, AS_THEY_ARE}) <= len(names):
        raise InputValueError(f"Ways need names of their own, got {', '.join(names)}.")
    n_groups = len(np.unique(task.groups))
    if n_groups < 2:
        raise InputValueError(
            f"{task.name} needs items of at least two groups: one half chooses, the other tests."
        )
    halves = halves_of(task.groups, seed)
    data, fitted_on = _fit_rows(task, fit_on)
    rows = TaskRows(task, data, halves, None if bank is None else _bank(task, data, bank))
    tried, failures = _try(rows, chosen_ways, progress or silent)
    raw, *others = tried
    sign, chooses = (1 if task.better == "higher" else -1), np.isin(task.groups, halves[0])

    def score(one: _Tried) -> float:
        return sign * float(one.outcomes[chooses].mean())

    def best(among: Sequence[_Tried]) -> _Tried:
        """The best on the half that chooses; of equals the one nearest to all of the move."""
        return max(among, key=lambda one: (score(one), -abs(1 - one.amount)))

    def against_raw(one: _Tried, items: np.ndarray) -> Comparison:
        groups = None if n_groups == task.n_items else task.groups[items]
        before, after = raw.outcomes[items], one.outcomes[items]
        return compare(before, after, groups, resamples=resamples, seed=seed, level=level)

    def test(one: _Tried) -> TaskTest:
        """The comparison with uncorrected rows on the half that did not choose."""
        found = against_raw(one, ~chooses)
        change = found.difference
        certain = change.low > 0 if task.better == "higher" else change.high < 0
        apart = {name: part & ~chooses for name, part in task.parts.items()}
        parts = {name: against_raw(one, items) for name, items in apart.items() if items.any()}
        helps = bool(certain and found.p_value < 1 - level)
        return TaskTest(one.way, one.amount, found, helps, parts)

    winner = best(others) if others else raw
    points = _points(task, tried, GroupBootstrap(task.groups, resamples, seed, level))
    return TaskSweep(
        task=task.name,
        outcome=task.outcome,
        names=task.names,
        metric=task.metric,
        better=task.better,
        n_items=task.n_items,
        n_groups=n_groups,
        fitted_on=fitted_on,
        raw=points[0],
        points=points[1:],
        tests=tuple(
            test(best([one for one in others if one.way == way]))
            for way in dict.fromkeys(one.way for one in others)
        ),
        chosen=test(winner if score(winner) > score(raw) else raw),
        failures=failures,
        published=task.published,
        level=level,
        seed=seed,
        outcomes=np.stack([one.outcomes for one in tried]),
    )


def halves_of(groups: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels of two random halves of the groups, sorted."""
    labels = np.unique(groups)
    first, second = np.array_split(np.random.default_rng(seed).permutation(len(labels)), 2)
    return labels[np.sort(first)], labels[np.sort(second)]


def _fit_rows(
    task: Task, fit_on: Modalities | tuple[Array, Array] | None
) -> tuple[Modalities, str]:
    """The rows to fit on, and whose they are."""
    whose = "reference rows"
    if fit_on is None:
        own = (task.X, task.Y) if task.fit_on is None else task.fit_on
        data, whose = Modalities.of(*own, task.names, paired=False), "rows of the task"
    elif isinstance(fit_on, Modalities):
        data = fit_on
    else:
        data = Modalities.of(*fit_on, task.names)
    if data.names != task.names:
        raise InputValueError(
            f"fit_on must have the modalities of the task, {' and '.join(task.names)}, got "
            f"{' and '.join(data.names)}."
        )
    if data.dim != task.X.shape[1]:
        raise InputValueError(
            f"fit_on must have the {task.X.shape[1]} columns of the task's rows, got {data.dim}. "
            "Embed both with the same model."
        )
    sizes = " and ".join(f"{side.n_rows:,} {name}" for name, side in data.sides.items())
    return data.check(nonzero=task.metric == "cosine"), f"{sizes} {whose}"


def _bank(task: Task, data: Modalities, bank: Array) -> Array:
    """The bank, refused where it holds rows to be judged or is of another model."""
    found = without_rows_of(task.X, bank)
    plain = Calibrate().fit(data, queries=task.names[0], rows=row_length(task.metric))
    check_bank(plain.correction_, found, data)
    return found


def without_rows_of(X: Array, bank: Any) -> Array:
    """The bank; refused where it holds rows that are to be classified."""
    bank = check_rows(bank, "bank", nonzero=True)
    rows = {row.tobytes() for row in to_numpy(X)}
    shared = sum(row.tobytes() in rows for row in to_numpy(bank).astype(to_numpy(X).dtype))
    if shared:
        raise InputValueError(
            f"The bank has {shared} rows of X, which it is to classify. Leave them out; without a "
            "bank, each half of X is the bank of the other."
        )
    return bank


def _try(rows: TaskRows, ways: Sequence[Way], say: Progress) -> tuple[list[_Tried], dict[str, str]]:
    """Every point that can be tried, uncorrected rows first; and why other ways cannot."""
    total, done = 1 + sum(len(way.amounts) for way in ways), 1
    say(AS_THEY_ARE, 0, total)
    raw, gap = rows.judged()
    tried = [_Tried(AS_THEY_ARE, 0.0, gap, raw)]
    failures: dict[str, str] = {}
    for way in ways:
        say(way.name, done, total)
        try:
            at = way.fitted(rows)
            own = []
            for number, amount in enumerate(way.amounts):
                say(way.name, done + number, total)
                if amount != 0:
                    outcomes, gap = at(amount)
                    own.append(_Tried(way.name, amount, gap, outcomes))
            tried += own
        except InputError as unusable:  # no pairs, or a row on the origin
            failures[way.name] = str(unusable)
        done += len(way.amounts)
    return tried, failures


def _points(
    task: Task, tried: Sequence[_Tried], bootstrap: GroupBootstrap
) -> tuple[TaskPoint, ...]:
    """Every point with its intervals, over the same resamples of groups."""
    raw, raw_draws = bootstrap.ratios(tried[0].outcomes, task.groups)
    points = []
    for one in tried:
        value, draws = bootstrap.ratios(one.outcomes, task.groups)
        points.append(
            TaskPoint(
                one.way,
                one.amount,
                bootstrap.interval(value, draws),
                bootstrap.interval(value - raw, draws - raw_draws),
                one.gap,
                task.part_means(one.outcomes),
            )
        )
    return tuple(points)
