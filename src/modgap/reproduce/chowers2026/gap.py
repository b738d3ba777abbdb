"""The gap as it is seen, moved and measured on trained models (figs 1, 2, 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap import plot
from modgap.datasets import load_digits
from modgap.datasets.digits import WORDINGS
from modgap.measures import gap_orthogonality, linear_separability
from modgap.measures.projection import projection
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.tasks import BEYOND, class_texts, digits_task, tasks
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6


@PAPER.draw("fig1")
def _draw_separate(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(3, columns=3, size=(3.8, 3.4))
    for ax, (first, second) in zip(axes, ((0, 1), (0, 2)), strict=False):
        plot.projection_pairs(
            data["x"][:, [first, second]],
            data["y"][:, [first, second]],
            names=("image", "text"),
            lines=False,
            title=f"principal components {first + 1} and {second + 1}",
            ax=ax,
        )
    plot.image_grid(
        data["images"],
        data["captions"],
        columns=3,
        title="read differently in two wordings",
        ax=axes[2],
    )
    return figure


@PAPER.run("fig1")
def _separate(setting: Setting) -> Outcome:
    X, Y = setting.arrays("clip")
    drawn = projection(X, Y, dims=3)
    apart = linear_separability(drawn.x, drawn.y, seed=setting.seed).all_features
    scans = load_digits("test")
    answers = np.stack(
        [np.argmax(scans.X @ class_texts(w).T, axis=1) for w in range(len(WORDINGS))]
    )
    right = (answers == scans.labels).mean(axis=1)
    changed = np.flatnonzero((answers != answers[0]).any(axis=0))
    shown = changed[:SHOWN]
    captions = [
        f"{answers[0, i]}, or {next(a for a in answers[:, i] if a != answers[0, i])}"
        for i in shown.tolist()
    ]
    measured: dict[str, Number] = {
        "held-out accuracy of a line between the modalities, 3 components": apart,
        "share of the spread in 3 components": float(drawn.share.sum())
        if drawn.share is not None
        else None,
        "largest loss of accuracy by wording": float(right.max() - right.min()),
        "accuracy in the best wording": float(right.max()),
        "share of scans whose digit changes with the wording": len(changed) / len(scans.labels),
    }
    return Outcome(
        measured,
        (
            check(
                "In three principal components a plane tells the modalities apart (above 0.99 "
                "on held-out rows).",
                apart > 0.99,
            ),
            check(
                "Some scans are taken for another digit when only the wording changes.",
                len(changed) > 0,
            ),
        ),
        {"x": drawn.x, "y": drawn.y, "images": scans.images[shown], "captions": captions},
    )


@PAPER.draw("fig2")
def _draw_moved(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(2, columns=2, size=(4.4, 3.3))
    for ax, (title, label) in zip(
        axes, (("zero_shot", "zero-shot accuracy"), ("retrieval", "recall@1")), strict=True
    ):
        plot.curves(
            data["amounts"],
            data[title],
            xlabel="amount of the gap closed",
            ylabel=label,
            marks=data[f"{title}_best"],
            vertical={"as trained": 0.0},
            ax=ax,
        )
    return figure


@PAPER.run("fig2")
def _moved(setting: Setting) -> Outcome:
    amounts = np.asarray(BEYOND)
    digits, *paired = tasks(setting)
    every = [digits_task(w) for w in range(len(WORDINGS))]
    zero_shot = {"all wordings": digits.accuracy(BEYOND, digits.gap)}
    for number, task in enumerate(every[:2], start=1):
        zero_shot[f"wording {number}"] = task.accuracy(BEYOND, task.gap)
    retrieval = {task.name: task.accuracy(BEYOND, task.gap) for task in paired}
    sweeps = {"digits": zero_shot["all wordings"], **retrieval}
    best = {name: float(amounts[int(np.argmax(v))]) for name, v in sweeps.items()}
    here = int(np.flatnonzero(amounts == 0)[0])
    monotone = [bool(np.all(np.diff(v) >= 0) or np.all(np.diff(v) <= 0)) for v in sweeps.values()]
    measured: dict[str, Number] = {
        "one best amount for all": "no" if len(set(best.values())) > 1 else "yes",
        **{f"best amount, {name}": v for name, v in best.items()},
        **{f"accuracy at the best, {name}": float(v.max()) for name, v in sweeps.items()},
        **{f"accuracy as trained, {name}": float(v[here]) for name, v in sweeps.items()},
    }
    return Outcome(
        measured,
        (
            check(
                "Accuracy neither rises nor falls throughout as the gap closes, on any task.",
                not any(monotone),
            ),
            check("The best amount differs between tasks.", len(set(best.values())) > 1),
        ),
        {
            "amounts": amounts,
            "zero_shot": zero_shot,
            "retrieval": retrieval,
            "zero_shot_best": _bests(amounts, zero_shot),
            "retrieval_best": _bests(amounts, retrieval),
        },
    )


def _bests(amounts: np.ndarray, sweeps: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    return {k: (float(amounts[int(np.argmax(v))]), float(v.max())) for k, v in sweeps.items()}


@PAPER.draw("fig13")
def _draw_orthogonal(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(len(data), columns=3, size=(3.8, 3.0))
    for ax, (name, part) in zip(axes, data.items(), strict=True):
        plot.histograms(
            part["edges"], part["counts"], xlabel="cosine to the gap", title=name, ax=ax
        )
        ax.set_xlim(-0.5, 0.5)
    return figure


@PAPER.run("fig13")
def _orthogonal(setting: Setting) -> Outcome:
    digits = load_digits("test")
    rows = {
        "CLIP": setting.arrays("clip"),
        "VideoCLIP": setting.arrays("videoclip"),
        "digits": (digits.X, digits.Y),
    }
    measured: dict[str, Number] = {}
    data, checks = {}, []
    for name, (X, Y) in rows.items():
        found = gap_orthogonality(X, Y, bins=80)
        sides = {"images": found.x, "texts": found.y}
        for side, cosines in sides.items():
            measured[f"mean cosine, {name} {side}"] = cosines.mean
            measured[f"mean absolute cosine, {name} {side}"] = cosines.mean_abs
        worst = max(c.mean_abs for c in sides.values())
        checks.append(
            check(
                f"{name}: the mean absolute cosine is below 0.1 in both modalities (above 84°).",
                worst < 0.1,
            )
        )
        data[name] = {"edges": found.x.edges, "counts": {k: c.counts for k, c in sides.items()}}
    return Outcome(
        measured,
        tuple(checks),
        data,
    )
