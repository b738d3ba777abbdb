"""The gap as it is seen, moved and measured on trained models (figs 1, 2, 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from modgap.datasets import load_digits
from modgap.evaluation.significance import compare
from modgap.measures import gap_orthogonality, linear_separability
from modgap.measures.projection import projection
from modgap.reproduce.checks import Check, read_as
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.neighbour_tasks import (
    NeighbourTask,
    class_task,
    class_tasks,
    on,
    tasks,
    unit_float32,
)
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.sources import Pairs, digit_zero_shot, pairs
from modgap.reproduce.sources import judged as judged_sets
from modgap.reproduce.statistics import LEVEL, Interval, mean_interval

# "Nearly 0" for a cosine: an angle above 84°.
NEARLY = 0.1
# Drawn evenly, to say what the cosine to one direction is by chance.
DIRECTIONS = 500
# Of the whole gap; the finer, the nearer to where the texts are.
MOVED = (-1.0, -0.5, -0.25, -0.1, -0.05, 0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """Pairs in three principal components, and images that each wording reads differently."""
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    components: dict[str, dict[str, np.ndarray]] = {}
    paired, worded = judged_sets(_unit_pairs(setting)), []
    with suppress(NotAtHand):  # your own rows need not have two wordings
        worded = class_tasks_in_two_wordings(setting)
    for found in paired:
        drawn = projection(found.X, found.Y, dims=3)
        apart = linear_separability(drawn.x, drawn.y, seed=setting.seed).all_features
        measured[f"held-out accuracy of a plane in 3 components, {found.name}"] = apart
        checks.append(PAPER.check("planes_tell_apart", apart == 1, name=found.name))
        if len(components) < 2:
            components[found.name] = {"x": drawn.x[:, :2], "y": drawn.y[:, :2]}
    for task in worded:
        first, second = (_answers(task, texts) for texts in (task.candidates, task.other))
        right = compare(first == task.truth, second == task.truth)
        changed = task.mean(first != second)
        measured |= {
            f"accuracy, {task.name}": right.before.value,
            f"accuracy in another wording, {task.name}": right.after.value,
            f"p-value of the difference, {task.name}": right.p_value,
            f"share that another wording reads differently, {task.name}": changed.value,
        }
        if task.judged:
            measured["loss of accuracy by wording"] = abs(right.difference.value)
            checks.append(PAPER.above("wording_changes_class", changed, name=task.name))
    picture = {"components": components, **_misread(setting)}
    return Outcome(measured, checks, picture, on([*paired, *worded]))


def class_tasks_in_two_wordings(setting: Setting) -> list[NeighbourTask]:
    """The zero-shot tasks whose class texts come in a second wording."""
    found = [task for task in class_tasks(setting) if task.other is not None]
    if not found:
        raise NotAtHand("Rephrasing needs the class texts in a second wording, too.")
    return found


def _unit_pairs(setting: Setting) -> list[Pairs]:
    """All pairs at hand, at unit length."""
    return [
        replace(each, X=unit_float32(each.X), Y=unit_float32(each.Y)) for each in pairs(setting)
    ]


def _answers(task: NeighbourTask, texts: np.ndarray | None) -> np.ndarray:
    assert texts is not None
    return np.asarray(np.argmax(task.queries @ texts.T, axis=1))


def _misread(setting: Setting) -> dict[str, object]:
    """Scans that two wordings read differently: images that there are to be shown."""
    task = class_task(digit_zero_shot(setting))
    first, second = (_answers(task, texts) for texts in (task.candidates, task.other))
    shown = np.flatnonzero(first != second)[:6]
    captions = [f"{first[k]}, or {second[k]}" for k in shown]
    return {"images": load_digits("test").images[shown], "captions": captions}


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Accuracy while the texts move along the whole gap, beyond the point where the means meet."""
    found = tasks(setting)
    judged = [task for task in found if task.judged]
    hits = {task.name: task.hits(MOVED, task.gap) for task in found}
    halves = {task.name: _halves(task, setting.seed) for task in judged}
    gains = {task.name: _gain_inside(hits[task.name], halves[task.name]) for task in judged}
    best = {name: MOVED[int(np.argmax(each.mean(axis=1)))] for name, each in hits.items()}
    measured: dict[str, Number] = {
        "one best amount for all": "yes" if len({best[t.name] for t in judged}) == 1 else "no",
        **{f"best amount, {name}": amount for name, amount in best.items()},
    }
    for task in found:
        amounts = {"as trained": 0, "at the best": best[task.name], "when closed": 1}
        for words, amount in {**amounts, "at −0.05": -0.05, "at 0.05": 0.05}.items():
            accuracy = hits[task.name][MOVED.index(amount)].mean()
            measured[f"accuracy {words}, {task.name}"] = accuracy
    checks = [
        PAPER.above("inside_beats_both_ends", task.mean(gains[task.name]), name=task.name)
        for task in judged
    ]
    if len(judged) > 1:
        checks.append(PAPER.above("own_amount_helps", _own_amount(judged, hits, halves)))
    lines = {name: each.mean(axis=1) for name, each in hits.items()}
    classes = [task.name for task in found if len(task.candidates) < len(task.queries)]
    zero_shot = {name: line for name, line in lines.items() if name in classes}
    retrieval = {name: line for name, line in lines.items() if name not in classes}
    return Outcome(
        measured,
        checks,
        {
            "amounts": MOVED,
            "zero_shot": zero_shot,
            "retrieval": retrieval,
            "zero_shot_best": _bests(zero_shot),
            "retrieval_best": _bests(retrieval),
        },
        on(found),
    )


Halves = tuple[np.ndarray, np.ndarray]


def _halves(task: NeighbourTask, seed: int) -> Halves:
    """Two halves of the queries, each to choose on while the other is judged on."""
    order = np.random.default_rng(seed).permutation(len(task.queries))
    first = np.zeros(len(order), bool)
    first[order[: len(order) // 2]] = True
    return first, ~first


def _gain_inside(hits: np.ndarray, halves: Halves) -> np.ndarray:
    """What the best amount gains on the better end of the sweep, both chosen on the other half."""
    gain = np.empty(hits.shape[1])
    for chosen, tested in (halves, halves[::-1]):
        means = hits[:, chosen].mean(axis=1)
        end = 0 if means[0] > means[-1] else -1
        gain[tested] = hits[int(np.argmax(means)), tested] * 1.0 - hits[end, tested]
    return gain


def _own_amount(
    found: Sequence[NeighbourTask], hits: Mapping[str, np.ndarray], halves: Mapping[str, Halves]
) -> Interval:
    """The largest gain of a task's own amount on the common one, both chosen on the other half.

    With so many tasks to choose it from, its interval is of a higher level.
    """
    gains = {task.name: np.empty(hits[task.name].shape[1]) for task in found}
    for side in (0, 1):
        means = {t.name: hits[t.name][:, halves[t.name][side]].mean(axis=1) for t in found}
        common = int(np.argmax(np.mean(list(means.values()), axis=0)))
        for task in found:
            tested = halves[task.name][1 - side]
            own = int(np.argmax(means[task.name]))
            both = hits[task.name][:, tested] * 1.0
            gains[task.name][tested] = both[own] - both[common]
    level = 1 - (1 - LEVEL) / len(found)
    return max((task.mean(gains[task.name], level) for task in found), key=lambda each: each.value)


def _bests(sweeps: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The amount of the best accuracy of each sweep, and that accuracy."""
    return {name: (MOVED[int(np.argmax(v))], v.max()) for name, v in sweeps.items()}


@PAPER.run("fig13")
def fig13(setting: Setting) -> Outcome:
    """Cosines between the gap and the centred rows, beside those of random directions."""
    found = _unit_pairs(setting)
    judged = {each.name for each in judged_sets(found)}
    measured: dict[str, Number] = {}
    data, checks = {}, []
    for each in found:
        histograms = gap_orthogonality(each.X, each.Y, bins=80)
        gap = each.X.mean(axis=0) - each.Y.mean(axis=0)
        for side, rows in (("images", each.X), ("texts", each.Y)):
            centred = rows - rows.mean(axis=0)
            centred /= np.linalg.norm(centred, axis=1, keepdims=True)
            cosines = mean_interval(np.abs(centred @ (gap / np.linalg.norm(gap))))
            drawn = np.random.default_rng(setting.seed).normal(size=(centred.shape[1], DIRECTIONS))
            chance = float(np.abs(centred @ (drawn / np.linalg.norm(drawn, axis=0))).mean())
            cosine_matrix = centred[:1000] @ centred[:1000].T
            name = f"{each.name} {side}"
            measured |= {
                f"mean absolute cosine, {name}": cosines.value,
                f"the angle of that, degrees, {name}": float(np.degrees(np.arccos(cosines.value))),
                f"mean absolute cosine to random directions, {name}": chance,
                f"mean absolute cosine to each other, {name}": float(
                    np.abs(cosine_matrix[~np.eye(len(cosine_matrix), dtype=bool)]).mean()
                ),
            }
            if each.name in judged:
                by_itself = PAPER.below("nearly_orthogonal", cosines, NEARLY, name=name)
                beyond = PAPER.below("orthogonal_beyond_chance", cosines, chance, name=name)
                checks += [
                    *read_as("nearly 0 by itself", [by_itself]),
                    *read_as("nearer to 0 than by chance", [beyond]),
                ]
        data[each.name] = {
            "edges": histograms.x.edges,
            "counts": {"images": histograms.x.counts, "texts": histograms.y.counts},
        }
    return Outcome(measured, checks, data, on(found))
