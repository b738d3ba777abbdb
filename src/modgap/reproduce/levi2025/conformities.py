"""Semantic blur (fig. 7), and conformity estimated and compared (figs 9 and 10)."""

from __future__ import annotations

import numpy as np

from modgap.measures import conformity, conformity_difference, estimated_conformity
from modgap.measures.conformity import EstimatedConformity
from modgap.reproduce.drawing import counted, limits, some
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.joined import joined
from modgap.reproduce.levi2025.rows import digits, embeddings
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation
from modgap.simulate.blur import blur_contrast, make_shifted_sphere, shell_conformity


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """The two spheres of fig. 7."""
    found = blur_contrast(seed=setting.seed)
    origin, shifted = found.origin, found.shifted
    spheres = {
        "around the origin": (origin, found.expected_origin),
        "off the origin": (shifted, found.expected_shifted),
    }
    measured: dict[str, Number] = {"draws": found.n, "dimension": found.dimension}
    data = {}
    for where, (sphere, expected) in spheres.items():
        measured |= {
            f"mean cosine to the mean, {where}": float(sphere.to_mean.mean()),
            f"the same, expected, {where}": expected,
            f"mean cosine to the least typical row, {where}": float(sphere.to_outlier.mean()),
        }
        groups = {"to the mean": sphere.to_mean, "to the least typical row": sphere.to_outlier}
        data[where] = counted(groups)
    return Outcome(
        measured,
        [
            check(
                "Around the origin both distributions lie together: their means are within 0.05.",
                origin.to_mean.mean() - origin.to_outlier.mean() < 0.05,
            ),
            check(
                "Off the origin every row is more similar to the mean than the average row is to "
                "the least typical one.",
                shifted.to_mean.min() > shifted.to_outlier.mean(),
            ),
            check(
                "The mean cosine to the mean is what centre, dimension and number of rows imply, "
                "within 0.01.",
                all(
                    abs(sphere.to_mean.mean() - expected) < 0.01
                    for sphere, expected in spheres.values()
                ),
            ),
        ],
        data,
    )


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Proposition 1 on made-up shells with the published offsets, and on the digits."""
    rows = digits()
    return joined(
        [
            _made_up_shell(setting, "image", 0),
            _made_up_shell(setting, "text", 1),
            _digits_shell(setting, "image", rows.X, 2),
            _digits_shell(setting, "text", rows.Y, 3),
        ]
    )


def _made_up_shell(setting: Setting, side: str, done: int) -> Outcome:
    """A thin shell as far off the origin as the paper's, and what the paper found on its own."""
    setting.say(f"made-up shell, {side}", done, 4)
    offset = PAPER.declared["fig3"]["published"][f"offset of {side}"]
    published = PAPER.declared["fig9"]["published"][f"slope, {side}"]
    n = 5000 if setting.full else 1000
    rows = make_shifted_sphere((offset * 512**0.5,), n=n, seed=setting.seed)
    found, fit = estimated_conformity(rows), shell_conformity(rows)
    return Outcome(
        {
            f"Pearson, {side}": found.pearson,
            f"slope, {side}": found.slope,
            f"intercept, {side}": found.intercept,
            f"slope by proposition 1 from the published offset, {side}": (1 + offset**-2) ** 0.5,
            f"A fitted over A predicted, {side}": fit.fitted / fit.predicted,
        },
        [
            check(
                f"A made-up thin shell with the published offset of the {side} rows has a Pearson "
                "correlation of at least the published 0.9998.",
                found.pearson >= 0.9998,
            ),
            check(
                f"The slope of that shell is within 2 % of the published {published} ({side}).",
                abs(found.slope / published - 1) < 0.02,
            ),
            check(
                f"On that shell C = A·cos with the A of the proof, within 1 % ({side}).",
                abs(fit.fitted / fit.predicted - 1) < 0.01,
            ),
        ],
        {f"made up, {side}": _line(rows, found)},
    )


def _digits_shell(setting: Setting, side: str, rows: np.ndarray, done: int) -> Outcome:
    setting.say(f"digits, {side}", done, 4)
    found = estimated_conformity(rows)
    return Outcome(
        {
            f"Pearson, digits, {side}": found.pearson,
            f"slope, digits, {side}": found.slope,
            f"slope by proposition 1, digits, {side}": 1 / found.predicted,
        },
        [
            check(
                f"On the digits' {side} rows before normalisation the Pearson correlation is above "
                "0.95.",
                found.pearson > 0.95,
            )
        ],
        {f"digits, {side}": _line(rows, found)},
    )


def _line(rows: np.ndarray, found: EstimatedConformity) -> dict[str, object]:
    """Conformity and cosine to the mean of every row, and the line through them."""
    points = np.column_stack([conformity(rows), found.values])
    return {
        "points": some(points),
        "line": (found.slope, found.intercept),
        "limits": limits({"rows": points}),
        "pearson": found.pearson,
    }


@PAPER.run("fig10")
def fig10(setting: Setting) -> Outcome:
    """Pairs of the authors' CLIP rows and of the digits."""
    return joined(
        [
            _pairs("CLIP", *embeddings(setting, "clip")),
            _pairs("digits", digits().X, digits().Y),
        ]
    )


def _pairs(name: str, X: np.ndarray, Y: np.ndarray) -> Outcome:
    """The conformities of both sides, and how they go together in the pairs."""
    from scipy.stats import ks_2samp

    image, text, difference = conformity(X), conformity(Y), conformity_difference(X, Y)
    common = [values >= np.quantile(values, 0.75) for values in (image, text)]
    unusual = [values <= np.quantile(values, 0.25) for values in (image, text)]
    crossed = float(np.mean(common[0] & unusual[1])), float(np.mean(unusual[0] & common[1]))
    apart = float(ks_2samp(image, text).pvalue)
    return Outcome(
        {
            f"rank correlation in the pairs, {name}": rank_correlation(image, text),
            f"common image with an unusual text, {name}": crossed[0],
            f"unusual image with a common text, {name}": crossed[1],
            f"standard deviation of the difference, {name}": float(difference.std()),
            f"mean conformity of the images, {name}": float(image.mean()),
            f"mean conformity of the texts, {name}": float(text.mean()),
            f"p of one distribution for both (Kolmogorov–Smirnov), {name}": apart,
        },
        [
            check(
                "Over 1 % of the pairs join the commonest quarter of one side with the most "
                f"unusual quarter of the other, both ways ({name}).",
                min(crossed) > 0.01,
            ),
            check(f"The two distributions differ, p below 0.01 ({name}).", apart < 0.01),
        ],
        {
            name: {
                "both": counted({"image": image, "text": text}),
                "difference": counted({"pairs": difference}),
            }
        },
    )
