"""Counts over shared bins, as outlines that may overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modgap.plot._style import axes_or_new, colour, dash, numbers, plain_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def histograms(
    edges: Any,
    counts: Mapping[str, Any],
    *,
    xlabel: str,
    density: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One outline per label over bins with the given edges; with ``density`` each has area 1."""
    ax = axes_or_new(ax)
    edges = numbers(edges, "edges", (None,))
    widths = edges[1:] - edges[:-1]
    for k, (label, count) in enumerate(counts.items()):
        height = numbers(count, f"counts[{label!r}]", (len(edges) - 1,))
        total = height.sum()
        if density and total > 0:
            height = height / (total * widths)
        ax.stairs(height, edges, color=colour(k), fill=True, alpha=0.18)
        ax.stairs(height, edges, color=colour(k), linestyle=dash(k), linewidth=1.5, label=label)
    plain_frame(ax, xlabel, "density" if density else "count")
    ax.set_title(title, fontsize=10)
    if len(counts) > 1:
        ax.legend(frameon=False, fontsize=8)
    return ax
