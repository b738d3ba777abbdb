"""Two modalities in the plane, each pair joined by a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modgap._validate import InputValueError, require
from modgap.plot._style import GREY, axes_or_new, colour, marker, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def projection_pairs(
    x: Any,
    y: Any,
    *,
    names: tuple[str, str],
    lines: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Both modalities as points; with ``lines`` row i of x is joined with row i of y."""
    ax = axes_or_new(ax)
    x, y = numbers(x, "x", (None, 2)), numbers(y, "y", (None, 2))
    if lines:
        if len(x) != len(y):
            raise InputValueError(
                f"Lines join row i of x with row i of y, but there are {len(x)} and {len(y)} rows. "
                "Pass lines=False."
            )
        collections = require("matplotlib.collections", "plot", "Drawing")
        segments = [[a, b] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        ax.add_collection(
            collections.LineCollection(segments, colors=GREY, linewidths=0.4, alpha=0.35, zorder=1)
        )
    for k, (points, name) in enumerate(zip((x, y), names, strict=True)):
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=9,
            color=colour(k),
            marker=marker(k),
            linewidths=0,
            alpha=0.8,
            label=name,
            zorder=2,
        )
    # Coordinates of a projection have no unit worth reading.
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(title, fontsize=10)
    ax.legend(frameon=False, fontsize=8, markerscale=1.8)
    return ax
