"""A check: one statement that a claim implies, and whether it came out so.

A statement about a number has a bound, and its finding is read from an interval: it holds where the
interval is beyond the bound, fails where it is on the other side, and is too small to say where it
covers the bound. Without an interval of its own a number gets one from the seeds it was drawn with.

Where a paper can be read in several ways, a statement belongs to one reading; where a claim starts
from something that is not so here, the statement rests on a premise, which is a check of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from modgap.core.results import Result
from modgap.reproduce.statistics import Interval, mean_interval

Finding = Literal["holds", "fails", "too small to say", "depends on the reading", "premise not met"]
# "claim": of the paper, put to the test. "paper": a finding about the numbers it prints.
# "consistency": a definition, or arithmetic, that must hold if nothing is wrong.
# "premise": what a claim starts from; where it is not met, the claim is not put to the test.
About = Literal["claim", "paper", "consistency", "premise"]
Side = Literal["above", "below"]


@dataclass(frozen=True)
class Check(Result):
    """A statement, what would be seen if it did not hold, and how it came out.

    ``value`` is what the statement is about, with its 95 % interval, if it has one, and the bound
    that it must be ``side`` of. ``reading`` says which reading of the paper the statement is of,
    empty where all have it. ``premise`` is the statement of the premise that it rests on.
    """

    statement: str
    finding: Finding
    otherwise: str = ""
    about: About = "claim"
    value: float | None = None
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    side: Side | None = None
    reading: str = ""
    premise: str = ""

    @property
    def holds(self) -> bool:
        """Whether the statement came out so."""
        return self.finding == "holds"


def check(statement: str, holds: object, otherwise: str = "", about: About = "claim") -> Check:
    """A statement, as a whole sentence, and whether it held, as a plain truth value."""
    return Check(statement, "holds" if holds else "fails", otherwise, about)


def above(
    statement: str,
    found: float | Interval,
    bound: float = 0.0,
    otherwise: str = "",
    about: About = "claim",
) -> Check:
    """That a number is above a bound.

    Parameters
    ----------
    statement
        As a whole sentence.
    found
        The number, with its interval where there is one.
    bound
        From the paper, or of a null that was computed beside it.
    otherwise
        What would be seen if it did not hold.
    about
        What the statement is about.
    """
    return _beyond(Check(statement, "fails", otherwise, about, side="above"), found, bound)


def below(
    statement: str,
    found: float | Interval,
    bound: float = 0.0,
    otherwise: str = "",
    about: About = "claim",
) -> Check:
    """That a number is below a bound; the parameters are those of ``above``."""
    return _beyond(Check(statement, "fails", otherwise, about, side="below"), found, bound)


def pooled_check(checks: Sequence[Check]) -> Check:
    """The same statement over several seeds, as one.

    A number without an interval of its own gets that of its mean over the seeds; a number with one
    keeps the mean of both ends. A statement without a number must come out the same with every
    seed, and is too small to say where it does not.
    """
    first = checks[0]
    if len(checks) == 1 or first.bound is None:
        findings = {each.finding for each in checks}
        return replace(first, finding=findings.pop() if len(findings) == 1 else "too small to say")
    # A null is drawn anew with each seed, so the bound may differ.
    values, bounds = (np.array([getattr(each, n) for each in checks]) for n in ("value", "bound"))
    bound = float(bounds.mean())
    if first.low is None:
        apart = mean_interval(values - bounds)
        found = Interval(bound + apart.value, bound + apart.low, bound + apart.high)
    else:
        low, high = (
            float(np.mean([getattr(each, end) for each in checks])) for end in ("low", "high")
        )
        found = Interval(float(values.mean()), low, high)
    return _beyond(first, found, bound)


def read_as(reading: str, checks: Iterable[Check]) -> list[Check]:
    """The same statements as those of one reading of the paper."""
    return [replace(each, reading=reading) for each in checks]


def resting_on(premise: Check, checks: Iterable[Check]) -> list[Check]:
    """A premise, and the statements of the claim that rest on it, among others."""
    resting = (
        replace(each, premise=premise.statement) if each.about == "claim" else each
        for each in checks
    )
    return [premise, *resting]


def as_counted(checks: Sequence[Check]) -> list[Check]:
    """The same checks as they count: what rests on a premise that is not met says nothing."""
    premises = {each.statement: each.finding for each in checks if each.about == "premise"}
    unmet: dict[str, Finding] = {
        "fails": "premise not met", "too small to say": "too small to say"
    }  # fmt: skip
    return [
        replace(each, finding=unmet.get(premises.get(each.premise, ""), each.finding))
        for each in checks
    ]


# Of statements that must all hold: one that fails decides, then one that was not put to the test.
_DECIDES: tuple[Finding, ...] = ("fails", "premise not met", "too small to say", "holds")


def finding_of(checks: Sequence[Check]) -> Finding:
    """Of the statements of a claim that must all hold, in every reading of the paper.

    Where they hold in one reading and fail in another, it depends on the reading.
    """
    found = set(by_reading(checks).values())
    if {"holds", "fails"} <= found:
        return "depends on the reading"
    # Several others: not sure in some reading, so not sure at all.
    return found.pop() if len(found) == 1 else _first(found - {"fails"})


def by_reading(checks: Sequence[Check]) -> dict[str, Finding]:
    """The finding in each reading of the paper; under the empty name where there is but one."""
    readings = dict.fromkeys(each.reading for each in checks if each.reading) or {"": None}
    found = {one: {c.finding for c in checks if c.reading in ("", one)} for one in readings}
    return {one: _first(findings or {"holds"}) for one, findings in found.items()}


def _first(findings: set[Finding]) -> Finding:
    return next(finding for finding in _DECIDES if finding in findings)


def _beyond(asked: Check, found: float | Interval, bound: float) -> Check:
    if isinstance(found, Interval):
        value, low, high = found.value, found.low, found.high
    else:
        value = low = high = float(found)
    finding: Finding = "too small to say"
    if not np.isfinite([value, bound]).all():
        finding = "fails"  # nothing was measured that could hold
    elif (low > bound) if asked.side == "above" else (high < bound):
        finding = "holds"
    elif (high <= bound) if asked.side == "above" else (low >= bound):
        finding = "fails"
    ends = (float(low), float(high)) if isinstance(found, Interval) else (None, None)
    return replace(
        asked, finding=finding, value=float(value), low=ends[0], high=ends[1], bound=float(bound)
    )
