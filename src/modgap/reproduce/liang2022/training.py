"""What training does to the gap (fig. 8, sec. 4.4, fig. 16): models trained on Flickr8k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.flickr8k.methods import (
    DIMENSIONS,
    FINE_TUNED,
    PRETRAINED,
    SMALL_DIMENSIONS,
)
from modgap.reproduce.flickr8k.results import WHOLE_GAP, Spread
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """A model trained at τ = 1/100, trained on at six temperatures."""
    runs = setting.runs()
    found = {
        recipe.name.removeprefix("fine-tuned at "): runs.metric(recipe.name, WHOLE_GAP)
        for recipe in FINE_TUNED
    }
    before = runs.metric(PRETRAINED, WHOLE_GAP).mean
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
        ("ordinary", PRETRAINED, ", batches of 1,000", in_large),
        ("amended", "amended start, batches of 64", "", in_small),
        ("amended", "amended start", ", batches of 1,000", in_large),
    ):
        before, after = runs.at_start(recipe), runs.metric(recipe, WHOLE_GAP)
        spreads |= {f"{name}, first": before, f"{name}, last": after}
        measured |= {
            f"gap, {name} start{batches}": before.mean,
            f"gap, {name} start, trained{batches}": after.mean,
            f"deviation over seeds, {name} start, trained{batches}": after.deviation,
            f"seeds, {name} start{batches}": after.n,
        }
    small, large = (
        spreads["amended, last"].mean / spreads["ordinary, last"].mean
        for spreads in (in_small, in_large)
    )
    ordinary, amended = in_small["ordinary, last"], in_small["amended, last"]
    at_start = in_small["amended, first"].mean
    return Outcome(
        {
            **measured,
            "amended over ordinary, trained": small,
            "amended over ordinary, trained, batches of 1,000": large,
        },
        [
            check(
                "The amended start has less than a tenth of the ordinary one's gap.",
                at_start < 0.1 * in_small["ordinary, first"].mean,
            ),
            check("Training widens it at least threefold.", amended.mean > 3 * at_start),
            check(
                "It stays below three quarters of the ordinary start's.", max(small, large) < 0.75
            ),
            check(
                "The two differ by more than four deviations over the seeds.",
                ordinary.mean - amended.mean > 4 * max(ordinary.deviation, amended.deviation),
            ),
        ],
        {"groups": [_group("batches of 64", in_small), _group("batches of 1,000", in_large)]},
    )


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Four dimensions at τ = 1/100, as everything else here and with smaller networks."""
    runs = setting.runs()
    names = {**{recipe.name: recipe.name for recipe in DIMENSIONS}, "256 dimensions": PRETRAINED}
    order = sorted(names, key=lambda name: int(name.partition(" ")[0]))
    found = {name: runs.metric(names[name], WHOLE_GAP) for name in order}
    small = {recipe.name: runs.metric(recipe.name, WHOLE_GAP) for recipe in SMALL_DIMENSIONS}
    checks = []
    for words, spreads in (("ResNet-18", found), ("The smaller network", small)):
        means = [spread.mean for spread in spreads.values()]
        checks += [
            check(
                f"{words}: with every dimension a gap of at least 0.5 is left.", min(means) > 0.5
            ),
            check(
                f"{words}: the gaps of all dimensions differ by at most a tenth, as printed.",
                max(means) < 1.1 * min(means),
            ),
        ]
    return Outcome(
        {**_values(found), **_values(small)},
        checks,
        {
            "groups": [
                _group(title, {name.partition(" ")[0]: v for name, v in spreads.items()})
                for title, spreads in (("ResNet-18", found), ("smaller network", small))
            ]
        },
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
