"""The figure of a result: what ``result.plot()`` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(result: Any, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The figure of a result; ``result.plot()`` is the same.

    Parameters
    ----------
    result : a result with a figure
        A measurement, a diagnosis, an evaluation, retrieval, mixed retrieval and its curve, a task
        sweep, a path, a landscape, a projection, a profile, robustness or
        reliability.
    title : str
        Above the drawing; without it, what is drawn where the axes do not say so.
    ax : Axes, optional
        Where to draw; a new figure when left out.
    """
    # Not above: who draws only curves needs none of the results.
    from modgap.plot._of_results import figure_of

    return figure_of(result, title, ax)
