"""Values as bars, counts as outlines, and values with their ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modgap.core.drawing import Range
from modgap.plot._style import GREY, axes_or_new, colour, dash, finish, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Longer labels do not fit side by side under their bars.
_LONG = 10


def bars(
    values: Mapping[str, float],
    *,
    ylabel: str,
    errors: Mapping[str, float] | None = None,
    reference: float | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One bar per label.

    Parameters
    ----------
    values : mapping of str to float
        The height of each bar.
    ylabel : str
        What the heights are.
    errors : mapping of str to float, optional
        Half the length of each bar's error line.
    reference : float, optional
        A dashed line across.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    ax = axes_or_new(ax)
    places = range(len(values))
    ax.bar(places, list(values.values()), width=0.65, color=colour(0), alpha=0.85)
    for place, (label, value) in enumerate(values.items()):
        if errors and label in errors:
            ax.errorbar(place, value, yerr=errors[label], color="black", capsize=3)
    if reference is not None:
        ax.axhline(reference, color=GREY, linestyle="--", linewidth=1)
    slanted = max(map(len, values), default=0) > _LONG or len(values) > 6
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if slanted else {}
    ax.set_xticks(places, list(values), fontsize=8, **turned)
    return finish(ax, title, ("", ylabel))


def histograms(
    edges: Any,
    counts: Mapping[str, Any],
    *,
    xlabel: str,
    density: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One outline per label over shared bins.

    Parameters
    ----------
    edges : (bins + 1,) array
        Where bins begin and end.
    counts : mapping of str to (bins,) array
        The counts of each label.
    xlabel : str
        What is counted.
    density : bool
        Whether each outline has area 1.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
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
    legend = {"frameon": False} if len(counts) > 1 else None
    return finish(ax, title, (xlabel, "density" if density else "count"), legend)


def ranges(
    rows: Sequence[Range | tuple[str, float, float, float]],
    *,
    xlabel: str = "",
    reference: float | None = None,
    span: Sequence[float] = (),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A value and its range on each line, the first at the top.

    Parameters
    ----------
    rows : sequence of Range or (label, value, low, high)
        One line each. A ``Range``, as in ``result.ranges().lines``, may also have a middle, which
        is drawn thick, and be marked.
    xlabel : str
        What the values are.
    reference : float, optional
        A dashed line across.
    span : sequence of float
        Values that the axis must include.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    lines = [row if isinstance(row, Range) else Range(*row) for row in rows]
    ax = axes_or_new(ax, (6.4, 0.9 + 0.3 * len(lines)))
    for place, line in enumerate(lines):
        look: dict[str, Any] = {"color": colour(int(line.marked)), "solid_capstyle": "butt"}
        ax.plot([line.low, line.high], [place, place], linewidth=1.5, **look)
        if line.middle is not None:
            ax.plot(line.middle, [place, place], linewidth=6, alpha=0.6, **look)
        symbol = "D" if line.marked else "o"
        ax.plot(line.value, place, marker=symbol, markersize=6, markeredgecolor="white", **look)
    if reference is not None:
        ax.axvline(reference, color=GREY, linestyle="--", linewidth=1, zorder=0)
    if len(span):
        ax.plot(span, [0] * len(span), alpha=0)
    ax.set_yticks(range(len(lines)), [line.label for line in lines], fontsize=8)
    for tick, line in zip(ax.get_yticklabels(), lines, strict=True):
        tick.set_fontweight("bold" if line.marked else "normal")
    ax.set_ylim(len(lines) - 0.5, -0.5)
    finish(ax, title, (xlabel, ""))
    ax.title.set_wrap(True)  # labels leave the axes little room
    return ax
