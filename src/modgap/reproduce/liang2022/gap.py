"""The gap itself, with trained and with random weights (figs 1 and 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.measures.gap import gap_distance, linear_separability
from modgap.measures.projection import ProjectionMethod, projection, umap_is_installed
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting

# File, what to call it, and its two modalities.
_SYSTEMS = (
    ("clip", "CLIP, trained", ("image", "text")),
    ("videoclip", "VideoCLIP, trained", ("video", "text")),
    ("clip_random", "CLIP, random weights", ("image", "text")),
    ("videoclip_random", "VideoCLIP, random weights", ("video", "text")),
)


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """UMAP of the four files, with what the picture is meant to show as numbers."""
    return _systems(setting, "umap" if umap_is_installed() else "pca")


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """The two leading singular directions of both modalities together."""
    return _systems(setting, "svd")


def _systems(setting: Setting, method: ProjectionMethod) -> Outcome:
    """How far apart the modalities of each file are, in its space and in the plane."""
    measured: dict[str, Number] = {"systems": len(_SYSTEMS) // 2}
    checks: list[Check] = []
    panels: list[dict[str, Any]] = []
    for k, (file, label, names) in enumerate(_SYSTEMS):
        setting.say(label, k, len(_SYSTEMS))
        X, Y = setting.arrays(file)
        shown = projection(X, Y, method, seed=setting.seed)
        gap = gap_distance(X, Y)
        apart = linear_separability(X, Y, seed=setting.seed).all_features
        radius = max(float(np.sqrt(A.var(axis=0, dtype=np.float64).sum())) for A in (X, Y))
        nearest = _own_neighbours(shown.x, shown.y)
        measured |= {
            f"dimension, {label}": X.shape[1],
            f"gap, {label}": gap,
            f"told apart, {label}": apart,
            f"nearest in the plane of own modality, {label}": nearest,
        }
        checks += [
            check(f"{label}: a linear classifier tells unseen rows apart (≥ 0.99).", apart >= 0.99),
            check(f"{label}: the gap exceeds the radius of either modality.", gap > radius),
            check(f"{label}: in the plane, neighbours share a modality (≥ 0.99).", nearest >= 0.99),
        ]
        panels.append({"title": label, "names": names, "x": shown.x, "y": shown.y})
    data = {"method": method, "shown_by": method.upper(), "panels": panels}
    return Outcome(measured, checks, data)


def _own_neighbours(x: np.ndarray, y: np.ndarray) -> float:
    """Share of points of a plane whose nearest other point is of their own modality."""
    points = np.concatenate([x, y])
    side = np.repeat([0, 1], [len(x), len(y)])
    squares = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    np.fill_diagonal(squares, np.inf)
    return float(np.mean(side[np.argmin(squares, axis=1)] == side))
