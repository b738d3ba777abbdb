"""A pretrained convolutional network in place of the paper's ResNet-18 (figs 2a, 6 and 14).

Its cosines were measured once; python -m modgap.reproduce.networks measures them anew.
"""

from __future__ import annotations

from typing import Any

from modgap.reproduce.checks import Check, read_as
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.networks.results import CNN, PLACES
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, mean_interval

IN_PLACE = f"{CNN} in place of the pre-trained ResNet"
# Where rows are taken → how the paper is read.
_READINGS = {
    "before": "before the last ReLU, as footnote 4 has it",
    "after": "after the last ReLU, as in torchvision's ResNet-18",
}


def network_cosines(setting: Setting, inputs: str) -> dict[str, dict[str, Any]]:
    """The cosines on some inputs by where rows are taken; none beside rows of your own."""
    if setting.rows is not None:
        return {}
    found = setting.networks()[f"{CNN}-pretrained-{inputs}"]
    return {place: found[place] for place in PLACES}


def network_values(
    setting: Setting, inputs: str, names: tuple[str, ...], label: str
) -> dict[str, float]:
    """Statistics of the cosines; ``label`` has places for {statistic} and {network}."""
    return {
        label.format(statistic=name, network=network_label(place)): found[name]
        for place, found in network_cosines(setting, inputs).items()
        for name in names
    }


def network_label(place: str) -> str:
    """The rows by where they are taken."""
    return f"{CNN} {place} its last ReLU"


def network_checks(
    setting: Setting, inputs: str, *, least: bool = False, narrower: bool = False
) -> list[Check]:
    """That the rows have a cone, in either reading: a ReLU by itself makes cosines positive.

    With ``least`` also that no cosine is negative, where that can be; with ``narrower`` that random
    weights give a larger mean.
    """
    checks: list[Check] = []
    for place, found in network_cosines(setting, inputs).items():
        mean, chance = Interval(found["mean"], found["low"], found["high"]), found["by_chance"]
        label = f"{network_label(place)}, {inputs}"
        if place == "after":
            stated = [PAPER.above("cone_beyond_relu", mean, chance, label=label)]
        else:
            stated = [PAPER.above("cone_beyond_chance", mean, chance, label=label)]
            if least:
                positive = found["min"] > 0
                stated.append(PAPER.check("no_negative_cosine", positive, label=label))
        if narrower:
            starts = setting.networks()[f"{CNN}-{inputs}"][place]["mean_cosine"]
            by_start = mean_interval([start - found["mean"] for start in starts])
            stated.append(PAPER.above("random_weights_narrower", by_start, name=label))
        checks += read_as(_READINGS[place], stated)
    return checks
