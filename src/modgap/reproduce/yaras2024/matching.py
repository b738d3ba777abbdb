"""MMVP-VLM by a model of your own, beside its gap and uniformity (table 1)."""

from __future__ import annotations

import numpy as np

from modgap._arrays import unit
from modgap.evaluation import pair_matching
from modgap.measures import gap_distance, wasserstein_uniformity
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.sources import pairs
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.measured import GAP, UNIFORMITY

SCORE, OWN = "MMVP-VLM", "your model"


@PAPER.run_on_model("table1")
def table1(setting: Setting) -> Outcome:
    """One row of the table: nothing that its claim, of several models, could be judged by."""
    model = setting.model
    assert model is not None
    data = model.matching
    if data is None:
        raise NotAtHand(PAPER.sentences["mmvp"])
    rows, which = model.rows(data.images)
    if len(which) < len(data):
        lost = sorted({*range(len(data))} - {*which.tolist()})
        raise NotAtHand(f"{data.images.names[lost[0]]} of {data.source} cannot be read.")
    X, Y = unit(rows), unit(model.texts(data.statements))
    found = pair_matching(X, Y, data.patterns)
    given = setting.rows
    X, Y = (X, Y) if given is None or given.X is None else _pairs(setting)
    here: dict[str, float] = {
        GAP: gap_distance(X, Y),
        UNIFORMITY: wasserstein_uniformity(X, Y),
        SCORE: 100 * found.accuracy,
    }
    measured: dict[str, Number] = {f"{OWN}: {column}": value for column, value in here.items()}
    for pattern, share in zip(found.patterns, found.pattern_accuracy, strict=True):
        measured[f"{OWN}: {SCORE}, {pattern}"] = 100 * float(share)
    printed = PAPER.table("table1")
    points = {
        name: {
            "printed": printed.points(name, SCORE),
            OWN: np.array([[here[name], here[SCORE]]]),
        }
        for name in (GAP, UNIFORMITY)
    }
    of = "the sets themselves" if given is None or given.X is None else "the captioned images"
    note = f"Gap and uniformity are those of {of}. Guessing gives {100 * found.chance:g}."
    return Outcome(measured, (), points, note=note)


def _pairs(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    (own,) = pairs(setting)
    return own.X, own.Y
