"""Figs 2–5 on the authors' CLIP rows, 15 and 16 on raw rows, 17 and 18 on a 768-wide model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap.reproduce.entry import Outcome, Setting
from modgap.reproduce.levi2025 import geometry
from modgap.reproduce.levi2025.rows import (
    CLIP,
    DIGITS,
    HOW_B32,
    HOW_COCO,
    PAPER,
    VIDEO,
    check,
    digits,
    embeddings,
)
from modgap.simulate.blur import thin_shell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOW_L14 = HOW_COCO.format(model="CLIP ViT-L/14")
SAME = "all rows; the same in both settings"
KL_SLIP = (
    "A KL of 301 between histograms that sum to 1 needs shares as small as e^−301. With 1e-10 in "
    "every bin it is at most log(n/1e-10), about 29 for 500 rows and 32 for 5,000. The paper "
    "prints neither its bins nor its floor."
)
SHELL_SLIP = (
    "√E‖x‖² is printed as 7.6007; eq. 3 with the printed mean and variance gives 7.5999. A "
    "trace divided by n − 1 = 4,999 explains it."
)
DOMINANCE_SLIP = (
    "An off-diagonal dominance above 1 is not by itself a tilt: independent features reach about "
    "d·√(2/πn), which is 5.8 for the paper's 512 features and 5,000 rows."
)


def draw_fig2(outcome: Outcome) -> Figure:
    """Three telling features, and the two best against each other."""
    from modgap.plot import panels

    figure, axes = panels(4, size=(3.6, 2.7))
    geometry.draw_tags(outcome.data, axes)
    return figure


@PAPER.entry(
    "fig2",
    "Histograms of telling features, and two that separate the modalities",
    "Single features follow different distributions for images and for texts, and two of them are "
    "enough to separate the modalities by a line.",
    "embeddings",
    published={"KL of the most telling feature": 301, "accuracy on two features": 1.0},
    how=HOW_B32,
    fast=SAME,
    full=SAME,
    draw=draw_fig2,
    slips=(KL_SLIP,),
)
def fig2(setting: Setting) -> Outcome:
    """Fig. 2 on the authors' CLIP rows."""
    X, Y = embeddings(setting, "clip")
    measured, data, checks = geometry.tag_features(X, Y, setting.seed)
    note = f"KL with {geometry.BINS} shared bins and 1e-10 added to each. Raw rows: fig. 15."
    return Outcome(measured, tuple(checks), data, CLIP, note)


def draw_fig3(outcome: Outcome) -> Figure:
    """Sorted separability and the features farthest off the origin."""
    from modgap.plot import panels

    figure, axes = panels(3, columns=3, size=(3.8, 3))
    geometry.draw_separability(outcome.data, axes[0])
    geometry.draw_offsets(outcome.data, axes[1:])
    return figure


@PAPER.entry(
    "fig3",
    "Separability of the features, and the features farthest off the origin",
    "A handful of features tag the modality, and a few features with a large mean push each "
    "ellipsoid off the origin by about its own size.",
    "embeddings",
    published={"tag features": 9, "offset of image": 0.94, "offset of text": 1.03},
    how=HOW_B32,
    fast=SAME,
    full=SAME,
    draw=draw_fig3,
)
def fig3(setting: Setting) -> Outcome:
    """Fig. 3 on the authors' CLIP rows."""
    measured, data, checks = geometry.offsets(*embeddings(setting, "clip"))
    note = "The number of tags belongs to the model: the paper counts 9 (B/32) and 20 (L/14)."
    return Outcome(measured, tuple(checks), data, CLIP, note)


def draw_fig4(outcome: Outcome) -> Figure:
    """Centred features, radii, and the norms of made-up isotropic rows by dimension."""
    from modgap.plot import curves, panels

    figure, axes = panels(4, size=(4, 3))
    geometry.draw_shells(outcome.data, axes)
    isotropic = outcome.data["isotropic"]
    curves(
        isotropic["dimensions"],
        {"width over radius": isotropic["relative_width"]},
        xlabel="dimension",
        ylabel="relative width of the shell",
        log="xy",
        title="made-up isotropic rows",
        ax=axes[3],
    )
    return figure


@PAPER.entry(
    "fig4",
    "Centred features and the thin shell",
    "Each centred feature peaks at zero, and yet the centred rows all lie at nearly the same "
    "distance from zero, as isotropic rows in many dimensions must.",
    "embeddings",
    published={
        "mean radius, image": 7.5873,
        "variance of the radius, image": 0.1914,
        "√trace C, image": 7.6007,
        "relative error, image": 0.0018,
    },
    how=HOW_B32,
    fast="all rows; 2,000 made-up rows in each dimension",
    full="all rows; 20,000 made-up rows in each dimension",
    draw=draw_fig4,
    slips=(SHELL_SLIP,),
)
def fig4(setting: Setting) -> Outcome:
    """Fig. 4 on the authors' CLIP rows, theorem 3.1 on made-up ones."""
    measured, data, checks = geometry.thin_shells(*embeddings(setting, "clip"))
    setting.say("made-up isotropic rows")
    made_up = thin_shell(n=20_000 if setting.full else 2_000, seed=setting.seed)
    ratio = made_up.radius / made_up.root_dimension
    implied = (7.5873**2 + 0.1914) ** 0.5
    measured |= {
        "√E‖x‖² implied by the published mean and variance": implied,
        "radius over √d of made-up rows, 512-D": float(ratio[-1]),
        "relative width of made-up rows, 512-D": float(made_up.relative_width[-1]),
    }
    checks += [
        check(
            "Made-up isotropic rows: the radius meets √d within 0.5 % at 512 dimensions.",
            abs(ratio[-1] - 1) < 0.005,
        ),
        check(
            "Made-up isotropic rows: the relative width falls with every dimension, below 5 % at "
            "512 (theorem 3.1).",
            (np.diff(made_up.relative_width) < 0).all() and made_up.relative_width[-1] < 0.05,
        ),
        check(
            "The published 7.6007 is what eq. 3 gives for the published mean and variance, with "
            "the trace divided by n − 1.",
            abs(implied * (5000 / 4999) ** 0.5 - 7.6007) < 5e-5,
        ),
    ]
    data["isotropic"] = {
        "dimensions": made_up.dimensions,
        "relative_width": made_up.relative_width,
    }
    note = "Unit rows are shorter than raw ones, so the radii differ in scale. Raw rows: fig. 16."
    return Outcome(measured, tuple(checks), data, CLIP, note)


def draw_fig5(outcome: Outcome) -> Figure:
    """Variances and dominances."""
    from modgap.plot import panels

    figure, axes = panels(3, columns=3, size=(3.8, 3))
    geometry.draw_tilted(outcome.data, axes)
    return figure


@PAPER.entry(
    "fig5",
    "Variances and off-diagonal dominance",
    "Features vary very unequally and together, so each modality fills an ellipsoid that is tilted "
    "against the axes.",
    "embeddings",
    how=HOW_B32,
    fast=SAME,
    full=SAME,
    draw=draw_fig5,
    slips=(DOMINANCE_SLIP,),
)
def fig5(setting: Setting) -> Outcome:
    """Fig. 5 on the authors' CLIP rows."""
    X, Y = embeddings(setting, "clip")
    measured, data, checks = geometry.tilted(X, Y, setting.seed)
    note = (
        "Beside each dominance stands that of the same features shuffled one by one over the rows."
    )
    return Outcome(measured, tuple(checks), data, CLIP, note)


def draw_tags_and_separability(outcome: Outcome) -> Figure:
    """Fig. 2's panels and the sorted separability."""
    from modgap.plot import panels

    figure, axes = panels(5, columns=3, size=(3.8, 3))
    geometry.draw_tags(outcome.data, axes)
    geometry.draw_separability(outcome.data, axes[4])
    return figure


def draw_everything_else(outcome: Outcome) -> Figure:
    """The panels of fig. 3 middle and right, of fig. 4 and of fig. 5."""
    from modgap.plot import panels

    figure, axes = panels(8, columns=3, size=(3.8, 3))
    geometry.draw_offsets(outcome.data, axes[:2])
    geometry.draw_shells(outcome.data, axes[2:5])
    geometry.draw_tilted(outcome.data, axes[5:])
    return figure


def _tags(X: np.ndarray, Y: np.ndarray, seed: int, on: str, note: str) -> Outcome:
    measured, data, checks = geometry.tag_features(X, Y, seed)
    counted, sorted_features, more = geometry.offsets(X, Y)
    measured |= {
        name: counted[name] for name in ("tag features", "share of features that are tags")
    }
    data["separability"] = sorted_features["separability"]
    return Outcome(measured, (*checks, more[0]), data, on, note)


def _shapes(X: np.ndarray, Y: np.ndarray, seed: int, on: str, note: str) -> Outcome:
    parts = (geometry.offsets(X, Y), geometry.thin_shells(X, Y), geometry.tilted(X, Y, seed))
    measured = {name: value for part in parts for name, value in part[0].items()}
    for name in ("tag features", "share of features that are tags"):
        del measured[name]
    data = {name: value for part in parts for name, value in part[1].items()}
    # How many tags there are is the other figure's statement.
    checks = [*parts[0][2][1:], *parts[1][2], *parts[2][2]]
    return Outcome(measured, tuple(checks), data, on, note)


@PAPER.entry(
    "fig15",
    "Enlarged plots of section 4: telling features, on raw rows",
    "On rows before normalisation, a few features tag the modality and two of them separate it.",
    "digits",
    published={
        "KL of the most telling feature": 301,
        "accuracy on two features": 1.0,
        "tag features": 9,
    },
    how=HOW_B32,
    fast=SAME,
    full=SAME,
    draw=draw_tags_and_separability,
    slips=(KL_SLIP,),
)
def fig15(setting: Setting) -> Outcome:
    """Figs 2 and 3 (left) on the digits before normalisation."""
    rows = digits()
    note = "The paper shows figs 2 and 3 (left) again, larger; here they are shown on raw rows."
    return _tags(rows.X, rows.Y, setting.seed, DIGITS, note)


@PAPER.entry(
    "fig16",
    "Enlarged plots of section 4: offsets, shells and ellipsoids, on raw rows",
    "On rows before normalisation, each modality is a thin, tilted ellipsoid shell off the origin.",
    "digits",
    published={
        "offset of image": 0.94,
        "offset of text": 1.03,
        "mean radius, image": 7.5873,
        "variance of the radius, image": 0.1914,
        "√trace C, image": 7.6007,
        "relative error, image": 0.0018,
    },
    how=HOW_B32,
    fast=SAME,
    full=SAME,
    draw=draw_everything_else,
    slips=(SHELL_SLIP, DOMINANCE_SLIP),
)
def fig16(setting: Setting) -> Outcome:
    """Figs 3 (middle, right), 4 and 5 on the digits before normalisation."""
    rows = digits()
    note = "Shells are thinner the more dimensions there are: 64 here, 512 in the paper."
    return _shapes(rows.X, rows.Y, setting.seed, DIGITS, note)


@PAPER.entry(
    "fig17",
    "Telling features of a 768-wide model",
    "In a wider model, too, single features tell the modality and two of them separate it.",
    "embeddings",
    published={"accuracy on two features": 1.0, "tag features": 20},
    how=HOW_L14,
    fast=SAME,
    full=SAME,
    draw=draw_tags_and_separability,
)
def fig17(setting: Setting) -> Outcome:
    """Fig. 17 on the authors' VideoCLIP rows, which have as many dimensions."""
    X, Y = embeddings(setting, "videoclip")
    note = "Another model of the same width: videos and their texts, 100 pairs."
    return _tags(X, Y, setting.seed, VIDEO, note)


@PAPER.entry(
    "fig18",
    "The shells of a 768-wide model",
    "A wider model has the same geometry: two tilted, thin ellipsoid shells off the origin.",
    "embeddings",
    how=HOW_L14,
    fast=SAME,
    full=SAME,
    draw=draw_everything_else,
    slips=(DOMINANCE_SLIP,),
)
def fig18(setting: Setting) -> Outcome:
    """Fig. 18 on the authors' VideoCLIP rows."""
    X, Y = embeddings(setting, "videoclip")
    note = "With 100 rows in 768 dimensions shuffled features alone reach a dominance of about 60."
    return _shapes(X, Y, setting.seed, VIDEO, note)
