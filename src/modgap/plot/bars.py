"""One bar per thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from modgap.plot._style import GREY, axes_or_new, colour, plain_frame

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
    """One bar per label; ``errors`` are half lengths, ``reference`` a dashed line across."""
    ax = axes_or_new(ax)
    labels = list(values)
    places = list(range(len(labels)))
    ax.bar(places, [values[label] for label in labels], width=0.65, color=colour(0), alpha=0.85)
    for place, label in zip(places, labels, strict=True):
        if errors and label in errors:
            ax.errorbar(place, values[label], yerr=errors[label], color="black", capsize=3)
    if reference is not None:
        ax.axhline(reference, color=GREY, linestyle="--", linewidth=1)
    slanted = max((len(label) for label in labels), default=0) > _LONG or len(labels) > 6
    ax.set_xticks(
        places,
        labels,
        rotation=30 if slanted else 0,
        ha="right" if slanted else "center",
        fontsize=8,
    )
    plain_frame(ax, "", ylabel)
    ax.set_title(title, fontsize=10)
    return ax
