"""What remains of the gap in many dimensions, and what the temperature does to it (16, 17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap import plot
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.descent import told
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting
from modgap.simulate.dynamics import Descent, descend
from modgap.simulate.dynamics_start import make_clusters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
GAPS = (0.0, 1.0, 2.0)


@PAPER.draw("fig16")
def _draw_many(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(2, columns=2, size=(4.2, 3.2))
    plot.curves(
        data["steps"],
        {"loss": data["loss"]},
        xlabel="step",
        ylabel="loss (eq. 6)",
        log="y",
        ax=axes[0],
    )
    plot.curves(
        data["steps"],
        {
            "gap distance": data["gap"],
            "mean |cos| to the gap, X": data["x"],
            "mean |cos| to the gap, Y": data["y"],
        },
        xlabel="step",
        ylabel="",
        ax=axes[1],
    )
    return figure


@PAPER.run("fig16")
def _many(setting: Setting) -> Outcome:
    steps, rate = (400, 0.5) if setting.full else (40, 5.0)
    X, Y = make_clusters(1000, 512, gap=2.0, spread=0.01, sphere=True, seed=setting.seed)
    run = descend(
        X.astype(np.float32),
        Y.astype(np.float32),
        0.1,
        steps,
        rate,
        sphere=True,
        records=range(0, steps + 1, steps // 10),
        progress=told(setting, "descent"),
    )
    cosine = float(max(run.orthogonality_x[-1], run.orthogonality_y[-1]))
    measured: dict[str, Number] = {
        "pairs": 1000,
        "dimension": 512,
        "cosine to the gap at the end": cosine,
        "gap at the start": float(run.gap_distance[0]),
        "gap at the end": float(run.gap_distance[-1]),
        "loss at the start": float(run.loss[0]),
        "loss at the end": float(run.loss[-1]),
    }
    return Outcome(
        measured,
        (
            check(
                "The loss falls below a hundredth of its start.", run.loss[-1] < run.loss[0] / 100
            ),
            check("A gap above 1 remains.", run.gap_distance[-1] > 1),
            check("The mean absolute cosine to it is below 0.01.", cosine < 0.01),
        ),
        {
            "steps": run.steps,
            "loss": run.loss,
            "gap": run.gap_distance,
            "x": run.orthogonality_x,
            "y": run.orthogonality_y,
        },
    )


@PAPER.draw("fig17")
def _draw_temperatures(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(4, columns=2, size=(4.2, 3.2), solid=(1,))
    plot.curves(
        data["warm_steps"],
        {"gap": data["warm"]},
        xlabel="step",
        ylabel="gap distance",
        log="x",
        title="R³, τ = 1",
        ax=axes[0],
    )
    plot.sphere(
        data["warm_X"], data["warm_Y"], names=("X", "Y"), title="R³, τ = 1, at the end", ax=axes[1]
    )
    plot.curves(
        data["temperatures"],
        data["remaining"],
        xlabel="temperature",
        ylabel="gap distance at the end",
        log="x",
        title="R⁶⁴",
        ax=axes[2],
    )
    plot.curves(
        data["hot_steps"],
        {"gap": data["hot"]},
        xlabel="step",
        ylabel="gap distance",
        log="x",
        title="R²⁵⁶, τ = 10",
        ax=axes[3],
    )
    return figure


@PAPER.run("fig17")
def _temperatures(setting: Setting) -> Outcome:
    n, steps = (100, 5000) if setting.full else (50, 1000)
    X, Y = make_clusters(10, 3, gap=2.0, spread=0.01, sphere=True, seed=setting.seed)
    warm = descend(X, Y, 1.0, 20_000, 0.05, sphere=True)
    remaining: dict[str, list[float]] = {}
    start: dict[str, float] = {}
    total = len(GAPS) * len(TEMPERATURES)
    for g, gap in enumerate(GAPS):
        X, Y = make_clusters(n, 64, gap=gap, spread=0.1, sphere=True, seed=setting.seed)
        ends = []
        for t, temperature in enumerate(TEMPERATURES):
            setting.say("temperatures", g * len(TEMPERATURES) + t, total)
            run = descend(X, Y, temperature, steps, _rate(temperature), sphere=True, records=1)
            ends.append(float(run.gap_distance[-1]))
        start_gap = float(run.gap_distance[0])
        label = f"starting at {start_gap:.2f}"
        remaining[label], start[label] = ends, start_gap
    X, Y = make_clusters(n, 256, gap=2.0, spread=0.1, sphere=True, seed=setting.seed)
    hot = descend(X, Y, 10.0, steps, 10.0, sphere=True)
    still = descend(X, Y, 100.0, 1000, 0.01, sphere=True, records=1)
    none, *_, wide = remaining.values()
    widest = list(start.values())[-1]
    measured: dict[str, Number] = {
        "gap at the end, R³, τ = 1": float(warm.gap_distance[-1]),
        "gap at the end, R²⁵⁶, τ = 10": float(hot.gap_distance[-1]),
        "largest distance of a pair there": _farthest(hot),
        "gap at the start, R⁶⁴": widest,
        **{f"gap at the end, R⁶⁴, τ = {t:g}": v for t, v in zip(TEMPERATURES, wide, strict=True)},
        "share of the gap after 1,000 steps at rate 0.01, τ = 100": float(
            still.gap_distance[-1] / still.gap_distance[0]
        ),
    }
    cool = [v for t, v in zip(TEMPERATURES, wide, strict=True) if t <= 0.1]
    warmer = [v for t, v in zip(TEMPERATURES, wide, strict=True) if t >= 1]
    return Outcome(
        measured,
        (
            check(
                "From τ = 1 on less than a hundredth of the gap remains, in R³, R⁶⁴ and R²⁵⁶.",
                max(*warmer, warm.gap_distance[-1], hot.gap_distance[-1]) < 0.01,
            ),
            check("Up to τ = 0.1 more than half of it remains.", min(cool) > 0.5 * widest),
            check("At τ = 10 every pair coincides at the end, within 0.01.", _farthest(hot) < 0.01),
            check(
                "Where no gap is put in, none larger than that of the draw appears.",
                max(none) <= 1.05 * next(iter(start.values())),
            ),
            check(
                "At τ = 100 and rate 0.01 the gap stays within 1 % of its start.",
                abs(still.gap_distance[-1] / still.gap_distance[0] - 1) < 0.01,
            ),
        ),
        {
            "warm_steps": warm.steps[1:],
            "warm": warm.gap_distance[1:],
            "warm_X": warm.X,
            "warm_Y": warm.Y,
            "temperatures": list(TEMPERATURES),
            "remaining": remaining,
            "hot_steps": hot.steps[1:],
            "hot": hot.gap_distance[1:],
        },
    )


def _rate(temperature: float) -> float:
    """A rate at which descent is stable and gets somewhere in a thousand steps."""
    return temperature if temperature >= 1 else min(0.2, 0.8 * temperature)


def _farthest(run: Descent) -> float:
    return float(np.linalg.norm(run.X - run.Y, axis=1).max())
