"""How descent keeps, turns and closes the gap, by temperature too (figs 3, 4, 5, 11, 16, 17)."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from modgap.reproduce.checks import Check
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import by_chance, rank_correlation
from modgap.simulate.dynamics import Descent, descend
from modgap.simulate.dynamics_loss import contrastive_gradient
from modgap.simulate.dynamics_start import (
    Arrangement,
    ArrayPair,
    collapsed,
    make_clusters,
    three_pairs,
)
from modgap.simulate.dynamics_theory import FirstStep, first_step, shared_caption_loss

# A share that counts as nothing.
SMALL = 0.01
# Of figs 16 and 17.
DIMENSION = 512
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SOME = (0.03, 0.1, 1.0, 10.0)
GAPS = (0.0, 1.0, 2.0)


def cosine_to_gap(run: Descent) -> np.ndarray:
    """Mean absolute cosine to the gap, of the modality where it is larger."""
    return np.maximum(run.orthogonality_x, run.orthogonality_y)


def farthest_pair(run: Descent) -> float:
    """The largest distance between the two rows of a pair at the end."""
    return float(np.linalg.norm(run.X - run.Y, axis=1).max())


def clusters(
    setting: Setting, name: str, n: int, dim: int, gap: float, spread: float, **options: Any
) -> ArrayPair:
    """Two clusters that a descent starts from."""
    start = make_clusters(n, dim, gap, spread, **options, seed=setting.seed)
    return setting.read(name, start)


def on_sphere(
    setting: Setting, name: str, n: int, dim: int, gap: float, spread: float
) -> ArrayPair:
    """Two clusters of many rows on the sphere, as float32."""
    X, Y = clusters(setting, name, n, dim, gap, spread, sphere=True)
    return X.astype(np.float32), Y.astype(np.float32)


def remaining(run: Descent) -> float:
    """The gap at the end as a share of that at the start."""
    return float(run.gap_distance[-1] / run.gap_distance[0])


def low_loss(where: str, run: Descent) -> Check:
    """That the loss ends near 0."""
    return PAPER.below("loss_falls", float(run.loss[-1] / run.loss[0]), SMALL, where=where)


def gap_stays(where: str, run: Descent) -> Check:
    """That some of the gap is left."""
    return PAPER.above("gap_stays", remaining(run), 0.1, where=where)


def gap_closes(where: str, left: float) -> Check:
    """That nothing of the gap is left."""
    return PAPER.below("gap_closes", left, SMALL, where=where)


def _shots(run: Descent) -> list[dict[str, Any]]:
    """The kept steps as plain arrays, for drawing."""
    return [{"step": kept.step, "X": kept.X, "Y": kept.Y} for kept in run.snapshots]


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Loss and gradient of three pairs in four arrangements."""
    placed = {name: three_pairs(name) for name in get_args(Arrangement)}
    arrangements: dict[str, dict[str, Any]] = {}
    for name, (X, Y) in setting.read("arrangements", placed).items():
        found = contrastive_gradient(X, Y, temperature=0.1)
        arrangements[name] = {"X": X, "Y": Y, "loss": found.loss, "gradient": found.norm}
    gap, aligned, crowded = (arrangements[name] for name in ("gap", "aligned", "crowded"))
    mistaken = min(arrangements[name]["loss"] for name in ("crowded", "crossed"))
    measured: dict[str, Number] = {
        "loss with a gap": gap["loss"],
        "gradient with a gap": gap["gradient"],
        "loss when aligned": aligned["loss"],
        "gradient when aligned": aligned["gradient"],
        "loss when crowded": crowded["loss"],
        "loss when crossed": arrangements["crossed"]["loss"],
        "loss of a shared caption on both images": shared_caption_loss(0.0, 0.0),
        "loss of a shared caption at 3 from both": shared_caption_loss(3.0, 3.0),
    }
    checks = []
    for name in ("loss", "gradient"):
        checks += [
            PAPER.below("gap_unlike_crowded", gap[name] / crowded[name], SMALL, name=name),
            PAPER.below("gap_like_aligned", abs(gap[name] / aligned[name] - 1), SMALL, name=name),
        ]
    checks.append(PAPER.above("mistaken_loss_large", mistaken / gap["loss"], 100))
    return Outcome(measured, checks, {"arrangements": arrangements})


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """Tight clusters under descent: in the plane, and few or many of them on the sphere."""
    steps = 10_000_000 if setting.full else 200_000
    start = clusters(setting, "plane", 10, 2, 1.0, 0.01)
    kept = [0, 100, 1000, steps]
    plane = descend(*start, 0.1, steps, snapshots=kept, progress=setting.steps("plane"))
    start = clusters(setting, "sphere", 5, 3, 2.0, 0.01, sphere=True)
    kept, progress = [0, 50, 1000, 100_000], setting.steps("sphere")
    sphere = descend(*start, 0.1, 100_000, sphere=True, snapshots=kept, progress=progress)
    n, many_steps = (1000, 600) if setting.full else (300, 300)
    start = on_sphere(setting, "many", n, 3, 2.0, 0.01)
    progress = setting.steps("many pairs on the sphere")
    many = descend(*start, 0.1, many_steps, 5.0, sphere=True, progress=progress)
    measured: dict[str, Number] = {}
    checks = []
    for name, words, run in (("plane", "In the plane", plane), ("sphere", "On the sphere", sphere)):
        cosine = cosine_to_gap(run)
        measured |= {
            f"gap, {name}": run.gap_distance[-1],
            f"loss, {name}": run.loss[-1],
            f"cosine to the gap, {name}": cosine[-1],
        }
        checks += [
            low_loss(words, run),
            gap_stays(words, run),
            PAPER.below("becomes_orthogonal", float(cosine[-1] / cosine[0]), SMALL, words=words),
        ]
    measured |= {
        "pairs, many": n,
        "gap, many pairs": many.gap_distance[-1],
        "loss, many pairs": many.loss[-1],
    }
    checks.append(PAPER.below("hundreds_on_sphere", float(many.loss[-1] / many.loss[0]), SMALL))
    return Outcome(measured, checks, {"plane": _shots(plane), "sphere": _shots(sphere)})


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """The first hundred steps, and what theorem 3.1 says of the very first."""
    n = 100
    X, Y = clusters(setting, "start", n, 2, 1.0, 0.1)
    step = first_step(X, Y, 0.1)
    tighter, tight = (
        first_step(*clusters(setting, f"spread {spread:g}", n, 2, 1.0, spread), 0.1)
        for spread in (0.001, 0.01)
    )
    error = _error_of_eq_24(tighter)
    run = descend(X, Y, 0.1, 100, records=range(101), snapshots=[0, 25, 100])
    ratios = {
        "X": run.variance_along_x / run.variance_across_x,
        "Y": run.variance_along_y / run.variance_across_y,
    }
    order = rank_correlation(step.assignments_y, Y[:, 1])
    both = (ratios["X"] + ratios["Y"]) / 2
    measured: dict[str, Number] = {
        **{f"variance along over across the gap, t = {t}": both[t] for t in (0, 25, 100)},
        "rank correlation of S_i with nearness": order,
        "gap, t = 100": run.gap_distance[-1],
        "mean cosine of the first step to the gap, tight clusters": tighter.mean_cosine,
        "largest error of eq. 24 over largest |S_i − 1|, tight clusters": error,
    }
    return Outcome(
        measured,
        [
            PAPER.above("assignments_fall_with_distance", order, by_chance(n)),
            *(
                PAPER.below("first_step_shrinks", rate, side=side)
                for side, rate in (("X", step.variance_rate_x), ("Y", step.variance_rate_y))
            ),
            PAPER.below("variance_falls_by_25", float(both[25] / both[0]), 1.0),
            PAPER.below("variance_falls_by_100", float(both[-1] / both[0]), 0.1),
            PAPER.above("first_step_along_gap", tighter.mean_cosine, 2 / np.pi),
            PAPER.below("tighter_smaller_error", error / _error_of_eq_24(tight), 1.0),
        ],
        {
            "pull": np.stack([Y[:, 1], step.assignments_y], axis=1),
            "steps": run.steps,
            "ratios": ratios,
            "shots": _shots(run),
        },
    )


def _error_of_eq_24(step: FirstStep) -> float:
    """The largest error over the largest |S_i − 1|."""
    reach = np.abs(step.assignments_y - 1).max()
    return float(np.abs(step.assignments_y - step.predicted_y).max() / reach)


@PAPER.run("fig11")
def fig11(setting: Setting) -> Outcome:
    """Two lines of points, by the steps of the figure and by smaller ones."""
    n = 50
    start = collapsed(n, 2, gap=1.0, spread=1.0, seed=setting.seed)
    X, Y = setting.read("start", start)
    kept = [0, 100, 500, 1000, 5000]
    run = descend(X, Y, 0.1, 5000, 0.01 * n, snapshots=kept, progress=setting.steps("sum"))
    printed = descend(X, Y, 0.1, 5000, 0.01, progress=setting.steps("mean, printed rate"))
    steps = 200_000 if setting.full else 5000
    slow = descend(X, Y, 0.1, steps, 0.05, progress=setting.steps("mean, small steps"))
    narrow = collapsed(n, 2, gap=1.0, spread=0.1, seed=setting.seed)
    tight = descend(*narrow, 0.1, 5000, 0.05, progress=setting.steps("tight collapse"))
    pull = first_step(X, Y, 0.1).assignments_y
    away = np.abs(Y[:, 0] - X[:, 0].mean())
    near = away <= np.median(away)
    inner, outer = float(pull[near].mean()), float(pull[~near].mean())
    measured: dict[str, Number] = {
        "gap at the start": run.gap_distance[0],
        "gap at the end": run.gap_distance[-1],
        "loss at the end": run.loss[-1],
        "largest distance of a pair at the end": farthest_pair(run),
        "mean S_i of the inner half": inner,
        "mean S_i of the outer half": outer,
        "gap at the end, on the mean at the printed rate": printed.gap_distance[-1],
        "gap at the end, small steps": slow.gap_distance[-1],
        "gap at the end, small steps from a tight collapse": tight.gap_distance[-1],
    }
    return Outcome(
        measured,
        [
            gap_closes("On the sum over pairs", remaining(run)),
            low_loss("There", run),
            PAPER.above("centre_feels_more", inner - outer),
            PAPER.below("printed_rate_closes", remaining(printed), SMALL),
        ],
        {
            "pull": np.stack([Y[:, 0], pull], axis=1),
            "steps": {"on the sum": run.steps[1:], "small steps": slow.steps[1:]},
            "gaps": {"on the sum": run.gap_distance[1:], "small steps": slow.gap_distance[1:]},
            "shots": _shots(run),
        },
    )


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
