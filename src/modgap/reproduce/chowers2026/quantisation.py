"""Quantised embeddings while the gap closes (fig. 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap import plot
from modgap.evaluation import robustness
from modgap.evaluation.quantise import UniformQuantiser
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.drawing import one_legend
from modgap.reproduce.chowers2026.tasks import AMOUNTS, Task, tasks
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (16, 32, 64, 128, 256)


@PAPER.draw("fig9")
def _draw(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(len(data["tasks"]), columns=3, size=(4.0, 3.3))
    for ax, (name, part) in zip(axes, data["tasks"].items(), strict=True):
        plot.curves(
            part["gaps"],
            part["lines"],
            xlabel="gap distance before quantising",
            ylabel="robustness",
            title=name,
            ax=ax,
        )
    one_legend(figure, axes)
    return figure


@PAPER.run("fig9")
def _quantised(setting: Setting) -> Outcome:
    amounts = np.linspace(-1, 1, 33) if setting.full else np.asarray(AMOUNTS)
    middle = int(np.flatnonzero(amounts == 0)[0])
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    helped: list[bool] = []
    for done, task in enumerate(tasks(setting)):
        setting.say(f"{task.name}: {len(LEVELS)} quantisers", done, 3)
        direction, _ = task.direction()
        shares = np.stack(
            [
                robustness(
                    task.queries,
                    task.candidates,
                    UniformQuantiser(levels),
                    1,
                    amounts.tolist(),
                    direction=direction,
                ).share
                for levels in LEVELS
            ]
        )
        mean = shares.mean(axis=0)
        for levels, share in zip(LEVELS, shares, strict=True):
            measured[f"gain by closing, {task.name}, {levels} levels"] = float(
                share[-1] - share[middle]
            )
            helped.append(bool(share[-1] > share[middle]))
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
        gaps = [float(np.linalg.norm(task.gap - a * direction)) for a in amounts.tolist()]
        data[task.name] = {
            "gaps": gaps,
            "lines": {f"{n} levels": s for n, s in zip(LEVELS, shares, strict=True)},
        }
        if task.name == "CLIP":
            for levels in (16, 64, 256):
                measured[f"amount of least quantised gap, CLIP, {levels} levels"] = _least(
                    task, levels
                )
    found = {"closing helps at every number of levels": "yes" if all(helped) else "no"}
    return Outcome(
        {**found, **measured},
        tuple(checks),
        {"tasks": data},
    )


def _least(task: Task, levels: int) -> float:
    """How much of the whole gap to close for the least gap between quantised rows."""
    amounts = np.linspace(0, 1.5, 31)
    asked = UniformQuantiser(levels).documents(task.queries).mean(axis=0)
    gap = task.gap.astype(task.candidates.dtype)
    lengths = [
        float(
            np.linalg.norm(
                asked - UniformQuantiser(levels).documents(task.candidates + a * gap).mean(0)
            )
        )
        for a in amounts.astype(task.candidates.dtype)
    ]
    return float(amounts[int(np.argmin(lengths))])
