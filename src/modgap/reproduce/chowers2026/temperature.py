"""What remains of the gap in many dimensions, and what the temperature does to it (16, 17)."""

from __future__ import annotations

from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.descent import cosine_to_gap, farthest_pair, on_sphere
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting
from modgap.simulate.dynamics import descend
from modgap.simulate.dynamics_start import make_clusters

TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
GAPS = (0.0, 1.0, 2.0)


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Loss, gap and cosine to it while a thousand pairs descend."""
    steps, rate = (400, 0.5) if setting.full else (40, 5.0)
    X, Y = on_sphere(1000, 512, gap=2.0, spread=0.01, setting=setting)
    records, progress = range(0, steps + 1, steps // 10), setting.steps("descent")
    run = descend(X, Y, 0.1, steps, rate, sphere=True, records=records, progress=progress)
    cosine = cosine_to_gap(run)[-1]
    measured: dict[str, Number] = {
        "pairs": 1000,
        "dimension": 512,
        "cosine to the gap at the end": cosine,
        "gap at the start": run.gap_distance[0],
        "gap at the end": run.gap_distance[-1],
        "loss at the start": run.loss[0],
        "loss at the end": run.loss[-1],
    }
    return Outcome(
        measured,
        [
            check(
                "The loss falls below a hundredth of its start.", run.loss[-1] < run.loss[0] / 100
            ),
            check("A gap above 1 remains.", run.gap_distance[-1] > 1),
            check("The mean absolute cosine to it is below 0.01.", cosine < 0.01),
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
    n, steps = (100, 5000) if setting.full else (50, 1000)
    X, Y = make_clusters(10, 3, gap=2.0, spread=0.01, sphere=True, seed=setting.seed)
    warm = descend(X, Y, 1.0, 20_000, 0.05, sphere=True)
    remaining: dict[str, list[float]] = {}
    starts: list[float] = []
    for g, gap in enumerate(GAPS):
        X, Y = make_clusters(n, 64, gap=gap, spread=0.1, sphere=True, seed=setting.seed)
        ends = []
        for t, temperature in enumerate(TEMPERATURES):
            done, total = g * len(TEMPERATURES) + t, len(GAPS) * len(TEMPERATURES)
            setting.say("temperatures", done, total)
            run = descend(X, Y, temperature, steps, _rate(temperature), sphere=True, records=1)
            ends.append(run.gap_distance[-1])
        starts.append(run.gap_distance[0])
        remaining[f"starting at {starts[-1]:.2f}"] = ends
    X, Y = make_clusters(n, 256, gap=2.0, spread=0.1, sphere=True, seed=setting.seed)
    hot = descend(X, Y, 10.0, steps, 10.0, sphere=True)
    still = descend(X, Y, 100.0, 1000, 0.01, sphere=True, records=1)
    stayed = still.gap_distance[-1] / still.gap_distance[0]
    none, *_, widest = remaining.values()
    wide = dict(zip(TEMPERATURES, widest, strict=True))
    measured: dict[str, Number] = {
        "gap at the end, R³, τ = 1": warm.gap_distance[-1],
        "gap at the end, R²⁵⁶, τ = 10": hot.gap_distance[-1],
        "largest distance of a pair there": farthest_pair(hot),
        "gap at the start, R⁶⁴": starts[-1],
        **{f"gap at the end, R⁶⁴, τ = {t:g}": end for t, end in wide.items()},
        "share of the gap after 1,000 steps at rate 0.01, τ = 100": stayed,
    }
    closed = [warm.gap_distance[-1], hot.gap_distance[-1], *(wide[t] for t in wide if t >= 1)]
    return Outcome(
        measured,
        [
            check(
                "From τ = 1 on less than a hundredth of the gap remains, in R³, R⁶⁴ and R²⁵⁶.",
                max(closed) < 0.01,
            ),
            check(
                "Up to τ = 0.1 more than half of it remains.",
                min(wide[t] for t in wide if t <= 0.1) > 0.5 * starts[-1],
            ),
            check(
                "At τ = 10 every pair coincides at the end, within 0.01.", farthest_pair(hot) < 0.01
            ),
            check(
                "Where no gap is put in, none larger than that of the draw appears.",
                max(none) <= 1.05 * starts[0],
            ),
            check(
                "At τ = 100 and rate 0.01 the gap stays within 1 % of its start.",
                abs(stayed - 1) < 0.01,
            ),
        ],
        {
            "warm_steps": warm.steps[1:],
            "warm": warm.gap_distance[1:],
            "warm_X": warm.X,
            "warm_Y": warm.Y,
            "temperatures": TEMPERATURES,
            "remaining": remaining,
            "hot_steps": hot.steps[1:],
            "hot": hot.gap_distance[1:],
        },
    )


def _rate(temperature: float) -> float:
    """A rate at which descent is stable and gets somewhere in a thousand steps."""
    return temperature if temperature >= 1 else min(0.2, 0.8 * temperature)
