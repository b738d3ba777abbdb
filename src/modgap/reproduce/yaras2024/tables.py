"""Tables 1 to 5 of Yaras et al. 2024: the printed cells, and models trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap.reproduce.entry import Check, Outcome, check
from modgap.reproduce.flickr8k.methods import BASELINE
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls, rank_correlation, rises_nowhere
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.measured import GAP, IMAGE, UNIFORMITY, TrainedTable, trained

# Rows that need a long training to end where they should.
_SCHEDULES = ("TS", "TS S1", "TS S2", "TS S3", "S0", "S1", "S2", "S3")
# A rank correlation at least this large is called strong.
STRONG = 0.6


@PAPER.run("table1")
def table1(setting: Setting) -> Outcome:
    """Rank correlations among the printed rows, and the two columns that can be measured here."""
    printed, here = _tables(setting, "table1")
    score, columns = "MMVP-VLM", (GAP, UNIFORMITY)
    correlations = {
        f"rank correlation of {score} with the {name}": rank_correlation(
            printed.column(name), printed.column(score)
        )
        for name in columns
    }
    kinds = {
        kind: [row for row in printed.rows if row.startswith(kind)]
        for kind in (BASELINE, "FLT", "TS")
    }
    return Outcome(
        {
            **{f"{row}: {c}": found[c].mean for row, found in here.rows.items() for c in columns},
            **correlations,
        },
        [
            *(
                check(f"As printed, the {name} is below {STRONG} in size.", abs(value) < STRONG)
                for name, value in correlations.items()
            ),
            check(
                "Trained, the gap falls from FLT 0.04 to 0.07 and 0.1.",
                falls(here.gaps(kinds["FLT"])),
            ),
            check("Trained, the gap falls from TS S1 to S2 and S3.", falls(here.gaps(kinds["TS"]))),
        ],
        {
            name: {kind: printed.points(name, score, rows) for kind, rows in kinds.items()}
            for name in columns
        },
    )


@PAPER.run("table2")
def table2(setting: Setting) -> Outcome:
    """Each method of the table, trained."""
    printed, here = _tables(setting, "table2")
    methods = [name for name in printed.rows if name not in (BASELINE, "HS")]
    return _outcome(
        printed,
        here,
        _smaller(here, methods, "{} ends with a smaller gap than the baseline, beyond the spread."),
    )


@PAPER.run("table3")
def table3(setting: Setting) -> Outcome:
    """A training at each printed temperature."""
    printed, here = _tables(setting, "table3")
    names = [name for name in printed.rows if name != BASELINE]
    middle = names.index("0.1")
    errors = [here.rows[name][GAP].error for name in names]
    retrieval = {
        "published": printed.column(IMAGE, names),
        "measured": np.array([here.rows[name][IMAGE].mean for name in names]),
    }
    return Outcome(
        here.values(),
        [
            check(
                "The gap falls from each temperature to the next up to 0.1.",
                falls(here.gaps(names[: middle + 1])),
            ),
            check(
                "From 0.1 on it rises at no step by more than two standard errors.",
                rises_nowhere(here.gaps(names[middle:]), errors[middle:]),
            ),
            check(
                "The printed gaps fall as well, to 0.005.",
                np.all(np.diff(printed.column(GAP, names)) <= 0.005),
            ),
        ],
        {
            "temperatures": [float(name) for name in names],
            "gap, published": printed.column(GAP, names),
            "gap, measured": here.gaps(names),
            **{f"retrieval, {which}": v / v.max() for which, v in retrieval.items()},
        },
    )


@PAPER.run("table4")
def table4(setting: Setting) -> Outcome:
    """Each schedule and alternation, trained."""
    printed, here = _tables(setting, "table4")
    warm = ("S1", "S2", "S3")
    return _outcome(
        printed,
        here,
        [
            check("S0, S1, S2 and S3 leave ever smaller gaps.", falls(here.gaps(["S0", *warm]))),
            check("A1 leaves a smaller gap than A0.", falls(here.gaps(["A0", "A1"]))),
            *_smaller(
                here,
                warm,
                "{} leaves a smaller gap than a learned temperature, beyond the spread.",
            ),
        ],
    )


@PAPER.run("table5")
def table5(setting: Setting) -> Outcome:
    """Each way to write the temperature and each share of swapping, trained."""
    printed, here = _tables(setting, "table5")
    ways = ("softplus", "scale 2", "scale 10")
    return _outcome(
        printed,
        here,
        [
            *_smaller(here, ways, "{} leaves a smaller gap than exp(ν), beyond the spread."),
            check(
                "The gap falls as swapping goes from no step to 0.01, 0.1 and all of them.",
                falls(here.gaps([BASELINE, "HS 0.01", "HS 0.1", "HS 1"])),
            ),
        ],
    )


def _tables(setting: Setting, name: str) -> tuple[PrintedTable, TrainedTable]:
    """A table as printed, and its rows trained here, the schedules for as long as they need."""
    printed = PAPER.table(name)
    # Table 4 is about schedules: its baseline is the one that they are compared with.
    long = (*_SCHEDULES, BASELINE) if name == "table4" else _SCHEDULES
    return printed, trained(setting, printed.rows, long)


def _smaller(here: TrainedTable, rows: Sequence[str], statement: str) -> list[Check]:
    """For each row, that its gap is smaller than the baseline's, seed by seed."""
    return [check(statement.format(row), here.narrower[row].low > 0) for row in rows]


def _outcome(printed: PrintedTable, here: TrainedTable, checks: Sequence[Check]) -> Outcome:
    """Every cell under its published name, and the gaps of both for the picture."""
    data: dict[str, Any] = {
        "published": dict(zip(printed.rows, printed.column(GAP), strict=True)),
        "measured": {row: here.gap(row) for row in here.rows},
        "deviation": {row: columns[GAP].deviation for row, columns in here.rows.items()},
    }
    return Outcome(here.values(), checks, data)
