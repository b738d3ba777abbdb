"""Values with their intervals, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modgap.plot._style import GREY, axes_or_new, colour, plain_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def intervals(
    rows: Sequence[tuple[str, float, float, float]],
    *,
    xlabel: str,
    reference: float | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A point and a line from low to high per (label, value, low, high), the first at the top."""
    ax = axes_or_new(ax, (4.8, 0.9 + 0.32 * len(rows)))
    for place, (_, value, low, high) in enumerate(rows):
        ax.plot([low, high], [place, place], color=colour(0), linewidth=2, solid_capstyle="butt")
        ax.plot(value, place, marker="o", color=colour(0), markersize=5)
    if reference is not None:
        ax.axvline(reference, color=GREY, linestyle="--", linewidth=1, zorder=0)
    ax.set_yticks(list(range(len(rows))), [label for label, *_ in rows], fontsize=8)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    plain_frame(ax, xlabel, "")
    ax.set_title(title, fontsize=10)
    return ax
