"""Lines over a common horizontal axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.core.checks import check_choice
from modgap.plot._style import GREY, axes_or_new, colour, dash, finish, marker, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A curve of fewer points shows them.
_SHOW_POINTS = 16


def curves(
    x: Any,
    ys: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    log: str = "",
    marks: Mapping[str, tuple[Any, Any]] | None = None,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    vertical: Mapping[str, float] | None = None,
    horizontal: Mapping[str, float] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One line per label.

    Parameters
    ----------
    x : array or mapping of label to array
        Where the lines run, for all of them or for each its own.
    ys : mapping of label to array
        The lines.
    xlabel, ylabel : str
        What the two axes are.
    log : {"", "x", "y", "xy"}
        The logarithmic axes.
    marks : mapping of label to (x, y), optional
        Points; one that is called like a line belongs to it.
    bands : mapping of label to (low, high), optional
        The lower and the upper edge around the line of that label.
    vertical, horizontal : mapping of label to number, optional
        Where dashed grey lines of reference cross the panel.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    check_choice(log, "log", ("", "x", "y", "xy"))
    ax = axes_or_new(ax)
    for k, (label, y) in enumerate(ys.items()):
        across = numbers(x[label] if isinstance(x, Mapping) else x, "x", (None,))
        up = numbers(y, f"ys[{label!r}]", across.shape)
        few = len(across) <= _SHOW_POINTS
        ax.plot(
            across,
            up,
            color=colour(k),
            linestyle=dash(k),
            marker=marker(k) if few else None,
            markersize=4,
            linewidth=1.6,
            label=label,
        )
        if bands and label in bands:
            low, high = (numbers(edge, f"bands[{label!r}]", across.shape) for edge in bands[label])
            ax.fill_between(across, low, high, color=colour(k), alpha=0.18, linewidth=0)
    for k, (label, (mx, my)) in enumerate((marks or {}).items()):
        # A mark named like a curve belongs to it and takes its colour.
        mine = list(ys).index(label) if label in ys else len(ys) + k
        ax.plot(
            np.atleast_1d(mx),
            np.atleast_1d(my),
            linestyle="none",
            marker="*",
            markersize=11,
            markeredgecolor="white",
            markeredgewidth=0.6,
            color=colour(mine),
            label=None if label in ys else label,
            zorder=5,
        )
    for k, (label, at) in enumerate((vertical or {}).items()):
        ax.axvline(at, color=GREY, linewidth=1, linestyle=dash(k + 1), label=label, zorder=0)
    for k, (label, at) in enumerate((horizontal or {}).items()):
        ax.axhline(at, color=GREY, linewidth=1, linestyle=dash(k + 1), label=label, zorder=0)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    several = sum(len(drawn or {}) for drawn in (ys, marks, vertical, horizontal)) > 1
    # Lines of reference run through the whole panel: the legend covers them, not they it.
    legend = {"framealpha": 0.85, "edgecolor": "none"} if several else None
    return finish(ax, title, (xlabel, ylabel), legend)
