"""One outcome made of several."""

from __future__ import annotations

from collections.abc import Iterable

from modgap.reproduce.entry import Outcome


def joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Values, checks and data of several outcomes, one after the other."""
    found = list(outcomes)
    return Outcome(
        {name: value for each in found for name, value in each.measured.items()},
        [check for each in found for check in each.checks],
        {name: value for each in found for name, value in each.data.items()},
    )
