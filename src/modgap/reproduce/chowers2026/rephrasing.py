"""Other wordings of the candidates as noise (figs 10, 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from modgap.corrections.correctors import Threshold
from modgap.datasets import load_digits
from modgap.datasets.digits import WORDINGS
from modgap.evaluation.robustness import noise_correlation
from modgap.evaluation.significance import compare
from modgap.reproduce.checks import Check, read_as, resting_on
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.gap import class_tasks_in_two_wordings
from modgap.reproduce.chowers2026.neighbour_tasks import (
    AMOUNTS,
    AS_TRAINED,
    CLOSED,
    NeighbourTask,
    on,
)
from modgap.reproduce.chowers2026.threshold import NEGLIGIBLE, PRINTED, READINGS
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.sources import DIGITS
from modgap.reproduce.statistics import Interval, mean_interval, share_along
from modgap.tasks import rephrased_choice, rephrased_choice_task
from modgap.tasks.questions import near_and_toward, own_directions

# The class of an image and its rivals.
CHOICES = 4
ON = "; five people's captions of each photo of Flickr8k, by three models trained from scratch"
# What is reworded, as two readings of fig. 15.
CLASSES, PEOPLE = "texts of classes", "captions of other people"
# Groups of texts that are left out in turn.
PARTS = 20
NAME = "A-OKVQA"
# Wrong answers that a question draws from, of the bank of all answers: the paper draws each of its
# 500 times anew, which is more texts than can be embedded in minutes.
WRONG, WRONG_IN_FULL = 12, 200
DRAWS, DRAWS_IN_FULL = 50, 500


@PAPER.run("fig10")
def fig10(setting: Setting) -> Outcome:
    """Images that choose among four classes, or all, whose texts come in another wording."""
    draws = 500 if setting.full else 3
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data = {}
    at_hand = class_tasks_in_two_wordings(setting)
    if (fewest := min(len(task.candidates) for task in at_hand)) < CHOICES:
        raise NotAtHand(f"It needs at least {CHOICES} classes to choose from, got {fewest}.")
    for task in at_hand:
        setting.say(f"{task.name}: {draws} draws of classes", 0, 1)
        still, reworded, spoken = _four_classes(task, draws, setting.seed)
        gain, only = (task.mean(each[CLOSED] - each[AS_TRAINED]) for each in (spoken, reworded))
        assert task.other is not None
        along = share_along(task.other - task.candidates, task.gap)
        measured |= {
            f"clean accuracy, four classes, {task.name}": still.mean(axis=1)[AS_TRAINED],
            f"accuracy under rephrasing as trained, four classes, {task.name}": (
                spoken[AS_TRAINED].mean()
            ),
            f"accuracy under rephrasing when closed, four classes, {task.name}": (
                spoken[CLOSED].mean()
            ),
            f"gain by closing, four classes, {task.name}": gain.value,
            f"gain by closing, the same four classes, {task.name}": only.value,
            f"share of the rephrasing's variance along the gap, {task.name}": along,
            f"the same for uncorrelated noise, {task.name}": 1 / task.candidates.shape[1],
        }
        lines = {"clean": still.mean(axis=1), "rephrased": spoken.mean(axis=1)}
        if task.judged:
            measured["clean accuracy changed by closing"] = float(np.ptp(lines["clean"]))
            four = {"name": task.name, "choices": "four classes"}
            cost = task.mean(still[AS_TRAINED] - spoken[AS_TRAINED])
            checks += [
                PAPER.check("four_clean_same", np.ptp(lines["clean"]) == 0, **four),
                *resting_on(
                    PAPER.above("wording_costs", cost, **four),
                    [
                        PAPER.above("four_rise", gain, **four),
                        PAPER.above("same_four_rise", only, name=task.name),
                    ],
                ),
            ]
            as_trained = [
                task.hits((0.0,), 0 * task.gap, rows)[0] * 1.0
                for rows in (task.candidates, task.other)
            ]
            lost = task.mean(as_trained[0] - as_trained[1])
            of_all = PAPER.above("wording_costs", lost, name=task.name, choices="all classes")
            checks.append(of_all)
        every: dict[str, np.ndarray] = {}
        for words, threshold in READINGS.items():
            found, judged, swept = _all_classes(task, words, threshold)
            measured |= found
            if task.judged:
                kept, *rise = judged
                checks += read_as(words, [kept, *resting_on(of_all, rise)[1:]])
            every |= swept
        data[task.name] = {"four": lines, "all": every}
    if captions := setting.after_passes("rephrasing_"):
        measured |= {
            f"accuracy among four captions, {name.replace('_', ' ')}, Flickr8k": values.mean()
            for name, values in captions.items()
            if name in ("clean", "widened", "as_trained", "closed")
        }
        checks += _four_captions(captions)
    return Outcome(
        measured,
        checks,
        {"amounts": AMOUNTS, "tasks": data, "every": data},
        on(at_hand) + (ON if captions else ""),
    )


def _four_captions(of: Mapping[str, np.ndarray]) -> list[Check]:
    """The same of photos that choose among four captions, over the seeds of the training."""
    cost, gain = (
        mean_interval(of[better] - of[worse])
        for better, worse in (("clean", "as_trained"), ("closed", "as_trained"))
    )
    four = {"name": "Flickr8k", "choices": "four captions"}
    return [
        PAPER.check("four_clean_same", of["clean_changed"].max() == 0, **four),
        *resting_on(
            PAPER.above("wording_costs", cost, **four), [PAPER.above("four_rise", gain, **four)]
        ),
    ]


def _four_classes(
    task: NeighbourTask, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right answers among four classes, (amounts, images): clean, and twice in another wording.

    The direction is orthogonal to the clean texts of each image's four classes (eq. 11). In another
    wording first the same four stand to choose, then the right one and three others that are drawn
    anew, as the paper draws wrong answers.
    """
    assert task.other is not None
    rng = np.random.default_rng(seed)
    four = _with_rivals(task, rng)
    rows = task.candidates[four]
    directions = own_directions(task.gap, rows)
    still = _right(task.queries, rows, directions)
    reworded = _right(task.queries, task.other[four], directions).astype(float)
    spoken = np.zeros(still.shape)
    for _ in range(draws):
        other = task.other[_with_rivals(task, rng)]
        spoken += _right(task.queries, other, directions)
    return still, reworded, spoken / draws


def _with_rivals(task: NeighbourTask, rng: np.random.Generator) -> np.ndarray:
    """The class of each query with three others, (n, 4), its own first."""
    classes = len(task.candidates)
    # Jumps round the circle of the other classes, no two the same.
    first, second, third = (rng.integers(1, classes - k, len(task.truth)) for k in range(3))
    second += second >= first
    for taken in np.sort([first, second], axis=0):
        third += third >= taken
    jumps = np.stack([np.zeros_like(first), first, second, third], axis=1)
    return np.asarray((task.truth[:, None] + jumps) % classes)


def _right(queries: np.ndarray, rows: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Whether each query is nearest to its first candidate, (amounts, queries)."""
    near, toward = near_and_toward(queries, rows, directions)
    return np.array([np.argmax(near - a * toward, axis=1) == 0 for a in AMOUNTS])


def _all_classes(
    task: NeighbourTask, words: str, threshold: Threshold
) -> tuple[dict[str, Number], list[Check], dict[str, np.ndarray]]:
    """Accuracy among all classes, clean and in another wording, as the gap closes."""
    direction, closed = task.direction(1 - PRINTED, threshold)
    hits = {
        of: task.hits(AMOUNTS, direction, rows) * 1.0
        for of, rows in (("clean", task.candidates), ("rephrased", task.other))
    }
    changes = {of: each[CLOSED] - each[AS_TRAINED] for of, each in hits.items()}
    where = f"{words}, {task.name}"
    measured: dict[str, Number] = {
        f"share of the gap closed, {where}": closed,
        f"clean accuracy as trained, {task.name}": hits["clean"][AS_TRAINED].mean(),
        f"clean accuracy when closed, {where}": hits["clean"][CLOSED].mean(),
        f"accuracy in another wording as trained, {task.name}": hits["rephrased"][
            AS_TRAINED
        ].mean(),
        f"accuracy in another wording when closed, {where}": hits["rephrased"][CLOSED].mean(),
        f"p-value of that change, {where}": compare(
            hits["rephrased"][AS_TRAINED], hits["rephrased"][CLOSED], resamples=100
        ).p_value,
    }
    checks = [
        PAPER.below(
            "all_clean_kept", task.mean(-changes["clean"]), NEGLIGIBLE, name=task.name, words=words
        ),
        PAPER.above("all_rise", task.mean(changes["rephrased"]), name=task.name, words=words),
    ]
    lines = {f"{of}, {words}": each.mean(axis=1) for of, each in hits.items()}
    return measured, checks, lines


@PAPER.run_on_model("fig10")
def fig10_of_model(setting: Setting) -> Outcome:
    """Questions whose answers are said in other words, where A-OKVQA was given; else classes."""
    model = setting.model
    assert model is not None
    if model.questions is None:
        if setting.rows is None or setting.rows.labels is None:
            raise NotAtHand(PAPER.entries["chowers2026/fig10"].how)
        return fig10(setting)
    wrong, draws = (WRONG_IN_FULL, DRAWS_IN_FULL) if setting.full else (WRONG, DRAWS)
    inputs = model.inputs(model.questions, rephrase=True, wrong_answers=wrong, seed=setting.seed)
    task = rephrased_choice_task(**inputs, draws=draws, seed=setting.seed)
    found = rephrased_choice(task, amounts=AMOUNTS, progress=setting.steps("questions"))
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


@PAPER.run("fig15")
def fig15(setting: Setting) -> Outcome:
    """d(C) of changes of wording, beside that of coordinates that are shuffled apart."""
    rng = np.random.default_rng(setting.seed)
    at_hand = class_tasks_in_two_wordings(setting)
    changes = _changes(setting, at_hand)
    judged = [name for name in changes if not name.startswith(DIGITS)] or list(changes)
    found, chance = {}, {}
    for name, noise in changes.items():
        found[name] = _correlation(noise, with_interval=name in judged)
        chance[name] = noise_correlation(rng.permuted(noise, axis=0))
    lowest = min(judged, key=lambda name: found[name].low)
    sizes, many = [10, 30, 100, 300, 1000, 3000], 512
    drawn = {size: noise_correlation(rng.normal(size=(size, many))) for size in sizes}
    measured: dict[str, Number] = {
        "least d(C)": found[lowest].value,
        "d(C) of shuffled coordinates there": chance[lowest],
        "least d(C), digits": min(
            (each.value for name, each in found.items() if name.startswith(DIGITS)), default=None
        ),
        "d(C) of uncorrelated noise, 1,000 texts in 512 dimensions": drawn[1000],
        "d(C) of uncorrelated noise, 10 texts in 512 dimensions": drawn[10],
    }
    bars = {name: each.value for name, each in found.items()}
    least = {CLASSES: (found[lowest], chance[lowest])}
    if captions := setting.after_passes("rewording_"):
        least[PEOPLE] = (
            mean_interval(captions["correlation"]), captions["correlation_by_chance"].mean()
        )  # fmt: skip
        measured |= {
            f"least d(C), {PEOPLE}": least[PEOPLE][0].value,
            f"d(C) of shuffled coordinates there, {PEOPLE}": least[PEOPLE][1],
        }
    checks = [
        check
        for words, (value, shuffled) in least.items()
        for check in read_as(
            words, [PAPER.above("correlated_changes", value, (1 + shuffled) / 2, words=words)]
        )
    ]
    return Outcome(
        measured,
        checks,
        {
            "bars": {**bars, "shuffled": chance[lowest]},
            "classes": sizes,
            "chance": {
                "drawn": list(drawn.values()),
                "√(d/(N + d))": [(many / (size + many)) ** 0.5 for size in sizes],
            },
        },
        on(at_hand) + (ON if captions else ""),
    )


def _changes(setting: Setting, at_hand: Sequence[NeighbourTask]) -> dict[str, np.ndarray]:
    """What another wording adds to each text, by the name of the change."""
    found = {
        task.name: task.other - task.candidates
        for task in at_hand
        if task.name != DIGITS and task.other is not None
    }
    if setting.rows is not None:
        return found
    digits = load_digits("test")
    captions = digits.Y.reshape(-1, len(WORDINGS), digits.Y.shape[1]).transpose(1, 0, 2)
    wordings = setting.read("digit wordings", captions)
    return found | {
        f"{DIGITS} {a + 1} to {b + 1}": wordings[b] - wordings[a]
        for a, b in permutations(range(len(wordings)), 2)
        if a < b
    }


def _correlation(noise: np.ndarray, *, with_interval: bool) -> Interval:
    """d(C) of eq. 50, with the jackknife's interval over the texts.

    Resampled texts would come several times, and their coordinates look the more correlated.
    """
    value = noise_correlation(noise)
    if not with_interval:
        return Interval(value, value, value)
    part = np.arange(len(noise)) % PARTS
    others = [noise_correlation(noise[part != k]) for k in range(PARTS)]
    around = mean_interval(PARTS * value - (PARTS - 1) * np.array(others))
    half = around.high - around.value
    return Interval(value, value - half, value + half)
