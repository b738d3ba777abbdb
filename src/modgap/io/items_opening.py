"""Which format the items of a file or folder have."""

from __future__ import annotations

import os
from pathlib import Path

from modgap._validate import InputValueError
from modgap.io.image_captions import FORMATS, find_format
from modgap.io.items import Items, unique


def open_items(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    split: str | None = None,
    images: str | os.PathLike[str] | None = None,
) -> Items:
    """What can be embedded in a file or folder: images, sounds or texts.

    Parameters
    ----------
    path : path
        The file or folder.
    format : str, optional
        Needed only where a folder holds more than one.
    split : str, optional
        Keep the items of this split.
    images : path, optional
        The folder that file names start from, by default beside the file that names them. Nothing
        outside it is read, whatever a name or a link says.
    """
    path = Path(path)
    home = None if images is None else Path(images)
    if home is not None and not home.is_dir():
        raise InputValueError(f"images must be a folder of files, but {home} is none.")
    kind, files = find_format(path, format)
    data = Items(str(path), unique(FORMATS[kind][1](files, home)))
    return data if split is None else data.split(split)
