"""Nearest neighbours under noise and quantisation of the candidates (figs 7, 8, 9, 14)."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.evaluation.noise import Gaussian, Laplace, Rademacher, Uniform
from modgap.evaluation.quantise import UniformQuantiser
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.tasks import (
    AMOUNTS,
    AS_TRAINED,
    Task,
    each_task,
    fall_nowhere,
    gaussians,
    shares,
)
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls, rank_correlation
from modgap.simulate.noise import pair_robustness
from modgap.simulate.noise_candidates import expected_robustness

# Here so few neighbours stay that draws say little; the expectation is computed instead.
LARGE = 0.1
FEW = 100


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """The probability that a query keeps the nearer of two texts, by formula and by draws."""
    texts, std = np.array([[0.5, 0.0], [-0.5, 0.0]]), 0.2
    first, second = texts
    gaps = np.linspace(0, 3, 21)
    queries = np.stack([np.full_like(gaps, 0.3), gaps], axis=1)
    draws = 1_000_000 if setting.full else 20_000
    noise = np.random.default_rng(setting.seed).normal(scale=std, size=(2, draws, 2))
    removed, plain = "mean of the noise removed (th. 3.4)", "plain noise"
    at = np.arange(0, 21, 5)
    kept, drawn = {}, {}
    for name, centred in ((removed, True), (plain, False)):
        kept[name] = [pair_robustness(q, first, second, std, centred=centred) for q in queries]
        moved = texts[:, None] + (noise - noise.mean(axis=0) if centred else noise)
        squares = [((moved - query) ** 2).sum(axis=2) for query in queries[at]]
        drawn[name] = (gaps[at], [np.mean(near < far) for near, far in squares])
    farthest = max(np.abs(np.array(kept[name])[at] - drawn[name][1]).max() for name in kept)
    measured: dict[str, Number] = {
        "the probability rises as the query comes nearer": "yes" if falls(kept[removed]) else "no",
        "probability at the texts": kept[removed][0],
        "probability at a gap of 3": kept[removed][-1],
        "probability at the texts, plain noise": kept[plain][0],
        "probability at a gap of 3, plain noise": kept[plain][-1],
        "largest distance of formula and draws": farthest,
    }
    # A few standard errors of a share of one half.
    allowed = 4 * 0.5 / draws**0.5
    return Outcome(
        measured,
        [
            *(
                check(f"The probability rises with every step nearer: {name}.", falls(values))
                for name, values in kept.items()
            ),
            check("Formula and draws agree within four standard errors.", farthest < allowed),
        ],
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
    """Gaussian noise on three tasks."""
    draws = 100 if setting.full else 20
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    lost, rising = 0.0, True
    for task in each_task(setting, f"{draws} draws"):
        direction, closed = task.direction()
        accuracy = task.accuracy(AMOUNTS, direction)
        lost = max(lost, float(np.ptp(accuracy)))
        found = task.sweeps(gaussians(0.01, 0.025, 0.05), draws, direction, setting.seed)
        rises = fall_nowhere(found)
        rising &= rises
        before, after = (
            expected_robustness(task.queries[:FEW], candidates, LARGE).share
            for candidates in (task.candidates, task.candidates + direction)
        )
        measured[f"share of the gap closed, {task.name}"] = closed
        for name, sweep in found.items():
            measured[f"robustness as trained, {task.name}, {name}"] = sweep.share[AS_TRAINED]
            measured[f"robustness when closed, {task.name}, {name}"] = sweep.share[-1]
        measured[f"expected robustness as trained, {task.name}, σ {LARGE:g}"] = before
        measured[f"expected robustness when closed, {task.name}, σ {LARGE:g}"] = after
        checks += [
            check(f"{task.name}: accuracy is the same at every amount.", np.ptp(accuracy) == 0),
            check(
                f"{task.name}: no step falls by more than two standard errors at any noise.", rises
            ),
            check(
                f"{task.name}: closing helps, and widening harms, at every noise.",
                all(s.share[0] < s.share[AS_TRAINED] < s.share[-1] for s in found.values()),
            ),
            check(
                f"{task.name}: closing helps in expectation at a noise of {LARGE:g}, too.",
                after > before,
            ),
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
    return Outcome(published | measured, checks, {"amounts": AMOUNTS, "tasks": data})


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Neighbours that quantisation leaves as they are, by the amount of the gap closed before."""
    amounts = np.linspace(-1, 1, 33).tolist() if setting.full else AMOUNTS
    middle = amounts.index(0.0)
    at_every = "closing helps at every number of levels"
    quantisers = {f"{levels} levels": UniformQuantiser(levels) for levels in (16, 32, 64, 128, 256)}
    measured: dict[str, Number] = {at_every: "yes"}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    for task in each_task(setting, f"{len(quantisers)} quantisers"):
        direction, _ = task.direction()
        found = task.sweeps(quantisers, 1, direction, amounts=amounts)
        lines = {name: sweep.share for name, sweep in found.items()}
        for name, share in lines.items():
            measured[f"gain by closing, {task.name}, {name}"] = share[-1] - share[middle]
            if share[-1] <= share[middle]:
                measured[at_every] = "no"
        mean = np.mean(list(lines.values()), axis=0)
        order = rank_correlation(amounts, mean)
        measured[f"rank correlation of amount and mean robustness, {task.name}"] = order
        checks += [
            check(
                f"{task.name}: averaged over the numbers of levels, closing helps and widening "
                "harms.",
                mean[0] < mean[middle] < mean[-1],
            ),
            check(
                f"{task.name}: that average rises with the amount (rank correlation above 0.8).",
                order > 0.8,
            ),
        ]
        gaps = [float(np.linalg.norm(task.gap - amount * direction)) for amount in amounts]
        data[task.name] = {"gaps": gaps, "lines": lines}
        if task.name == "CLIP":
            for name in ("16 levels", "64 levels", "256 levels"):
                least = _amount_of_least_gap(task, quantisers[name])
                measured[f"amount of least quantised gap, CLIP, {name}"] = least
    return Outcome(measured, checks, {"tasks": data})


def _amount_of_least_gap(task: Task, quantiser: UniformQuantiser) -> float:
    """How much of the whole gap to close for the least gap between quantised rows."""
    amounts = np.linspace(0, 1.5, 31)
    asked = quantiser.documents(task.queries).mean(axis=0)
    gap = task.gap.astype(task.candidates.dtype)
    lengths = [
        np.linalg.norm(asked - quantiser.documents(task.candidates + amount * gap).mean(axis=0))
        for amount in amounts.astype(task.candidates.dtype)
    ]
    return float(amounts[int(np.argmin(lengths))])


@PAPER.run("fig14")
def fig14(setting: Setting) -> Outcome:
    """Four kinds of noise on three tasks."""
    draws, std = (100 if setting.full else 20), 0.025
    noises = {noise.__name__: noise(std) for noise in (Gaussian, Uniform, Laplace, Rademacher)}
    measured: dict[str, Number] = {"standard deviation": std}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    for task in each_task(setting, f"{draws} draws of four noises"):
        direction, _ = task.direction()
        found = task.sweeps(noises, draws, direction, setting.seed)
        lines = {name: sweep.share for name, sweep in found.items()}
        gains = {name: line[-1] - line[AS_TRAINED] for name, line in lines.items()}
        for name, gain in gains.items():
            measured[f"gain by closing, {task.name}, {name}"] = gain
        differences = np.ptp(list(lines.values()), axis=0)
        measured[f"largest difference between noises, {task.name}"] = differences.max()
        checks.append(
            check(
                f"{task.name}: closing helps against each of the four, step by step within two "
                "standard errors.",
                fall_nowhere(found) and min(gains.values()) > 0,
            )
        )
        data[task.name] = {"lines": lines}
    return Outcome(measured, checks, {"amounts": AMOUNTS, "tasks": data})
