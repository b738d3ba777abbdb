"""What training does to the gap (fig. 8, sec. 4.4, fig. 16): models trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from modgap.reproduce.checks import Check, resting_on
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.flickr8k.methods import BASELINE, BEFORE_FINE_TUNING, FINE_TUNED
from modgap.reproduce.flickr8k.results import WEIGHTS, WHOLE_GAP, Runs, Spread
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, mean_interval

_DIMENSIONS = (64, 128, 256, 512)


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """A model trained at τ = 1/100, trained on at six temperatures."""
    runs = setting.runs()
    recipes = {recipe.name.removeprefix("fine-tuned at "): recipe.name for recipe in FINE_TUNED}
    found = {name: runs.metric(recipe, WHOLE_GAP) for name, recipe in recipes.items()}
    before = runs.metric(BEFORE_FINE_TUNING, WHOLE_GAP).mean
    less = {
        (cold, warm): runs.difference(recipes[cold], WHOLE_GAP, recipes[warm])
        for cold, warm in pairwise(recipes)
    }
    closed = {
        name: runs.difference(BEFORE_FINE_TUNING, WHOLE_GAP, recipes[name]) for name in recipes
    }
    return Outcome(
        {
            "gap before fine-tuning": before,
            "temperatures": len(found),
            "batch size": 250,
            **_values({f"τ = {name}": spread for name, spread in found.items()}),
            **{f"less than before, τ = {name}": of.value for name, of in closed.items()},
        },
        [
            *(
                PAPER.above("smaller_when_warmer", of, warm=warm, cold=cold)
                for (cold, warm), of in less.items()
            ),
            *(
                PAPER.above(
                    "fine_tuning_takes_most", _share_taken(runs, recipes[name]), 0.5, name=name
                )
                for name in ("1/10", "1")
            ),
            PAPER.below("cold_takes_little", _share_taken(runs, recipes["1/100"]), 0.5),
        ],
        {"groups": [_group("after fine-tuning at τ", found, before)]},
    )


def _share_taken(runs: Runs, recipe: str) -> Interval:
    """Which share of the gap before is gone after fine-tuning, seed by seed."""
    gaps = runs.paired(_gap, BEFORE_FINE_TUNING, recipe)
    return mean_interval([1 - after / before for before, after in gaps])


def _gap(run: Mapping[str, Any]) -> float:
    return float(run["metrics"][WHOLE_GAP])


@PAPER.run("section4-4")
def section44(setting: Setting) -> Outcome:
    """Both starts at τ = 1/100, in the paper's small batches and in large ones."""
    runs = setting.runs()
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    groups = []
    for words, names, suffix in (
        ("batches of 64", ("ordinary start, batches of 64", "amended start, batches of 64"), ""),
        ("large batches", (BEFORE_FINE_TUNING, "amended start"), ", large batches"),
    ):
        spreads: dict[str, Spread] = {}
        for name, recipe in zip(("ordinary", "amended"), names, strict=True):
            before, after = runs.at_start(recipe), runs.metric(recipe, WHOLE_GAP)
            spreads |= {f"{name}, first": before, f"{name}, last": after}
            measured |= {
                f"gap, {name} start{suffix}": before.mean,
                f"gap, {name} start, trained{suffix}": after.mean,
                f"deviation over seeds, {name} start, trained{suffix}": after.deviation,
                f"seeds, {name} start{suffix}": after.n,
            }
        over = spreads["amended, last"].mean / spreads["ordinary, last"].mean
        measured[f"amended over ordinary, trained{suffix}"] = over
        ordinary, amended = names
        grown = [_gap(run) - run["course"]["gap"][0] for run in runs.of(amended)]
        less = runs.difference(ordinary, WHOLE_GAP, amended)
        # The gap comes back from a start without one, but not all of it; seed by seed.
        checks += [
            PAPER.above("amended_gap_widens", mean_interval(grown), words=words),
            PAPER.above("amended_stays_below", less, words=words),
        ]
        groups.append(_group(words, spreads))
    return Outcome(measured, checks, {"groups": groups})


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Four dimensions, with the temperature of the others of the same file."""
    runs = setting.runs()
    # Results from scratch have the other dimensions at τ = 1/100 only.
    cold = any("FLT0.01" in words for words in runs.of("64 dimensions")[0]["settings"])
    recipes = {f"{d} dimensions": f"{d} dimensions" for d in _DIMENSIONS}
    recipes["256 dimensions"] = BEFORE_FINE_TUNING if cold else BASELINE
    first = {name: runs.of(recipe)[0]["metrics"] for name, recipe in recipes.items()}
    sizes = [(name, of["n_images"], of["n_texts"]) for name, of in first.items()]
    found = {name: runs.metric(recipe, WHOLE_GAP) for name, recipe in recipes.items()}
    printed = PAPER.declared["fig16"]["published"].values()
    ratio = mean_interval([max(of) / min(of) for of in runs.paired(_gap, *recipes.values())])
    gaps = {name: mean_interval(runs.values(r, WHOLE_GAP)) for name, r in recipes.items()}
    checks = [
        *(
            # The largest distance to expect of means of unit rows with one centre.
            PAPER.above("gap_at_dimension", gaps[name], (1 / n + 1 / m) ** 0.5, name=name)
            for name, n, m in sizes
        ),
        PAPER.below("gaps_differ_as_printed", ratio, max(printed) / min(printed)),
    ]
    scratch = PAPER.above("trained_from_scratch", _share_from_scratch(runs), 0.5)
    return Outcome(
        {**_values(found), "largest gap over smallest, seed by seed": ratio.value},
        resting_on(scratch, checks),
        {"groups": [_group("dimensions", {n.partition(" ")[0]: v for n, v in found.items()})]},
    )


def _share_from_scratch(runs: Runs) -> float:
    """The largest share of a model's weights that no earlier training has made."""
    if WEIGHTS not in runs:
        return 1.0
    (counted,) = runs.of(WEIGHTS)
    made = counted["projections by dimension"].values()
    return max(n / (n + counted["pretrained"]) for n in made)


def _values(found: Mapping[str, Spread]) -> dict[str, Number]:
    """The gap over the seeds, under each name."""
    values: dict[str, Number] = {}
    for name, spread in found.items():
        values |= {
            f"gap, {name}": spread.mean,
            f"deviation over seeds, {name}": spread.deviation,
            f"seeds, {name}": spread.n,
        }
    return values


def _group(
    title: str, found: Mapping[str, Spread], reference: float | None = None
) -> dict[str, Any]:
    """One panel of bars; a single seed has no deviation to draw."""
    return {
        "title": title,
        "gap": {name: spread.mean for name, spread in found.items()},
        "deviation": {
            name: spread.deviation if spread.n > 1 else 0.0 for name, spread in found.items()
        },
        "reference": reference,
    }
