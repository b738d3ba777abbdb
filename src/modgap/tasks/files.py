"""The files of a task's data set: the one that its layout must have, its table, its images."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from modgap.core.checks import InputValueError
from modgap.io._contents import listed
from modgap.io.items.records import read_table


def the_file(folder: Path, name: str, data_set: str) -> Path:
    """A file that the layout of a data set has, of its folder; or the file itself."""
    if folder.is_file() and folder.name == name:
        return folder
    if not folder.is_dir():
        raise InputValueError(f"{folder} must be the folder of {data_set}, which holds {name}.")
    if not (folder / name).is_file():
        there = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        has = f"It holds {listed(there[:8])}." if there else "It is empty."
        raise InputValueError(f"{folder} must hold {name} of {data_set}. {has}")
    return folder / name


def table_of(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a table that must have these columns, with something in each of them."""
    names, rows = read_table(path)
    missing = [name for name in columns if name not in names]
    if missing:
        raise InputValueError(
            f"{path} must have the columns {listed(columns)}, got {listed(names)}."
        )
    if not rows:
        raise InputValueError(f"{path} must have at least one row, got none.")
    for number, row in enumerate(rows, 1):
        empty = [name for name in columns if not row[name].strip()]
        if empty:
            raise InputValueError(f"{path}, row {number}: {empty[0]} is empty.")
    return [{name: value.strip() for name, value in row.items()} for row in rows]


def check_once(names: Sequence[str], path: Path) -> None:
    """Refuse a table that names an image twice."""
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InputValueError(f"{path} must name every image once, got {twice!r} twice.")


def images_home(
    images: str | os.PathLike[str] | None, near: Sequence[Path], first: str, what: str
) -> Path:
    """The folder of a data set's images: the one that has the first, else the first that exists."""
    given = check_home(images)
    candidates = [given, *(given / one.name for one in near)] if given else list(near)
    for folder in candidates:
        if os.path.isfile(folder / first):
            return folder
    existing = [folder for folder in candidates if folder.is_dir()]
    if not existing:
        raise InputValueError(f"{what} must lie in {candidates[0]}; there is no such folder.")
    return existing[0]


def check_home(images: str | os.PathLike[str] | None) -> Path | None:
    """The folder that the user names, if any."""
    if images is None:
        return None
    if not Path(images).is_dir():
        raise InputValueError(f"images must be a folder of image files, but {images} is none.")
    return Path(images)
