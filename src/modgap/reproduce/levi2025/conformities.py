"""Semantic blur and conformity (figs 7, 9, 10) and what row norms tell (fig. 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.measures import conformity, conformity_difference, estimated_conformity, norms
from modgap.reproduce.drawing import counted, limits, some
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.rows import digits, embeddings, extremeness
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import by_chance, rank_correlation
from modgap.simulate.blur import blur_contrast, make_shifted_sphere, shell_conformity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Published: norm of the mean over norm of the deviations, and slope of cosine on conformity.
OFFSETS = {"image": 0.94, "text": 1.03}
SLOPES = {"image": 1.461, "text": 1.411}


@PAPER.draw("fig7")
def draw_fig7(outcome: Outcome) -> Figure:
    """Cosines to the mean and to the least typical row, around the origin and off it."""
    from modgap.plot import histograms, panels

    figure, axes = panels(2, size=(4.2, 3))
    for ax, (where, found) in zip(axes, outcome.data.items(), strict=True):
        histograms(found["edges"], found["counts"], xlabel="cosine", title=where, ax=ax)
        # Room for the legend above the outlines.
        ax.set_ylim(0, 1.3 * ax.get_ylim()[1])
    return figure


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """The two spheres of fig. 7."""
    found = blur_contrast(seed=setting.seed)
    spheres = {"around the origin": found.origin, "off the origin": found.shifted}
    expected = {
        "around the origin": found.expected_origin,
        "off the origin": found.expected_shifted,
    }
    measured: dict[str, Number] = {"draws": found.n, "dimension": found.dimension}
    data, leads = {}, {}
    for where, sphere in spheres.items():
        to_mean, to_outlier = np.asarray(sphere.to_mean), np.asarray(sphere.to_outlier)
        leads[where] = float(to_mean.mean() - to_outlier.mean())
        measured |= {
            f"mean cosine to the mean, {where}": float(to_mean.mean()),
            f"the same, expected, {where}": expected[where],
            f"mean cosine to the least typical row, {where}": float(to_outlier.mean()),
        }
        groups = {"to the mean": to_mean, "to the least typical row": to_outlier}
        data[where] = counted(groups)
    off = spheres["off the origin"]
    checks = (
        check(
            "Around the origin both distributions lie together: their means are within 0.05.",
            leads["around the origin"] < 0.05,
        ),
        check(
            "Off the origin every row is more similar to the mean than the average row is to the "
            "least typical one.",
            np.asarray(off.to_mean).min() > np.asarray(off.to_outlier).mean(),
        ),
        check(
            "The mean cosine to the mean is what centre, dimension and number of rows imply, "
            "within 0.01.",
            all(
                abs(np.asarray(sphere.to_mean).mean() - expected[where]) < 0.01
                for where, sphere in spheres.items()
            ),
        ),
    )
    return Outcome(measured, checks, data)


@PAPER.draw("fig9")
def draw_fig9(outcome: Outcome) -> Figure:
    """Cosine to the mean against conformity, with the fitted line of each."""
    from modgap.plot import panels, scatter

    figure, axes = panels(4, size=(4.2, 3.2))
    for ax, (name, found) in zip(axes, outcome.data.items(), strict=True):
        scatter(
            {name: found["points"]},
            xlabel="conformity",
            ylabel="cosine to the mean",
            line=tuple(found["line"]),
            title=f"{name}: slope {found['line'][0]:.3f}, Pearson {found['pearson']:.4f}",
            ax=ax,
        )
        ax.set_xlim(*found["limits"][0])
        ax.set_ylim(*found["limits"][1])
    return figure


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Proposition 1 on made-up shells with the published offsets, and on the digits."""
    n = 5000 if setting.full else 1000
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    for side, offset in OFFSETS.items():
        setting.say(f"made-up shell, {side}", len(data), 4)
        rows = make_shifted_sphere((offset * 512**0.5,), n=n, seed=setting.seed)
        found, fit = estimated_conformity(rows), shell_conformity(rows)
        implied = (1 + offset**-2) ** 0.5
        measured |= {
            f"Pearson, {side}": found.pearson,
            f"slope, {side}": found.slope,
            f"intercept, {side}": found.intercept,
            f"slope by proposition 1 from the published offset, {side}": implied,
            f"A fitted over A predicted, {side}": fit.fitted / fit.predicted,
        }
        checks += [
            check(
                f"{side}: a made-up thin shell with the published offset has a Pearson correlation "
                "of at least the published 0.9998.",
                found.pearson >= 0.9998,
            ),
            check(
                f"{side}: its slope is within 2 % of the published {SLOPES[side]}.",
                abs(found.slope / SLOPES[side] - 1) < 0.02,
            ),
            check(
                f"{side}: C = A·cos with the A of the proof, within 1 %.",
                abs(fit.fitted / fit.predicted - 1) < 0.01,
            ),
        ]
        data[f"made up, {side}"] = _line_data(rows)
    real = digits()
    for side, rows in (("image", real.X), ("text", real.Y)):
        setting.say(f"digits, {side}", len(data), 4)
        found = estimated_conformity(rows)
        measured |= {
            f"Pearson, digits, {side}": found.pearson,
            f"slope, digits, {side}": found.slope,
            f"slope by proposition 1, digits, {side}": 1 / found.predicted,
        }
        checks.append(
            check(
                f"digits, {side}: Pearson correlation above 0.95 on raw rows.",
                found.pearson > 0.95,
            )
        )
        data[f"digits, {side}"] = _line_data(rows)
    return Outcome(measured, tuple(checks), data)


def _line_data(rows: np.ndarray) -> dict[str, object]:
    found = estimated_conformity(rows)
    points = np.column_stack([conformity(rows), found.values])
    return {
        "points": some(points),
        "line": (found.slope, found.intercept),
        "limits": limits({"rows": points}),
        "pearson": found.pearson,
    }


@PAPER.draw("fig10")
def draw_fig10(outcome: Outcome) -> Figure:
    """Conformities of both sides, and their difference in each pair."""
    from modgap.plot import histograms, panels

    figure, axes = panels(4, size=(4.2, 3))
    for k, (name, found) in enumerate(outcome.data.items()):
        both, difference = found["both"], found["difference"]
        histograms(both["edges"], both["counts"], xlabel="conformity", title=name, ax=axes[2 * k])
        histograms(
            difference["edges"],
            difference["counts"],
            xlabel="conformity of the image less that of its text",
            title=name,
            ax=axes[2 * k + 1],
        )
    return figure


@PAPER.run("fig10")
def fig10(setting: Setting) -> Outcome:
    """Fig. 10 on the authors' CLIP rows and on the digits."""
    from scipy.stats import ks_2samp

    real = digits()
    both = {"CLIP": embeddings(setting, "clip"), "digits": (real.X, real.Y)}
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    data = {}
    for name, (X, Y) in both.items():
        image, text = np.asarray(conformity(X)), np.asarray(conformity(Y))
        difference = np.asarray(conformity_difference(X, Y))
        common = [values >= np.quantile(values, 0.75) for values in (image, text)]
        unusual = [values <= np.quantile(values, 0.25) for values in (image, text)]
        crossed = float(np.mean(common[0] & unusual[1])), float(np.mean(unusual[0] & common[1]))
        apart = float(ks_2samp(image, text).pvalue)
        measured |= {
            f"rank correlation in the pairs, {name}": rank_correlation(image, text),
            f"common image with an unusual text, {name}": crossed[0],
            f"unusual image with a common text, {name}": crossed[1],
            f"standard deviation of the difference, {name}": float(difference.std()),
            f"mean conformity of the images, {name}": float(image.mean()),
            f"mean conformity of the texts, {name}": float(text.mean()),
            f"p of one distribution for both (Kolmogorov–Smirnov), {name}": apart,
        }
        checks += [
            check(
                f"{name}: over 1 % of the pairs join the commonest quarter of one side with the "
                "most unusual quarter of the other, both ways.",
                min(crossed) > 0.01,
            ),
            check(f"{name}: the two distributions differ (p below 0.01).", apart < 0.01),
        ]
        data[name] = {
            "both": counted({"image": image, "text": text}),
            "difference": counted({"pairs": difference}),
        }
    return Outcome(measured, tuple(checks), data)


@PAPER.draw("fig14")
def draw_fig14(outcome: Outcome) -> Figure:
    """Norms of both sides, the longest and shortest scans, and the norm against the rarity."""
    from modgap.plot import histograms, image_grid, panels, scatter

    figure, axes = panels(4, size=(4.4, 3.2))
    found = outcome.data["norms"]
    histograms(found["edges"], found["counts"], xlabel="norm of a row", ax=axes[0])
    scatter(
        {"scans": outcome.data["points"]},
        xlabel="how unusual the scan is, by its pixels",
        ylabel="norm of its row",
        ax=axes[1],
    )
    for ax, name in zip(axes[2:], ("longest", "shortest"), strict=True):
        shown = outcome.data[name]
        image_grid(
            shown["images"], shown["captions"], columns=5, title=f"rows of {name} norm", ax=ax
        )
    return figure


@PAPER.run("fig14")
def fig14(setting: Setting) -> Outcome:
    """Norms of the digits' rows before normalisation."""
    rows = digits()
    rare = extremeness(rows.images)
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    found = {}
    for side, A in (("image", rows.X), ("text", rows.Y)):
        values = np.asarray(norms(A).values)
        common = np.asarray(conformity(A))
        long = values >= np.quantile(values, 0.95)
        unusual = rank_correlation(values, rare)
        measured |= {
            f"mean norm, {side}": float(values.mean()),
            f"largest norm, {side}": float(values.max()),
            f"rank correlation with the conformity, {side}": rank_correlation(values, common),
            f"rank correlation with how unusual the scan is, {side}": unusual,
            f"mean conformity of the longest 5 %, {side}": float(common[long].mean()),
            f"mean conformity of all, {side}": float(common.mean()),
        }
        checks += [
            check(
                f"{side}: the longest 5 % of the rows are less common than the average row.",
                common[long].mean() < common.mean() - 2 * common.std() / long.sum() ** 0.5,
            ),
            check(
                f"{side}: the more unusual a scan is by its pixels, the longer its row, beyond "
                "chance.",
                unusual > by_chance(len(A)),
            ),
        ]
        found[side] = values
    order = np.argsort(-found["image"], kind="stable")
    data: dict[str, Any] = {
        "norms": counted(found),
        "points": some(np.column_stack([rare, found["image"]])),
    }
    for name, chosen in (("longest", order[:10]), ("shortest", order[::-1][:10])):
        data[name] = {
            "images": rows.images[chosen],
            "captions": [f"{found['image'][k]:.2f}" for k in chosen],
        }
    note = f"The caption of largest norm: “{rows.captions[int(np.argmax(found['text']))]}”"
    return Outcome(measured, tuple(checks), data, note=note)
