"""Figures 1, 5, 6 and 7 of Yaras et al. 2024, which show trained CLIP models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap.reproduce.entry import Check, Outcome, Setting
from modgap.reproduce.yaras2024.descents import FAST, FULL, ON_DESCENTS, SEGMENTS
from modgap.reproduce.yaras2024.published import (
    BASELINE,
    COLUMNS,
    GAP,
    IMAGE,
    PAPER,
    PROBE,
    TABLE2,
    TABLE3,
    TABLE4,
    TABLE5,
    TEXT,
    UNIFORMITY,
    ZERO_SHOT,
    Row,
    trained,
)
from modgap.reproduce.yaras2024.tables import STRONG, rank_correlation, temperature_control

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Tables 3, 4 and 5 repeat the baseline and, under these names, table 2's FLT, TS and TR.
_REPEATED = (BASELINE, "0.04", "S3", "softplus")
_MORE: dict[str, Row] = {
    name: row for name, row in {**TABLE3, **TABLE4, **TABLE5}.items() if name not in _REPEATED
}
_EVERY = {**TABLE2, **_MORE}
_PRINTED = "the values printed in tables 2 to 5, since the models are not published"


def draw_fig1(outcome: Outcome) -> Figure:
    """Both modalities along their first two principal directions."""
    from modgap.plot import panels, projection_pairs

    figure, axes = panels(len(outcome.data), size=(4.4, 3.6))
    for ax, (title, pair) in zip(axes, outcome.data.items(), strict=True):
        projection_pairs(pair["x"], pair["y"], names=("image", "text"), title=title, ax=ax)
    return figure


@PAPER.entry(
    "fig1",
    "Images and texts of CLIP along two principal directions",
    "A gap between images and texts is still there after long training, and one that is small at "
    "the start is enlarged by training.",
    "embeddings",
    how=trained(
        "from the usual start and from one whose gap was made small",
        "the gap before and after, and a projection of both",
    ),
    fast="CLIP ViT-B/16 on 500 pairs of MS-COCO, after its training and with random weights",
    full="the same",
    draw=draw_fig1,
)
def run_fig1(setting: Setting) -> Outcome:
    """The gap of a CLIP model after its long training, and at random weights."""
    from modgap.measure import gap_distance, linear_separability
    from modgap.measure.projection import projection

    measured: dict[str, float] = {}
    data = {}
    for title, system in (("after training", "clip"), ("random weights", "clip_random")):
        X, Y = setting.arrays(system)
        shown = projection(X, Y, "pca")
        told = linear_separability(X, Y, seed=setting.seed).all_features
        measured[f"gap {title}"] = gap_distance(X, Y)
        measured[f"linear classifier {title}"] = told
        # Only where the first direction is the one between the modalities do the clouds part.
        ends = sorted((shown.x[:, 0], shown.y[:, 0]), key=np.mean)
        measured[f"room between the clouds {title}"] = float(ends[1].min() - ends[0].max())
        data[title] = {"x": shown.x, "y": shown.y}
    checks = (
        Check("after training the means lie at least 0.5 apart",
              measured["gap after training"] > 0.5),
        Check(
            "after training a linear classifier tells the modalities apart without a mistake",
            measured["linear classifier after training"] == 1.0,
        ),
        Check(
            "after training the two clouds do not touch along the first principal direction",
            measured["room between the clouds after training"] > 0,
        ),
    )  # fmt: skip
    return Outcome(
        measured,
        checks,
        data,
        on="the embeddings of Liang et al. 2022, CLIP ViT-B/16 by OpenAI on 500 pairs of MS-COCO, "
        "where the paper trains its own RN50; part (b) is not shown",
        note="Part (b), a small gap that training enlarges, needs networks: free embeddings that "
        "start with a small gap keep or close it.",
    )


def draw_fig5(outcome: Outcome) -> Figure:
    """Printed gaps and uniformities, the temperature over training, the gap over training."""
    from modgap.plot import bars, curves, panels, scatter

    data = outcome.data
    figure, axes = panels(4, size=(4.3, 3.3))
    scatter(data["printed"], xlabel=GAP, ylabel=UNIFORMITY, title="a  as printed", ax=axes[0])
    for ax, name, title in (
        (axes[1], "temperature", "b  control of the temperature"),
        (axes[2], "gap", "its effect on the gap"),
    ):
        curves(data["share"], data[name], xlabel="share of the training", ylabel=name,
               title=title, ax=ax)  # fmt: skip
    bars(data["swaps"], ylabel="gap", title="c  swapping of modalities", ax=axes[3])
    return figure


@PAPER.entry(
    "fig5",
    "The methods: control of the temperature, swapping of modalities",
    "Keeping the temperature high during training and swapping parts of the two modalities both "
    "reduce the gap.",
    "model",
    published={f"gap, {name}": row[COLUMNS.index(GAP)] for name, row in TABLE2.items()},
    how=trained("with each of the six methods and without"),
    fast=FAST,
    full=FULL,
    draw=draw_fig5,
)
def run_fig5(setting: Setting) -> Outcome:
    """Temperatures and gaps of the methods in free embeddings, and what a swap does."""
    from modgap.measure import gap_distance
    from modgap.reproduce.yaras2024.descents import hard_swap, soft_swap, start

    found = temperature_control(setting)
    gap = {name: values for name, (values, _) in found.items()}
    temperature = {name: values for name, (_, values) in found.items()}
    (X, Y), _ = start(setting)
    rng = np.random.default_rng(setting.seed)
    swaps = {
        "before": gap_distance(X, Y),
        "hard swap": gap_distance(*hard_swap(X, Y, rng.random(X.shape) < 0.5)),
        "soft swap": gap_distance(*soft_swap(X, Y, rng.random(X.shape))),
    }
    controlled = [name for name in gap if name != BASELINE]
    checks = (
        Check(
            "every method ends at a higher temperature than a learned one",
            all(temperature[name][-1] > temperature[BASELINE][-1] for name in controlled),
        ),
        Check(
            "every method ends with a smaller gap",
            all(gap[name][-1] < gap[BASELINE][-1] for name in controlled),
        ),
        Check(
            "a swap of entries leaves less than a quarter of the gap",
            max(swaps["hard swap"], swaps["soft swap"]) < swaps["before"] / 4,
        ),
    )
    printed = {
        name: np.array([(row[COLUMNS.index(GAP)], row[COLUMNS.index(UNIFORMITY)])])
        for name, row in TABLE2.items()
    }
    return Outcome(
        measured={
            **{f"gap, {name}": float(values[-1]) for name, values in gap.items()},
            **{f"temperature, {name}": float(v[-1]) for name, v in temperature.items()},
            **{f"gap of the features, {name}": value for name, value in swaps.items()},
        },
        checks=checks,
        data={
            "printed": printed,
            "share": (np.arange(SEGMENTS) + 1) / SEGMENTS,
            "temperature": temperature,
            "gap": gap,
            "swaps": swaps,
        },
        on=ON_DESCENTS,
        note="A sketch of the methods in the paper; the gaps are those of its table 2.",
    )


def draw_correlations(outcome: Outcome) -> Figure:
    """Each score against the gap and against the uniformity."""
    from modgap.plot import panels, scatter

    figure, axes = panels(4, size=(4.2, 3.2))
    for ax, (score, against) in zip(axes, outcome.data["panels"], strict=True):
        points = outcome.data["points"][f"{score} by {against}"]
        scatter(points, xlabel=against, ylabel=f"{score}, %", ax=ax)
    return figure


def _correlations(scores: tuple[str, str]) -> tuple[dict[str, float], dict[str, object]]:
    """Rank correlations over table 2 and over every printed row, and the points."""
    pairs = [(score, against) for against in (GAP, UNIFORMITY) for score in scores]
    found, points = {}, {}
    for score, against in pairs:
        found[f"{score} with {against}, table 2"] = rank_correlation(TABLE2, against, score)
        found[f"{score} with {against}, every row"] = rank_correlation(_EVERY, against, score)
        x, y = COLUMNS.index(against), COLUMNS.index(score)
        groups = {"table 2": TABLE2, "tables 3 to 5": _MORE}
        points[f"{score} by {against}"] = {
            name: np.array([(row[x], row[y]) for row in rows.values()])
            for name, rows in groups.items()
        }
    return found, {"panels": pairs, "points": points}


@PAPER.entry(
    "fig6",
    "Retrieval against gap and uniformity",
    "Across the methods a smaller gap goes with better retrieval, while uniformity does not go "
    "strongly with it.",
    "model",
    how=trained("with every variant of the methods", "retrieval, gap and uniformity of each"),
    fast=f"rank correlations of the {len(_EVERY)} printed settings",
    full="the same",
    draw=draw_correlations,
)
def run_fig6(setting: Setting) -> Outcome:
    """Rank correlations among the printed rows."""
    found, data = _correlations((IMAGE, TEXT))
    checks = tuple(
        check
        for rows, where in (("table 2", "the methods of table 2"), ("every row", _every_words()))
        for check in (
            Check(
                f"on {where} retrieval falls strongly with the gap (at most −{STRONG})",
                max(found[f"{score} with {GAP}, {rows}"] for score in (IMAGE, TEXT)) <= -STRONG,
            ),
            Check(
                f"on {where} it goes less than strongly with uniformity",
                max(abs(found[f"{score} with {UNIFORMITY}, {rows}"]) for score in (IMAGE, TEXT))
                < STRONG,
            ),
        )
    )
    return Outcome(
        found,
        checks,
        data,
        on=_PRINTED,
        note="It holds on the seven settings of table 2. Over all printed ones retrieval rises "
        "with the gap: fixed temperatures from 0.2 close it below 0.01 and retrieve 7 to 24 %. "
        "The paper does not say which settings its figure shows.",
    )


@PAPER.entry(
    "fig7",
    "Zero-shot and linear-probe accuracy against gap and uniformity",
    "Zero-shot and linear-probe accuracy do not go strongly with the gap but clearly with the "
    "uniformity.",
    "model",
    how=trained("with every variant of the methods", "accuracies on CIFAR-10, gap, uniformity"),
    fast=f"rank correlations of the {len(_EVERY)} printed settings",
    full="the same",
    draw=draw_correlations,
)  # fmt: skip
def run_fig7(setting: Setting) -> Outcome:
    """Rank correlations among the printed rows."""
    scores = (ZERO_SHOT, PROBE)
    found, data = _correlations(scores)
    checks = tuple(
        check
        for rows, where in (("table 2", "the methods of table 2"), ("every row", _every_words()))
        for check in (
            Check(
                f"on {where} neither accuracy goes strongly with the gap",
                max(abs(found[f"{score} with {GAP}, {rows}"]) for score in scores) < STRONG,
            ),
            Check(
                f"on {where} both go strongly with uniformity (at least {STRONG})",
                min(found[f"{score} with {UNIFORMITY}, {rows}"] for score in scores) >= STRONG,
            ),
        )
    )
    return Outcome(
        found,
        checks,
        data,
        on=_PRINTED,
        note="Over all printed settings both accuracies rise with the gap about as strongly as "
        "with the uniformity; the settings that close it furthest have the lowest linear-probe "
        "accuracy.",
    )


def _every_words() -> str:
    return f"all {len(_EVERY)} settings of tables 2 to 5"
