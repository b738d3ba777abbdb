"""A pretrained convolutional network in place of the paper's ResNet-18 (figs 2a, 6 and 14).

Its cosines were measured once; python -m modgap.reproduce.networks measures them anew.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from modgap.measures.cone import Cone
from modgap.reproduce.checks import Check, read_as
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.networks import CNN, PLACES
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, mean_interval

IN_PLACE = f"{CNN} in place of the pre-trained ResNet"
# Where rows are taken → how the paper is read.
_READINGS = {
    "before": "before the last ReLU, as footnote 4 has it",
    "after": "after the last ReLU, as in torchvision's ResNet-18",
}


def network_cosines(setting: Setting, inputs: str) -> dict[str, Any]:
    """The cosines on some inputs by where rows are taken; none beside rows of your own."""
    if setting.rows is not None:
        return {}
    found = setting.networks()[f"{CNN}-pretrained-{inputs}"]
    return {f"{CNN} {place} its last ReLU, {inputs}": found[place] for place in PLACES}


def network_cones(setting: Setting, *inputs: str) -> dict[str, Cone]:
    """The same as cones, on several kinds of input."""
    return {
        label: Cone(**{field.name: of[field.name] for field in fields(Cone)})
        for one in inputs
        for label, of in network_cosines(setting, one).items()
    }


def network_checks(
    setting: Setting, inputs: str, *, least: bool = False, narrower: bool = False
) -> list[Check]:
    """That the rows have a cone, in either reading: a ReLU by itself makes cosines positive.

    With ``least`` also that no cosine is negative, where that can be; with ``narrower`` that random
    weights give a larger mean.
    """
    checks: list[Check] = []
    for place, (label, of) in zip(PLACES, network_cosines(setting, inputs).items(), strict=False):
        mean, chance = Interval(of["mean"], of["low"], of["high"]), of["by_chance"]
        if place == "after":
            stated = [PAPER.above("cone_beyond_relu", mean, chance, label=label)]
        else:
            stated = [PAPER.above("cone_beyond_chance", mean, chance, label=label)]
            if least:
                stated.append(PAPER.check("no_negative_cosine", of["min"] > 0, label=label))
        if narrower:
            starts = setting.networks()[f"{CNN}-{inputs}"][place]["mean_cosine"]
            by_start = mean_interval([start - of["mean"] for start in starts])
            stated.append(PAPER.above("random_weights_narrower", by_start, name=label))
        checks += read_as(_READINGS[place], stated)
    return checks
