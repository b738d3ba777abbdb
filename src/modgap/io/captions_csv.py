"""A folder of images with a CSV of their names and captions, one caption per row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from modgap._validate import InputValueError
from modgap.io._contents import listed, reading
from modgap.io.captions_rows import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    SPLIT_COLUMNS,
    CaptionRow,
    choose_column,
    clean,
    merged,
)
from modgap.io.images import ImageFolder, home_of

# Flickr8k and Flickr30k come with a captions.txt that is a CSV.
SUFFIXES = (".csv", ".tsv", ".txt")


def find_csv(folder: Path) -> Sequence[Path]:
    """The tables of a folder: .csv, .tsv or captions.txt."""
    tables = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".csv", ".tsv")]
    captions = folder / "captions.txt"
    return tables or ([captions] if captions.is_file() else [])


def open_csv(files: Sequence[Path], images: Path | None) -> list[CaptionRow]:
    """One row per image, in the order in which the table first names them."""
    if len(files) > 1:
        raise InputValueError(
            f"{files[0].parent} must hold one table of images and captions, got "
            f"{listed([file.name for file in files])}. Give the path of one."
        )
    path = files[0]
    rows = list(_rows(path))
    if not rows:
        raise InputValueError(f"{path} must have at least one row, got none.")
    near = [path.parent, path.parent / "images", path.parent / "Images"]
    folder = ImageFolder(images or home_of(rows[0][0], near))
    return merged(
        CaptionRow(name, clean([caption]), split, folder.reader(name, path))
        for name, caption, split in rows
    )


def _rows(path: Path) -> Iterator[tuple[str, str, str | None]]:
    """Image, caption and split of every row."""
    names, rows = read_table(path)
    image = choose_column(names, IMAGE_COLUMNS, "image names", path)
    caption = choose_column(names, CAPTION_COLUMNS, "captions", path)
    split = choose_column(names, SPLIT_COLUMNS, "splits", path, needed=False)
    for values in rows:
        yield values[image or ""], values[caption or ""], values[split] if split else None


def _delimiter(header: str) -> str:
    """Tabs or commas; semicolons as spreadsheets write them where the comma is in numbers."""
    return next((mark for mark in "\t,;" if mark in header), ",")


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The names of the columns, and every row by them."""
    with (
        reading(path, "a table of UTF-8 text", UnicodeDecodeError, csv.Error),
        # utf-8-sig: spreadsheets put a byte order mark before the first column's name.
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        header = file.readline()
        file.seek(0)
        table = csv.reader(file, delimiter=_delimiter(header), strict=True)
        names = [name.strip() for name in next(table, [])]
        rows = []
        for row in table:
            if not row:
                continue
            if len(row) != len(names):
                raise InputValueError(
                    f"Every row of {path} must have {len(names)} fields, as its header has, but "
                    f"line {table.line_num} has {len(row)}. Put captions with commas in quotes."
                )
            rows.append(dict(zip(names, row, strict=True)))
        return names, rows
