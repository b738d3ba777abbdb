"""Items that a CSV or JSON Lines names: a file or a text a row, with captions, a label and more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from modgap._validate import InputValueError
from modgap.io.captions_csv import read_table
from modgap.io.captions_rows import CaptionRow, clean
from modgap.io.images import ImageError, ImageFolder, home_of
from modgap.io.items import Item, Kind, Rows, joined, no_file
from modgap.io.items_roles import Roles, label_of, one_per_name, plain_fields, utf8
from modgap.io.mixbench_files import DOCUMENT_IDS, QUERY_IDS, records

Record = Mapping[str, Any]

# Files that others name have an id of their own, which tells items with the same image apart.
_IDS = (*DOCUMENT_IDS[:2], *QUERY_IDS[:2])


def find_jsonl(folder: Path) -> Sequence[Path]:
    """The .jsonl files of a folder."""
    return sorted(folder.glob("*.jsonl"))


def find_mixbench(folder: Path) -> Sequence[Path]:
    """The documents of a subset of MixBench; its queries are a file of their own."""
    corpus = folder / "corpus.jsonl"
    return [corpus] if corpus.is_file() and (folder / "queries.jsonl").is_file() else []


def find_esc50(folder: Path) -> Sequence[Path]:
    """The table of ESC-50, whose sounds lie in the folder ``audio`` beside its own."""
    table = folder / "meta" / "esc50.csv"
    return [table] if table.is_file() else []


def open_jsonl(files: Sequence[Path], images: Path | None) -> Rows:
    """Items of JSON objects, one a line; several files are splits, named as these."""
    return _open_all(files, images, _json_records)


def open_tables(files: Sequence[Path], images: Path | None) -> Rows:
    """Items of tables; several are splits, named as these."""
    return _open_all(files, images, _table_records)


def open_esc50(files: Sequence[Path], images: Path | None) -> Rows:
    """The sounds of ESC-50 with their categories; folds and the like are fields."""
    home = images or files[0].parent.parent / "audio"
    if not home.is_dir():
        raise InputValueError(f"{home} must be the folder of ESC-50's sounds; there is none.")
    return open_tables(files, home)


def _json_records(path: Path) -> tuple[list[str], list[tuple[int, Record]]]:
    found: list[tuple[int, Record]] = [
        (line, {utf8(name): _written(value) for name, value in record.items()})
        for line, record in records(path)
    ]
    said = (name for _, record in found for name in record if record[name] is not None)
    return list(dict.fromkeys(said)), found


def _written(value: Any) -> Any:
    """A value whose texts can be written: JSON can state halves of characters."""
    if isinstance(value, list):
        return [_written(one) for one in value]
    return utf8(value) if isinstance(value, str) else value


def _table_records(path: Path) -> tuple[list[str], list[tuple[int, Record]]]:
    names, rows = read_table(path)
    return names, list(enumerate(rows, 2))


def _open_all(files: Sequence[Path], images: Path | None, read: Any) -> Rows:
    opened = [_open(file, images, *read(file), several=len(files) > 1) for file in files]
    return joined(opened, files[0].parent)


def _open(
    path: Path,
    images: Path | None,
    names: Sequence[str],
    rows: Sequence[tuple[int, Record]],
    *,
    several: bool,
) -> Rows:
    if not rows:
        raise InputValueError(f"{path} must have at least one row, got none.")
    roles = Roles.of(names, path)
    while roles.file and not (files := _texts(rows, roles.file)):
        names = [name for name in names if name != roles.file]  # it names nothing
        roles = Roles.of(names, path)
    kind: Kind = roles.kind(files) if roles.file else "text"
    folder = ImageFolder(images or _home(files[0], path.parent)) if roles.file else None
    make = partial(_item, path, roles, folder, path.stem if several else None)
    items = [make(line, record) for line, record in rows]
    return kind, one_per_name(items, text=kind == "text")


def _texts(rows: Sequence[tuple[int, Record]], name: str) -> list[str]:
    """What a column holds that can name a file."""
    held = (record.get(name) for _, record in rows)
    return [value for value in held if isinstance(value, str) and value]


def _home(first: str, own: Path) -> Path:
    """Where the names start from: the folder in which the first file lies."""
    return home_of(first, [own, own / "images", own / "Images", own / "audio"])


def _item(
    path: Path, roles: Roles, folder: ImageFolder | None, split: str | None, line: int, record: Any
) -> CaptionRow:
    said = record.get(roles.captions) if roles.captions else None
    file = record.get(roles.file) if roles.file else None
    own_split = label_of(record.get(roles.split)) if roles.split else None
    named = [record.get(name) for name in _IDS] + [record.get(roles.name or "")] * (not file)
    name = next((found for one in named if (found := label_of(one))), None)
    read: Any = no_file
    if folder is not None:
        read = _nothing_named
        if isinstance(file, str) and file:
            file = _relative(file, folder)
            read = folder.reader(file, path)
            name = name or file
    return Item(
        name or f"line {line}",
        clean(said if isinstance(said, list) else [said]),
        own_split or split,
        read,
        label_of(record.get(roles.label)) if roles.label else None,
        plain_fields(record, roles.others if roles.file else roles.without_name),
    )


def _nothing_named() -> bytes:
    raise ImageError("no file is named")


def _relative(name: str, folder: ImageFolder) -> str:
    """A name relative to the folder, also where the whole path of a file in it is written."""
    if os.path.isabs(name) and "\x00" not in name:
        normal = Path(os.path.normpath(name))
        if normal.is_relative_to(folder.home):
            return str(normal.relative_to(folder.home))
    return name
