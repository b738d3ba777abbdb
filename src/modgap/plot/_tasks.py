"""Curves and tests of a task that was swept over corrections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modgap.plot._bars import ranges
from modgap.plot._curves import curves
from modgap.plot._style import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from modgap.tasks import TaskSweep

_HUBS = "hubs"


def task_curve(sweep: TaskSweep, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The mean outcome over the share of a move that is made; 0 is the rows as they are.

    One line for each way that moves rows, with the interval of the first around it.

    Parameters
    ----------
    sweep : TaskSweep
        What ``sweep_task`` found.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    lines = {way: sweep.of(way) for way in sweep.ways if not way.startswith(_HUBS)}
    moves = {way: points for way, points in lines.items() if len(points) > 1}
    x = {way: [point.amount for point in points] for way, points in moves.items()}
    ys = {way: [point.value.value for point in points] for way, points in moves.items()}
    first = next(iter(moves), None)
    values = [] if first is None else [point.value for point in moves[first]]
    bands = {} if first is None else {first: ([v.low for v in values], [v.high for v in values])}
    return curves(
        x,
        ys,
        xlabel="share of the move: 0 as they are, 1 all of it",
        ylabel=sweep.outcome,
        bands=bands,
        horizontal={"as they are": sweep.raw.value.value},
        title=title,
        ax=ax,
    )


def task_tests(sweep: TaskSweep, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The change that each way makes, at the amount chosen on one half, on the other half.

    Parameters
    ----------
    sweep, title, ax
        As for ``task_curve``.
    """
    rows = []
    for test in sweep.tests:
        change = test.result.difference
        rows.append((f"{test.way}, at {test.amount:g}", change.value, change.low, change.high))
    return ranges(rows, xlabel=f"change of {sweep.outcome}", reference=0.0, title=title, ax=ax)


def task_figure(sweep: TaskSweep, *, title: str = "") -> Figure:
    """Both beside each other.

    Parameters
    ----------
    sweep : TaskSweep
        What ``sweep_task`` found.
    title : str
        Above the figure.
    """
    figure, (left, right) = panels(2, size=(5.2, 3.8))
    task_curve(sweep, title=f"all {sweep.n_items:,} items", ax=left)
    task_tests(sweep, title="chosen on one half, tested on the other", ax=right)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
