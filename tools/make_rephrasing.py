"""Fill the tables of docs/evidence/rephrasing.md from the runs that come with modgap.

python tools/make_rephrasing.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_evidence import fill, table

from modgap.reproduce.flickr8k.methods import BASELINE, PASSES, PASSES_SUFFIX
from modgap.reproduce.flickr8k.results import FROM_SCRATCH, Runs, read_runs
from modgap.reproduce.statistics import mean_interval

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "rephrasing.md"


def main() -> None:
    """Write the tables."""
    runs = read_runs(FROM_SCRATCH)
    fill(PAGE, {"choices": choices(runs), "changes": changes(runs), "bare": bare(runs)})


def choices(runs: Runs) -> str:
    """How photos choose among four captions, in per cent; a line for each method."""
    head = (
        "method", "gap", "clean", "reworded, gap doubled", "as trained", "closed",
        "cost of rewording", "gain by closing", "gain over doubling",
    )  # fmt: skip
    lines = []
    for recipe in (one.name for one in PASSES):
        of = {name: 100 * values for name, values in runs.by_seed(recipe, "rephrasing_").items()}
        gap = np.mean(runs.values(recipe, "gap_distance"))
        means = [of[name].mean() for name in ("clean", "widened", "as_trained", "closed")]
        apart = (
            of["clean"] - of["as_trained"],
            of["closed"] - of["as_trained"],
            of["closed"] - of["widened"],
        )
        lines.append(
            (
                recipe.removesuffix(PASSES_SUFFIX),
                f"{gap:.3f}",
                *(f"{mean:.1f}" for mean in means),
                *map(points, apart),
            )
        )
    return table(head, lines)


def changes(runs: Runs) -> str:
    """d(C) of the change from one person's caption to another's; a line for each method."""
    head = ("method", "published", "least d(C)", "coordinates shuffled", "share along the gap")
    lines = []
    for recipe in (one.name for one in PASSES):
        of = runs.by_seed(recipe, "rewording_")
        found = [interval(of[name]) for name in ("correlation", "correlation_by_chance")]
        along = f"{of['along_gap'].mean():.3f}"
        lines.append((recipe.removesuffix(PASSES_SUFFIX), "≈ 1", *found, along))
    return table(head, lines)


def bare(runs: Runs) -> str:
    """The gap of the baseline with all normalisation and without any."""
    head = ("", "gap", "sides at random, largest", "told apart", "sides at random, largest")
    lines = []
    for prefix, words in (("normalised_", "with normalisation"), ("unnormalised_", "without")):
        of = runs.by_seed(f"{BASELINE}{PASSES_SUFFIX}", prefix)
        chance = [f"{of[f'{name}_by_chance'].max():.3f}" for name in ("gap", "told_apart")]
        lines.append((words, interval(of["gap"]), chance[0], interval(of["told_apart"]), chance[1]))
    return table(head, lines)


def interval(values: np.ndarray) -> str:
    """The mean over seeds with its 95 % interval."""
    found = mean_interval(values)
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def points(values: np.ndarray) -> str:
    """A difference in points with its interval."""
    found = mean_interval(values)
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]".replace("-", "−")


if __name__ == "__main__":
    main()
