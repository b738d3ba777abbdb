"""A figure with several axes."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from modgap._validate import check_count, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
