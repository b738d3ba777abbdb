"""Figs 1 to 5, two ellipsoids off the origin, and the same on other rows (figs 15 to 18)."""

from __future__ import annotations

import numpy as np

from modgap.measures import estimated_conformity, linear_separability
from modgap.reproduce.checks import Check
from modgap.reproduce.drawing import some
from modgap.reproduce.entry import Outcome
from modgap.reproduce.flickr8k.results import CONCEPTS
from modgap.reproduce.levi2025 import PAPER, resampled
from modgap.reproduce.levi2025.geometry import (
    offsets,
    relative_offset,
    tags,
    telling_features,
    thin_shells,
    tilted,
)
from modgap.reproduce.levi2025.row_sets import (
    RAW_TEXTS,
    RowSet,
    digits,
    extremeness,
    given,
    joined,
    of_each,
    row_sets,
)
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, falls, rank_correlation
from modgap.simulate.blur import thin_shell

# Of a model as wide as that of figs 17 and 18.
WIDE = ("VideoCLIP",)
# Features of the paper's model.
WIDTH = 512


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """What the sketch says, measured on the digits, and on the themes of Flickr8k."""
    scans = digits(setting)
    rows = RowSet("digits", {"image": scans.X, "text": scans.Y}, seed=setting.seed)
    seen = sketch(setting, rows, extremeness(scans.images), rows.sides, "scan")
    return joined([seen, themes(setting, "photos", "captions")])


def themes(setting: Setting, *sides: str) -> Outcome:
    """Whether rows of frequent words lie nearer the mean, of models trained on Flickr8k."""
    runs = setting.runs()
    if CONCEPTS not in runs:
        return Outcome({}, [])
    (found,) = runs.of(CONCEPTS)
    ranks = {
        side: Interval(*(found[side][end] for end in ("correlation", "low", "high")))
        for side in sides
    }
    return Outcome(
        {
            f"rank correlation of conformity and how frequent its words are, {side}": rank.value
            for side, rank in ranks.items()
        },
        [PAPER.above("common_themes_near_mean", rank, side=side) for side, rank in ranks.items()],
    )


def sketch(
    setting: Setting, rows: RowSet, rare: np.ndarray, of_pictures: dict[str, np.ndarray], what: str
) -> Outcome:
    """What fig. 1 says of rows, and of how unusual the pictures behind some of them are."""
    told = linear_separability(rows.X, rows.Y, setting.seed).all_features
    offset = {side: resampled.of_features(relative_offset, A) for side, A in rows.sides.items()}
    printed = PAPER.declared["fig3"]["published"]
    to_mean = {side: estimated_conformity(A).values for side, A in of_pictures.items()}
    ranks = {
        side: resampled.drawn_rows(rank_correlation, values, rare)
        for side, values in to_mean.items()
    }
    checks: list[Check] = [
        PAPER.check("linearly_separable", told == 1),
        *(
            PAPER.above("off_as_printed", off, printed[f"offset of {side}"], side=side)
            for side, off in offset.items()
        ),
        *(
            PAPER.below("unusual_far_from_mean", rank, what=what, side=side)
            for side, rank in ranks.items()
        ),
    ]
    return Outcome(
        {
            "held-out accuracy of a linear classifier": told,
            **{f"offset, {side}": off.value for side, off in offset.items()},
            **{
                f"rank correlation of rarity and cosine, {side}": r.value
                for side, r in ranks.items()
            },
        },
        checks,
        {
            "plane": plane_of_means(rows.X, rows.Y),
            "rarity": some(np.column_stack([rare, to_mean["image"]])),
        },
    )


def plane_of_means(X: np.ndarray, Y: np.ndarray) -> dict[str, np.ndarray]:
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
    """Telling features of every set of rows at hand."""
    return of_each(row_sets(setting), telling_features)


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Tags and offsets of every set of rows at hand."""
    return of_each(row_sets(setting), tags, offsets)


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """Shells of every set of rows at hand, theorem 3.1 on made-up ones."""
    shells = of_each(row_sets(setting), thin_shells)
    setting.say("made-up isotropic rows")
    made_up = thin_shell(n=20_000 if setting.full else 2_000, seed=setting.seed)
    width = made_up.relative_width
    # Eq. 3 on the printed mean and variance of the radii.
    published = PAPER.declared["fig4"]["published"]
    radius, variance = published["mean radius, image"], published["variance of the radius, image"]
    implied = (radius**2 + variance) ** 0.5
    beside = Outcome(
        {
            "radius over √d of made-up rows, 512-D": float(
                made_up.radius[-1] / made_up.root_dimension[-1]
            ),
            "relative width of made-up rows, 512-D": float(width[-1]),
            "√E‖x‖² implied by the published mean and variance": implied,
        },
        [
            PAPER.check("isotropic_width_falls", falls(width)),
            PAPER.check("printed_radius", abs(implied - published["√trace C, image"]) < 5e-5),
        ],
        {"isotropic": {"dimensions": made_up.dimensions, "relative_width": width}},
    )
    return joined([shells, beside], shells.on)


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """Variances and dominances of every set of rows at hand."""
    return of_each(row_sets(setting), tilted)


@PAPER.run("fig15")
def fig15(setting: Setting) -> Outcome:
    """Figs 2 and 3 (left) on rows before normalisation."""
    return of_each(row_sets(setting, ()), given(_as_wide, telling_features, tags))


def _as_wide(rows: RowSet) -> Check:
    return PAPER.above("as_wide_as_printed", rows.X.shape[1], WIDTH - 1, name=rows.name)


@PAPER.run("fig16")
def fig16(setting: Setting) -> Outcome:
    """Figs 3 (middle, right), 4 and 5 on rows before normalisation."""
    sets = row_sets(setting, (RAW_TEXTS,))
    return of_each(sets, offsets, thin_shells, tilted)


@PAPER.run("fig17")
def fig17(setting: Setting) -> Outcome:
    """Fig. 15 on rows as wide as the paper's."""
    return of_each(row_sets(setting, WIDE), telling_features, tags)


@PAPER.run("fig18")
def fig18(setting: Setting) -> Outcome:
    """Fig. 16 on rows as wide as the paper's."""
    sets = row_sets(setting, WIDE)
    return of_each(sets, given(_more_rows_than_features, offsets, thin_shells, tilted))


def _more_rows_than_features(rows: RowSet) -> Check:
    n, d = rows.X.shape
    return PAPER.above("more_rows_than_features", n / d, 1.0, name=rows.name)
