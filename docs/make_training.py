"""Put the results of the training runs into docs/training.md.

    python docs/make_training.py [results.json]

Every number between the marks comes from src/modgap/reproduce/flickr8k/results.json, which
`python -m modgap.reproduce.flickr8k --gather` makes.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

from modgap.reproduce.flickr8k.methods import METHODS
from modgap.reproduce.flickr8k.results import RESULTS, Runs, Spread, read_runs
from modgap.reproduce.yaras2024.measured import every_setting, recipe_of
from modgap.reproduce.yaras2024.published import (
    COLUMNS,
    GAP,
    IMAGE,
    TABLE2,
    TABLE3,
    TABLE4,
    TABLE5,
    TEXT,
)

PAGE = Path(__file__).with_name("training.md")
PRINTED = {
    recipe_of(row): values
    for table in (TABLE2, TABLE3, TABLE4, TABLE5)
    for row, values in table.items()
}
# Heading → metric, factor, decimals.
METRICS = {
    "gap": ("pairs_gap_distance", 1, 3),
    "uniformity": ("uniformity", 1, 3),
    "image R@1": ("image_retrieval_recall@1", 100, 1),
    "text R@1": ("text_retrieval_recall@1", 100, 1),
    "image R@10": ("image_retrieval_recall@10", 100, 1),
    "text R@10": ("text_retrieval_recall@10", 100, 1),
    "clothes, probe": ("fashion_linear_probe", 100, 1),
    "clothes, zero-shot": ("fashion_zero_shot", 100, 1),
    "digits, probe": ("digits_linear_probe", 100, 1),
}
OTHERS = {
    "sec. 4.4: ordinary start, batches of 64": "ordinary start, batches of 64",
    "sec. 4.4: amended start, batches of 64": "amended start, batches of 64",
    "sec. 4.4: ordinary start, batches of 1,000": "FLT 0.01",
    "sec. 4.4: amended start, batches of 1,000": "amended start",
    **{f"fig. 8: fine-tuned at τ = {t}": f"fine-tuned at {t}"
       for t in ("1/100", "1/50", "1/30", "1/20", "1/10", "1")},
    "fig. 16: 64 dimensions": "64 dimensions",
    "fig. 16: 128 dimensions": "128 dimensions",
    "fig. 16: 256 dimensions": "FLT 0.01",
    "fig. 16: 512 dimensions": "512 dimensions",
    **{f"fig. 16, small network: {d} dimensions": f"{d} dimensions, small"
       for d in (64, 128, 256, 512)},
}  # fmt: skip


def shown(spread: Spread, factor: float, decimals: int) -> str:
    """Mean ± deviation; the number of seeds where it is not three."""
    text = f"{factor * spread.mean:.{decimals}f}".replace("-", "−")
    if not math.isnan(spread.deviation):
        text += f" ± {factor * spread.deviation:.{decimals}f}"
    return text if spread.n == 3 else f"{text} ({spread.n})"


def methods_table(runs: Runs) -> str:
    """One row per method, published beside measured."""
    head = ["method", *METRICS, "published gap", "published image / text R@1"]
    rows = [head, ["---", *["--:"] * (len(head) - 1)]]
    assert {recipe_of(row) for row in every_setting()} == {method.name for method in METHODS}
    for method in METHODS:
        printed = PRINTED[method.name]
        gap, image, text = (printed[COLUMNS.index(name)] for name in (GAP, IMAGE, TEXT))
        cells = [
            shown(runs.figure(method.name, metric), factor, decimals)
            for metric, factor, decimals in METRICS.values()
        ]
        rows.append([method.name, *cells, f"{gap:.3f}", f"{image:.1f} / {text:.1f}"])
    return table(rows)


def others_table(runs: Runs) -> str:
    """The gap at the start and at the end of the experiments of Liang et al."""
    rows = [["run", "gap at the start", "gap at the end", "image R@1"], ["---", *["--:"] * 3]]
    for words, recipe in OTHERS.items():
        rows.append(
            [
                words,
                shown(runs.at_start(recipe), 1, 3),
                shown(runs.figure(recipe, "gap_distance"), 1, 3),
                shown(runs.figure(recipe, "image_retrieval_recall@1"), 100, 1),
            ]
        )
    return table(rows)


def table(rows: list[list[str]]) -> str:
    """Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(path: Path) -> None:
    """Replace what stands between each pair of marks."""
    runs = read_runs(path)
    text = PAGE.read_text(encoding="utf-8")
    for name, made in (("methods", methods_table(runs)), ("others", others_table(runs))):
        pattern = rf"(<!-- {name}: start -->\n).*?(<!-- {name}: end -->)"
        text, count = re.subn(
            pattern, lambda m, made=made: f"{m[1]}{made}\n{m[2]}", text, flags=re.S
        )
        assert count == 1, name
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
