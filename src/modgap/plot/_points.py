"""Groups of points: in the plane, and pairs joined by lines in the plane and on a sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.plot._style import GREY, axes_or_new, colour, finish, marker, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scatter(
    points: Mapping[str, Any] | Sequence[Any],
    *,
    xlabel: str = "",
    ylabel: str = "",
    line: tuple[float, float] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One colour and marker per group of points.

    Parameters
    ----------
    points : mapping of str to (n, 2) array, or sequence of them
        The points of each group; only groups with labels are in the legend.
    xlabel, ylabel : str
        What the two coordinates are; without either, the axes have no ticks.
    line : (slope, intercept), optional
        A line to compare with.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    ax = axes_or_new(ax)
    groups = points if isinstance(points, Mapping) else dict(enumerate(points))
    for k, (label, rows) in enumerate(groups.items()):
        # Many points overlap: the more there are, the smaller and the fainter.
        look = {"s": 6, "alpha": 0.45} if len(rows) > 300 else {"s": 18, "alpha": 0.85}
        _dots(ax, rows, f"points[{label!r}]", k, label=label, **look)
    if line is not None:
        slope, intercept = line
        ax.axline((0.0, intercept), slope=slope, color=GREY, linestyle="--", linewidth=1, zorder=0)
    legend = None
    if isinstance(points, Mapping) and len(points) > 1:
        legend = {"frameon": False, "markerscale": 1.8, "ncols": 1 + len(points) // 9}
    return finish(ax, title, (xlabel, ylabel) if xlabel or ylabel else None, legend)


def projection_pairs(
    x: Any,
    y: Any,
    *,
    names: tuple[str, str],
    lines: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Both modalities as points.

    Parameters
    ----------
    x, y : (n, 2) arrays
        Where the rows of each modality lie.
    names : pair of str
        What the modalities are called.
    lines : bool
        Whether row i of x is joined with row i of y.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    ax = axes_or_new(ax)
    x, y = numbers(x, "x", (None, 2)), numbers(y, "y", (None, 2))
    if lines:
        if len(x) != len(y):
            raise InputValueError(
                f"Lines join row i of x with row i of y, but there are {len(x)} and {len(y)} rows. "
                "Pass lines=False."
            )
        collections = require("matplotlib.collections", "plot", "Drawing")
        segments = np.stack([x, y], axis=1)
        ax.add_collection(
            collections.LineCollection(segments, colors=GREY, linewidths=0.4, alpha=0.35, zorder=1)
        )
    for k, (points, name) in enumerate(zip((x, y), names, strict=True)):
        _dots(ax, points, name, k, s=9, alpha=0.8, label=name, zorder=2)
    return finish(ax, title, legend={"frameon": False, "markerscale": 1.8})


def _dots(ax: Axes, points: Any, name: str, k: int, **look: Any) -> None:
    points = numbers(points, name, (None, 2))
    ax.scatter(*points.T, color=colour(k), marker=marker(k), linewidths=0, **look)


def sphere(
    points_x: Any,
    points_y: Any,
    *,
    names: tuple[str, str] = ("image", "text"),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Both modalities on a wire sphere, row i joined with row i.

    Parameters
    ----------
    points_x, points_y : (n, 3) arrays
        Where the rows of each modality lie.
    names : pair of str
        What the modalities are called.
    title, ax
        Words above the drawing; 3-D axes to draw into, a new figure when left out.
    """
    x, y = numbers(points_x, "points_x", (None, 3)), numbers(points_y, "points_y", (None, 3))
    if len(x) != len(y):
        raise InputValueError(
            f"points_x and points_y must hold the same pairs, got {len(x)} and {len(y)} rows."
        )
    space: Any = axes_or_new(ax, (4, 4), projection="3d")
    if space.name != "3d":
        raise InputValueError(
            'sphere needs 3-D axes: figure.add_subplot(projection="3d"), or panels(n, solid=(0,)).'
        )
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
    return finish(space, title, legend={"frameon": False, "loc": "upper left"})
