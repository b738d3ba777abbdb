"""Figures 5, 6 and 7 of Yaras et al. 2024, which show trained CLIP models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modgap.reproduce.checks import Check
from modgap.reproduce.entry import Outcome
from modgap.reproduce.flickr8k.methods import BASELINE, LONG_SUFFIX
from modgap.reproduce.flickr8k.results import GAP as GAP_OF_PAIRS
from modgap.reproduce.flickr8k.results import Runs
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, mean_interval, rank_correlation, size_of
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.tables import (
    CONTROLLED,
    STRONG,
    smaller_gaps,
    smaller_when_warm,
)
from modgap.reproduce.yaras2024.trained_tables import (
    GAP,
    IMAGE,
    PROBE,
    TEXT,
    UNIFORMITY,
    ZERO_SHOT,
    correlation_here,
    every_setting,
    like_paper,
    longest,
    over_settings,
    recipe_of,
    trained,
)

# Tables 3, 4 and 5 repeat the baseline and, under these names, table 2's FLT, TS and TR.
_REPEATED = (BASELINE, "0.04", "S3", "softplus")
# Below this image retrieval, in per cent, a model did not learn, and its gap says nothing.
_LEARNED = 1.0
_HERE = "Flickr8k"


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """Temperature and gap over training, and the gap that swapping leaves."""
    runs, printed = like_paper(setting), PAPER.table("table2")
    of_swaps, swaps = setting.runs(), ("HS 0.01", "HS 0.1", "HS 1", "SS")
    steps, _ = runs.course(BASELINE, "gap")
    # In short runs TS needs the longer one; every course has as many points.
    courses = {
        kind: {
            name: runs.course(
                longest(runs, recipe_of(name)) if name == "TS" else recipe_of(name), kind
            )[1]
            for name in (BASELINE, *CONTROLLED)
        }
        for kind in ("temperature", "gap")
    }
    controlled = trained(runs, CONTROLLED, long=("TS",))
    ends = {
        kind: {name: float(values[-1]) for name, values in named.items()}
        for kind, named in courses.items()
    }
    swapped = {name: of_swaps.metric(recipe_of(name), GAP_OF_PAIRS) for name in (BASELINE, *swaps)}
    gaps = {name: spread.mean for name, spread in swapped.items()}
    return Outcome(
        {
            **{f"gap, {name}": value for name, value in ends["gap"].items()},
            **{f"gap, {name}": gaps[name] for name in swaps},
            "gap, baseline of the swaps": gaps[BASELINE],
            **{f"temperature, {name}": value for name, value in ends["temperature"].items()},
        },
        [
            *(
                PAPER.above("warmer_than_learned", _warmer(runs, name), name=name)
                for name in CONTROLLED
            ),
            *smaller_when_warm(controlled, CONTROLLED),
            *smaller_gaps(trained(of_swaps, swaps), swaps),
        ],
        {
            "printed": {row: printed.points(GAP, UNIFORMITY, [row]) for row in printed.rows},
            "share": steps / steps[-1],
            **courses,
            "swaps": gaps,
            "deviation": {name: spread.deviation for name, spread in swapped.items()},
        },
    )


def _warmer(runs: Runs, row: str) -> Interval:
    """How much warmer a training ends than the baseline that is as long, seed by seed."""
    recipe = longest(runs, recipe_of(row)) if row == "TS" else recipe_of(row)
    baseline = BASELINE + LONG_SUFFIX if recipe.endswith(LONG_SUFFIX) else BASELINE
    ends = runs.paired(lambda run: run["course"]["temperature"][-1], recipe, baseline)
    return mean_interval([end - of_baseline for end, of_baseline in ends])


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """Rank correlations of retrieval."""
    return _correlations(setting, (IMAGE, TEXT), falls_with=GAP, not_with=UNIFORMITY)


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """Rank correlations of classification."""
    return _correlations(setting, (ZERO_SHOT, PROBE), rises_with=UNIFORMITY, not_with=GAP)


def _checks(
    said: str,
    prefix: str,
    found: Mapping[tuple[str, str], float | Interval],
    falls_with: str,
    rises_with: str,
    not_with: str,
) -> list[Check]:
    """What is claimed of each score on some rows, by its correlation with the two columns."""
    checks = []
    for (score, against), value in found.items():
        of: dict[str, object] = {"said": said, "score": score, "against": against}
        if against == not_with:
            size = abs(value) if isinstance(value, float) else size_of(value)
            checks.append(PAPER.below(f"{prefix}_weak", size, STRONG, strong=STRONG, **of))
        elif against == falls_with:
            checks.append(PAPER.below(f"{prefix}_falls", value, **of))
        elif against == rises_with:
            checks.append(PAPER.above(f"{prefix}_rises", value, **of))
    return checks


def _correlations(
    setting: Setting,
    scores: tuple[str, str],
    *,
    not_with: str,
    falls_with: str = "",
    rises_with: str = "",
) -> Outcome:
    """Rank correlations over table 2, over every printed row and over what was trained here."""
    printed = PAPER.table("table2")
    more = {
        row: values
        for name in ("table3", "table4", "table5")
        for row, values in PAPER.table(name).rows.items()
        if row not in _REPEATED
    }
    others = PrintedTable(printed.columns, more)
    every = PrintedTable(printed.columns, {**printed.rows, **more})
    here = trained(setting.runs(), every_setting()).means()
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
    # As printed the rows are what they are; trained, settings and seeds are samples.
    correlations: dict[str, dict[tuple[str, str], float | Interval]] = {}
    points: dict[str, dict[str, Any]] = {}
    for against in (GAP, UNIFORMITY):
        for score in scores:
            name = f"{score} with {against}, "
            for where, table in {"table 2": printed, "every row": every}.items():
                columns = table.column(against), table.column(score)
                measured[name + where] = value = rank_correlation(*columns)
                correlations.setdefault(where, {})[score, against] = value
            for where, rows in rows_here.items():
                found = correlation_here(setting, rows, against, score)
                widened = over_settings(found, len(rows))
                correlations.setdefault(where, {})[score, against] = widened
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
        "table 2's settings on Flickr8k": ("On the settings of table 2, trained here", "score"),
        _HERE: ("On all settings trained here", "score"),
        "table 2": ("On the seven rows of table 2, as printed", "printed_score"),
        "every row": ("On all rows of tables 2 to 5, as printed", "printed_score"),
    }
    checks = [
        each
        for where, (said, prefix) in words.items()
        for each in _checks(said, prefix, correlations[where], falls_with, rises_with, not_with)
    ]
    return Outcome(measured, checks, {"points": points})
