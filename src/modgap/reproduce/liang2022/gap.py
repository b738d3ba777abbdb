"""The gap itself, with trained and with random weights (figs 1 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from modgap.arrays import unit
from modgap.measures.gap import gap_distance, linear_separability
from modgap.measures.projection import ProjectionMethod, projection, umap_is_installed
from modgap.reproduce.entry import Check, Evidence, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.row_statistics import gap_over_radius, on_words, row_interval
from modgap.reproduce.setting import YOUR_ROWS, NotAtHand, Setting
from modgap.reproduce.sources import Pairs, judged, pairs

_AUTHORS = ("CLIP", "VideoCLIP")
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
    sources = judged(pairs(setting), _AUTHORS)
    systems = list(_unit_rows(setting, sources))
    measured: dict[str, Number] = {"systems": len(sources)}
    checks: list[Check] = []
    panels: list[dict[str, Any]] = []
    for k, (label, X, Y) in enumerate(systems):
        setting.say(label, k, len(systems))
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
            PAPER.above("gap_exceeds_radius", wide, 1.0, label=label),
            PAPER.check("told_apart", apart == 1, label=label),
            PAPER.check("apart_in_plane", nearest == 1, label=label),
        ]
        names = ("video" if label.startswith("VideoCLIP") else "image", "text")
        panels.append({"title": label, "names": names, "x": shown.x, "y": shown.y})
    data = {"method": method, "shown_by": method.upper(), "panels": panels}
    if sources[0].name in _AUTHORS:
        return Outcome(measured, checks, data, evidence=evidence)
    return Outcome(measured, checks, data, on=on_words(sources[0], ""), evidence="other data")


def _unit_rows(
    setting: Setting, sources: Sequence[Pairs]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Rows by the name of their system: trained, then with random weights where they are there."""
    for each in sources:
        yield f"{each.name}, trained", unit(each.X), unit(each.Y)
    for name in (each.name for each in sources if each.name in _AUTHORS):
        try:
            X, Y = setting.arrays(f"{name.lower()}_random")
        except NotAtHand:
            continue
        yield f"{name}, random weights", unit(X), unit(Y)
    if (model := setting.model) is not None and (rows := model.random_pairs(setting.seed)):
        yield f"{YOUR_ROWS}, random weights", unit(rows[0]), unit(rows[1])


def _own_neighbours(x: np.ndarray, y: np.ndarray) -> float:
    """Share of points of a plane whose nearest other point is of their own modality."""
    points = np.concatenate([x, y])
    side = np.repeat([0, 1], [len(x), len(y)])
    squares = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    np.fill_diagonal(squares, np.inf)
    return float(np.mean(side[np.argmin(squares, axis=1)] == side))
