"""Small images with a caption under each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap._validate import InputValueError
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
    title : str
        Above the drawing.
    ax : Axes, optional
        Where to draw; a new figure when left out.
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
        pixels = np.asarray(image)
        ax.imshow(
            pixels,
            cmap="gray_r" if pixels.ndim == 2 else None,
            extent=(left, left + 1, top + 1, top),
            interpolation="nearest",
        )
        ax.text(left + 0.5, top + 1.06, caption, ha="center", va="top", fontsize=7, wrap=False)
    ax.set_xlim(-0.08, 1.15 * columns)
    ax.set_ylim(1.5 * rows, -0.08)
    ax.set_axis_off()
    return finish(ax, title)
