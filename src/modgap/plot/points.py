"""Groups of points in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modgap.plot._style import GREY, axes_or_new, colour, marker, numbers, plain_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scatter(
    points: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    line: tuple[float, float] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One colour and marker per label; ``line`` is (slope, intercept) of a line to compare with."""
    ax = axes_or_new(ax)
    for k, (label, rows) in enumerate(points.items()):
        rows = numbers(rows, f"points[{label!r}]", (None, 2))
        # Many points overlap: the more there are, the smaller and the fainter.
        many = len(rows) > 300
        ax.scatter(
            rows[:, 0],
            rows[:, 1],
            s=6 if many else 18,
            alpha=0.45 if many else 0.85,
            color=colour(k),
            marker=marker(k),
            linewidths=0,
            label=label,
        )
    if line is not None:
        slope, intercept = line
        ax.axline((0.0, intercept), slope=slope, color=GREY, linestyle="--", linewidth=1, zorder=0)
    plain_frame(ax, xlabel, ylabel)
    ax.set_title(title, fontsize=10)
    if len(points) > 1:
        ax.legend(frameon=False, fontsize=8)
    return ax
