"""Every initialisation has a cone of its own (figs 5, 7, 13 and 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap._arrays import unit
from modgap.measures.gap import gap_distance, linear_separability
from modgap.measures.projection import projection, umap_is_installed
from modgap.plot import cones, panels, projection_pairs
from modgap.reproduce.entry import Check, Number, Outcome, Setting
from modgap.reproduce.liang2022._networks import (
    NETWORKS,
    in_plane,
    initialised_rows,
    one_thread,
    preset_of,
)
from modgap.reproduce.liang2022._paper import PAPER
from modgap.simulate.cone_initialisations import (
    ConeComparison,
    ConeData,
    compare_cones,
    trained_rows,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INITIALISATIONS = 25
_SIZE = {
    False: "small networks of the three kinds with 64 dimensions, 25 initialisations, 40 inputs",
    True: "networks of the three kinds with 256 dimensions, 25 initialisations, 200 inputs",
}


def cone_values(label: str, found: ConeComparison) -> dict[str, Number]:
    """The figures of a comparison under a label."""
    return {
        f"mean cosine, {label}": float(found.mean_cosine.mean()),
        f"distance over width of two cones, {label}": found.separation,
        f"nearest centre is the own one, {label}": found.told_apart,
        f"nearest row has the same weights, {label}": found.neighbours,
    }


def cone_checks(label: str, found: ConeComparison) -> list[Check]:
    """What "a cone of its own" means in numbers."""
    return [
        Check(
            f"{label}: rows are nearest to rows of their own initialisation (≥ 0.99).",
            found.neighbours >= 0.99,
        ),
        Check(
            f"{label}: rows are nearest to the centre of their own initialisation (≥ 0.99).",
            found.told_apart >= 0.99,
        ),
        Check(
            f"{label}: two cones are on average farther apart than they are wide.",
            found.separation > 1,
        ),
    ]


def _many(setting: Setting, data: ConeData, method: str, on: str) -> Outcome:
    measured: dict[str, Number] = {"initialisations": INITIALISATIONS}
    checks: list[Check] = []
    drawn: list[dict[str, Any]] = []
    for kind, label in NETWORKS:
        rows = initialised_rows(setting, kind, data, INITIALISATIONS, 200 if setting.full else 40)
        found = compare_cones(rows)
        measured |= cone_values(label, found)
        checks += cone_checks(label, found)
        drawn.append({"title": label, "groups": in_plane(rows, method, setting.seed)})
    return Outcome(measured, tuple(checks), {"method": method, "panels": drawn}, on=on)


def draw_cones(outcome: Outcome) -> Figure:
    """One panel of cones per network."""
    drawn = outcome.data["panels"]
    figure, axes = panels(len(drawn), columns=3, size=(3.6, 3.2))
    for ax, panel in zip(axes, drawn, strict=True):
        title = f"{panel['title']} ({outcome.data['method'].upper()})"
        cones(panel["groups"], title=title, ax=ax)
    return figure


@PAPER.entry(
    "fig5",
    "Cones of random networks on noise",
    "Networks with random weights give every initialisation a cone of its own even on noise.",
    published={
        "initialisations": 25,
        "mean cosine, ResNet": 0.9993,
        "mean cosine, image transformer": 0.9366,
        "mean cosine, text transformer": 0.4112,
    },
    fast=_SIZE[False] + " of noise; PCA",
    full=_SIZE[True] + " of noise; UMAP where umap-learn is installed",
    draw=draw_cones,
)
def fig5(setting: Setting) -> Outcome:
    """Noise through three kinds of network, 25 times."""
    method = "umap" if setting.full and umap_is_installed() else "pca"
    on = "small networks of the same kinds instead of ResNet-18 and CLIP's transformers"
    return _many(setting, "noise", method, on)


@PAPER.entry(
    "fig7",
    "Cones of random networks on real data, by PCA",
    "A linear picture shows every initialisation in a cone of its own on real inputs too.",
    "digits",
    published={
        "initialisations": 25,
        "mean cosine, ResNet": 0.9932,
        "mean cosine, image transformer": 0.7172,
        "mean cosine, text transformer": 0.6721,
    },
    fast=_SIZE[False] + ": scanned digits and their captions",
    full=_SIZE[True] + ": scanned digits and their captions",
    draw=draw_cones,
)
def fig7(setting: Setting) -> Outcome:
    """Digits and captions through three kinds of network, 25 times."""
    on = "scanned digits with their captions, and small networks, instead of MS-COCO"
    return _many(setting, "digits", "pca", on)


@PAPER.entry(
    "fig13",
    "Cones of trained networks",
    "Networks that differ only in their initial weights keep cones of their own once trained.",
    "digits",
    published={"models": 11},
    fast="five small ResNets trained for 5 epochs on 500 scanned digits",
    full="eleven ResNets trained for 20 epochs on all 1,797 scanned digits",
    draw=draw_cones,
    slips=("The caption speaks of 25 models and then of 11.",),
)
def fig13(setting: Setting) -> Outcome:
    """ResNets trained to tell digits apart, with the same batches from different weights."""
    models, n, epochs = (11, 1797, 20) if setting.full else (5, 500, 5)
    with one_thread():
        rows, accuracies = trained_rows(
            "resnet", models, n, epochs, seed=setting.seed, progress=setting.say
        )
    found = compare_cones(rows)
    measured: dict[str, Number] = {
        "models": models,
        "accuracy, least": float(accuracies.min()),
        **cone_values("trained ResNet", found),
        "share of variance between models": found.between,
    }
    method = "umap" if setting.full and umap_is_installed() else "pca"
    groups = in_plane(rows, method, setting.seed)
    data = {"method": method, "panels": [{"title": "trained ResNets", "groups": groups}]}
    return Outcome(
        measured,
        tuple(cone_checks("trained ResNet", found)),
        data,
        on="scanned digits and small ResNets instead of ImageNet and ResNet-18",
        note="Rows of one network stay neighbours, which is what UMAP draws, but the centres of "
        "the networks all but coincide: distinct sets of rows, not distinct cones.",
    )


def _draw_fig15(outcome: Outcome) -> Figure:
    figure, axes = panels(2, size=(4.2, 3.4))
    for ax, panel in zip(axes, outcome.data["panels"], strict=True):
        projection_pairs(
            panel["x"], panel["y"], names=("image", "text"), title=panel["title"], ax=ax
        )
    return figure


@PAPER.entry(
    "fig15",
    "The gap without any normalisation",
    "The gap is still there when input normalisation and all normalisation layers are removed.",
    "digits",
    fast="a small image and a small text transformer, five initialisations, 100 scanned digits",
    full="transformers with 256 dimensions, five initialisations, 200 scanned digits",
    draw=_draw_fig15,
)
def fig15(setting: Setting) -> Outcome:
    """Two towers on paired digits and captions, with and without their normalisation."""
    n, initialisations = 200 if setting.full else 100, 5
    measured: dict[str, Number] = {"dimension": 256 if preset_of(setting) == "small" else 64}
    checks: list[Check] = []
    drawn: list[dict[str, Any]] = []
    for normalisation, label in ((True, "with normalisation"), (False, "without")):
        pairs = list(
            zip(
                *(
                    initialised_rows(setting, kind, "digits", initialisations, n, normalisation)
                    for kind in ("vit", "transformer")
                ),
                strict=True,
            )
        )
        units = [(unit(X), unit(Y)) for X, Y in pairs]
        gaps = [gap_distance(X, Y) for X, Y in units]
        apart = [linear_separability(X, Y, seed=setting.seed).all_features for X, Y in units]
        measured[f"gap, mean, {label}"] = float(np.mean(gaps))
        measured[f"gap, least, {label}"] = float(np.min(gaps))
        measured[f"told apart, least, {label}"] = float(np.min(apart))
        checks += [
            Check(f"{label.capitalize()}: every gap is above 0.5.", min(gaps) > 0.5),
            Check(
                f"{label.capitalize()}: a linear classifier tells unseen rows apart (≥ 0.99).",
                min(apart) >= 0.99,
            ),
        ]
        seen = projection(*units[0], "pca")
        drawn.append({"title": f"{label} (PCA)", "x": seen.x, "y": seen.y})
    return Outcome(
        measured,
        tuple(checks),
        {"panels": drawn},
        on="small transformers with random weights on scanned digits instead of trained CLIP",
    )
