"""MMVP-VLM: pairs of images that a model confuses, with a statement each, in nine patterns.

Published with Tong et al. 2024, *Eyes Wide Shut? Exploring the Visual Shortcomings of Multimodal
LLMs* (arXiv 2401.06209). Its folder holds Questions.csv, with the columns Question ID, Type and
Statement, and "MLLM_VLM Images", a folder for each type with the images, 1.jpg and so on. Two rows
that follow each other are a pair.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modgap._results import Brief
from modgap._validate import InputValueError
from modgap.io.images import ImageFolder
from modgap.io.items import Item, Items
from modgap.io.task_files import check_home, check_once, rows_of, the_file

_DATA_SET = "MMVP-VLM"
_TABLE, _IMAGES = "Questions.csv", "MLLM_VLM Images"
_ID, _PATTERN, _STATEMENT = "Question ID", "Type", "Statement"


@dataclass(frozen=True, eq=False)
class MMVP(Brief):
    """Images with the statement and the pattern of each, row by row."""

    source: str
    ids: tuple[str, ...]
    statements: tuple[str, ...]
    patterns: tuple[str, ...]
    images: Items

    def __len__(self) -> int:
        return len(self.statements)

    @property
    def pairs(self) -> np.ndarray:
        """The rows of each pair, (n, 2)."""
        return np.arange(len(self)).reshape(-1, 2)


def open_mmvp(
    path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None
) -> MMVP:
    """Read MMVP-VLM as it is published.

    Parameters
    ----------
    path : path
        The folder with Questions.csv.
    images : path, optional
        The folder with a folder for each pattern, by default "MLLM_VLM Images" beside the table.
    """
    file = the_file(Path(path), _TABLE, _DATA_SET)
    rows = rows_of(file, (_ID, _PATTERN, _STATEMENT))
    if len(rows) % 2:
        raise InputValueError(f"{file} must hold pairs of rows, got {len(rows)} rows.")
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        if first[_PATTERN] != second[_PATTERN]:
            raise InputValueError(
                f"{file}: rows {first[_ID]} and {second[_ID]} must be a pair of one Type, got "
                f"{first[_PATTERN]!r} and {second[_PATTERN]!r}."
            )
    home = check_home(images) or file.parent / _IMAGES
    if not home.is_dir():
        raise InputValueError(f"{file.parent} must hold the folder {_IMAGES!r} of {_DATA_SET}.")
    folder, folders = ImageFolder(home), _folders(home)
    names = [f"{folders.get(_key(row[_PATTERN]), row[_PATTERN])}/{row[_ID]}.jpg" for row in rows]
    check_once(names, file)
    items = [
        Item(name, (row[_STATEMENT],), None, folder.reader(name, file), row[_PATTERN])
        for name, row in zip(names, rows, strict=True)
    ]
    return MMVP(
        str(file.parent),
        tuple(row[_ID] for row in rows),
        tuple(row[_STATEMENT] for row in rows),
        tuple(row[_PATTERN] for row in rows),
        Items(str(file.parent), items),
    )


def _folders(home: Path) -> dict[str, str]:
    """Folders by what they are called: downloads can have put underscores for spaces."""
    return {_key(one.name): one.name for one in sorted(home.iterdir()) if one.is_dir()}


def _key(name: str) -> str:
    return name.replace("_", " ").strip().lower()
