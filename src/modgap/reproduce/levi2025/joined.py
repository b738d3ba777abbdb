"""One outcome made of several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from modgap.reproduce.entry import Outcome
from modgap.reproduce.levi2025.rows import Rows, on_words

# What is measured and checked on one set of rows; its second argument ends every measured name.
View = Callable[[Rows, str], Outcome]


def joined(outcomes: Iterable[Outcome], on: str = "") -> Outcome:
    """Values, checks and data of several outcomes, one after the other."""
    found = list(outcomes)
    return Outcome(
        {name: value for each in found for name, value in each.measured.items()},
        [check for each in found for check in each.checks],
        {name: value for each in found for name, value in each.data.items()},
        on,
    )


def of_each(sets: Sequence[Rows], *views: View) -> Outcome:
    """Every view of every set: checks of the judged ones, pictures of the first.

    Names of values are plain for the first set and end with the name of the others.
    """
    found = []
    for place, rows in enumerate(sets):
        for view in views:
            seen = view(rows, f", {rows.name}" if place else "")
            found.append(
                dataclasses.replace(
                    seen,
                    checks=seen.checks if rows.judged else (),
                    data={} if place else seen.data,
                )
            )
    return joined(found, on_words(sets))
