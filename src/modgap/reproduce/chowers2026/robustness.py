"""Nearest neighbours under noise and quantisation of the candidates (figs 7, 8, 9, 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from modgap.evaluation import Robustness
from modgap.evaluation.noise import Gaussian, Laplace, Rademacher, Uniform, UniformQuantiser
from modgap.evaluation.quantised_gap import least_amount, quantised_gaps
from modgap.reproduce.checks import Check, read_as
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.neighbour_tasks import (
    AMOUNTS,
    AS_TRAINED,
    CLASSES,
    CLOSED,
    PAIRS,
    WIDENED,
    NeighbourTask,
    each_task,
    gaussians,
    least,
    on,
    shares,
    tasks,
)
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, mean_interval
from modgap.simulate.noise import pair_robustness

INTERVALS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
# Section 5.2 counts intervals: a level in the middle of each, so that none is at 0, or at its ends,
# so that there is one more and one is.
READINGS = {"a level in each interval": 0, "a level at each end of an interval": 1}


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """The probability that a query keeps the nearer of two texts, by formula and by draws."""
    texts, std = np.array([[0.5, 0.0], [-0.5, 0.0]]), 0.2
    gaps = np.linspace(0, 3, 21)
    queries = np.stack([np.full_like(gaps, 0.3), gaps], axis=1)
    texts, queries = setting.read("texts and queries", (texts, queries))
    draws = 1_000_000 if setting.full else 20_000
    noise = np.random.default_rng(setting.seed).normal(scale=std, size=(2, draws, 2))
    at = np.arange(0, 21, 5)
    names = {"mean of the noise removed (th. 3.4)": True, "plain noise": False}
    kept, drawn, checks = {}, {}, []
    for name, centred in names.items():
        kept[name] = [pair_robustness(q, texts[0], texts[1], std, centred=centred) for q in queries]
        moved = texts[:, None] + (noise - noise.mean(axis=0) if centred else noise)
        squares = [((moved - query) ** 2).sum(axis=2) for query in queries[at]]
        stayed = np.array([near < far for near, far in squares], dtype=float)
        drawn[name] = (gaps[at], stayed.mean(axis=1))
        checks.append(
            PAPER.above(
                "nearer_keeps_more",
                least([mean_interval(stayed[k] - stayed[k + 1]) for k in range(len(at) - 1)]),
                name=name,
            )
        )
    farthest = max(np.abs(np.array(kept[name])[at] - drawn[name][1]).max() for name in kept)
    removed, plain = kept.values()
    measured: dict[str, Number] = {
        "the probability rises as the query comes nearer": (
            "yes" if np.all(np.diff(removed) < 0) else "no"
        ),
        "probability at the texts": removed[0],
        "probability at a gap of 3": removed[-1],
        "probability at the texts, plain noise": plain[0],
        "probability at a gap of 3, plain noise": plain[-1],
        "largest distance of formula and draws": farthest,
    }
    # A few standard errors of a share of one half.
    allowed = 4 * 0.5 / draws**0.5
    checks.append(PAPER.check("formula_as_drawn", farthest < allowed))
    return Outcome(
        measured,
        checks,
        {
            "points": {
                "texts": texts,
                "texts with noise": texts + noise[:, 0],
                "two images": queries[[3, -1]],
            },
            "gaps": gaps,
            "kept": kept,
            "drawn": drawn,
        },
    )


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """Gaussian noise on classes and pairs."""
    draws = 100 if setting.full else 20
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    lost, rising = 0.0, True
    at_hand = tasks(setting, CLASSES, PAIRS)
    for task in each_task(setting, at_hand, f"{draws} draws"):
        direction, closed = task.direction()
        accuracy = task.accuracy(AMOUNTS, direction)
        lost = max(lost, float(np.ptp(accuracy)))
        found = task.sweeps(gaussians(0.01, 0.025, 0.05), draws, direction, setting.seed)
        rising &= all(sweep.share[AS_TRAINED] < sweep.share[CLOSED] for sweep in found.values())
        measured[f"share of the gap closed, {task.name}"] = closed
        for name, sweep in found.items():
            measured[f"robustness as trained, {task.name}, {name}"] = sweep.share[AS_TRAINED]
            measured[f"robustness when closed, {task.name}, {name}"] = sweep.share[CLOSED]
        if task.judged and len(task.candidates) <= CLASSES:
            steps = [
                task.mean(sweep.kept[after] - sweep.kept[before])
                for sweep in found.values()
                for before, after in pairwise(range(len(AMOUNTS)))
            ]
            checks += [
                PAPER.check("accuracy_same", np.ptp(accuracy) == 0, name=task.name),
                PAPER.above("every_step_keeps_more", least(steps), name=task.name),
            ]
        data[task.name] = {
            "lines": {"accuracy": accuracy, **shares(found)},
            "bands": {
                f"robustness, {name}": [s.share + k * s.standard_error for k in (-2, 2)]
                for name, s in found.items()
            },
        }
    published: dict[str, Number] = {
        "accuracy lost by closing": lost,
        "robustness rises as the gap closes": "yes" if rising else "no",
    }
    drawn = {"amounts": AMOUNTS, "tasks": data}
    return Outcome(published | measured, checks, drawn, on(at_hand))


def rises(task: NeighbourTask, found: Mapping[str, Robustness], where: str) -> list[Check]:
    """That closing helps and widening harms, whichever the noise, and step by step."""
    helped, harmed = (
        least([task.mean(s.kept[after] - s.kept[before]) for s in found.values()])
        for before, after in ((AS_TRAINED, CLOSED), (WIDENED, AS_TRAINED))
    )
    slope = least([task.mean(slopes(AMOUNTS, sweep.kept)) for sweep in found.values()])
    return _rise_checks(task.name, where, helped, harmed, slope)


def _rise_checks(
    name: str, where: str, helped: Interval, harmed: Interval, slope: Interval
) -> list[Check]:
    return [
        PAPER.above("closing_keeps_more", helped, name=name, where=where),
        PAPER.above("widening_keeps_fewer", harmed, name=name, where=where),
        PAPER.above("robustness_rises", slope, name=name, where=where),
    ]


def slopes(amounts: Sequence[float], kept: np.ndarray) -> np.ndarray:
    """By how much each query is surer for each unit of the amount, by least squares."""
    centred = np.asarray(amounts) - np.mean(amounts)
    return np.asarray(centred @ kept / (centred @ centred))


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Neighbours that quantisation leaves as they are, by the amount of the gap closed before."""
    at_every = "closing helps at every number of levels"
    amounts = AMOUNTS if setting.full else AMOUNTS[::2]
    trained = amounts.index(0.0)
    measured: dict[str, Number] = {at_every: "yes"}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    at_hand = tasks(setting, CLASSES, PAIRS)
    for task in each_task(setting, at_hand, f"{len(INTERVALS)} quantisers, twice"):
        direction, _ = task.direction()
        gaps = [float(np.linalg.norm(task.gap - amount * direction)) for amount in amounts]
        for reading, more in READINGS.items():
            quantisers = {f"{n + more} levels": UniformQuantiser(n + more) for n in INTERVALS}
            found = task.sweeps(quantisers, 1, direction, amounts=amounts)
            for name, sweep in found.items():
                gain = sweep.share[CLOSED] - sweep.share[trained]
                measured[f"gain by closing, {task.name}, {name}"] = gain
                if gain <= 0:
                    measured[at_every] = "no"
            kept = np.mean([sweep.kept for sweep in found.values()], axis=0)
            helped, harmed = kept[CLOSED] - kept[trained], kept[trained] - kept[WIDENED]
            measured[f"gain by closing, {task.name}, mean, {reading}"] = float(helped.mean())
            if task.judged:
                means = (task.mean(each) for each in (helped, harmed, slopes(amounts, kept)))
                where = f"over all numbers of intervals, {reading}"
                checks += read_as(reading, _rise_checks(task.name, where, *means))
            lines = {
                f"{n} intervals": sweep.share
                for n, sweep in zip(INTERVALS, found.values(), strict=True)
            }
            data[f"{task.name}, {reading}"] = {"gaps": gaps, "lines": lines}
            if task.name == "CLIP":
                for n in (16, 64, 256):
                    amount = _amount_of_least_gap(task, quantisers[f"{n + more} levels"])
                    measured[f"amount of least quantised gap, CLIP, {n + more} levels"] = amount
    return Outcome(measured, checks, {"tasks": data}, on(at_hand))


def _amount_of_least_gap(task: NeighbourTask, quantiser: UniformQuantiser) -> float:
    """How much of the whole gap to close for the least gap between quantised rows."""
    amounts = np.linspace(0, 1.5, 31)
    gaps = quantised_gaps(task.queries, task.candidates, task.gap, quantiser, amounts)
    return least_amount(amounts, gaps)


@PAPER.run("fig14")
def fig14(setting: Setting) -> Outcome:
    """Four kinds of noise on classes and pairs."""
    draws, std = (100 if setting.full else 20), 0.025
    noises = {noise.__name__: noise(std) for noise in (Gaussian, Uniform, Laplace, Rademacher)}
    measured: dict[str, Number] = {"standard deviation": std}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    at_hand = tasks(setting, CLASSES, PAIRS)
    for task in each_task(setting, at_hand, f"{draws} draws of four noises"):
        direction, _ = task.direction()
        found = task.sweeps(noises, draws, direction, setting.seed)
        lines = {name: sweep.share for name, sweep in found.items()}
        for name, line in lines.items():
            measured[f"gain by closing, {task.name}, {name}"] = line[CLOSED] - line[AS_TRAINED]
        differences = np.ptp(list(lines.values()), axis=0)
        measured[f"largest difference between noises, {task.name}"] = differences.max()
        if task.judged:
            checks += rises(task, found, "against each of the four")
        data[task.name] = {"lines": lines}
    return Outcome(measured, checks, {"amounts": AMOUNTS, "tasks": data}, on(at_hand))
