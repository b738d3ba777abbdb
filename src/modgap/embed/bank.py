"""Rows of images with the images behind them: an embedded folder, or rows and items."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modgap._validate import InputValueError
from modgap.io import Embeddings, Items, open_items, open_modality
from modgap.io.embedded import read_note, source_inside
from modgap.io.images import ImageError


@dataclass(frozen=True, eq=False)
class Bank:
    """Rows, and where at hand the images that they are of.

    ``item_of`` has the place in ``items`` of each row that has an image.
    """

    rows: Embeddings
    items: Items | None = None
    item_of: Mapping[int, int] = field(default_factory=dict)

    def name(self, row: int) -> str:
        """What a row is called: its id, else its number."""
        return str(row) if self.rows.ids is None else str(self.rows.ids[row])

    def image(self, row: int) -> bytes:
        """The stored image of a row; `ImageError` where there is none."""
        if self.items is None or row not in self.item_of:
            raise ImageError("no image of it is known: name the images with --images")
        return self.items.stored(self.item_of[row])


def open_bank(
    path: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    column: str | None = None,
) -> Bank:
    """Rows of images, with the images.

    Parameters
    ----------
    path : path
        A folder that ``modgap embed`` wrote, or any file of rows.
    images : path, optional
        The images, as for `modgap.io.open_items`: found by the ids of the rows where these have
        any, else row by row. A folder that holds its own images needs none.
    column : str, optional
        The array or column of the rows, where that cannot be told.
    """
    rows = open_modality(path, "image", column=column)
    if images is not None:
        items = open_items(images)
    else:
        note = read_note(Path(path)) if Path(path).is_dir() else None
        opens = None if note is None else source_inside(note, Path(path))
        if opens is None:
            return Bank(rows)
        items = opens()
    if rows.ids is not None:
        places = {name: place for place, name in enumerate(items.names)}
        known = {row: places[name] for row, name in enumerate(rows.ids) if name in places}
        if known or images is None:
            return Bank(rows, items, known)
    if len(items) != rows.n_rows:
        raise InputValueError(
            f"{images} must hold an image for each of the {rows.n_rows} rows of {path}, got "
            f"{len(items)}, and no id of a row is the name of an image."
        )
    return Bank(rows, items, {row: row for row in range(rows.n_rows)})
