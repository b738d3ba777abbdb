"""Figs 2–5 on the authors' CLIP rows, 15 and 16 on raw rows, 17 and 18 on a 768-wide model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.levi2025 import PAPER, geometry
from modgap.reproduce.levi2025.rows import (
    DIGITS,
    HOW_COCO,
    VIDEO,
    digits,
    embeddings,
)
from modgap.reproduce.setting import Setting
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


@PAPER.draw("fig2")
def draw_fig2(outcome: Outcome) -> Figure:
    """Three telling features, and the two best against each other."""
    from modgap.plot import panels

    figure, axes = panels(4, size=(3.6, 2.7))
    geometry.draw_tags(outcome.data, axes)
    return figure


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Fig. 2 on the authors' CLIP rows."""
    X, Y = embeddings(setting, "clip")
    measured, data, checks = geometry.tag_features(X, Y, setting.seed)
    return Outcome(measured, tuple(checks), data)


@PAPER.draw("fig3")
def draw_fig3(outcome: Outcome) -> Figure:
    """Sorted separability and the features farthest off the origin."""
    from modgap.plot import panels

    figure, axes = panels(3, columns=3, size=(3.8, 3))
    geometry.draw_separability(outcome.data, axes[0])
    geometry.draw_offsets(outcome.data, axes[1:])
    return figure


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Fig. 3 on the authors' CLIP rows."""
    measured, data, checks = geometry.offsets(*embeddings(setting, "clip"))
    return Outcome(measured, tuple(checks), data)


@PAPER.draw("fig4")
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


@PAPER.run("fig4")
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
    return Outcome(measured, tuple(checks), data)


@PAPER.draw("fig5")
def draw_fig5(outcome: Outcome) -> Figure:
    """Variances and dominances."""
    from modgap.plot import panels

    figure, axes = panels(3, columns=3, size=(3.8, 3))
    geometry.draw_tilted(outcome.data, axes)
    return figure


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """Fig. 5 on the authors' CLIP rows."""
    X, Y = embeddings(setting, "clip")
    measured, data, checks = geometry.tilted(X, Y, setting.seed)
    return Outcome(measured, tuple(checks), data)


@PAPER.draw("fig15", "fig17")
def draw_tags_and_separability(outcome: Outcome) -> Figure:
    """Fig. 2's panels and the sorted separability."""
    from modgap.plot import panels

    figure, axes = panels(5, columns=3, size=(3.8, 3))
    geometry.draw_tags(outcome.data, axes)
    geometry.draw_separability(outcome.data, axes[4])
    return figure


@PAPER.draw("fig16", "fig18")
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


@PAPER.run("fig15")
def fig15(setting: Setting) -> Outcome:
    """Figs 2 and 3 (left) on the digits before normalisation."""
    rows = digits()
    note = "The paper shows figs 2 and 3 (left) again, larger; here they are shown on raw rows."
    return _tags(rows.X, rows.Y, setting.seed, DIGITS, note)


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Figs 3 (middle, right), 4 and 5 on the digits before normalisation."""
    rows = digits()
    note = "Shells are thinner the more dimensions there are: 64 here, 512 in the paper."
    return _shapes(rows.X, rows.Y, setting.seed, DIGITS, note)


@PAPER.run("fig17")
def fig17(setting: Setting) -> Outcome:
    """Fig. 17 on the authors' VideoCLIP rows, which have as many dimensions."""
    X, Y = embeddings(setting, "videoclip")
    note = "Another model of the same width: videos and their texts, 100 pairs."
    return _tags(X, Y, setting.seed, VIDEO, note)


@PAPER.run("fig18")
def fig18(setting: Setting) -> Outcome:
    """Fig. 18 on the authors' VideoCLIP rows."""
    X, Y = embeddings(setting, "videoclip")
    note = "With 100 rows in 768 dimensions shuffled features alone reach a dominance of about 60."
    return _shapes(X, Y, setting.seed, VIDEO, note)
