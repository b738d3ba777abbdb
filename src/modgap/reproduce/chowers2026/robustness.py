"""Noise on the candidates while the gap closes (figs 8, 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap import plot
from modgap.evaluation.noise import Gaussian, Laplace, Rademacher, Uniform
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.drawing import one_legend
from modgap.reproduce.chowers2026.tasks import AMOUNTS, rises, tasks
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.setting import Setting
from modgap.simulate.noise_candidates import expected_robustness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STDS = (0.01, 0.025, 0.05)
# Here so few neighbours stay that draws say little; the expectation is computed instead.
LARGE = 0.1
FEW = 100
XLABEL = "amount of the orthogonal gap closed"
HOW = (
    "The paper's own panels need CIFAR10, CIFAR100 and A-OKVQA embedded by open_clip's ViT-L/14, "
    "ViT-B/16 and SigLIP."
)


@PAPER.draw("fig8", "fig14")
def _draw_sweeps(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(len(data["tasks"]), columns=3, size=(4.0, 3.3))
    for ax, (name, part) in zip(axes, data["tasks"].items(), strict=True):
        plot.curves(
            data["amounts"],
            part["lines"],
            xlabel=XLABEL,
            ylabel="share of queries",
            bands=part.get("bands"),
            title=name,
            ax=ax,
        )
    one_legend(figure, axes)
    return figure


@PAPER.run("fig8")
def _gaussian(setting: Setting) -> Outcome:
    draws = 100 if setting.full else 20
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    lost, rising = 0.0, True
    for done, task in enumerate(tasks(setting)):
        setting.say(f"{task.name}: {draws} draws", done, 3)
        direction, closed = task.direction()
        accuracy = task.accuracy(AMOUNTS, direction)
        lost = max(lost, float(np.ptp(accuracy)))
        found = {
            std: task.robustness(Gaussian(std), draws, AMOUNTS, direction, setting.seed)
            for std in STDS
        }
        middle = AMOUNTS.index(0.0)
        measured[f"share of the gap closed, {task.name}"] = closed
        for std, sweep in found.items():
            measured[f"robustness as trained, {task.name}, σ {std:g}"] = float(sweep.share[middle])
            measured[f"robustness when closed, {task.name}, σ {std:g}"] = float(sweep.share[-1])
        rising &= all(map(rises, found.values()))
        asked = task.queries[:FEW]
        large = [
            expected_robustness(asked, task.candidates + amount * direction, LARGE).share
            for amount in (0.0, 1.0)
        ]
        measured[f"expected robustness as trained, {task.name}, σ {LARGE:g}"] = large[0]
        measured[f"expected robustness when closed, {task.name}, σ {LARGE:g}"] = large[1]
        checks += [
            check(f"{task.name}: accuracy is the same at every amount.", np.ptp(accuracy) == 0),
            check(
                f"{task.name}: no step falls by more than two standard errors at any noise.",
                all(map(rises, found.values())),
            ),
            check(
                f"{task.name}: closing helps, and widening harms, at every noise.",
                all(s.share[0] < s.share[middle] < s.share[-1] for s in found.values()),
            ),
        ]
        checks.append(
            check(
                f"{task.name}: closing helps in expectation at a noise of {LARGE:g}, too.",
                large[1] > large[0],
            )
        )
        lines = {
            "accuracy": accuracy,
            **{f"robustness, σ {s:g}": f.share for s, f in found.items()},
        }
        bands = {
            f"robustness, σ {s:g}": (f.share - 2 * f.standard_error, f.share + 2 * f.standard_error)
            for s, f in found.items()
        }
        data[task.name] = {"lines": lines, "bands": bands}
    published: dict[str, Number] = {
        "accuracy lost by closing": lost,
        "robustness rises as the gap closes": "yes" if rising else "no",
    }
    return Outcome(
        {**published, **measured},
        tuple(checks),
        {"amounts": list(AMOUNTS), "tasks": data},
    )


@PAPER.run("fig14")
def _noises(setting: Setting) -> Outcome:
    draws, std = (100 if setting.full else 20), 0.025
    measured: dict[str, Number] = {"standard deviation": std}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    for done, task in enumerate(tasks(setting)):
        setting.say(f"{task.name}: {draws} draws of four noises", done, 3)
        direction, _ = task.direction()
        found = {
            noise.__name__: task.robustness(noise(std), draws, AMOUNTS, direction, setting.seed)
            for noise in (Gaussian, Uniform, Laplace, Rademacher)
        }
        middle = AMOUNTS.index(0.0)
        for name, sweep in found.items():
            measured[f"gain by closing, {task.name}, {name}"] = float(
                sweep.share[-1] - sweep.share[middle]
            )
        shares = np.stack([sweep.share for sweep in found.values()])
        measured[f"largest difference between noises, {task.name}"] = float(
            np.ptp(shares, axis=0).max()
        )
        checks.append(
            check(
                f"{task.name}: closing helps against each of the four, step by step within two "
                "standard errors.",
                all(map(rises, found.values())) and bool(np.all(shares[:, middle] < shares[:, -1])),
            )
        )
        data[task.name] = {"lines": {name: sweep.share for name, sweep in found.items()}}
    return Outcome(measured, tuple(checks), {"amounts": list(AMOUNTS), "tasks": data})
