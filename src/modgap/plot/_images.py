"""Small images with a caption under each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.core.checks import InputValueError
from modgap.plot._style import axes_or_new, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def image_grid(
    images: Sequence[Any],
    captions: Sequence[str],
    *,
    columns: int | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Images with captions, row by row; grey ones are drawn dark on light.

    Parameters
    ----------
    images : sequence of (h, w) or (h, w, 3) arrays
        In grey or in colour.
    captions : sequence of str
        One for each image.
    columns : int
        Images in a row.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    if len(images) != len(captions):
        raise InputValueError(
            f"Every image needs a caption, got {len(images)} images and {len(captions)} captions."
        )
    columns = columns or max(1, math.ceil(len(images) ** 0.5))
    rows = max(1, math.ceil(len(images) / columns))
    ax = axes_or_new(ax, (1.3 * columns, 1.7 * rows))
    for k, (image, caption) in enumerate(zip(images, captions, strict=True)):
        down, across = divmod(k, columns)
        left, top = 1.15 * across, 1.5 * down
        _show(ax, image, (left, left + 1, top + 1, top), interpolation="nearest")
        ax.text(left + 0.5, top + 1.06, caption, ha="center", va="top", fontsize=7, wrap=False)
    ax.set_xlim(-0.08, 1.15 * columns)
    ax.set_ylim(1.5 * rows, -0.08)
    ax.set_axis_off()
    return finish(ax, title)


def filmstrip(
    images: Sequence[Sequence[Any]],
    *,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Images in rows and columns, with what each row and each column is.

    Parameters
    ----------
    images : sequence of sequences of (h, w) or (h, w, 3) arrays, or None
        The images of each row; None leaves a place empty.
    row_labels, column_labels : sequences of str
        At the left of each row, above each column.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    shape = len(row_labels), len(column_labels)
    if len(images) != shape[0] or any(len(row) != shape[1] for row in images):
        raise InputValueError(f"images must be {shape[0]} rows of {shape[1]}, one for each label.")
    ax = axes_or_new(ax, (1.1 * shape[1] + 0.8, 1.1 * shape[0] + 0.5))
    for down, row in enumerate(images):
        for across, image in enumerate(row):
            if image is not None:
                _show(ax, image, (across + 0.03, across + 0.97, down + 0.97, down + 0.03))
    ax.set_xlim(0, shape[1])
    ax.set_ylim(shape[0], 0)
    ax.set_aspect("equal")
    finish(ax, title)
    ax.set_xticks(np.arange(shape[1]) + 0.5, column_labels)
    ax.set_yticks(np.arange(shape[0]) + 0.5, row_labels)
    ax.tick_params(length=0, labelsize=8, labeltop=True, labelbottom=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def _show(ax: Axes, image: Any, extent: tuple[float, float, float, float], **look: Any) -> None:
    pixels = np.asarray(image)
    ax.imshow(pixels, cmap="gray_r" if pixels.ndim == 2 else None, extent=extent, **look)
