"""The gap as it is seen, moved and measured on trained models (figs 1, 2, 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap import plot
from modgap.datasets import load_digits
from modgap.datasets.digits import WORDINGS
from modgap.measures import gap_orthogonality, linear_separability
from modgap.measures.projection import projection
from modgap.reproduce.chowers2026.tasks import (
    BEYOND,
    ON_TASKS,
    PAPER,
    check,
    class_texts,
    digits_task,
    tasks,
)
from modgap.reproduce.entry import Number, Outcome, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6


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


@PAPER.entry(
    "fig1",
    "Separate modalities, and a classification that hangs on the wording",
    "CLIP's images and texts lie in separate regions, and another wording of the class texts "
    "changes what some images are taken for.",
    needs="embeddings",
    published={"largest loss of accuracy by wording": 0.06},
    how="The left half shows the whole MS-COCO validation set, the right one an ImageNet image "
    "under two templates: embed both with open_clip and pass the folders to modgap.",
    fast="500 MS-COCO pairs; the digits' test scans, classified in each of the five wordings",
    full="the same",
    draw=_draw_separate,
)
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
        on="500 MS-COCO pairs of CLIP ViT-B/16 in place of the whole validation set; the digits "
        "in place of an ImageNet image",
        note="The digits' towers were trained on all five wordings, so that accuracy loses less "
        "than the 6 % of the paper.",
    )


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


@PAPER.entry(
    "fig2",
    "Performance while the texts move along the gap",
    "Moving the texts along the gap has no consistent effect on accuracy: the best amount is "
    "another one for each model and task.",
    needs="embeddings",
    published={"one best amount for all": "no"},
    how="Needs ImageNet with several open_clip models (left), MS-COCO with them (right).",
    fast="texts moved by −1 to 2 times the gap; digits zero-shot; CLIP and VideoCLIP retrieval",
    full="the same",
    draw=_draw_moved,
)
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
        on=ON_TASKS,
        note="Texts move along the whole gap and are not renormalised; 1 makes the means meet.",
    )


def _bests(amounts: np.ndarray, sweeps: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    return {k: (float(amounts[int(np.argmax(v))]), float(v.max())) for k, v in sweeps.items()}


def _draw_orthogonal(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(len(data), columns=3, size=(3.8, 3.0))
    for ax, (name, part) in zip(axes, data.items(), strict=True):
        plot.histograms(
            part["edges"], part["counts"], xlabel="cosine to the gap", title=name, ax=ax
        )
        ax.set_xlim(-0.5, 0.5)
    return figure


@PAPER.entry(
    "fig13",
    "The gap is nearly orthogonal to both modalities",
    "The cosines between the gap and the centred rows of each modality are nearly 0 on trained "
    "models.",
    needs="embeddings",
    published={"mean cosine, CLIP images": 0.0, "mean cosine, CLIP texts": 0.0},
    how="The left half needs SigLIP on ImageNet, the right half the MS-COCO validation set.",
    fast="all pairs",
    full="the same",
    draw=_draw_orthogonal,
)
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
        on="500 MS-COCO pairs of CLIP ViT-B/16 in place of the whole validation set; VideoCLIP "
        "and the digits in place of SigLIP on ImageNet",
        note="Random directions have a mean absolute cosine of 0.035 in 512 dimensions and 0.1 in "
        "64: the gap of the digits is more orthogonal than chance would have it, those of CLIP "
        "and VideoCLIP are less.",
    )
