"""The sketch of the geometry (fig. 1), and what common and unusual scans look like (8, 19, 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.measures import (
    conformity,
    estimated_conformity,
    linear_separability,
    shell,
)
from modgap.reproduce.drawing import some
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.rows import digits, extremeness
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import by_chance, rank_correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all digits; the same in both settings"
HOW_IMAGES = (
    "The paper's own pictures need CLIP ViT-B/32 and {data}. With their rows saved as image.npy, "
    "modgap.measures.conformity gives every picture's conformity, and sorting by it the figure."
)


@PAPER.draw("fig1")
def draw_fig1(outcome: Outcome) -> Figure:
    """Both modalities in the plane of their means and the origin, and rarity against the mean."""
    from modgap.plot import panels, scatter

    figure, axes = panels(2, size=(4.8, 3.8))
    scatter(
        outcome.data["plane"],
        xlabel="along the mean of both",
        ylabel="across, in the plane of the means",
        title="the digits before normalisation",
        ax=axes[0],
    )
    axes[0].set_aspect("equal")
    scatter(
        {"scans": outcome.data["rarity"]},
        xlabel="how unusual the scan is, by its pixels",
        ylabel="cosine to the mean",
        title="rarer is farther from the mean",
        ax=axes[1],
    )
    return figure


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """What the sketch says, measured on the digits."""
    rows = digits()
    X, Y = rows.X, rows.Y
    rare = extremeness(rows.images)
    separable = linear_separability(X, Y, setting.seed)
    shells = {"image": shell(X), "text": shell(Y)}
    to_mean = {
        "image": np.asarray(estimated_conformity(X).values),
        "text": np.asarray(estimated_conformity(Y).values),
    }
    ranks = {side: rank_correlation(values, rare) for side, values in to_mean.items()}
    measured = {
        "held-out accuracy of a linear classifier": separable.all_features,
        **{f"offset, {side}": found.offset for side, found in shells.items()},
        **{f"rank correlation of rarity and cosine, {side}": rho for side, rho in ranks.items()},
    }
    checks = (
        check("The modalities are linearly separable.", separable.all_features == 1),
        check(
            "Both ellipsoids sit off the origin by more than half their size.",
            min(found.offset for found in shells.values()) > 0.5,
        ),
        check(
            "The more unusual a scan is by its pixels, the smaller the cosine of its row to the "
            "mean, and of its caption's row, beyond chance.",
            max(ranks.values()) < -by_chance(len(X)),
        ),
    )
    data = {
        "plane": _plane_of_means(X, Y),
        "rarity": some(np.column_stack([rare, to_mean["image"]])),
    }
    return Outcome(measured, checks, data)


def _plane_of_means(X: np.ndarray, Y: np.ndarray) -> dict[str, np.ndarray]:
    """Rows, means and origin in the plane that holds both means and the origin."""
    means = X.mean(axis=0), Y.mean(axis=0)
    along = means[0] + means[1]
    along = along / np.linalg.norm(along)
    gap = means[0] - means[1]
    across = gap - (gap @ along) * along
    plane = np.column_stack([along, across / np.linalg.norm(across)])
    return {
        "image": some(X) @ plane,
        "text": some(Y) @ plane,
        "means": np.stack(means) @ plane,
        "origin": np.zeros((1, 2)),
    }


def _extremes(values: np.ndarray, images: np.ndarray, count: int = 12) -> dict[str, Any]:
    order = np.argsort(-values, kind="stable")
    return {
        name: {"images": images[chosen], "captions": [f"{values[k]:.3f}" for k in chosen]}
        for name, chosen in (("high", order[:count]), ("low", order[::-1][:count]))
    }


@PAPER.draw("fig8")
def draw_extremes(outcome: Outcome) -> Figure:
    """The scans of highest and of lowest conformity."""
    from modgap.plot import image_grid, panels

    figure, axes = panels(2, size=(5, 2.9))
    for ax, name in zip(axes, ("high", "low"), strict=True):
        shown = outcome.data[name]
        image_grid(shown["images"], shown["captions"], columns=6, title=f"{name} conformity", ax=ax)
    return figure


@PAPER.draw("fig19", "fig20")
def draw_extremes_and_points(outcome: Outcome) -> Figure:
    """The same, and the conformity against what the entry measures in the scans."""
    from modgap.plot import image_grid, panels, scatter

    figure, axes = panels(3, columns=3, size=(4.6, 3))
    for ax, name in zip(axes, ("high", "low"), strict=False):
        shown = outcome.data[name]
        image_grid(shown["images"], shown["captions"], columns=6, title=f"{name} conformity", ax=ax)
    scatter(
        {"scans": outcome.data["points"]},
        xlabel=outcome.data["across"],
        ylabel="conformity",
        ax=axes[2],
    )
    return figure


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """Conformity of the scans' rows against how common the scans are by their pixels."""
    rows = digits()
    values = np.asarray(conformity(rows.X))
    pixels = np.asarray(conformity(rows.images.reshape(len(values), -1)))
    alike = rank_correlation(values, pixels)
    rare = rank_correlation(values, extremeness(rows.images))
    chance = by_chance(len(values))
    measured = {
        "rank correlation with the likeness of the pixels to all others": alike,
        "rank correlation with how unusual the scan is": rare,
        "by chance, at most": chance,
        "highest conformity": float(values.max()),
        "lowest conformity": float(values.min()),
    }
    checks = (
        check(
            "Scans of high conformity are more like the other scans, pixel by pixel, beyond "
            "chance.",
            alike > chance,
        ),
        check(
            "Scans of low conformity are more unusual in what is measured in them.", rare < -chance
        ),
    )
    return Outcome(measured, checks, _extremes(values, rows.images))


@PAPER.run("fig19")
def fig19(setting: Setting) -> Outcome:
    """Conformity of the scans against how much goes on in them."""
    rows = digits()
    values = np.asarray(conformity(rows.X))
    edges = _total_variation(rows.images)
    ink = rows.images.sum(axis=(1, 2))
    rank = rank_correlation(values, edges)
    measured = {
        "rank correlation with the total variation": rank,
        "rank correlation with the variation per ink": rank_correlation(values, edges / ink),
        "rank correlation with the ink": rank_correlation(values, ink),
        "by chance, at most": by_chance(len(values)),
    }
    checks = (
        check(
            "Scans of high conformity are simpler: their total variation is smaller, beyond "
            "chance.",
            rank < -by_chance(len(values)),
        ),
    )
    data = {
        **_extremes(values, rows.images),
        "points": some(np.column_stack([edges, values])),
        "across": "total variation of the scan",
    }
    return Outcome(measured, checks, data)


def _total_variation(images: np.ndarray) -> np.ndarray:
    """How much neighbouring pixels differ, summed over each scan."""
    down = np.abs(np.diff(images, axis=1)).sum(axis=(1, 2))
    across = np.abs(np.diff(images, axis=2)).sum(axis=(1, 2))
    return down + across


@PAPER.run("fig20")
def fig20(setting: Setting) -> Outcome:
    """Conformity of the scans that miss their caption against the entropy of their pixels."""
    from modgap._arrays import unit

    rows = digits()
    cosines = unit(rows.X) @ unit(rows.Y).T
    hard = cosines.argmax(axis=1) != np.arange(len(cosines))
    values, images = np.asarray(conformity(rows.X))[hard], rows.images[hard]
    entropy = _entropy(images)
    rank = rank_correlation(values, entropy)
    chance = by_chance(len(values))
    measured: dict[str, Number] = {
        "hard scans": int(hard.sum()),
        "rank correlation with the entropy of the pixels": rank,
        "by chance, at most": chance,
        "holds less information": "low conformity" if rank > 0 else "high conformity",
    }
    checks = (
        check("Conformity goes with the entropy of the pixels, beyond chance.", abs(rank) > chance),
    )
    data = {
        **_extremes(values, images),
        "points": some(np.column_stack([entropy, values])),
        "across": "entropy of the scan's pixels, in bits",
    }
    return Outcome(measured, checks, data)


def _entropy(images: np.ndarray) -> np.ndarray:
    """Entropy of each scan's 17 levels of ink, in bits."""
    levels = images.reshape(len(images), -1).round().astype(np.int64)
    shares = np.stack([(levels == level).mean(axis=1) for level in range(17)], axis=1)
    logarithms = np.log2(shares, where=shares > 0, out=np.zeros_like(shares))
    return -(shares * logarithms).sum(axis=1)
