"""The loss as the gap is closed: on CLIP and on six pairs on a sphere (figs 3, 8, 9, 12, 16)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from modgap.measures.gap import gap_distance
from modgap.measures.landscape import shift_landscape
from modgap.measures.loss import contrastive_loss
from modgap.plot import curves, panels, sphere
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting
from modgap.simulate.sphere import make_sphere_pairs, sphere_landscape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# CLIP's own, and those it is fine-tuned with in sec. 4.2.
TEMPERATURES = (1 / 100, 1 / 50, 1 / 30, 1 / 20, 1 / 10, 1.0)
_SPHERE_TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 1.0)


def _heat(temperature: float) -> str:
    return f"τ = 1/{round(1 / temperature)}" if temperature < 1 else "τ = 1"


@PAPER.draw("fig3")
def _draw_fig3(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = panels(6, columns=3, size=(3.9, 3.1), solid=(3,))
    shown = [0, 1, len(data["temperatures"]) - 1]
    for ax, k in zip(axes[:3], shown, strict=True):
        heat = _heat(data["temperatures"][k])
        curves(
            data["gaps"],
            {"loss": data["losses"][k]},
            marks={"least": (data["best"][k], data["least"][k])},
            vertical={"CLIP's own gap": data["gap"]},
            xlabel="signed distance of the centres",
            ylabel="contrastive loss",
            title=f"CLIP, {heat}",
            ax=ax,
        )
    sphere(data["x"], data["y"], title="six pairs, two of them crossed", ax=axes[3])
    for ax, k in zip(axes[4:], (0, len(data["sphere_temperatures"]) - 1), strict=True):
        curves(
            data["angles"],
            {"loss": data["sphere_losses"][k]},
            vertical={"gap closed": 90.0},
            xlabel="polar angle of the texts, degrees",
            ylabel="contrastive loss",
            title=f"sphere, {_heat(data['sphere_temperatures'][k])}",
            ax=ax,
        )
    return figure


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Landscapes b–d on the authors' CLIP rows, e–g on the sphere."""
    X, Y = setting.arrays("clip")
    setting.say("shifts of CLIP", 0, 2)
    step = 0.005 if setting.full else 0.02
    lambdas = np.arange(round(-0.5 / step), round(2.5 / step) + 1) * step
    found = shift_landscape(X, Y, lambdas.tolist(), TEMPERATURES, batch_size=50)
    gap = gap_distance(X, Y)
    index = np.argmin(found.losses, axis=1)
    best, least = found.gaps[index], found.losses.min(axis=1)
    closed = found.losses[:, int(np.argmin(np.abs(found.gaps)))]
    back = _local_minimum(found.losses[0], found.gaps < -0.2)
    setting.say("the sphere", 1, 2)
    ball = sphere_landscape(temperatures=_SPHERE_TEMPERATURES)
    at_pole = make_sphere_pairs(45.0)
    measured: dict[str, Number] = {"gap": gap}
    for t, b, cost in zip(TEMPERATURES, best.tolist(), (closed - least).tolist(), strict=True):
        measured[f"least loss at, {_heat(t)}"] = b
        measured[f"cost of closing, {_heat(t)}"] = cost
    measured["back-to-back minimum at, τ = 1/100"] = None if back is None else found.gaps[back]
    measured["back-to-back loss over the least, τ = 1/100"] = (
        None if back is None else float(found.losses[0, back] - least[0])
    )
    for t, angle, barrier in zip(
        _SPHERE_TEMPERATURES, ball.best_angle.tolist(), ball.barrier.tolist(), strict=True
    ):
        measured[f"sphere, best angle, {_heat(t)}"] = angle
        measured[f"sphere, barrier, {_heat(t)}"] = barrier
    checks = (
        Check("CLIP's gap is the printed one within 0.05.", abs(gap - 0.82) < 0.05),
        Check(
            "At τ = 1/100 the loss is least within 0.02 of the original gap.",
            bool(abs(best[0] - gap) < 0.02),
        ),
        Check("At τ = 1/100 closing the gap raises the loss.", bool(closed[0] > least[0])),
        Check("At τ = 1/100 there is a local minimum back to back.", back is not None),
        Check("The best gap never grows with the temperature.", bool(np.all(np.diff(best) <= 0))),
        Check("At τ = 1 the best gap is closed (below 0.05).", bool(abs(best[-1]) < 0.05)),
        Check("On the sphere there is a barrier at τ = 1/100.", bool(ball.barrier[0] > 0)),
        Check("On the sphere there is none at τ = 1.", bool(ball.barrier[-1] == 0)),
    )
    data = {
        "gap": gap,
        "gaps": found.gaps,
        "losses": found.losses,
        "temperatures": list(TEMPERATURES),
        "best": best,
        "least": least,
        "x": at_pole[0],
        "y": at_pole[1],
        "angles": ball.angles,
        "sphere_losses": ball.losses,
        "sphere_temperatures": list(_SPHERE_TEMPERATURES),
    }
    return Outcome(measured, checks, data)


def _local_minimum(values: np.ndarray, where: np.ndarray) -> int | None:
    """Index of the least inner value, among those allowed, that is below both its neighbours."""
    inner = np.r_[False, (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]), False] & where
    return int(np.flatnonzero(inner)[np.argmin(values[inner])]) if inner.any() else None


@PAPER.draw("fig9")
def _draw_fig9(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = panels(4, size=(4.2, 3.3), solid=(0, 1))
    sphere(data["x"], data["crossed"], title="two pairs crossed", ax=axes[0])
    sphere(data["x"], data["matched"], title="every pair matched", ax=axes[1])
    for ax, name in zip(axes[2:], ("with mismatch", "without"), strict=True):
        curves(
            data["angles"],
            {_heat(t): row for t, row in zip(data["temperatures"], data[name], strict=True)},
            vertical={"gap closed": 90.0},
            xlabel="polar angle of the texts, degrees",
            ylabel="contrastive loss",
            title=name,
            ax=ax,
        )
    return figure


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Six pairs on the sphere, with two crossed and with none."""
    heats = (0.01, 0.02, 0.05)
    crossed = sphere_landscape(temperatures=heats)
    matched = sphere_landscape(temperatures=heats, mismatches=0)
    measured: dict[str, Number] = {
        "pairs": crossed.n_pairs,
        "crossed": crossed.mismatches,
        "spacing, degrees": crossed.spacing,
        "loss at the closed gap, τ = 1/100": float(crossed.losses[0, 90]),
        "least loss, τ = 1/100": float(crossed.least_loss[0]),
        "best angle, τ = 1/100": float(crossed.best_angle[0]),
        "barrier without mismatch, τ = 1/100": float(matched.barrier[0]),
        "temperature above which the barrier is gone": crossed.critical_temperature,
    }
    checks = (
        Check("With two pairs crossed there is a barrier at τ = 1/100.", crossed.barrier[0] > 0.1),
        Check(
            "Without the crossing there is none at any temperature.", not np.any(matched.barrier)
        ),
        Check("With the crossing it is gone at τ = 1/20.", bool(crossed.barrier[2] == 0)),
    )
    data = {
        "x": make_sphere_pairs(45.0)[0],
        "crossed": make_sphere_pairs(45.0)[1],
        "matched": make_sphere_pairs(45.0, mismatches=0)[1],
        "angles": crossed.angles,
        "temperatures": list(heats),
        "with mismatch": crossed.losses,
        "without": matched.losses,
    }
    return Outcome(measured, _plain(checks), data)


def _plain(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The same with Python's own Booleans, not NumPy's."""
    return tuple(Check(check.statement, bool(check.holds)) for check in checks)


def pseudo_code(image_rows: np.ndarray, text_rows: np.ndarray, t: float) -> float:
    """The loss line by line as the figure has it, from rows before normalisation."""
    I_e = image_rows / np.linalg.norm(image_rows, axis=1, keepdims=True)
    T_e = text_rows / np.linalg.norm(text_rows, axis=1, keepdims=True)
    logits = np.dot(I_e, T_e.T) * np.exp(t)

    def cross_entropy(axis: int) -> float:
        top = logits.max(axis=axis, keepdims=True)
        shares = np.exp(logits - top) / np.exp(logits - top).sum(axis=axis, keepdims=True)
        return float(-np.mean(np.log(np.diag(shares))))

    return (cross_entropy(0) + cross_entropy(1)) / 2


@PAPER.draw("fig12")
def _draw_fig12(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = panels(1, size=(4.8, 3.6))
    curves(
        data["temperatures"],
        {"contrastive_loss": data["ours"]},
        marks={"pseudo-code": (data["temperatures"], data["theirs"])},
        xlabel="temperature",
        ylabel="loss",
        log="xy",
        ax=axes[0],
    )
    return figure


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """The pseudo-code, run."""
    rng = np.random.default_rng(setting.seed)
    X, Y = rng.standard_normal((2, 64, 32))
    ours = [contrastive_loss(X, Y, t) for t in TEMPERATURES]
    theirs = [pseudo_code(X, Y, -math.log(t)) for t in TEMPERATURES]
    worst = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
    measured: dict[str, Number] = {"largest relative difference": worst}
    checks = (Check("Both give the same loss at every temperature (1e-9).", worst < 1e-9),)
    data = {"temperatures": list(TEMPERATURES), "ours": ours, "theirs": theirs}
    return Outcome(measured, checks, data)
