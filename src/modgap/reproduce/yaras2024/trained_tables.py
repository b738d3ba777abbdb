"""The settings of the tables of Yaras et al. 2024, trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from modgap.reproduce.checks import Check
from modgap.reproduce.entry import Number
from modgap.reproduce.flickr8k.methods import BASELINE, LONG_SUFFIX, PASSES_SUFFIX
from modgap.reproduce.flickr8k.results import GAP as GAP_OF_PAIRS
from modgap.reproduce.flickr8k.results import Runs, Spread
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, rank_correlation_interval
from modgap.reproduce.yaras2024 import PAPER

GAP, UNIFORMITY = "modality gap", "uniformity"
ZERO_SHOT, PROBE = "zero-shot", "linear probe"
IMAGE, TEXT = "image retrieval", "text retrieval"

# Column → metric of a run, and what turns it into the paper's unit.
_METRICS = {
    UNIFORMITY: ("uniformity", 1),
    GAP: (GAP_OF_PAIRS, 1),
    ZERO_SHOT: ("cifar_zero_shot", 100),
    PROBE: ("cifar_linear_probe", 100),
    IMAGE: ("image_retrieval_recall@1", 100),
    TEXT: ("text_retrieval_recall@1", 100),
}
# Row of table 1 or 2 → recipe, where their names differ.
_RECIPES = {
    "TS S1": "S1",
    "TS S2": "S2",
    "TS S3": "S3",
    "FLT": "FLT 0.04",
    "TS": "S3",
    "TR": "softplus",
    "HS": "HS 0.001",
    "SS": "SS 0.05",
}


def recipe_of(row: str) -> str:
    """The recipe that stands for a row of any table; table 3 has fixed temperatures."""
    return f"FLT {row}" if row[0].isdigit() else _RECIPES.get(row, row)


def like_paper(setting: Setting) -> Runs:
    """The runs with the paper's schedule, by the names of their methods.

    Your own results are taken as they are where they have no such runs.
    """
    own = setting.runs()
    runs = setting.runs_from_scratch() if setting.trained is None else own
    found = {
        recipe.removesuffix(PASSES_SUFFIX): of
        for recipe, of in runs.runs.items()
        if recipe.endswith(PASSES_SUFFIX)
    }
    return Runs(found) if found else own


def longest(runs: Runs, recipe: str) -> str:
    """The recipe trained for longer, where it was: a schedule needs time to close what it opens."""
    return recipe + LONG_SUFFIX if recipe + LONG_SUFFIX in runs else recipe


@dataclass(frozen=True)
class TrainedTable:
    """The columns of a table over the seeds, in the paper's units: row → column → spread.

    ``narrower`` has for each row how much its gap is smaller than that of the baseline trained for
    as long, seed by seed; ``warmer``, for which share of the training its temperature is above that
    one's.
    """

    rows: Mapping[str, Mapping[str, Spread]]
    narrower: Mapping[str, Interval]
    warmer: Mapping[str, Interval]

    def gap(self, row: str) -> float:
        """The mean gap of a row."""
        return self.rows[row][GAP].mean

    def gaps(self, rows: Iterable[str]) -> list[float]:
        """The mean gaps of some rows."""
        return [self.gap(row) for row in rows]

    def values(self) -> dict[str, Number]:
        """Means under the names of the published cells, and the deviation of the gap."""
        named: dict[str, Number] = {}
        for row, columns in self.rows.items():
            named |= {f"{row}: {column}": spread.mean for column, spread in columns.items()}
            named[f"{row}: {GAP}, deviation"] = columns[GAP].deviation
            named[f"{row}: seeds"] = columns[GAP].n
            if row in self.narrower:
                less = self.narrower[row]
                named |= {
                    f"{row}: narrower than the baseline by": less.value,
                    f"{row}: narrower, least": less.low,
                    f"{row}: narrower, most": less.high,
                }
        return named

    def means(self) -> PrintedTable:
        """Means alone, laid out as the printed tables are."""
        rows = {row: tuple(c.mean for c in columns.values()) for row, columns in self.rows.items()}
        return PrintedTable(tuple(_METRICS), rows)


def trained(runs: Runs, rows: Iterable[str], long: Iterable[str] = ()) -> TrainedTable:
    """Every column of some rows, trained on Flickr8k; those in ``long`` for longer, if they were.

    Accuracy is of CIFAR-10, and of Fashion-MNIST in results without it.
    """
    long = tuple(long)
    recipes, baselines = {}, {}
    for row in rows:
        recipes[row] = longest(runs, recipe_of(row)) if row in long else recipe_of(row)
        is_long = recipes[row].endswith(LONG_SUFFIX)
        baselines[row] = BASELINE + LONG_SUFFIX if is_long else BASELINE
    compared = [row for row, recipe in recipes.items() if recipe != baselines[row]]
    return TrainedTable(
        {
            row: {
                column: runs.metric(recipe, _known(runs, name)).times(factor)
                for column, (name, factor) in _METRICS.items()
            }
            for row, recipe in recipes.items()
        },
        {row: runs.difference(baselines[row], GAP_OF_PAIRS, recipes[row]) for row in compared},
        {row: runs.share_warmer(recipes[row], baselines[row]) for row in compared},
    )


def gap_falls(setting: Setting, rows: Sequence[str], long: Iterable[str] = ()) -> list[Check]:
    """For each row but the last, that the gap of the next one is smaller, seed by seed."""
    runs = setting.runs()
    recipes = {
        row: longest(runs, recipe_of(row)) if row in long else recipe_of(row) for row in rows
    }
    return [
        PAPER.above(
            "gap_falls_between",
            runs.difference(recipes[row], GAP_OF_PAIRS, recipes[after]),
            row=row,
            after=after,
        )
        for row, after in pairwise(rows)
    ]


def over_settings(found: Interval, n: int) -> Interval:
    """A rank correlation whose n settings are a sample, too: both spreads in its interval.

    That of the settings is the one of Bonett and Wright 2000 on the scale of Fisher's z.
    """
    value, low, high = np.arctanh(np.clip([found.value, found.low, found.high], -0.999, 0.999))
    normal = 1.96
    of_seeds = (high - low) / 2
    of_settings = normal * ((1 + found.value**2 / 2) / (n - 3)) ** 0.5
    half = np.hypot(of_seeds, of_settings)
    low, high = np.tanh([value - half, value + half])
    return Interval(found.value, float(low), float(high))


def correlation_here(setting: Setting, rows: Iterable[str], against: str, score: str) -> Interval:
    """Rank correlation of two columns over some rows trained on Flickr8k."""
    runs, recipes = setting.runs(), [recipe_of(row) for row in rows]
    x, y = (
        [runs.values(recipe, _known(runs, _METRICS[column][0])) for recipe in recipes]
        for column in (against, score)
    )
    return rank_correlation_interval(x, y)


def _known(runs: Runs, name: str) -> str:
    """A metric of CIFAR-10, or that of Fashion-MNIST where CIFAR-10 was not at hand."""
    known = runs.of(BASELINE)[0]["metrics"]
    return name if name in known else name.replace("cifar", "fashion")


def every_setting() -> tuple[str, ...]:
    """The rows of tables 3 to 5 and the three that table 2 alone has, each setting once."""
    rows = [row for name in ("table3", "table4", "table5") for row in PAPER.table(name).rows]
    return tuple(dict.fromkeys((*rows, "SLRT", "HS", "SS")))
