"""A-OKVQA in other words as the gap closes (fig. 10), by a model of your own."""

from __future__ import annotations

import numpy as np

from modgap.reproduce.checks import Check, resting_on
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.neighbour_tasks import AMOUNTS
from modgap.reproduce.chowers2026.rephrasing import fig10 as of_classes
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.model_data import ModelData
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.tasks import AOKVQA, RephrasedChoice, rephrased_choice, rephrased_choice_task

NAME = "A-OKVQA"
# Wrong answers that a question draws from, of the bank of all answers: the paper draws each of its
# 500 times anew, which is more texts than can be embedded in minutes.
WRONG, WRONG_IN_FULL = 12, 200
DRAWS, DRAWS_IN_FULL = 50, 500


@PAPER.run_on_model("fig10")
def fig10(setting: Setting) -> Outcome:
    """Questions whose answers are said in other words, where A-OKVQA was given; else classes."""
    model = setting.model
    assert model is not None
    if model.questions is None:
        if setting.rows is None or setting.rows.labels is None:
            raise NotAtHand(PAPER.entries["chowers2026/fig10"].how)
        return of_classes(setting)
    found = _rephrased(setting, model, model.questions)
    gain = found.gain(seed=setting.seed)
    as_it_is, closed = (int(np.argmin(np.abs(found.amounts - a))) for a in (0.0, 1.0))
    measured: dict[str, Number] = {
        "questions": found.n,
        "share of the gap closed": found.closed,
        "clean accuracy": float(found.clean[as_it_is]),
        "clean accuracy changed by closing": float(np.ptp(found.clean)),
        "accuracy under rephrasing as trained": float(found.rephrased[as_it_is]),
        "accuracy under rephrasing when closed": float(found.rephrased[closed]),
        "p-value of that change": gain.p_value,
    }
    cost = float(found.clean[as_it_is] - found.rephrased[as_it_is])
    checks: list[Check] = [
        PAPER.check("questions_clean_same", np.ptp(found.clean) == 0, name=NAME),
        *resting_on(
            PAPER.above("wording_costs", cost, name=NAME, choices="the answers"),
            [PAPER.above("questions_rise", gain.difference, name=NAME)],
        ),
    ]
    lines = {"clean": found.clean, "rephrased": found.rephrased}
    return Outcome(
        measured, checks, {"amounts": AMOUNTS, "tasks": {NAME: {"four": lines}}, "every": {}}
    )


def _rephrased(setting: Setting, model: ModelData, data: AOKVQA) -> RephrasedChoice:
    """The questions that have a photograph and answers in other words, swept over the gap."""
    wrong = WRONG_IN_FULL if setting.full else WRONG
    inputs = model.inputs(data, rephrase=True, wrong_answers=wrong, seed=setting.seed)
    draws = DRAWS_IN_FULL if setting.full else DRAWS
    task = rephrased_choice_task(**inputs, draws=draws, seed=setting.seed)
    return rephrased_choice(task, amounts=AMOUNTS, progress=setting.steps("questions"))
