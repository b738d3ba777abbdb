"""A task at every amount of every way, the best chosen on one half and tested on the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from modgap._results import Progress, silent
from modgap._validate import Array, InputError, InputValueError
from modgap.corrections import Calibrate, row_length
from modgap.corrections.bank import check_bank
from modgap.evaluation.significance import (
    DEFAULT_RESAMPLES,
    Comparison,
    GroupBootstrap,
    compare,
)
from modgap.evaluation.tasks.result import AS_THEY_ARE, TaskPoint, TaskSweep, TaskTest
from modgap.evaluation.tasks.task import Task
from modgap.evaluation.tasks.ways import TaskRows, Way, default_ways
from modgap.evaluation.zero_shot_hubs import without_rows_of
from modgap.io import Modalities

# The way, the amount and the gap that is left, with one outcome per item.
Tried = tuple[str, float, float, np.ndarray]
Test = Callable[[Tried], TaskTest]


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

    The groups of items are halved at random. The point that is best on one half, the rows as they
    are among them, is compared with the rows as they are on the other half, item by item.
    Corrections see rows, never outcomes.

    Parameters
    ----------
    task : Task
        What is judged.
    ways : sequence of Way, optional
        What is tried; ``default_ways(task)`` when left out.
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
    say = progress or silent
    chosen_ways = default_ways(task) if ways is None else tuple(ways)
    names = [way.name for way in chosen_ways]
    if len({*names, AS_THEY_ARE}) <= len(names):
        raise InputValueError(f"Ways need names of their own, got {', '.join(names)}.")
    halves = halves_of(task.groups, seed)
    data, fitted_on = _fit_rows(task, fit_on)
    rows = TaskRows(task, data, halves, None if bank is None else _bank(task, data, bank))
    tried, failures = _try(rows, chosen_ways, say)
    chooses = np.isin(task.groups, halves[0])
    test = _tester(task, tried[0], ~chooses, resamples, level, seed)
    best = _best_of_all(tried, chooses, task.better)
    return TaskSweep(
        task=task.name,
        outcome=task.outcome,
        names=task.names,
        metric=task.metric,
        better=task.better,
        n_items=task.n_items,
        n_groups=len(np.unique(task.groups)),
        fitted_on=fitted_on,
        raw=(points := _points(task, tried, resamples, level, seed))[0],
        points=points[1:],
        tests=tuple(test(_best(own, chooses, task.better)) for own in _by_way(tried)),
        chosen=test(best),
        failures=failures,
        published=task.published,
        level=level,
        seed=seed,
        outcomes=np.stack([outcomes for *_, outcomes in tried]),
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


def _try(rows: TaskRows, ways: Sequence[Way], say: Progress) -> tuple[list[Tried], dict[str, str]]:
    """Everything that could be tried, the rows as they are first; and why the others could not."""
    total, done = 1 + sum(len(way.amounts) for way in ways), 1
    say(AS_THEY_ARE, 0, total)
    raw, gap = rows.judged()
    tried: list[Tried] = [(AS_THEY_ARE, 0.0, gap, raw)]
    failures: dict[str, str] = {}
    for way in ways:
        say(way.name, done, total)
        try:
            at = way.fitted(rows)
            own: list[Tried] = []
            for number, amount in enumerate(way.amounts):
                say(way.name, done + number, total)
                if amount != 0:
                    outcomes, gap = at(amount)
                    own.append((way.name, amount, gap, rows.task.checked(outcomes)))
            tried += own
        except InputError as unusable:  # no pairs, or a row on the origin
            failures[way.name] = str(unusable)
        done += len(way.amounts)
    return tried, failures


def _by_way(tried: Sequence[Tried]) -> list[list[Tried]]:
    found: dict[str, list[Tried]] = {}
    for one in tried[1:]:
        found.setdefault(one[0], []).append(one)
    return list(found.values())


def _best(tried: Sequence[Tried], chooses: np.ndarray, better: str) -> Tried:
    """The best on the half that chooses; of equals the one nearest to all of the move."""
    sign = 1 if better == "higher" else -1
    return max(tried, key=lambda one: (sign * float(one[3][chooses].mean()), -abs(1 - one[1])))


def _best_of_all(tried: Sequence[Tried], chooses: np.ndarray, better: str) -> Tried:
    """The best of everything; the rows as they are where nothing is better."""
    raw, *others = tried
    if not others:
        return raw
    best = _best(others, chooses, better)
    gain = float(best[3][chooses].mean() - raw[3][chooses].mean())
    return best if (gain if better == "higher" else -gain) > 0 else raw


def _tester(
    task: Task, raw: Tried, tests: np.ndarray, resamples: int, level: float, seed: int
) -> Test:
    """Compares with the rows as they are on the half that did not choose."""
    alone = len(np.unique(task.groups)) == task.n_items

    def against_raw(one: Tried, items: np.ndarray) -> Comparison:
        groups = None if alone else task.groups[items]
        return compare(
            raw[3][items], one[3][items], groups, resamples=resamples, seed=seed, level=level
        )

    def test(one: Tried) -> TaskTest:
        found = against_raw(one, tests)
        change = found.difference
        certain = change.low > 0 if task.better == "higher" else change.high < 0
        parts = {
            name: against_raw(one, part & tests)
            for name, part in task.parts.items()
            if np.any(part & tests)
        }
        helps = bool(certain and found.p_value < 1 - level)
        return TaskTest(one[0], one[1], found, helps, parts)

    return test


def _points(
    task: Task, tried: Sequence[Tried], resamples: int, level: float, seed: int
) -> tuple[TaskPoint, ...]:
    """Every point with its intervals, over the same resamples of groups."""
    bootstrap = GroupBootstrap(task.groups, resamples, seed, level)
    points = []
    raw, raw_draws = bootstrap.ratios(tried[0][3], task.groups)
    for way, amount, gap, outcomes in tried:
        value, draws = bootstrap.ratios(outcomes, task.groups)
        points.append(
            TaskPoint(
                way,
                amount,
                bootstrap.interval(value, draws),
                bootstrap.interval(value - raw, draws - raw_draws),
                gap,
                {name: _mean(outcomes[part]) for name, part in task.parts.items()},
            )
        )
    return tuple(points)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
