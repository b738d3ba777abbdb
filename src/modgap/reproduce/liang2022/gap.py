"""The gap itself, with trained and with random weights (figs 1 and 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.measures.gap import gap_distance, linear_separability
from modgap.measures.projection import ProjectionMethod, projection, umap_is_installed
from modgap.plot import panels, projection_pairs
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# File, what to call it, and its two modalities.
SYSTEMS = (
    ("clip", "CLIP, trained", ("image", "text")),
    ("videoclip", "VideoCLIP, trained", ("video", "text")),
    ("clip_random", "CLIP, random weights", ("image", "text")),
    ("videoclip_random", "VideoCLIP, random weights", ("video", "text")),
)
_ABSENT = (
    "ConVIRT and CLASP are not among the published files, so two of the four systems are not "
    "checked."
)


def plane_neighbours(x: np.ndarray, y: np.ndarray) -> float:
    """Share of points of a drawing whose nearest other point is of their own modality."""
    points = np.concatenate([x, y])
    side = np.repeat([0, 1], [len(x), len(y)])
    squares = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    np.fill_diagonal(squares, np.inf)
    return float(np.mean(side[np.argmin(squares, axis=1)] == side))


def _look(setting: Setting, method: ProjectionMethod) -> Outcome:
    measured: dict[str, Number] = {"systems": len(SYSTEMS) // 2}
    checks: list[Check] = []
    drawn: list[dict[str, Any]] = []
    for k, (file, label, names) in enumerate(SYSTEMS):
        setting.say(label, k, len(SYSTEMS))
        X, Y = setting.arrays(file)
        seen = projection(X, Y, method, seed=setting.seed)
        gap = gap_distance(X, Y)
        apart = linear_separability(X, Y, seed=setting.seed).all_features
        radius = max(float(np.sqrt(A.var(axis=0, dtype=np.float64).sum())) for A in (X, Y))
        nearest = plane_neighbours(seen.x, seen.y)
        measured[f"dimension, {label}"] = int(X.shape[1])
        measured[f"gap, {label}"] = gap
        measured[f"told apart, {label}"] = apart
        measured[f"nearest in the plane of own modality, {label}"] = nearest
        checks += [
            Check(f"{label}: a linear classifier tells unseen rows apart (≥ 0.99).", apart >= 0.99),
            Check(f"{label}: the gap exceeds the radius of either modality.", gap > radius),
            Check(f"{label}: in the plane, neighbours share a modality (≥ 0.99).", nearest >= 0.99),
        ]
        drawn.append({"title": label, "names": names, "x": seen.x, "y": seen.y})
    return Outcome(measured, tuple(checks), {"method": method, "panels": drawn}, note=_ABSENT)


@PAPER.draw("fig1", "fig4")
def _draw(outcome: Outcome) -> Figure:
    drawn = outcome.data["panels"]
    figure, axes = panels(len(drawn))
    for ax, panel in zip(axes, drawn, strict=True):
        title = f"{panel['title']} ({outcome.data['method'].upper()})"
        projection_pairs(panel["x"], panel["y"], names=panel["names"], title=title, ax=ax)
    return figure


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """UMAP of the four files, with what the picture is meant to show as numbers."""
    return _look(setting, "umap" if umap_is_installed() else "pca")


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """The two leading singular directions of both modalities together."""
    return _look(setting, "svd")
