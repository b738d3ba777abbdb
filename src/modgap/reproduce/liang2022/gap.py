"""The gap itself, with trained and with random weights (figs 1 and 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.arrays import unit
from modgap.measures.gap import gap_distance, linear_separability
from modgap.measures.projection import ProjectionMethod, projection, umap_is_installed
from modgap.reproduce.checks import read_as
from modgap.reproduce.entry import Check, Evidence, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.row_statistics import gap_over_radius, on_words, row_interval
from modgap.reproduce.setting import YOUR_ROWS, Setting
from modgap.reproduce.sources import judged, pairs, systems

# What the first modality of a system is, where it is no image.
_FIRST = {"VideoCLIP": "video", "CLASP": "protein"}
# UMAP of more pairs takes seconds.
_PAIRS_BY_UMAP = 150


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """UMAP of the files, with what the picture is meant to show as numbers."""
    return _systems(setting, "umap" if umap_is_installed() else "pca", "own settings")


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """The two leading singular directions of both modalities together."""
    return _systems(setting, "svd", "as printed")


def _systems(setting: Setting, method: ProjectionMethod, evidence: Evidence) -> Outcome:
    """How far apart the modalities of each file are, in its space and in the plane."""
    authors = systems(setting)
    sources = authors or judged(pairs(setting))
    labelled = [
        (each.name if "random" in each.name else f"{each.name}, trained", each.X, each.Y)
        for each in sources
    ]
    if (model := setting.model) is not None and (rows := model.random_pairs(setting.seed)):
        labelled.append((f"{YOUR_ROWS}, random weights", *rows))
    measured: dict[str, Number] = {"systems": sum("random" not in each.name for each in sources)}
    checks: list[Check] = []
    panels: list[dict[str, Any]] = []
    for k, (label, *both) in enumerate(labelled):
        setting.say(label, k, len(labelled))
        X, Y = map(unit, both)
        some = slice(None if setting.full or method != "umap" else _PAIRS_BY_UMAP)
        shown = projection(X[some], Y[some], method, seed=setting.seed)
        apart = linear_separability(X, Y, seed=setting.seed).all_features
        wide = row_interval(len(X), gap_over_radius(X, Y), setting.seed)
        nearest = _own_neighbours(shown.x, shown.y)
        measured |= {
            f"dimension, {label}": X.shape[1],
            f"gap, {label}": gap_distance(X, Y),
            f"gap over radius, {label}": wide.value,
            f"told apart, {label}": apart,
            f"nearest in the plane of own modality, {label}": nearest,
        }
        checks += [
            *read_as("in their space", [PAPER.check("told_apart", apart == 1, label=label)]),
            *read_as("in the picture", [PAPER.check("apart_in_plane", nearest == 1, label=label)]),
        ]
        names = (_FIRST.get(label.partition(",")[0], "image"), "text")
        panels.append({"title": label, "names": names, "x": shown.x, "y": shown.y})
    data = {"method": method, "shown_by": method.upper(), "panels": panels}
    if authors:
        return Outcome(measured, checks, data, evidence=evidence)
    return Outcome(measured, checks, data, on=on_words(sources[0], ""), evidence="other data")


def _own_neighbours(x: np.ndarray, y: np.ndarray) -> float:
    """Share of points of a plane whose nearest other point is of their own modality."""
    points = np.concatenate([x, y])
    side = np.repeat([0, 1], [len(x), len(y)])
    squares = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    np.fill_diagonal(squares, np.inf)
    return float(np.mean(side[np.argmin(squares, axis=1)] == side))
