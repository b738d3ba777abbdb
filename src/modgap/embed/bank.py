"""Rows of images with the images behind them: an embedded folder, or rows and items."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modgap._validate import InputValueError
from modgap.io import Embeddings, Items, open_items, open_modality
from modgap.io.embedded import read_note
from modgap.io.images import ImageError
from modgap.io.origin import is_own


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
            raise ImageError("no image of it is known")
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
        A folder that ``modgap embed`` wrote, which says where its images are, or any file of rows.
    images : path, optional
        The images, as for `modgap.io.open_items`: told by the ids of the rows where these have
        any, else row by row.
    column : str, optional
        The array or column of the rows, where that cannot be told.
    """
    rows = open_modality(path, "image", column=column)
    items = open_items(images) if images is not None else _own_items(Path(path))
    if items is None:
        return Bank(rows)
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


def _own_items(folder: Path) -> Items | None:
    """The items that a folder was embedded from, where they are still there."""
    note = read_note(folder) if folder.is_dir() else None
    source = None if note is None else note.get("source")
    if note is None or not isinstance(source, str) or not os.path.exists(source):
        return None
    if not is_own(note, folder):
        raise InputValueError(
            f"{folder} says that its images are in {source}, but you did not embed it here. Name "
            "them with --images (images=)."
        )
    return open_items(
        source,
        format=note.get("format") or None,
        split=note.get("split"),
        images=note.get("images"),
    )
