"""What remains of the gap in many dimensions, and what the temperature does to it (16, 17)."""

from __future__ import annotations

import numpy as np

from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.descent import (
    clusters,
    cosine_to_gap,
    farthest_pair,
    gap_closes,
    gap_stays,
    low_loss,
    on_sphere,
    remaining,
)
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import Setting
from modgap.simulate.dynamics import descend

DIMENSION = 512
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SOME = (0.03, 0.1, 1.0, 10.0)
GAPS = (0.0, 1.0, 2.0)


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Loss, gap and cosine to it while a thousand pairs descend."""
    n, steps, rate = (1000, 400, 0.5) if setting.full else (300, 40, 5.0)
    X, Y = on_sphere(setting, "start", n, DIMENSION, gap=2.0, spread=0.01)
    records, progress = range(0, steps + 1, steps // 10), setting.steps("descent")
    run = descend(X, Y, 0.1, steps, rate, sphere=True, records=records, progress=progress)
    cosine = cosine_to_gap(run)[-1]
    measured: dict[str, Number] = {
        "pairs": n,
        "dimension": DIMENSION,
        "cosine to the gap at the end": cosine,
        "gap at the start": run.gap_distance[0],
        "gap at the end": run.gap_distance[-1],
        "loss at the start": run.loss[0],
        "loss at the end": run.loss[-1],
    }
    return Outcome(
        measured,
        [
            low_loss("On the sphere in R⁵¹²", run),
            gap_stays("There", run),
            PAPER.below("orthogonal_to_remaining", cosine, (2 / np.pi / DIMENSION) ** 0.5),
        ],
        {
            "steps": run.steps,
            "loss": run.loss,
            "gap": run.gap_distance,
            "x": run.orthogonality_x,
            "y": run.orthogonality_y,
        },
    )


@PAPER.run("fig17")
def fig17(setting: Setting) -> Outcome:
    """The gap that remains at the end, by temperature, initial gap and dimension."""
    n, steps, temperatures = (100, 5000, TEMPERATURES) if setting.full else (50, 500, SOME)
    X, Y = clusters(setting, "R³", 10, 3, 2.0, 0.01, sphere=True)
    warm = descend(X, Y, 1.0, 20_000 if setting.full else 5000, 0.05, sphere=True)
    left: dict[float, list[float]] = {}
    starts: dict[float, float] = {}
    for g, gap in enumerate(GAPS):
        X, Y = clusters(setting, f"gap {gap:g}", n, 64, gap, 0.1, sphere=True)
        left[gap] = []
        for t, temperature in enumerate(temperatures):
            done, total = g * len(temperatures) + t, len(GAPS) * len(temperatures)
            setting.say("temperatures", done, total)
            # Descent is stable at this rate, and gets somewhere in a thousand steps.
            rate = temperature if temperature >= 1 else min(0.2, 0.8 * temperature)
            run = descend(X, Y, temperature, steps, rate, sphere=True, records=1)
            left[gap].append(run.gap_distance[-1])
        starts[gap] = run.gap_distance[0]
    X, Y = clusters(setting, "R²⁵⁶", n, 256, 2.0, 0.1, sphere=True)
    hot = descend(X, Y, 10.0, steps, 10.0, sphere=True, snapshots=[0])
    still = descend(X, Y, 100.0, 300, 0.01, sphere=True, records=1)
    none, *_, widest = GAPS
    wide = dict(zip(temperatures, left[widest], strict=True))
    measured: dict[str, Number] = {
        "gap at the end, R³, τ = 1": warm.gap_distance[-1],
        "gap at the end, R²⁵⁶, τ = 10": hot.gap_distance[-1],
        "largest distance of a pair there": farthest_pair(hot),
        "gap at the start, R⁶⁴": starts[widest],
        **{f"gap at the end, R⁶⁴, τ = {t:g}": end for t, end in wide.items()},
        "largest gap over its start, R⁶⁴, none put in": max(left[none]) / starts[none],
        "share of the gap after 300 steps at rate 0.01, τ = 100": remaining(still),
    }
    cold = [end for t, end in wide.items() if t <= 0.1]
    apart = float(np.linalg.norm(hot.snapshots[0].X - hot.snapshots[0].Y, axis=1).max())
    return Outcome(
        measured,
        [
            gap_closes("At τ = 1 in R³", remaining(warm)),
            gap_closes(
                "From τ = 1 on in R⁶⁴",
                max(end for t, end in wide.items() if t >= 1) / starts[widest],
            ),
            gap_closes("At τ = 10 in R²⁵⁶", remaining(hot)),
            PAPER.below("farthest_pair_aligned", farthest_pair(hot) / apart, 0.01),
            PAPER.above("cold_gap_stays", min(cold) / starts[widest], 0.5),
            PAPER.below("no_gap_appears", max(left[none]) / starts[none], 1.0),
            PAPER.below("hot_slow_moves_little", abs(remaining(still) - 1), 0.01),
        ],
        {
            "warm_steps": warm.steps[1:],
            "warm": warm.gap_distance[1:],
            "warm_X": warm.X,
            "warm_Y": warm.Y,
            "temperatures": temperatures,
            "remaining": {f"starting at {starts[gap]:.2f}": ends for gap, ends in left.items()},
            "hot_steps": hot.steps[1:],
            "hot": hot.gap_distance[1:],
        },
    )
