"""Items that a CSV, TSV or JSON Lines lists: a file or a text a row, with captions and more."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.limits import parse_json
from modgap.io._contents import reading
from modgap.io.images import ImageFolder, home_of
from modgap.io.items.columns import Roles, label_of, plain_fields, utf8
from modgap.io.items.item import ItemKind, Opened, join_files, merge_names, no_file

Record = Mapping[Any, Any]

# Files that others name have an id of their own, which tells items with the same image apart.
_IDS = ("corpus_id", "corpus-id", "query_id", "query-id")


def find_tables(folder: Path) -> Sequence[Path]:
    """The tables of a folder: .csv, .tsv or captions.txt."""
    tables = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".csv", ".tsv")]
    captions = folder / "captions.txt"
    return tables or ([captions] if captions.is_file() else [])


def find_mixbench(folder: Path) -> Sequence[Path]:
    """The documents of a subset of MixBench; its queries are a file of their own."""
    corpus = folder / "corpus.jsonl"
    return [corpus] if corpus.is_file() and (folder / "queries.jsonl").is_file() else []


def find_esc50(folder: Path) -> Sequence[Path]:
    """The table of ESC-50, whose sounds lie in the folder ``audio`` beside its own."""
    table = folder / "meta" / "esc50.csv"
    return [table] if table.is_file() else []


def open_jsonl(files: Sequence[Path], images: Path | None) -> Opened:
    """Items of JSON objects, one a line; several files are splits, named as these."""
    several = len(files) > 1
    opened = [_open(file, images, *read_records(file), several=several) for file in files]
    return join_files(opened, files[0].parent)


def open_tables(files: Sequence[Path], images: Path | None) -> Opened:
    """Items of tables; several are splits, named as these."""
    opened = []
    for file in files:
        names, rows = read_table(file)
        numbered = list(enumerate(rows, 2))
        opened.append(_open(file, images, names, numbered, several=len(files) > 1))
    return join_files(opened, files[0].parent)


def open_esc50(files: Sequence[Path], images: Path | None) -> Opened:
    """The sounds of ESC-50 with their categories; folds and the like are fields."""
    home = images or files[0].parent.parent / "audio"
    if not home.is_dir():
        raise InputValueError(f"{home} must be the folder of ESC-50's sounds; there is none.")
    return open_tables(files, home)


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The names of the columns, and every row by them."""
    with (
        reading(path, "a table of UTF-8 text", UnicodeDecodeError, csv.Error),
        # utf-8-sig: spreadsheets put a byte order mark before the first column's name.
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        header = file.readline()
        file.seek(0)
        table = csv.reader(file, delimiter=delimiter(header), strict=True)
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


def delimiter(header: str) -> str:
    """Tabs or commas; semicolons as spreadsheets write them where the comma is in numbers."""
    return next((mark for mark in "\t,;" if mark in header), ",")


def read_records(path: Path) -> tuple[list[str], list[tuple[int, Record]]]:
    """The names of a .jsonl file's columns, and its numbered lines."""
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


def records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The lines of a .jsonl file, or of a .tsv file below its header, numbered from 1."""
    if path.suffix == ".tsv":
        yield from enumerate(read_table(path)[1], 2)
        return
    lines = [(k, line) for k, line in enumerate(path.read_bytes().splitlines(), 1) if line.strip()]
    if not lines:
        raise InputValueError(f"{path} is empty.")
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            item = parse_json(line.decode("utf-8-sig"), f"{where}:")
        except UnicodeDecodeError as error:
            raise InputValueError(f"{where}: must be UTF-8.") from error
        if not isinstance(item, Mapping):
            raise InputTypeError(f"{where}: must be a JSON object, got {type(item).__name__}.")
        yield number, item


def _open(
    path: Path,
    images: Path | None,
    names: Sequence[str],
    rows: Sequence[tuple[int, Record]],
    *,
    several: bool,
) -> Opened:
    if not rows:
        raise InputValueError(f"{path} must have at least one row, got none.")
    roles = Roles.of(names, path)
    while roles.file and not (files := _texts(rows, roles.file)):
        names = [name for name in names if name != roles.file]  # it names nothing
        roles = Roles.of(names, path)
    kind: ItemKind = roles.kind(files) if roles.file else "text"
    folder = None
    if roles.file:
        # Names start from the folder in which the first file lies.
        own = path.parent
        near = [own, own / "images", own / "Images", own / "audio"]
        folder = ImageFolder(images or home_of(files[0], near))
    items = []
    for line, record in rows:
        file, read = record.get(roles.file), no_file
        ids = [*_IDS] if file else [*_IDS, roles.name]
        name = next((found for one in ids if (found := label_of(record.get(one)))), None)
        if folder is not None and isinstance(file, str) and file:
            file = _relative(file, folder)
            read = folder.reader(file, path)
            name = name or file
        fields = plain_fields(record, roles.others if roles.file else roles.without_name)
        split = path.stem if several else None
        items.append(roles.item(record, name or f"line {line}", split, read=read, fields=fields))
    return kind, merge_names(items, kind)


def _texts(rows: Sequence[tuple[int, Record]], name: str) -> list[str]:
    """What a column holds that can name a file."""
    held = (record.get(name) for _, record in rows)
    return [value for value in held if isinstance(value, str) and value]


def _relative(name: str, folder: ImageFolder) -> str:
    """A name relative to the folder, also where the whole path of a file in it is written."""
    if os.path.isabs(name) and "\x00" not in name:
        normal = Path(os.path.normpath(name))
        if normal.is_relative_to(folder.home):
            return str(normal.relative_to(folder.home))
    return name
