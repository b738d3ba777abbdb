"""Figures 1, 5, 6 and 7 of Yaras et al. 2024, which show trained CLIP models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.flickr8k.methods import BASELINE
from modgap.reproduce.flickr8k.results import GAP as GAP_OF_PAIRS
from modgap.reproduce.flickr8k.results import WHOLE_GAP
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.measured import (
    GAP,
    IMAGE,
    PROBE,
    TEXT,
    UNIFORMITY,
    ZERO_SHOT,
    correlation_here,
    every_setting,
    longest,
    recipe_of,
    trained,
)
from modgap.reproduce.yaras2024.tables import STRONG

# Tables 3, 4 and 5 repeat the baseline and, under these names, table 2's FLT, TS and TR.
_REPEATED = (BASELINE, "0.04", "S3", "softplus")
# Below this image retrieval, in per cent, a model did not learn, and its gap says nothing.
_LEARNED = 1.0
_HERE = "Flickr8k"
_SMALL_START = "amended start, batches of 64"

# What is said of a set of rows → its test, by the correlations with the gap and with uniformity.
Statements = Mapping[str, Callable[[list[float], list[float]], bool]]


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """The gap of a CLIP model after its long training, and at random weights."""
    from modgap.measures import gap_distance, linear_separability
    from modgap.measures.projection import projection

    measured: dict[str, float] = {}
    data = {}
    for title, system in (("after training", "clip"), ("random weights", "clip_random")):
        X, Y = setting.arrays(system)
        shown = projection(X, Y, "pca")
        measured[f"gap {title}"] = gap_distance(X, Y)
        told = linear_separability(X, Y, seed=setting.seed).all_features
        measured[f"linear classifier {title}"] = told
        # Only where the first direction is the one between the modalities do the clouds part.
        ends = sorted((shown.x[:, 0], shown.y[:, 0]), key=np.mean)
        measured[f"room between the clouds {title}"] = float(ends[1].min() - ends[0].max())
        data[title] = {"x": shown.x, "y": shown.y}
    runs = setting.runs()
    before, after = runs.at_start(_SMALL_START).mean, runs.metric(_SMALL_START, WHOLE_GAP).mean
    measured |= {
        "gap that was made small, at the start": before,
        "gap that was made small, after training": after,
    }
    return Outcome(
        measured,
        [
            check(
                "After training the means lie at least 0.5 apart.",
                measured["gap after training"] > 0.5,
            ),
            check(
                "After training a linear classifier tells the modalities apart without a mistake.",
                measured["linear classifier after training"] == 1.0,
            ),
            check(
                "After training the two clouds do not touch along the first principal direction.",
                measured["room between the clouds after training"] > 0,
            ),
            check(
                "A gap that was made small at the start is at least twice as wide after training.",
                after > 2 * before,
            ),
        ],
        data,
    )


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """Temperature and gap over training, and the gap that swapping leaves."""
    runs, printed = setting.runs(), PAPER.table("table2")
    controlled = ("FLT", "TS", "TR", "SLRT")
    swaps = (BASELINE, "HS 0.01", "HS 0.1", "HS 1", "SS")
    steps, _ = runs.course(BASELINE, "gap")
    # TS needs the longer training; every course has as many points.
    courses = {
        kind: {
            name: runs.course(
                longest(runs, recipe_of(name)) if name == "TS" else recipe_of(name), kind
            )[1]
            for name in (BASELINE, *controlled)
        }
        for kind in ("temperature", "gap")
    }
    smaller = trained(setting, [*controlled, *swaps[1:]], long=("TS",)).narrower
    ends = {
        kind: {name: float(values[-1]) for name, values in named.items()}
        for kind, named in courses.items()
    }
    swapped = {name: runs.metric(recipe_of(name), GAP_OF_PAIRS) for name in swaps}
    gaps = {name: spread.mean for name, spread in swapped.items()}
    return Outcome(
        {
            **{f"gap, {name}": value for name, value in ends["gap"].items()},
            **{f"gap, {name}": value for name, value in gaps.items()},
            **{f"temperature, {name}": value for name, value in ends["temperature"].items()},
        },
        [
            *(
                check(
                    f"{name} ends at a higher temperature than a learned one.",
                    ends["temperature"][name] > ends["temperature"][BASELINE],
                )
                for name in controlled
            ),
            *(
                check(f"{name} ends with a smaller gap, beyond the spread.", less.low > 0)
                for name, less in smaller.items()
            ),
        ],
        {
            "printed": {row: printed.points(GAP, UNIFORMITY, [row]) for row in printed.rows},
            "share": steps / steps[-1],
            **courses,
            "swaps": gaps,
            "deviation": {name: spread.deviation for name, spread in swapped.items()},
        },
    )


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """Rank correlations of retrieval."""
    statements: Statements = {
        f"retrieval falls strongly with the gap (at most −{STRONG})": (
            lambda gap, uniformity: max(gap) <= -STRONG
        ),
        "it goes less than strongly with uniformity": (
            lambda gap, uniformity: max(map(abs, uniformity)) < STRONG
        ),
    }
    return _correlations(setting, (IMAGE, TEXT), statements)


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """Rank correlations of classification."""
    statements: Statements = {
        "neither accuracy goes strongly with the gap": (
            lambda gap, uniformity: max(map(abs, gap)) < STRONG
        ),
        f"both go strongly with uniformity (at least {STRONG})": (
            lambda gap, uniformity: min(uniformity) >= STRONG
        ),
    }
    return _correlations(setting, (ZERO_SHOT, PROBE), statements)


def _correlations(setting: Setting, scores: tuple[str, str], statements: Statements) -> Outcome:
    """Rank correlations over table 2, over every printed row and over what was trained here.

    A statement is tested by the correlations of both scores with the gap and with uniformity.
    """
    printed = PAPER.table("table2")
    more = {
        row: values
        for name in ("table3", "table4", "table5")
        for row, values in PAPER.table(name).rows.items()
        if row not in _REPEATED
    }
    others = PrintedTable(printed.columns, more)
    every = PrintedTable(printed.columns, {**printed.rows, **more})
    here = trained(setting, every_setting()).means()
    learned = [row for row in here.rows if here.column(IMAGE, [row])[0] >= _LEARNED]
    # All trained for as long, TS too, which is short for it.
    rows_here = {
        "table 2's settings on Flickr8k": printed.rows,
        "fixed temperatures on Flickr8k": [
            row for row in PAPER.table("table3").rows if row != BASELINE
        ],
        _HERE: learned,
    }
    measured: dict[str, float] = {}
    points: dict[str, dict[str, Any]] = {}
    for against in (GAP, UNIFORMITY):
        for score in scores:
            name = f"{score} with {against}, "
            for where, table in {"table 2": printed, "every row": every}.items():
                columns = table.column(against), table.column(score)
                measured[name + where] = rank_correlation(*columns)
            for where, rows in rows_here.items():
                found = correlation_here(setting, rows, against, score)
                measured |= {
                    name + where: found.value,
                    f"{name}{where}, low": found.low,
                    f"{name}{where}, high": found.high,
                }
            points[f"{score} by {against}"] = {
                "score": score,
                "against": against,
                "table 2": printed.points(against, score),
                "tables 3 to 5": others.points(against, score),
                _HERE: here.points(against, score, learned),
            }
    words = {
        "table 2": "the methods of table 2, as printed",
        "every row": f"all {len(every.rows)} settings of tables 2 to 5, as printed",
        "table 2's settings on Flickr8k": "the settings of table 2, trained on Flickr8k",
        _HERE: "all settings trained on Flickr8k",
    }
    checks = []
    for where, said in words.items():
        gap, uniformity = (
            [measured[f"{score} with {against}, {where}"] for score in scores]
            for against in (GAP, UNIFORMITY)
        )
        checks += [
            check(f"On {said}: {statement}.", holds(gap, uniformity))
            for statement, holds in statements.items()
        ]
    return Outcome(measured, checks, {"points": points})
