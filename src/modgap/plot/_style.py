"""Figures and axes to draw into, and what every drawing shares.

Colours, dashes and markers can be told apart by the colour-blind and in print.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.core.checks import InputValueError, check_count, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito 2008, without their yellow, which is lost on white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
MARKERS = ("o", "^", "s", "D", "v")
GREY = "#777777"


def colour(k: int) -> str:
    """The colour of the k-th thing; they come round again after seven."""
    return COLOURS[k % len(COLOURS)]


def dash(k: int) -> Any:
    """The dashes of the k-th line, another one when its colour comes round again."""
    return DASHES[(k + k // len(COLOURS)) % len(DASHES)]


def marker(k: int) -> str:
    """The marker of the k-th group: with the colour, 35 different groups."""
    return MARKERS[k % len(MARKERS)]


def axes_or_new(
    ax: Axes | None, size: tuple[float, float] = (4.8, 3.6), projection: str | None = None
) -> Axes:
    """The axes to draw into; new ones in a figure of their own where none are given."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "plot", "Drawing")
    figure = pyplot.figure(figsize=size, layout="constrained")
    axes: Axes = figure.add_subplot(projection=projection)
    return axes


def panels(
    n: int,
    *,
    columns: int = 2,
    size: tuple[float, float] = (4, 3),
    solid: Collection[int] = (),
) -> tuple[Figure, list[Axes]]:
    """A figure and its n axes, row by row.

    Only the caller holds the figure, so that dozens can be drawn and dropped.

    Parameters
    ----------
    n : int
        How many axes.
    columns : int
        Axes in a row, at most.
    size : (float, float)
        Width and height of one of them, in inches.
    solid : sequence of int
        Those that are 3-D.
    """
    n, columns = check_count(n, "n"), check_count(columns, "columns")
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    # Not through pyplot: it would keep every figure until it is closed.
    module = require("matplotlib.figure", "plot", "Drawing")
    figure: Figure = module.Figure(
        figsize=(size[0] * columns, size[1] * rows), layout="constrained"
    )
    axes = [
        figure.add_subplot(rows, columns, k + 1, projection="3d" if k in solid else None)
        for k in range(n)
    ]
    return figure, axes


def finish(
    ax: Axes,
    title: str,
    labels: tuple[str, str] | None = None,
    legend: Mapping[str, Any] | None = None,
) -> Axes:
    """Label the axes and take away what carries nothing; ``legend`` is how to draw one, if any.

    Without ``labels`` the ticks go too: coordinates of a projection have no unit worth reading.
    """
    if labels is None:
        ax.set_xticks([])
        ax.set_yticks([])
    else:
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title, fontsize=10)
    if legend is not None:
        ax.legend(fontsize=8, **legend)
    return ax


def numbers(values: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Values as an array of floats of a shape, None standing for any length."""
    array = np.asarray(values, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join("n" if want is None else str(want) for want in shape) + ")"
        raise InputValueError(f"{name} must have the shape {wanted}, got {array.shape}.")
    return array
