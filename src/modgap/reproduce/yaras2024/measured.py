"""The settings of the tables of Yaras et al. 2024, trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from modgap.reproduce.entry import Number, Setting
from modgap.reproduce.flickr8k.results import ANEW, TRAINED, Spread
from modgap.reproduce.flickr8k.results import GAP as GAP_OF_PAIRS
from modgap.reproduce.yaras2024.published import (
    BASELINE,
    COLUMNS,
    GAP,
    IMAGE,
    PROBE,
    TABLE3,
    TABLE4,
    TABLE5,
    TEXT,
    UNIFORMITY,
    ZERO_SHOT,
    Row,
)

# Column → figure of a run, and what turns it into the paper's unit.
_FIGURES = {
    UNIFORMITY: ("uniformity", 1),
    GAP: (GAP_OF_PAIRS, 1),
    ZERO_SHOT: ("fashion_zero_shot", 100),
    PROBE: ("fashion_linear_probe", 100),
    IMAGE: ("image_retrieval_recall@1", 100),
    TEXT: ("text_retrieval_recall@1", 100),
}
# Row of a table → recipe, where their names differ.
_TABLE2 = {"FLT": "FLT 0.04", "TS": "S3", "TR": "softplus", "HS": "HS 0.001", "SS": "SS 0.05"}
_FIXED = {name: f"FLT {name}" for name in TABLE3 if name != BASELINE}
_TABLE1 = {"TS S1": "S1", "TS S2": "S2", "TS S3": "S3"}
_RECIPES = {**_TABLE1, **_TABLE2, **_FIXED}

ON_TRAINED = f"{TRAINED}, where the paper trains RN50 on MS-COCO"
HOW = (
    "The paper's own numbers need OpenCLIP's RN50 trained on MS-COCO, whose images do not come "
    f"with modgap and whose checkpoints nobody published. {ANEW}"
)
COLUMNS_HERE = (
    "Zero-shot and linear-probe accuracy are of Fashion-MNIST here; zero-shot is near chance, 7 to "
    "12 %: 6,000 photos carry few words over to pictures of single garments."
)


def recipe_of(row: str) -> str:
    """The recipe that stands for a row of any table."""
    return _RECIPES.get(row, row)


def cells(setting: Setting, rows: Sequence[str]) -> dict[str, dict[str, Spread]]:
    """Every column of some rows, over the seeds, in the paper's units."""
    runs = setting.runs()
    found: dict[str, dict[str, Spread]] = {}
    for row in rows:
        found[row] = {}
        for column in COLUMNS:
            name, factor = _FIGURES[column]
            spread = runs.figure(recipe_of(row), name)
            found[row][column] = Spread(factor * spread.mean, factor * spread.deviation, spread.n)
    return found


def values(found: Mapping[str, Mapping[str, Spread]]) -> dict[str, Number]:
    """Means under the names of the published cells, and the deviation of the gap over seeds."""
    named: dict[str, Number] = {}
    for row, columns in found.items():
        named |= {f"{row}: {column}": spread.mean for column, spread in columns.items()}
        named[f"{row}: {GAP}, deviation"] = columns[GAP].deviation
        named[f"{row}: seeds"] = columns[GAP].n
    return named


def gap_of(found: Mapping[str, Mapping[str, Spread]], row: str) -> float:
    """The mean gap of a row."""
    return found[row][GAP].mean


def falls(found: Mapping[str, Mapping[str, Spread]], rows: Sequence[str]) -> bool:
    """Whether the gap falls from each row to the next."""
    return bool(np.all(np.diff([gap_of(found, row) for row in rows]) < 0))


def rises_nowhere(found: Mapping[str, Mapping[str, Spread]], rows: Sequence[str]) -> bool:
    """Whether no gap is above the one before it by more than two standard errors."""
    for before, after in pairwise(rows):
        a, b = found[before][GAP], found[after][GAP]
        error = np.sqrt(a.deviation**2 / a.n + b.deviation**2 / b.n)
        if b.mean - a.mean > 2 * error:
            return False
    return True


def every_setting() -> tuple[str, ...]:
    """The rows of tables 3 to 5 and the three that table 2 alone has, each setting once."""
    rows = dict.fromkeys((*TABLE3, *TABLE4, *TABLE5, "SLRT", "HS", "SS"))
    return tuple(rows)


def as_rows(found: Mapping[str, Mapping[str, Spread]]) -> dict[str, Row]:
    """Means alone, laid out as the printed tables are."""
    return {row: tuple(columns[c].mean for c in COLUMNS) for row, columns in found.items()}
