"""The settings of the tables of Yaras et al. 2024, trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modgap.reproduce.entry import Number
from modgap.reproduce.flickr8k.results import GAP as GAP_OF_PAIRS
from modgap.reproduce.flickr8k.results import Spread
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import Setting
from modgap.reproduce.yaras2024 import PAPER

GAP, UNIFORMITY = "modality gap", "uniformity"
ZERO_SHOT, PROBE = "zero-shot", "linear probe"
IMAGE, TEXT = "image retrieval", "text retrieval"
BASELINE = "baseline"

# Column → metric of a run, and what turns it into the paper's unit.
_METRICS = {
    UNIFORMITY: ("uniformity", 1),
    GAP: (GAP_OF_PAIRS, 1),
    ZERO_SHOT: ("fashion_zero_shot", 100),
    PROBE: ("fashion_linear_probe", 100),
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


@dataclass(frozen=True)
class TrainedTable:
    """The columns of a table over the seeds, in the paper's units: row → column → spread."""

    rows: Mapping[str, Mapping[str, Spread]]

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
        return named

    def means(self) -> PrintedTable:
        """Means alone, laid out as the printed tables are."""
        rows = {row: tuple(c.mean for c in columns.values()) for row, columns in self.rows.items()}
        return PrintedTable(tuple(_METRICS), rows)


def trained(setting: Setting, rows: Iterable[str]) -> TrainedTable:
    """Every column of some rows, trained on Flickr8k."""
    runs = setting.runs()
    return TrainedTable(
        {
            row: {
                column: runs.metric(recipe_of(row), name).times(factor)
                for column, (name, factor) in _METRICS.items()
            }
            for row in rows
        }
    )


def every_setting() -> tuple[str, ...]:
    """The rows of tables 3 to 5 and the three that table 2 alone has, each setting once."""
    rows = [row for name in ("table3", "table4", "table5") for row in PAPER.table(name).rows]
    return tuple(dict.fromkeys((*rows, "SLRT", "HS", "SS")))
