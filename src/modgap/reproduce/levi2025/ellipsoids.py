"""Figs 1 to 5, two ellipsoids off the origin, and the same on other rows (figs 15 to 18)."""

from __future__ import annotations

import numpy as np

from modgap.measures import estimated_conformity, linear_separability, shell
from modgap.reproduce.drawing import some
from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.geometry import (
    offsets,
    tags,
    telling_features,
    thin_shells,
    tilted,
)
from modgap.reproduce.levi2025.joined import joined
from modgap.reproduce.levi2025.rows import digits, embeddings, extremeness
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import by_chance, falls, rank_correlation
from modgap.simulate.blur import thin_shell


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """What the sketch says, measured on the digits."""
    rows = digits()
    sides = {"image": rows.X, "text": rows.Y}
    rare = extremeness(rows.images)
    told = linear_separability(rows.X, rows.Y, setting.seed).all_features
    off = {side: shell(A).offset for side, A in sides.items()}
    to_mean = {side: estimated_conformity(A).values for side, A in sides.items()}
    ranks = {side: rank_correlation(values, rare) for side, values in to_mean.items()}
    return Outcome(
        {
            "held-out accuracy of a linear classifier": told,
            **{f"offset, {side}": value for side, value in off.items()},
            **{f"rank correlation of rarity and cosine, {side}": r for side, r in ranks.items()},
        },
        [
            check("The modalities are linearly separable.", told == 1),
            check(
                "Both ellipsoids sit off the origin by more than half their size.",
                min(off.values()) > 0.5,
            ),
            check(
                "The more unusual a scan is by its pixels, the smaller the cosine of its row to "
                "the mean, and of its caption's row, beyond chance.",
                max(ranks.values()) < -by_chance(len(rare)),
            ),
        ],
        {
            "plane": _plane_of_means(rows.X, rows.Y),
            "rarity": some(np.column_stack([rare, to_mean["image"]])),
        },
    )


def _plane_of_means(X: np.ndarray, Y: np.ndarray) -> dict[str, np.ndarray]:
    """Rows, means and origin in the plane that holds both means and the origin."""
    means = X.mean(axis=0), Y.mean(axis=0)
    # The mean of both first, then what of the gap is across it, each the right way round.
    axes, sizes = np.linalg.qr(np.column_stack([means[0] + means[1], means[0] - means[1]]))
    plane = axes * np.sign(np.diag(sizes))
    return {
        "image": some(X) @ plane,
        "text": some(Y) @ plane,
        "means": np.stack(means) @ plane,
        "origin": np.zeros((1, 2)),
    }


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Telling features of the authors' CLIP rows."""
    return telling_features(*embeddings(setting, "clip"), setting.seed)


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Tags and offsets of the authors' CLIP rows."""
    X, Y = embeddings(setting, "clip")
    return joined([tags(X, Y), offsets(X, Y)])


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """Shells of the authors' CLIP rows, theorem 3.1 on made-up ones."""
    return joined([thin_shells(*embeddings(setting, "clip")), _isotropic(setting)])


def _isotropic(setting: Setting) -> Outcome:
    """Norms of made-up isotropic rows by dimension, and eq. 3 on the published norms."""
    setting.say("made-up isotropic rows")
    made_up = thin_shell(n=20_000 if setting.full else 2_000, seed=setting.seed)
    ratio = float(made_up.radius[-1] / made_up.root_dimension[-1])
    width = made_up.relative_width
    published = PAPER.declared["fig4"]["published"]
    radius, variance = published["mean radius, image"], published["variance of the radius, image"]
    implied = (radius**2 + variance) ** 0.5
    return Outcome(
        {
            "√E‖x‖² implied by the published mean and variance": implied,
            "radius over √d of made-up rows, 512-D": ratio,
            "relative width of made-up rows, 512-D": float(width[-1]),
        },
        [
            check(
                "Made-up isotropic rows: the radius meets √d within 0.5 % at 512 dimensions.",
                abs(ratio - 1) < 0.005,
            ),
            check(
                "Made-up isotropic rows: the relative width falls with every dimension, below 5 % "
                "at 512 (theorem 3.1).",
                falls(width) and width[-1] < 0.05,
            ),
            check(
                "The published 7.6007 is what eq. 3 gives for the published mean and variance, "
                "with the trace divided by n − 1.",
                abs(implied * (5000 / 4999) ** 0.5 - published["√trace C, image"]) < 5e-5,
            ),
        ],
        {"isotropic": {"dimensions": made_up.dimensions, "relative_width": width}},
    )


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """Variances and dominances of the authors' CLIP rows."""
    return tilted(*embeddings(setting, "clip"), setting.seed)


@PAPER.run("fig15")
def fig15(setting: Setting) -> Outcome:
    """Figs 2 and 3 (left) on the digits before normalisation."""
    return _tags(digits().X, digits().Y, setting)


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Figs 3 (middle, right), 4 and 5 on the digits before normalisation."""
    return _shapes(digits().X, digits().Y, setting)


@PAPER.run("fig17")
def fig17(setting: Setting) -> Outcome:
    """Fig. 15 on the authors' VideoCLIP rows, which are as wide as the paper's."""
    return _tags(*embeddings(setting, "videoclip"), setting)


@PAPER.run("fig18")
def fig18(setting: Setting) -> Outcome:
    """Fig. 16 on the authors' VideoCLIP rows."""
    return _shapes(*embeddings(setting, "videoclip"), setting)


def _tags(X: np.ndarray, Y: np.ndarray, setting: Setting) -> Outcome:
    return joined([telling_features(X, Y, setting.seed), tags(X, Y)])


def _shapes(X: np.ndarray, Y: np.ndarray, setting: Setting) -> Outcome:
    return joined([offsets(X, Y), thin_shells(X, Y), tilted(X, Y, setting.seed)])
