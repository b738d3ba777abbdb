"""Put the results of the training runs into docs/evidence/training.md.

    python tools/make_training.py

Every number between the marks comes from pretrained.json, from_scratch.json and losses.json in
src/modgap/reproduce/flickr8k, which `python -m modgap.reproduce.flickr8k --gather` makes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from modgap.reproduce.flickr8k.methods import (
    ALIGNED_SUFFIX,
    BASELINE,
    LOCKED,
    LONG,
    LONG_SUFFIX,
    METHODS,
    PRETRAINED_METHODS,
    SIGMOID,
    TEMPERATURES,
    Recipe,
)
from modgap.reproduce.flickr8k.results import (
    FROM_SCRATCH,
    LOSSES,
    PRETRAINED,
    Runs,
    Spread,
    read_runs,
)
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, mean_interval, rank_correlation
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.tables import CONTROLLED
from modgap.reproduce.yaras2024.trained_tables import (
    GAP,
    IMAGE,
    TEXT,
    correlation_here,
    every_setting,
    like_paper,
    recipe_of,
    trained,
)

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "training.md"
# Recipe → gap, image and text retrieval as printed; later tables round to fewer digits.
PRINTED = {
    recipe_of(row): [table.column(name, [row])[0] for name in (GAP, IMAGE, TEXT)]
    for table in map(PAPER.table, ("table2", "table3", "table4", "table5"))
    for row in table.rows
}
# Heading → metric, factor, decimals.
METRICS = {
    "gap": ("pairs_gap_distance", 1, 3),
    "uniformity": ("uniformity", 1, 3),
    "image R@1": ("image_retrieval_recall@1", 100, 1),
    "text R@1": ("text_retrieval_recall@1", 100, 1),
    "image R@10": ("image_retrieval_recall@10", 100, 1),
    "text R@10": ("text_retrieval_recall@10", 100, 1),
}
CARRIED = {
    "CIFAR-10, probe": ("cifar_linear_probe", 100, 1),
    "CIFAR-10, zero-shot": ("cifar_zero_shot", 100, 1),
    "clothes, probe": ("fashion_linear_probe", 100, 1),
    "clothes, zero-shot": ("fashion_zero_shot", 100, 1),
    "digits, probe": ("digits_linear_probe", 100, 1),
}
FINE_TUNED = {
    f"fig. 8: fine-tuned at τ = {t}": f"fine-tuned at {t}"
    for t in ("1/100", "1/50", "1/30", "1/20", "1/10", "1")
}
OTHERS = {
    "sec. 4.4: ordinary start, batches of 64": "ordinary start, batches of 64",
    "sec. 4.4: amended start, batches of 64": "amended start, batches of 64",
    "sec. 4.4: ordinary start, batches of 256": "FLT 0.01",
    "sec. 4.4: amended start, batches of 256": "amended start",
    **FINE_TUNED,
    **{f"fig. 16: {d} dimensions": f"{d} dimensions" for d in (64, 128)},
    "fig. 16: 256 dimensions": BASELINE,
    "fig. 16: 512 dimensions": "512 dimensions",
}
OTHERS_FROM_SCRATCH = {
    "sec. 4.4: ordinary start, batches of 64": "ordinary start, batches of 64",
    "sec. 4.4: amended start, batches of 64": "amended start, batches of 64",
    "sec. 4.4: ordinary start, batches of 1,000": "FLT 0.01",
    "sec. 4.4: amended start, batches of 1,000": "amended start",
    **FINE_TUNED,
    **{f"fig. 16: {d} dimensions": f"{d} dimensions" for d in (64, 128)},
    "fig. 16: 256 dimensions": "FLT 0.01",
    "fig. 16: 512 dimensions": "512 dimensions",
    **{
        f"fig. 16, small network: {d} dimensions": f"{d} dimensions, small"
        for d in (64, 128, 256, 512)
    },
}
# Words → rows of the tables of Yaras et al. whose retrieval is put beside their gap.
CORRELATIONS = {
    "table 2's seven methods": tuple(PAPER.table("table2").rows),
    "the same without TS": tuple(row for row in PAPER.table("table2").rows if row != "TS"),
    "table 3's fixed temperatures": tuple(
        row for row in PAPER.table("table3").rows if row != BASELINE
    ),
    "all 26 settings": every_setting(),
}


def shown(spread: Spread, factor: float, decimals: int) -> str:
    """Mean ± deviation; the number of seeds where it is not three."""
    text = number(factor * spread.mean, decimals)
    if not math.isnan(spread.deviation):
        text += f" ± {factor * spread.deviation:.{decimals}f}"
    return text if spread.n == 3 else f"{text} ({spread.n})"


def between(found: Interval, decimals: int, sign: str = "+") -> str:
    """An estimate with its interval."""
    ends = (number(end, decimals, sign) for end in (found.low, found.high))
    return f"{number(found.value, decimals, sign)} [{', '.join(ends)}]"


def number(value: float, decimals: int, sign: str = "") -> str:
    """With a true minus, and no sign for nothing."""
    text = f"{value:{sign}.{decimals}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("+-")


def methods_table(runs: Runs, methods: Sequence[Recipe], columns: Mapping[str, tuple]) -> str:
    """One row per method, published beside measured."""
    head = ["method", *columns, "published gap", "published image / text R@1"]
    rows = [head, ["---", *["--:"] * (len(head) - 1)]]
    for name in [method.name for method in methods]:
        cells = [shown(runs.metric(name, metric), *how) for metric, *how in columns.values()]
        published = ["", ""]
        if name in PRINTED:
            gap, image, text = PRINTED[name]
            published = [f"{gap:.3f}", f"{image:.1f} / {text:.1f}"]
        rows.append([name, *cells, *published])
    return table(rows)


def differences_table(runs: Runs) -> str:
    """Against the baseline that was trained for as long, seed by seed."""
    columns = {name: METRICS[name] for name in ("gap", "image R@1", "text R@1")}
    rows = [["method", *columns, "seeds"], ["---", *["--:"] * (len(columns) + 1)]]
    for recipe in (*PRETRAINED_METHODS, *SIGMOID[:1], *LONG, *LOCKED):
        reference = BASELINE + LONG_SUFFIX if recipe.name.endswith(LONG_SUFFIX) else BASELINE
        if recipe.name == reference:
            continue
        cells = []
        for metric, factor, decimals in columns.values():
            found = runs.difference(recipe.name, metric, reference)
            scaled = Interval(*(factor * end for end in (found.value, found.low, found.high)))
            cells.append(between(scaled, decimals))
        seeds = [{run["seed"] for run in runs.of(name)} for name in (recipe.name, reference)]
        rows.append([recipe.name, *cells, str(len(set.intersection(*seeds)))])
    return table(rows)


def correlations_table() -> str:
    """Rank correlation of gap and retrieval over several sets of settings."""
    head = ["settings", "n", "gap and image R@1", "gap and text R@1", "printed: image, text"]
    rows = [head, ["---", *["--:"] * (len(head) - 1)]]
    tables = [PAPER.table(f"table{k}") for k in (2, 3, 4, 5)]
    printed = {row: each for each in reversed(tables) for row in each.rows}
    for words, names in CORRELATIONS.items():
        found = [correlation_here(Setting(), names, GAP, score) for score in (IMAGE, TEXT)]
        columns = {
            column: [printed[name].column(column, [name])[0] for name in names]
            for column in (GAP, IMAGE, TEXT)
        }
        theirs = [rank_correlation(columns[GAP], columns[score]) for score in (IMAGE, TEXT)]
        rows.append(
            [
                words,
                str(len(names)),
                *(between(each, 2, "") for each in found),
                ", ".join(number(value, 2) for value in theirs),
            ]
        )
    return table(rows)


def temperatures_table(runs: Runs) -> str:
    """The temperature over the steps, and by how much each gap is narrower than the baseline's."""
    at = (0.0, 0.25, 0.5, 0.75, 1.0)
    head = ["method", *(f"τ at {100 * share:.0f} %" for share in at)]
    rows = [[*head, "warmer for", "gap narrower by", "published"]]
    rows.append(["---", *["--:"] * (len(rows[0]) - 1)])
    printed = PAPER.table("table2")
    found = trained(runs, printed.rows)
    gaps = dict(zip(printed.rows, printed.column(GAP), strict=True))
    for row in printed.rows:
        _, temperature = runs.course(recipe_of(row), "temperature")
        cells = [number(temperature[round(share * (len(temperature) - 1))], 3) for share in at]
        compared = ["", "", ""]
        if row in found.narrower:
            compared = [
                f"{100 * found.warmer[row].value:.0f} %" if row in CONTROLLED else "",
                between(found.narrower[row], 3),
                number(gaps[BASELINE] - gaps[row], 3, "+"),
            ]
        rows.append([recipe_of(row), *cells, *compared])
    return table(rows)


def losses_table(plain: Runs, runs: Runs) -> str:
    """Each temperature with the losses that align and spread, less without them, seed by seed."""
    columns = {name: METRICS[name] for name in ("gap", "image R@1", "text R@1")}
    clustering = {"V-measure": "clustering_v_measure", "adjusted Rand": "clustering_adjusted_rand"}
    head = ["temperature", *(f"{name}: without, with" for name in columns), *clustering]
    rows = [head, ["---", *["--:"] * (len(head) - 1)]]
    changes: dict[str, list[float]] = {name: [] for name in columns}
    for temperature in TEMPERATURES:
        aligned = runs.of(temperature + ALIGNED_SUFFIX)
        seeds = {run["seed"] for run in aligned}
        before = [run for run in plain.of(temperature) if run["seed"] in seeds]
        cells = []
        for name, (metric, factor, decimals) in columns.items():
            pair = [
                factor * sum(run["metrics"][metric] for run in found) / len(found)
                for found in (before, aligned)
            ]
            changes[name].append(pair[1] - pair[0])
            cells.append(", ".join(number(value, decimals) for value in pair))
        joint = [
            number(runs.metric(temperature + ALIGNED_SUFFIX, metric).mean, 3)
            for metric in clustering.values()
        ]
        rows.append([temperature, *cells, *joint])
    over = [between(mean_interval(changes[name]), how[2]) for name, how in columns.items()]
    rows.append(["mean change [95 % over temperatures]", *over, *[""] * len(clustering)])
    return table(rows)


def fine_tuned_table(runs: Runs) -> str:
    """Fig. 8 step by step: how much narrower the gap is than at the temperature below."""
    names = list(FINE_TUNED.values())
    rows = [["step", "gap narrower by", "seeds"], ["---", "--:", "--:"]]
    for low, high in pairwise(names):
        found = runs.difference(low, "gap_distance", high)
        n = len(runs.paired(lambda run: run["seed"], low, high))
        rows.append(
            [
                f"{low.removeprefix('fine-tuned at ')} → {high.removeprefix('fine-tuned at ')}",
                between(found, 3),
                str(n),
            ]
        )
    return table(rows)


def others_table(runs: Runs, others: Mapping[str, str]) -> str:
    """The gap at the start and at the end of the experiments of Liang et al."""
    rows = [["run", "gap at the start", "gap at the end", "image R@1"], ["---", *["--:"] * 3]]
    for words, recipe in others.items():
        rows.append(
            [
                words,
                shown(runs.at_start(recipe), 1, 3),
                shown(runs.metric(recipe, "gap_distance"), 1, 3),
                shown(runs.metric(recipe, "image_retrieval_recall@1"), 100, 1),
            ]
        )
    return table(rows)


def table(rows: list[list[str]]) -> str:
    """Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Replace what stands between each pair of marks."""
    pretrained, scratch, losses = map(read_runs, (PRETRAINED, FROM_SCRATCH, LOSSES))
    scheduled = like_paper(Setting())
    of_table_2 = [Recipe(recipe_of(row)) for row in PAPER.table("table2").rows]
    cifar = {name: CARRIED[name] for name in CARRIED if name.startswith("CIFAR")}
    assert {recipe_of(row) for row in every_setting()} == {method.name for method in METHODS}
    old = {name: CARRIED[name] for name in CARRIED if not name.startswith("CIFAR")}
    made = {
        "methods": methods_table(
            pretrained, (*PRETRAINED_METHODS, *SIGMOID, *LONG, *LOCKED), METRICS | CARRIED
        ),
        "differences": differences_table(pretrained),
        "correlations": correlations_table(),
        "others": others_table(pretrained, OTHERS),
        "schedule": methods_table(scheduled, of_table_2, METRICS | cifar),
        "temperatures": temperatures_table(scheduled),
        "losses": losses_table(pretrained, losses),
        "fine-tuned from scratch": fine_tuned_table(scratch),
        "methods from scratch": methods_table(scratch, METHODS, METRICS | old),
        "others from scratch": others_table(scratch, OTHERS_FROM_SCRATCH),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, found in made.items():
        pattern = rf"(<!-- {name}: start -->\n).*?(<!-- {name}: end -->)"
        text, count = re.subn(
            pattern, lambda m, found=found: f"{m[1]}{found}\n{m[2]}", text, flags=re.S
        )
        assert count == 1, name
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
