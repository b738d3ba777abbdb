"""What the ends of a way are named by: a row of a file, an image, a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modgap._validate import InputValueError, check_rows
from modgap.embed.image_files import image_rows
from modgap.embed.model import Model
from modgap.io import open_modality
from modgap.io.images import SUFFIXES as IMAGE_SUFFIXES


@dataclass(frozen=True, eq=False)
class End:
    """One row: what it was named by, and the file it is of where it is a row of a file."""

    name: str
    row: np.ndarray
    source: str | None = None


def open_end(name: str, model: Model | None = None, *, column: str | None = None) -> End:
    """A row by what names it.

    Parameters
    ----------
    name : str
        ``FILE:ROW``, the row by its number or id; with a model also an image file, or a text.
    model : Model, optional
        Embeds images and texts.
    column : str, optional
        The array or column of the file.
    """
    file, colon, row = name.rpartition(":")
    if colon and row and Path(file).exists():
        return _of_file(name, file, row, column)
    path = Path(name)
    is_file = _exists(path)
    if model is None:
        what = f"{name}:ROW" if is_file else "image.npy:12"
        raise InputValueError(
            f"{name!r} must be a row of a file, such as {what}. Images and texts need --model."
        )
    if is_file:
        return End(name, image_rows(model, [path])[0])
    if path.suffix.lower() in IMAGE_SUFFIXES:
        raise InputValueError(f"There is no image {name!r}. Check the path.")
    if not name.strip():
        raise InputValueError("A text to go from or to must have words.")
    return End(name, model.encode_texts([name])[0])


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text longer than any file name
        return False


def _of_file(name: str, file: str, row: str, column: str | None) -> End:
    rows = open_modality(file, "image", column=column)
    if row.isdecimal():
        number = int(row)
        if number >= rows.n_rows:
            raise InputValueError(f"{name} must name a row from 0 to {rows.n_rows - 1}, got {row}.")
    else:
        ids = [] if rows.ids is None else [str(one) for one in rows.ids]
        if row not in ids:
            has = "no row of that id" if ids else "no ids"
            raise InputValueError(f"{file} has {has}, got {row!r}. Give the number of the row.")
        number = ids.index(row)
    found = check_rows(rows.take([number]), name, nonzero=True)
    return End(name, np.asarray(found)[0], file)
