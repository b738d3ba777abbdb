"""Closing more of the gap than is orthogonal to the candidates: algorithm 1 (figs 18, 19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modgap.corrections.correctors import Threshold
from modgap.evaluation.noise import Noise
from modgap.reproduce.checks import Check, read_as
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.neighbour_tasks import (
    NeighbourTask,
    drawn,
    each_task,
    gaussians,
    on,
    pair_tasks,
    tasks,
)
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import best_of_other_half

# Of the paper: the threshold, and how much accuracy is negligible (fig. 18).
PRINTED, NEGLIGIBLE = 0.05, 0.01
# Which directions count (algorithm 1, line 3): each by its own share of the variance, or those that
# hold all but ε of it together.
READINGS: Mapping[str, Threshold] = {
    "each direction above ε": "each",
    "directions above ε together": "cumulative",
}
# Shares of the variance that may be left out; 1 is the plain gap.
EPSILONS = (0.01, PRINTED, 0.2, 1.0)
CHOSEN, LARGER = 1, 2
# Queries that are asked under noise.
ASKED = 500


class Swept:
    """A task when all is closed that a threshold allows, by threshold.

    ``closed`` has the shares of the gap, ``lost`` (thresholds, queries) the right answers lost,
    ``gained`` of each noise (thresholds, asked) the shares of draws in which neighbours are kept,
    less those as trained. Under noise only some queries are asked.
    """

    def __init__(
        self,
        task: NeighbourTask,
        threshold: Threshold,
        noises: Mapping[str, Noise],
        draws: int,
        seed: int,
    ) -> None:
        places = drawn(len(task.queries), ASKED, seed)
        self.asked = task.of(places)
        closed, lost = [], []
        gained: dict[str, list[np.ndarray]] = {name: [] for name in noises}
        for epsilon in EPSILONS:
            direction, share = task.direction(1 - epsilon, threshold)
            closed.append(share)
            before, after = task.hits((0.0, 1.0), direction).astype(float)
            lost.append(before - after)
            sweeps = self.asked.sweeps(noises, draws, direction, seed, (0.0, 1.0))
            for name, sweep in sweeps.items():
                gained[name].append(sweep.kept[1] - sweep.kept[0])
        self.closed, self.lost = np.array(closed), np.array(lost)
        self.asked_lost = self.lost[:, places]
        self.gained = {name: np.array(found) for name, found in gained.items()}

    @property
    def gain(self) -> np.ndarray:
        """Robustness gained, the mean over the noises."""
        return np.asarray(np.mean(list(self.gained.values()), axis=0))


@PAPER.run("fig18")
def fig18(setting: Setting) -> Outcome:
    """Accuracy and robustness of classes and pairs, by threshold, in both readings of it."""
    draws, noises = (100 if setting.full else 3), gaussians(0.01, 0.025)
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, dict[str, Any]] = {}
    losses, gains = [], []
    at_hand = tasks(setting)
    for task in each_task(setting, at_hand, "thresholds"):
        for words, threshold in READINGS.items():
            swept = Swept(task, threshold, noises, draws, setting.seed)
            lost, gain = swept.lost.mean(axis=1), swept.gain.mean(axis=1)
            where = f"{words}, {task.name}"
            most = max(found[CHOSEN].mean() for found in swept.gained.values())
            measured |= {
                f"share of the gap closed, {where}": swept.closed[CHOSEN],
                f"accuracy lost, {where}": lost[CHOSEN],
                f"robustness gained, {where}": most,
                f"accuracy lost at ε = 20 %, {where}": lost[LARGER],
                f"accuracy lost by the plain gap, {task.name}": lost[-1],
            }
            if task.judged:
                losses.append(lost[CHOSEN])
                gains.append(most)
                checks += read_as(words, _trade(task, swept, words))
            data[where] = {
                "accuracy lost": lost,
                "robustness gained": gain,
                "share of the gap closed": swept.closed,
            }
    published: dict[str, Number] = {
        "accuracy lost at ε = 5 %": max(losses),
        "robustness gained at ε = 5 %": max(gains),
    }
    picture = {"left_out": EPSILONS, "thresholds": data}
    return Outcome(published | measured, checks, picture, on(at_hand))


def _trade(task: NeighbourTask, swept: Swept, words: str) -> list[Check]:
    """What the caption says of the printed threshold and of larger ones."""
    of, asked = {"name": task.name, "words": words}, swept.asked
    robuster, closed_more = swept.gain[LARGER] - swept.gain[CHOSEN], np.diff(swept.closed)
    return [
        PAPER.below("epsilon_loses_little", task.mean(swept.lost[CHOSEN]), NEGLIGIBLE, **of),
        PAPER.above(
            "epsilon_gains_more", asked.mean(swept.gain[CHOSEN] - swept.asked_lost[CHOSEN]), **of
        ),
        PAPER.above("larger_epsilon_gains_more", asked.mean(robuster), **of),
        PAPER.below("larger_epsilon_loses_little", task.mean(swept.lost[LARGER]), NEGLIGIBLE, **of),
        PAPER.check("larger_epsilon_closes_more", np.all(closed_more >= -1e-6), **of),
    ]


@PAPER.run("fig19")
def fig19(setting: Setting) -> Outcome:
    """What a threshold costs in recall and gains in robustness when pairs are retrieved."""
    draws = 100 if setting.full else 4
    small, large = gaussians(0.01, 0.025, 0.05), gaussians(0.1)
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, dict[str, Any]] = {}
    ranges = []
    at_hand = pair_tasks(setting)
    for task in at_hand:
        for words, threshold in READINGS.items():
            setting.say(f"{task.name}: {words}", 0, 1)
            swept = Swept(task, threshold, {**small, **large}, draws, setting.seed)
            loud = swept.gained.pop(next(iter(large)))
            worth = swept.gain - swept.asked_lost
            where = f"{words}, {task.name}"
            there = loud - swept.asked_lost
            ranges.append(np.any(there.mean(axis=1) > 0))
            measured |= {
                f"recall@1 lost at ε = 5 %, {where}": swept.lost[CHOSEN].mean(),
                f"robustness gained at ε = 5 %, {where}": swept.gain[CHOSEN].mean(),
                f"robustness gained at ε = 5 %, σ² = 0.01, {where}": loud[CHOSEN].mean(),
                f"thresholds worth it, {where}": _listed(worth),
                f"thresholds worth it, σ² = 0.01, {where}": _listed(there),
            }
            of, best = {"name": task.name, "words": words}, best_of_other_half(there, setting.seed)
            trade = [
                PAPER.above("recall_gains_more", swept.asked.mean(worth[CHOSEN]), **of),
                PAPER.above("recall_gains_more_somewhere", swept.asked.mean(best), **of),
            ]
            checks += read_as(words, trade)
            data[where] = {
                "recall@1 lost": swept.lost.mean(axis=1),
                "robustness gained": swept.gain.mean(axis=1),
                "robustness gained, σ² = 0.01": loud.mean(axis=1),
            }
    published: dict[str, Number] = {
        "there is such a range at σ² = 0.01": "yes" if all(ranges) else "no"
    }
    picture = {"left_out": EPSILONS, "thresholds": data}
    return Outcome(published | measured, checks, picture, on(at_hand))


def _listed(worth: np.ndarray) -> str:
    """The thresholds at which the mean is above 0."""
    found = [f"{e:g}" for e, each in zip(EPSILONS, worth, strict=True) if each.mean() > 0]
    return ", ".join(found) or "none"
