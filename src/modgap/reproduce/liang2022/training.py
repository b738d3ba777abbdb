"""What training does to the gap (fig. 8, sec. 4.4, fig. 16): models trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.flickr8k.methods import BASELINE, BEFORE_FINE_TUNING, FINE_TUNED
from modgap.reproduce.flickr8k.results import WHOLE_GAP, Spread
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls, mean_interval


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """A model trained at τ = 1/100, trained on at six temperatures."""
    runs = setting.runs()
    found = {
        recipe.name.removeprefix("fine-tuned at "): runs.metric(recipe.name, WHOLE_GAP)
        for recipe in FINE_TUNED
    }
    before = runs.metric(BEFORE_FINE_TUNING, WHOLE_GAP).mean
    means = [spread.mean for spread in found.values()]
    upto = list(found).index("1/10") + 1
    return Outcome(
        {
            "gap before fine-tuning": before,
            "temperatures": len(found),
            "batch size": 250,
            **_values({f"τ = {name}": spread for name, spread in found.items()}),
        },
        [
            check(
                "From each temperature to the next up to 1/10 the gap is smaller.",
                falls(means[:upto]),
            ),
            check("At τ = 1 the gap is smaller still than at 1/10.", means[-1] < means[upto - 1]),
            check("At 1/100 at least nine tenths of the gap are left.", means[0] > 0.9 * before),
            check(
                "At 1/10 and at 1 less than a third of the gap is left.",
                max(means[upto - 1 :]) < before / 3,
            ),
        ],
        {"groups": [_group("after fine-tuning at τ", found, before)]},
    )


@PAPER.run("section4-4")
def section44(setting: Setting) -> Outcome:
    """Both starts at τ = 1/100, in the paper's small batches and in large ones."""
    runs = setting.runs()
    measured: dict[str, Number] = {}
    in_small: dict[str, Spread] = {}
    in_large: dict[str, Spread] = {}
    for name, recipe, batches, spreads in (
        ("ordinary", "ordinary start, batches of 64", "", in_small),
        ("ordinary", BEFORE_FINE_TUNING, ", large batches", in_large),
        ("amended", "amended start, batches of 64", "", in_small),
        ("amended", "amended start", ", large batches", in_large),
    ):
        before, after = runs.at_start(recipe), runs.metric(recipe, WHOLE_GAP)
        spreads |= {f"{name}, first": before, f"{name}, last": after}
        measured |= {
            f"gap, {name} start{batches}": before.mean,
            f"gap, {name} start, trained{batches}": after.mean,
            f"deviation over seeds, {name} start, trained{batches}": after.deviation,
            f"seeds, {name} start{batches}": after.n,
        }
    over = {
        batches: spreads["amended, last"].mean / spreads["ordinary, last"].mean
        for batches, spreads in (("", in_small), (", large batches", in_large))
    }
    measured |= {f"amended over ordinary, trained{batches}": v for batches, v in over.items()}
    checks = []
    for words, ordinary, amended in (
        ("batches of 64", "ordinary start, batches of 64", "amended start, batches of 64"),
        ("large batches", BEFORE_FINE_TUNING, "amended start"),
    ):
        grown = mean_interval(
            [run["metrics"][WHOLE_GAP] - run["course"]["gap"][0] for run in runs.of(amended)]
        )
        less = runs.difference(ordinary, WHOLE_GAP, amended)
        measured |= {
            f"less than from the ordinary start, {words}": less.value,
            f"less, low, {words}": less.low,
            f"less, high, {words}": less.high,
        }
        checks += [
            check(
                f"In {words} training widens the gap of the amended start, beyond the spread.",
                grown.low > 0,
            ),
            check(
                f"In {words} it stays below the ordinary start's, beyond the spread.", less.low > 0
            ),
        ]
    return Outcome(
        measured,
        checks,
        {"groups": [_group("batches of 64", in_small), _group("large batches", in_large)]},
    )


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Four dimensions, with the temperature of the others of the same file."""
    runs = setting.runs()
    # Results from scratch have the other dimensions at τ = 1/100 only.
    cold = any("FLT0.01" in words for words in runs.of("64 dimensions")[0]["settings"])
    recipes = {f"{d} dimensions": f"{d} dimensions" for d in (64, 128, 256, 512)}
    recipes["256 dimensions"] = BEFORE_FINE_TUNING if cold else BASELINE
    found = {name: runs.metric(recipe, WHOLE_GAP) for name, recipe in recipes.items()}
    means = [spread.mean for spread in found.values()]
    return Outcome(
        _values(found),
        [
            check(
                "The smallest gap over the dimensions is at least half of the largest.",
                min(means) > 0.5 * max(means),
            ),
            check(
                "The gaps of all dimensions differ by at most a tenth, as printed.",
                max(means) < 1.1 * min(means),
            ),
        ],
        {"groups": [_group("dimensions", {n.partition(" ")[0]: v for n, v in found.items()})]},
    )


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
