"""How descent keeps, turns and closes the gap (figs 3, 4, 5, 11)."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation
from modgap.simulate.dynamics import Descent, descend
from modgap.simulate.dynamics_loss import contrastive_gradient
from modgap.simulate.dynamics_start import (
    Arrangement,
    ArrayPair,
    collapsed,
    make_clusters,
    three_pairs,
)
from modgap.simulate.dynamics_theory import first_step, shared_caption_loss


def cosine_to_gap(run: Descent) -> np.ndarray:
    """Mean absolute cosine to the gap, of the modality where it is larger."""
    return np.maximum(run.orthogonality_x, run.orthogonality_y)


def farthest_pair(run: Descent) -> float:
    """The largest distance between the two rows of a pair at the end."""
    return float(np.linalg.norm(run.X - run.Y, axis=1).max())


def on_sphere(n: int, dim: int, gap: float, spread: float, setting: Setting) -> ArrayPair:
    """Two clusters of many rows on the sphere, as float32."""
    X, Y = make_clusters(n, dim, gap, spread, sphere=True, seed=setting.seed)
    return X.astype(np.float32), Y.astype(np.float32)


def _shots(run: Descent) -> list[dict[str, Any]]:
    """The kept steps as plain arrays, for drawing."""
    return [{"step": kept.step, "X": kept.X, "Y": kept.Y} for kept in run.snapshots]


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Loss and gradient of three pairs in four arrangements."""
    arrangements: dict[str, dict[str, Any]] = {}
    for name in get_args(Arrangement):
        X, Y = three_pairs(name)
        found = contrastive_gradient(X, Y, temperature=0.1)
        arrangements[name] = {"X": X, "Y": Y, "loss": found.loss, "gradient": found.norm}
    gap, aligned = arrangements["gap"], arrangements["aligned"]
    crowded, crossed = (arrangements[name]["loss"] for name in ("crowded", "crossed"))
    measured: dict[str, Number] = {
        "loss with a gap": gap["loss"],
        "gradient with a gap": gap["gradient"],
        "loss when aligned": aligned["loss"],
        "gradient when aligned": aligned["gradient"],
        "loss when crowded": crowded,
        "loss when crossed": crossed,
        "loss of a shared caption on both images": shared_caption_loss(0.0, 0.0),
        "loss of a shared caption at 3 from both": shared_caption_loss(3.0, 3.0),
    }
    return Outcome(
        measured,
        [
            check(
                "With a gap, loss and gradient are below 0.01.",
                max(gap["loss"], gap["gradient"]) < 0.01,
            ),
            check(
                "They differ from those of coinciding pairs by less than 1 %.",
                all(
                    abs(gap[name] - aligned[name]) < 0.01 * aligned[name]
                    for name in ("loss", "gradient")
                ),
            ),
            check(
                "Pairs that are not nearest neighbours of each other have a loss above 1.",
                min(crowded, crossed) > 1,
            ),
        ],
        {"arrangements": arrangements},
    )


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """Tight clusters under descent: in the plane, and few or many of them on the sphere."""
    steps = 10_000_000 if setting.full else 200_000
    start = make_clusters(10, 2, gap=1.0, spread=0.01, seed=setting.seed)
    kept = [0, 100, 1000, steps]
    plane = descend(*start, 0.1, steps, snapshots=kept, progress=setting.steps("plane"))
    start = make_clusters(5, 3, gap=2.0, spread=0.01, sphere=True, seed=setting.seed)
    kept, progress = [0, 50, 1000, 100_000], setting.steps("sphere")
    sphere = descend(*start, 0.1, 100_000, sphere=True, snapshots=kept, progress=progress)
    start = on_sphere(1000, 3, gap=2.0, spread=0.01, setting=setting)
    progress = setting.steps("1,000 pairs on the sphere")
    many = descend(*start, 0.1, 600, 5.0, sphere=True, records=[100], progress=progress)
    early = many.steps.tolist().index(100)
    measured: dict[str, Number] = {}
    for where, run in (("plane", plane), ("sphere", sphere)):
        measured[f"gap, {where}"] = run.gap_distance[-1]
        measured[f"loss, {where}"] = run.loss[-1]
        measured[f"cosine to the gap, {where}"] = cosine_to_gap(run)[-1]
    measured |= {
        "gap, 1,000 pairs, 100 steps": many.gap_distance[early],
        "cosine to the gap, 1,000 pairs, 100 steps": cosine_to_gap(many)[early],
        "gap, 1,000 pairs": many.gap_distance[-1],
        "loss, 1,000 pairs": many.loss[-1],
    }
    return Outcome(
        measured,
        [
            check(
                "In the plane the loss falls below 0.01 and the gap stays within 5 % of its start.",
                plane.loss[-1] < 0.01
                and abs(plane.gap_distance[-1] / plane.gap_distance[0] - 1) < 0.05,
            ),
            check(
                "There the mean absolute cosine of centred rows to the gap is below 0.01.",
                cosine_to_gap(plane)[-1] < 0.01,
            ),
            check(
                "On the sphere a few pairs come below 0.01 with a gap above 0.5, cosine below "
                "0.01.",
                sphere.loss[-1] < 0.01
                and sphere.gap_distance[-1] > 0.5
                and cosine_to_gap(sphere)[-1] < 0.01,
            ),
        ],
        {"plane": _shots(plane), "sphere": _shots(sphere)},
    )


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """The first hundred steps, and what theorem 3.1 says of the very first."""
    X, Y = make_clusters(100, 2, gap=1.0, spread=0.1, seed=setting.seed)
    step = first_step(X, Y, 0.1)
    tight = first_step(*make_clusters(100, 2, gap=1.0, spread=0.001, seed=setting.seed), 0.1)
    error = float(np.abs(tight.assignments_y - tight.predicted_y).max())
    reach = float(np.abs(tight.assignments_y - 1).max())
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
        "mean cosine of the first step to the gap, tight clusters": tight.mean_cosine,
        "largest error of eq. 24 over largest |S_i − 1|, tight clusters": error / reach,
    }
    return Outcome(
        measured,
        [
            check(
                "S_i falls with the distance to the other modality (rank correlation above 0.95).",
                order > 0.95,
            ),
            check(
                "The first step shrinks the variance along the gap in both modalities.",
                max(step.variance_rate_x, step.variance_rate_y) < 0,
            ),
            check(
                "By t = 100 the variance along the gap is below a twentieth of that across it.",
                max(ratios["X"][-1], ratios["Y"][-1]) < 0.05,
            ),
            check(
                "In tight clusters eq. 24 gives S_i − 1 within a tenth of its reach.",
                error < 0.1 * reach,
            ),
        ],
        {
            "pull": np.stack([Y[:, 1], step.assignments_y], axis=1),
            "steps": run.steps,
            "ratios": ratios,
            "shots": _shots(run),
        },
    )


@PAPER.run("fig11")
def fig11(setting: Setting) -> Outcome:
    """Two lines of points, by the steps of the figure and by smaller ones."""
    n = 50
    X, Y = collapsed(n, 2, gap=1.0, spread=1.0, seed=setting.seed)
    kept = [0, 100, 500, 1000, 5000]
    run = descend(X, Y, 0.1, 5000, 0.01 * n, snapshots=kept, progress=setting.steps("sum"))
    printed = descend(X, Y, 0.1, 5000, 0.01, progress=setting.steps("mean, printed rate"))
    steps = 200_000 if setting.full else 20_000
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
            check("The gap falls below 0.01.", run.gap_distance[-1] < 0.01),
            check("The loss falls below 0.01.", run.loss[-1] < 0.01),
            check(
                "By small steps, too, the gap falls below a fifth of its start.",
                slow.gap_distance[-1] < 0.2 * slow.gap_distance[0],
            ),
            check(
                "S_i is above 1 near the centre, on average, and below 1 farther out.",
                inner > 1 > outer,
            ),
        ],
        {
            "pull": np.stack([Y[:, 0], pull], axis=1),
            "steps": {"on the sum": run.steps[1:], "small steps": slow.steps[1:]},
            "gaps": {"on the sum": run.gap_distance[1:], "small steps": slow.gap_distance[1:]},
            "shots": _shots(run),
        },
    )
