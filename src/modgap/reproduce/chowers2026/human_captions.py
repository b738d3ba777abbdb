"""Captions of one photo by several people as rephrasings of each other (figs 10, 15).

Measured at the end of training on Flickr8k; python -m modgap.reproduce.flickr8k measures them anew.
"""

from __future__ import annotations

import numpy as np

from modgap.reproduce.checks import Check, read_as, resting_on
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.entry import Number
from modgap.reproduce.flickr8k.methods import BASELINE, PASSES_SUFFIX
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import mean_interval

_NAME = "Flickr8k"
# What is reworded, as two readings of fig. 15.
CLASSES, PEOPLE = "texts of classes", "captions of other people"


# Behind what else an entry is on.
ON = "; five people's captions of each photo of Flickr8k, by three models trained from scratch"


def captions_chosen(setting: Setting) -> tuple[dict[str, Number], list[Check]]:
    """How photos choose among four captions, the right one in another person's words (fig. 10)."""
    found = _over_seeds(setting, "rephrasing_")
    if not found:
        return {}, []
    closed, trained = found["closed"], found["as_trained"]
    words = {"name": _NAME, "choices": "four captions"}
    measured: dict[str, Number] = {
        f"clean accuracy, four captions, {_NAME}": found["clean"].mean(),
        f"accuracy under rephrasing, gap doubled, four captions, {_NAME}": found["widened"].mean(),
        f"accuracy under rephrasing as trained, four captions, {_NAME}": trained.mean(),
        f"accuracy under rephrasing when closed, four captions, {_NAME}": closed.mean(),
    }
    cost = PAPER.above("wording_costs", mean_interval(found["clean"] - trained), **words)
    return measured, [
        PAPER.check("four_clean_same", found["clean_changed"].max() == 0, **words),
        *resting_on(cost, [PAPER.above("four_rise", mean_interval(closed - trained), **words)]),
    ]


def captions_changed(setting: Setting) -> tuple[dict[str, Number], list[Check]]:
    """d(C) of the change from one person's caption to another's (fig. 15)."""
    found = _over_seeds(setting, "rewording_")
    if not found:
        return {}, []
    least, chance = found["correlation"], found["correlation_by_chance"]
    measured: dict[str, Number] = {
        f"least d(C), captions of {_NAME}": least.mean(),
        "d(C) of shuffled coordinates there, captions": chance.mean(),
        "share of the variance along the gap, captions": found["along_gap"].mean(),
    }
    halfway = (1 + chance.mean()) / 2
    nearer = PAPER.above("correlated_changes", mean_interval(least), halfway, words=PEOPLE)
    return measured, read_as(PEOPLE, [nearer])


def _over_seeds(setting: Setting, prefix: str) -> dict[str, np.ndarray]:
    """Every metric whose name begins so, seed by seed; none beside rows of your own."""
    if setting.rows is not None:
        return {}
    return setting.runs_from_scratch().by_seed(f"{BASELINE}{PASSES_SUFFIX}", prefix)
