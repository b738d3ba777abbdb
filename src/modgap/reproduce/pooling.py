"""One outcome over several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from modgap._results import plain
from modgap.reproduce.checks import pooled_check
from modgap.reproduce.entry import Entry, Number, Outcome
from modgap.reproduce.setting import NotAtHand, Setting


def run_seeds(entry: Entry, setting: Setting) -> tuple[Outcome, tuple[int, ...]]:
    """The outcome of an entry over its seeds, and the seeds.

    An entry that comes out the same with the first two draws nothing, and is run no more. One that
    does not read your own rows, where they are given, is refused.
    """
    run = entry.runner(setting)
    assert run is not None
    seeds = range(setting.seed, setting.seed + max(1, setting.seeds))
    found: list[Outcome] = []
    for done, seed in enumerate(seeds):
        setting.say(f"seed {seed}", done, len(seeds))
        found.append(run(dataclasses.replace(setting, seed=seed)))
        if setting.rows is not None and not setting.rows.used:
            raise NotAtHand(cannot_use(entry))
        if len(found) == 2 and _same(*found):
            return found[0], (seeds[0],)
    return pooled(found), tuple(seeds)


def cannot_use(entry: Entry) -> str:
    """What to say of an entry that own rows are no help for."""
    return (
        f"{entry.key} cannot use rows of your own: it needs more than embeddings, or makes its own "
        "data. Run it without --rows and --model."
    )


def pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Means of what was measured, each check over all seeds, and the picture of the first."""
    first = outcomes[0]
    statements = [[check.statement for check in each.checks] for each in outcomes]
    if any(said != statements[0] for said in statements):
        raise AssertionError(f"Statements must be the same with every seed, got {statements}.")
    return dataclasses.replace(
        first,
        measured={name: _mean(name, outcomes) for name in first.measured},
        checks=tuple(map(pooled_check, zip(*(each.checks for each in outcomes), strict=True))),
    )


def _mean(name: str, outcomes: Sequence[Outcome]) -> Number:
    """The mean of a number over the outcomes that have it; words, where all agree."""
    values = [each.measured[name] for each in outcomes if name in each.measured]
    if all(value == values[0] for value in values):
        return values[0]
    numbers = [value for value in values if isinstance(value, (int, float, np.number))]
    return float(np.mean(numbers)) if len(numbers) == len(values) else "depends on the seed"


def _same(one: Outcome, other: Outcome) -> bool:
    return bool(
        plain(one.measured) == plain(other.measured) and plain(one.checks) == plain(other.checks)
    )
