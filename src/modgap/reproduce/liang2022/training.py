"""What training does to the gap (fig. 8, sec. 4.4, fig. 16): models trained on Flickr8k."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from modgap.plot import bars, panels
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.flickr8k.methods import (
    DIMENSIONS,
    FINE_TUNED,
    PRETRAINED,
    SMALL_DIMENSIONS,
)
from modgap.reproduce.flickr8k.results import WHOLE_GAP, Spread
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ORDINARY, _AMENDED = "ordinary start, batches of 64", "amended start, batches of 64"


@PAPER.draw("fig8", "fig16", "section4-4")
def _draw(outcome: Outcome) -> Figure:
    """Bars of the gap with its deviation over seeds, one panel for each group of them."""
    groups = outcome.data["groups"]
    figure, axes = panels(len(groups), size=(4.6, 3.4))
    for ax, group in zip(axes, groups, strict=True):
        bars(
            group["gap"],
            ylabel="gap",
            errors=group["deviation"],
            reference=group.get("reference"),
            title=group["title"],
            ax=ax,
        )
    return figure


def _group(title: str, found: dict[str, Spread], reference: float | None = None) -> dict[str, Any]:
    return {
        "title": title,
        "gap": {name: spread.mean for name, spread in found.items()},
        "deviation": {
            name: spread.deviation if spread.n > 1 else 0.0 for name, spread in found.items()
        },
        "reference": reference,
    }


def _values(found: dict[str, Spread]) -> dict[str, Number]:
    return {
        name: value
        for key, spread in found.items()
        for name, value in (
            (f"gap, {key}", spread.mean),
            (f"deviation over seeds, {key}", spread.deviation),
            (f"seeds, {key}", spread.n),
        )
    }


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """A model trained at τ = 1/100, trained on at six temperatures."""
    runs = setting.runs()
    found = {
        recipe.name.removeprefix("fine-tuned at "): runs.metric(recipe.name, WHOLE_GAP)
        for recipe in FINE_TUNED
    }
    before = runs.metric(PRETRAINED, WHOLE_GAP)
    means = [spread.mean for spread in found.values()]
    upto = list(found).index("1/10") + 1
    return Outcome(
        {
            "gap before fine-tuning": before.mean,
            "temperatures": len(found),
            "batch size": 250,
            **_values({f"τ = {name}": spread for name, spread in found.items()}),
        },
        (
            Check(
                "From each temperature to the next up to 1/10 the gap is smaller.",
                all(a > b for a, b in pairwise(means[:upto])),
            ),
            Check("At τ = 1 it is smaller still.", means[-1] < means[upto - 1]),
            Check("At 1/100 at least nine tenths of it are left.", means[0] > 0.9 * before.mean),
            Check(
                "At 1/10 and at 1 less than a third of it is left.",
                max(means[upto - 1 :]) < before.mean / 3,
            ),
        ),
        {"groups": [_group("after fine-tuning at τ", found, before.mean)]},
    )


@PAPER.run("section4-4")
def section44(setting: Setting) -> Outcome:
    """Both starts at τ = 1/100, in the paper's small batches and in large ones."""
    runs = setting.runs()
    sides = {
        "ordinary start": (_ORDINARY, PRETRAINED),
        "amended start": (_AMENDED, "amended start"),
    }
    measured: dict[str, Number] = {}
    shown: list[dict[str, Spread]] = [{}, {}]
    for name, recipes in sides.items():
        for place, (recipe, batches) in enumerate(
            zip(recipes, ("", ", batches of 1,000"), strict=True)
        ):
            before, after = runs.at_start(recipe), runs.metric(recipe, WHOLE_GAP)
            measured[f"gap, {name}{batches}"] = before.mean
            measured[f"gap, {name}, trained{batches}"] = after.mean
            measured[f"deviation over seeds, {name}, trained{batches}"] = after.deviation
            measured[f"seeds, {name}{batches}"] = after.n
            shown[place] |= {f"{name.removesuffix(' start')}, first": before,
                             f"{name.removesuffix(' start')}, last": after}  # fmt: skip
    small, large = (
        shown[k]["amended, last"].mean / shown[k]["ordinary, last"].mean for k in (0, 1)
    )
    measured["amended over ordinary, trained"] = small
    measured["amended over ordinary, trained, batches of 1,000"] = large
    return Outcome(
        measured,
        (
            Check("The amended start has less than a tenth of the ordinary one's gap.",
                  shown[0]["amended, first"].mean < 0.1 * shown[0]["ordinary, first"].mean),
            Check("Training widens it at least threefold.",
                  shown[0]["amended, last"].mean > 3 * shown[0]["amended, first"].mean),
            Check("It stays below three quarters of the ordinary start's.",
                  max(small, large) < 0.75),
            Check(
                "The two differ by more than four deviations over the seeds.",
                shown[0]["ordinary, last"].mean - shown[0]["amended, last"].mean
                > 4 * max(shown[0][f"{name}, last"].deviation for name in ("ordinary", "amended")),
            ),
        ),
        {"groups": [_group("batches of 64", shown[0]), _group("batches of 1,000", shown[1])]},
        )  # fmt: skip


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Four dimensions at τ = 1/100, as everything else here and with smaller networks."""
    runs = setting.runs()
    names = {**{recipe.name: recipe.name for recipe in DIMENSIONS}, "256 dimensions": PRETRAINED}
    order = sorted(names, key=lambda name: int(name.partition(" ")[0]))
    found = {name: runs.metric(names[name], WHOLE_GAP) for name in order}
    small = {recipe.name: runs.metric(recipe.name, WHOLE_GAP) for recipe in SMALL_DIMENSIONS}
    checks = []
    for words, spreads in (("ResNet-18", found), ("the smaller network", small)):
        means = [spread.mean for spread in spreads.values()]
        checks += [
            Check(
                f"{words}: with every dimension a gap of at least 0.5 is left.", min(means) > 0.5
            ),
            Check(
                f"{words}: the gaps of all dimensions differ by at most a tenth, as printed.",
                max(means) < 1.1 * min(means),
            ),
        ]
    return Outcome(
        {**_values(found), **_values(small)},
        tuple(checks),
        {
            "groups": [
                _group("ResNet-18", {k.partition(" ")[0]: v for k, v in found.items()}),
                _group("smaller network", {k.partition(" ")[0]: v for k, v in small.items()}),
            ]
        },
    )
