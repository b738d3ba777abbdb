"""What a sweep over corrections found, point by point and on items that chose nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    NOT_IN_JSON,
    HasFigure,
    Result,
    Table,
    notebook_html,
    notebook_table,
    notebook_words,
    number,
)
from modgap.core.tables import HasTable
from modgap.evaluation.significance import Comparison, Interval
from modgap.tasks.task import Published

AS_THEY_ARE = "as they are"
_LEAST_P = 0.0001


@dataclass(frozen=True)
class TaskPoint(Result):
    """One way at one amount, over all items.

    ``gap`` is the distance between the means, negative once they have crossed, NaN where there is
    none. ``parts`` are the means over the items that are reported apart.
    """

    way: str
    amount: float
    value: Interval
    change: Interval
    gap: float
    parts: Mapping[str, float]

    def _brief(self) -> str:
        return f"{self.way} at {self.amount:g}, {_interval(self.value)}, gap {number(self.gap, 3)}"


@dataclass(frozen=True)
class TaskTest(Result):
    """A way at the amount that was best on one half, against the rows as they are on the other.

    ``way`` is "as they are" where nothing was better. ``parts`` compares the items that are
    reported apart, of the same half.
    """

    way: str
    amount: float
    result: Comparison
    helps: bool
    parts: Mapping[str, Comparison]

    def _brief(self) -> str:
        verdict = "helps" if self.helps else "no gain shown"
        return f"{self.way} at {self.amount:g}, {_signed(self.result.difference)}, {verdict}"


@dataclass(frozen=True, eq=False)
class TaskSweep(HasTable, HasFigure, Result):
    """A task at every amount of every way.

    ``raw`` are the rows as they are; ``points`` everything else that was tried, over all items.
    ``tests`` has one entry a way, ``chosen`` the best of all: each was chosen on one half of the
    groups and compared on the other. There are as many tests as ways, so that one in twenty passes
    by chance; ``chosen`` is a single one. ``outcomes`` has a line for ``raw`` and for each point,
    and a column an item. ``failures`` says why a way could not be tried.
    """

    task: str
    outcome: str
    names: tuple[str, str]
    metric: str
    better: Literal["higher", "lower"]
    n_items: int
    n_groups: int
    fitted_on: str
    raw: TaskPoint
    points: tuple[TaskPoint, ...]
    tests: tuple[TaskTest, ...]
    chosen: TaskTest
    failures: Mapping[str, str]
    published: tuple[Published, ...]
    level: float
    seed: int
    outcomes: np.ndarray = field(metadata=NOT_IN_JSON)

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways that were tried, in their order."""
        return tuple(dict.fromkeys(point.way for point in self.points))

    def of(self, way: str) -> tuple[TaskPoint, ...]:
        """The points of a way, the rows as they are among them where they belong on its curve."""
        own = [point for point in self.points if point.way == way]
        curve = own if len(own) == 1 else sorted([*own, self.raw], key=lambda p: p.amount)
        return tuple(curve)

    def at(self, way: str, amount: float) -> TaskPoint:
        """The point of a way at an amount."""
        return next(p for p in (self.raw, *self.points) if (p.way, p.amount) == (way, amount))

    def outcomes_at(self, way: str, amount: float) -> np.ndarray:
        """One outcome per item at that point."""
        points = (self.raw, *self.points)
        found: np.ndarray = self.outcomes[points.index(self.at(way, amount))]
        return found

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        best, tested = self.chosen, self.chosen.result
        of = f"{self.n_groups:,} {'items' if self.n_groups == self.n_items else 'groups'}"
        if best.way == AS_THEY_ARE:
            return (
                f"Nothing was better than the rows as they are on the half of the {of} that chose."
            )
        what = (
            f"{best.way} at {best.amount:g} was best on one half of the {of}; "
            f"on the other half it changes the {self.outcome} from {tested.before.value:.3f} to "
            f"{tested.after.value:.3f} (by {_signed(tested.difference)}, "
            f"p {'' if tested.p_value < _LEAST_P else '= '}{_p_value(tested.p_value)})"
        )
        return f"{what}: it helps." if best.helps else f"{what}: no gain is shown."

    def _brief(self) -> str:
        best = self.chosen
        end = "helps" if best.helps else "no gain shown"
        return (
            f"{self.task}, {self.n_items:,} items, {self.outcome} {self.raw.value.value:.3f} "
            f"{AS_THEY_ARE}; {best.way} at {best.amount:g}: {_signed(best.result.difference)}, "
            f"{end}"
        )

    def ranges(self) -> Ranges:
        """The change that each way makes on the half that chose nothing, for drawings."""
        lines = []
        for test in self.tests:
            change, label = test.result.difference, f"{test.way}, at {test.amount:g}"
            chosen = (test.way, test.amount) == (self.chosen.way, self.chosen.amount)
            lines.append(Range(label, change.value, change.low, change.high, marked=chosen))
        title = f"Change of {self.outcome} on the half that chose nothing; dashed: none"
        return Ranges(title, lines, reference=0.0)

    def _repr_html_(self) -> str:
        parts = [notebook_words(self.sentence), self.ranges().svg(), notebook_table(*self.table())]
        apart = self.parts_table()
        if apart is not None:
            parts.append(notebook_table(*apart, "Items that are reported apart"))
        return notebook_html(*parts)

    def table(self) -> Table:
        """One row a way: the amount chosen on one half, all items there, and the other half."""
        header = ("rows", "amount", "gap", self.outcome, "change on the other half", "p")
        raw = self.raw
        lines: list[tuple[str, ...]] = [
            (AS_THEY_ARE, "", number(raw.gap, 3), _interval(raw.value), "", "")
        ]
        for test in self.tests:
            point = self.at(test.way, test.amount)
            lines.append(
                (
                    test.way,
                    f"{test.amount:g}",
                    number(point.gap, 3),
                    _interval(point.value),
                    _signed(test.result.difference),
                    _p_value(test.result.p_value),
                )
            )
        return header, lines

    def notes(self) -> list[str]:
        """The rows fitted on, the ways that could not be tried, and what papers print."""
        return [
            f"{self.n_items:,} items, {self.level:.0%} intervals; corrections fitted on "
            f"{self.fitted_on}.",
            *(f"Not tried: {way}: {why}" for way, why in self.failures.items()),
            *(f"Published: {p.what}: {p.value:g} ({p.where})" for p in self.published),
        ]

    def parts_table(self) -> Table | None:
        """Items that are reported apart: as they are and at the chosen point, on the other half."""
        if not self.raw.parts:
            return None
        header = ("items", f"{self.outcome} as they are", "at the chosen point", "change", "p")
        lines: list[tuple[str, ...]] = [
            (
                name,
                _interval(part.before),
                _interval(part.after),
                _signed(part.difference),
                _p_value(part.p_value),
            )
            for name, part in self.chosen.parts.items()
        ]
        return header, lines


def _interval(value: Interval) -> str:
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


def _signed(value: Interval) -> str:
    return f"{value.value:+.3f} [{value.low:+.3f}, {value.high:+.3f}]"


def _p_value(p: float) -> str:
    return f"{p:.3g}" if p >= _LEAST_P else f"< {_LEAST_P}"
