"""The loss as the gap is closed: on CLIP and on six pairs on a sphere (figs 3, 9 and 12)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from modgap.measures.gap import gap_distance
from modgap.measures.landscape import shift_landscape
from modgap.measures.loss import contrastive_loss
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting
from modgap.simulate.sphere import make_sphere_pairs, sphere_landscape

# CLIP's own, and those it is fine-tuned with in sec. 4.2.
TEMPERATURES = (1 / 100, 1 / 50, 1 / 30, 1 / 20, 1 / 10, 1.0)


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Landscapes b–d on the authors' CLIP rows, e–g on the sphere."""
    X, Y = setting.arrays("clip")
    setting.say("shifts of CLIP", 0, 2)
    step = 0.005 if setting.full else 0.02
    lambdas = np.arange(round(-0.5 / step), round(2.5 / step) + 1) * step
    found = shift_landscape(X, Y, lambdas.tolist(), TEMPERATURES, batch_size=50)
    gap = gap_distance(X, Y)
    best, least = found.gaps[np.argmin(found.losses, axis=1)], found.losses.min(axis=1)
    cost = found.losses[:, int(np.argmin(np.abs(found.gaps)))] - least
    back = _local_minimum(found.losses[0], found.gaps < -0.2)
    setting.say("the sphere", 1, 2)
    ball = sphere_landscape(temperatures=(0.01, 0.02, 0.05, 0.1, 1.0))
    x, y = make_sphere_pairs(45.0)
    return Outcome(
        {
            "gap": gap,
            **_by_temperature(TEMPERATURES, {"least loss at": best, "cost of closing": cost}),
            "back-to-back minimum at, τ = 1/100": None if back is None else found.gaps[back],
            "back-to-back loss over the least, τ = 1/100": (
                None if back is None else found.losses[0, back] - least[0]
            ),
            **_by_temperature(
                ball.temperatures,
                {"sphere, best angle": ball.best_angle, "sphere, barrier": ball.barrier},
            ),
        },
        [
            check("CLIP's gap is the printed one within 0.05.", abs(gap - 0.82) < 0.05),
            check(
                "At τ = 1/100 the loss is least within 0.02 of the original gap.",
                abs(best[0] - gap) < 0.02,
            ),
            check("At τ = 1/100 closing the gap raises the loss.", cost[0] > 0),
            check("At τ = 1/100 there is a local minimum back to back.", back is not None),
            check("The best gap never grows with the temperature.", np.all(np.diff(best) <= 0)),
            check("At τ = 1 the best gap is closed (below 0.05).", abs(best[-1]) < 0.05),
            check("On the sphere there is a barrier at τ = 1/100.", ball.barrier[0] > 0),
            check("On the sphere there is none at τ = 1.", ball.barrier[-1] == 0),
        ],
        {
            "gap": gap,
            "gaps": found.gaps,
            "losses": found.losses,
            "temperatures": TEMPERATURES,
            "best": best,
            "least": least,
            "x": x,
            "y": y,
            "angles": ball.angles,
            "sphere_losses": ball.losses,
            "sphere_temperatures": ball.temperatures,
        },
    )


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Six pairs on the sphere, with two crossed and with none."""
    temperatures = (0.01, 0.02, 0.05)
    crossed = sphere_landscape(temperatures=temperatures)
    matched = sphere_landscape(temperatures=temperatures, mismatches=0)
    x, y_crossed = make_sphere_pairs(45.0)
    _, y_matched = make_sphere_pairs(45.0, mismatches=0)
    return Outcome(
        {
            "pairs": crossed.n_pairs,
            "crossed": crossed.mismatches,
            "spacing, degrees": crossed.spacing,
            "loss at the closed gap, τ = 1/100": float(crossed.losses[0, 90]),
            "least loss, τ = 1/100": float(crossed.least_loss[0]),
            "best angle, τ = 1/100": float(crossed.best_angle[0]),
            "barrier without mismatch, τ = 1/100": float(matched.barrier[0]),
            "temperature above which the barrier is gone": crossed.critical_temperature,
        },
        [
            check(
                "With two pairs crossed there is a barrier at τ = 1/100.", crossed.barrier[0] > 0.1
            ),
            check(
                "Without the crossing there is none at any temperature.",
                not np.any(matched.barrier),
            ),
            check("With the crossing it is gone at τ = 1/20.", crossed.barrier[2] == 0),
        ],
        {
            "x": x,
            "crossed": y_crossed,
            "matched": y_matched,
            "angles": crossed.angles,
            "temperatures": temperatures,
            "with mismatch": crossed.losses,
            "without": matched.losses,
        },
    )


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """The pseudo-code, run."""
    rng = np.random.default_rng(setting.seed)
    X, Y = rng.standard_normal((2, 64, 32))
    ours = [contrastive_loss(X, Y, t) for t in TEMPERATURES]
    theirs = [_pseudo_code(X, Y, -math.log(t)) for t in TEMPERATURES]
    worst = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
    return Outcome(
        {"largest relative difference": worst},
        [check("Both give the same loss at every temperature (1e-9).", worst < 1e-9)],
        {"temperatures": TEMPERATURES, "ours": ours, "theirs": theirs},
    )


def _by_temperature(
    temperatures: Iterable[float], columns: Mapping[str, np.ndarray]
) -> dict[str, Number]:
    """The values at each temperature, under its name."""
    return {
        f"{name}, τ = {f'1/{round(1 / t)}' if t < 1 else 1}": float(values[k])
        for k, t in enumerate(temperatures)
        for name, values in columns.items()
    }


def _local_minimum(values: np.ndarray, where: np.ndarray) -> int | None:
    """Index of the least inner value, among those allowed, that is below both its neighbours."""
    inner = np.r_[False, (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]), False] & where
    return int(np.flatnonzero(inner)[np.argmin(values[inner])]) if inner.any() else None


def _pseudo_code(image_rows: np.ndarray, text_rows: np.ndarray, t: float) -> float:
    """The loss line by line as the figure has it, from rows before normalisation."""
    I_e = image_rows / np.linalg.norm(image_rows, axis=1, keepdims=True)
    T_e = text_rows / np.linalg.norm(text_rows, axis=1, keepdims=True)
    logits = np.dot(I_e, T_e.T) * np.exp(t)

    def cross_entropy(axis: int) -> float:
        top = logits.max(axis=axis, keepdims=True)
        shares = np.exp(logits - top) / np.exp(logits - top).sum(axis=axis, keepdims=True)
        return float(-np.mean(np.log(np.diag(shares))))

    return (cross_entropy(0) + cross_entropy(1)) / 2
