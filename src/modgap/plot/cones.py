"""Many groups of points in the plane, each its own cone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modgap.plot._style import axes_or_new, colour, marker, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def cones(
    groups: Sequence[Any],
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One colour and marker per group of (n, 2) points; a legend only where labels are given."""
    ax = axes_or_new(ax)
    for k, points in enumerate(groups):
        points = numbers(points, f"groups[{k}]", (None, 2))
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=10,
            color=colour(k),
            marker=marker(k),
            linewidths=0,
            alpha=0.75,
            label=None if labels is None else labels[k],
        )
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(title, fontsize=10)
    if labels is not None:
        ax.legend(frameon=False, fontsize=8, ncols=1 + len(labels) // 9)
    return ax
