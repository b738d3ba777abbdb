"""Every task at every amount of every correction; the best is chosen on one half of the items.

The groups of items are halved at random. Each way of changing rows is tried at each of its amounts.
The point that is best on the first half is compared with the uncorrected rows on the second half,
item by item: only that comparison may claim a gain. Corrections see rows, never outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputError, InputValueError
from modgap.core.door import check_rows
from modgap.core.results import Progress, silent
from modgap.corrections import Calibrate, row_length
from modgap.corrections.bank import check_bank
from modgap.evaluation.significance import DEFAULT_RESAMPLES, Comparison, GroupBootstrap, compare
from modgap.io import Modalities
from modgap.tasks.result import AS_THEY_ARE, TaskPoint, TaskSweep, TaskTest
from modgap.tasks.task import Task
from modgap.tasks.tried_corrections import TaskRows, Way, default_ways


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
