"""A check: one statement that a claim implies, and whether it came out so.

A statement about a number has a bound, and its finding is read from an interval: it holds where the
interval is beyond the bound, fails where it is on the other side, and is too small to say where it
covers the bound. Without an interval of its own a number gets one from the seeds it was drawn with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from modgap.core.results import Result
from modgap.reproduce.statistics import Interval, mean_interval

Finding = Literal["holds", "fails", "too small to say"]
# "claim": of the paper, put to the test. "paper": a finding about the numbers it prints.
# "consistency": a definition, or arithmetic, that must hold if nothing is wrong.
About = Literal["claim", "paper", "consistency"]
Side = Literal["above", "below"]


@dataclass(frozen=True)
class Check(Result):
    """A statement, what would be seen if it did not hold, and how it came out.

    ``value`` is what the statement is about, with its 95 % interval, if it has one, and the bound
    that it must be ``side`` of.
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


def finding_of(checks: Sequence[Check]) -> Finding:
    """Of several statements that must all hold: one that fails decides, then one not sure."""
    findings = [each.finding for each in checks]
    if "fails" in findings:
        return "fails"
    return "too small to say" if "too small to say" in findings else "holds"


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
