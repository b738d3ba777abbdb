"""Pairs on the unit sphere, in three dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap._validate import InputValueError, require
from modgap.plot._style import GREY, colour, marker, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def sphere(
    points_x: Any,
    points_y: Any,
    *,
    names: tuple[str, str] = ("image", "text"),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Both modalities on a wire sphere, row i joined with row i; ``ax`` must be 3-D axes."""
    x, y = numbers(points_x, "points_x", (None, 3)), numbers(points_y, "points_y", (None, 3))
    if len(x) != len(y):
        raise InputValueError(
            f"points_x and points_y must hold the same pairs, got {len(x)} and {len(y)} rows."
        )
    space: Any = _three_dimensional(ax)
    turn, tilt = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
    wires = np.cos(turn) * np.sin(tilt), np.sin(turn) * np.sin(tilt), np.cos(tilt)
    space.plot_wireframe(*wires, color=GREY, linewidth=0.3, alpha=0.4)
    for a, b in zip(x, y, strict=True):
        space.plot(*zip(a, b, strict=True), color=GREY, linewidth=0.9)
    for k, (points, name) in enumerate(zip((x, y), names, strict=True)):
        space.scatter(
            *points.T, color=colour(k), marker=marker(k), s=26, label=name, depthshade=False
        )
    space.set_box_aspect((1, 1, 1), zoom=1.45)
    space.set_axis_off()
    space.view_init(elev=25, azim=35)
    space.set_title(title, fontsize=10)
    space.legend(frameon=False, fontsize=8, loc="upper left")
    drawn: Axes = space
    return drawn


def _three_dimensional(ax: Axes | None) -> Any:
    if ax is None:
        pyplot = require("matplotlib.pyplot", "plot", "Drawing")
        return pyplot.figure(figsize=(4, 4), layout="constrained").add_subplot(projection="3d")
    if ax.name != "3d":
        raise InputValueError(
            'sphere needs 3-D axes: figure.add_subplot(projection="3d"), or panels(n, solid=(0,)).'
        )
    return ax
