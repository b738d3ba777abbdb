"""Items of Parquet files, and of Hugging Face datasets as ``save_to_disk`` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

from modgap.core.checks import InputError, InputTypeError, InputValueError, first_line
from modgap.core.lazy import pa
from modgap.core.steady_file import ChangedFileError
from modgap.io._contents import listed
from modgap.io._matrices import BATCH_ROWS
from modgap.io.formats.parquet import ParquetPart
from modgap.io.formats.saved_dataset import arrow_files, read_arrow, saved_splits
from modgap.io.formats.tables import TablePart
from modgap.io.images import ImageError, ImageFolder, check_size
from modgap.io.items.columns import Roles, label_of, plain_fields
from modgap.io.items.item import Opened, join_files, merge_names, no_file

# Row groups kept in memory: threads that decode in order straddle at most two.
_KEPT = 2
_Table = ParquetPart | TablePart


def open_saved(files: Sequence[Path], images: Path | None) -> Opened:
    """A dataset, or the splits of several."""
    stated = files[0]
    opened = [
        _open_all([read_arrow(path) for path in arrow_files(state)], images, name)
        for name, state in saved_splits(stated).items()
    ]
    return opened[0] if len(opened) == 1 else join_files(opened, stated.parent)


def open_parquet_items(files: Sequence[Path], images: Path | None) -> Opened:
    """Parquet files; shards that Hugging Face names by split are splits."""
    return _open_all([ParquetPart(file) for file in files], images, None)


def _cells(part: _Table, column: str) -> list[Callable[[], Any]]:
    """For each row, what gives its value in a column; images are read when they are needed.

    Those of a Parquet file come a row group at a time, and the last few groups are kept.
    """
    lock = Lock()

    @lru_cache(maxsize=_KEPT)
    def read_group(group: int) -> Any:
        assert isinstance(part, ParquetPart)
        kind = part.schema.field(column).type
        return pa.chunked_array(part.arrays(column, BATCH_ROWS, [group]), type=kind)

    def cell(piece: int, row: int) -> Any:
        if isinstance(part, TablePart):
            part.check()
            return chunks[piece][row].as_py()
        with lock:
            values = read_group(piece)
        return values[row].as_py()

    chunks = part.table[column].chunks if isinstance(part, TablePart) else ()
    sizes = part.group_rows if isinstance(part, ParquetPart) else map(len, chunks)
    return [partial(cell, piece, row) for piece, n in enumerate(sizes) for row in range(n)]


def _open_all(tables: Sequence[_Table], images: Path | None, split: str | None) -> Opened:
    opened = [_open(table, images or table.path.parent, split) for table in tables]
    kind, items = join_files(opened, tables[0].path.parent)
    return kind, merge_names(items, kind)


def _open(table: _Table, images: Path, split: str | None) -> Opened:
    if len(set(table.schema.names)) < len(table.schema.names):
        raise InputValueError(
            f"{table.path} must name every column once: {listed(table.schema.names)}."
        )
    features = _features(table.schema)
    noted_images, sounds, classes = (
        [name for name, feature in features.items() if feature.get("_type") == wanted]
        for wanted in ("Image", "Audio", "ClassLabel")
    )
    files = [*noted_images, *sounds]
    roles = Roles.of(table.schema.names, table.path, files=files, classes=classes)
    # A column that names files says what the items are called.
    is_path = roles.file is not None and _is_text(table, roles.file)
    called, others = (roles.file, roles.others) if is_path else (roles.name, roles.without_name)
    small = [name for name in others if _is_small(table.schema.field(name).type)]
    columns: dict[str | None, list[Any]] = {}
    for name in (called, roles.captions, roles.label, roles.split, *small):
        if name is not None:
            with table.reading():
                found = [value for array in table.values(name) for value in array.to_pylist()]
            columns[name] = _named(_whole(found, table), features.get(name, {}))
    readers = _readers(table, roles.file, ImageFolder(images))
    where = f"{split}/{table.path.name}" if split else table.path.name
    items = []
    for row, read in enumerate(readers):
        record = {name: values[row] for name, values in columns.items()}
        name = label_of(record.get(called))
        items.append(
            roles.item(
                record,
                name or f"{where}/{row}",
                split or _split_of(table.path),
                read=read,
                fields=plain_fields(record, small),
                named=name is not None,
            )
        )
    return roles.kind(columns[called] if is_path else (), sounds=sounds), items


def _is_text(table: _Table, column: str) -> bool:
    kind = table.schema.field(column).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _readers(table: _Table, column: str | None, folder: ImageFolder) -> list[Callable[[], bytes]]:
    if column is None:
        return [no_file] * table.n_rows
    kind = table.schema.field(column).type
    has_bytes = pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
    inner = kind.field("bytes").type if has_bytes else kind
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
    if not _is_text(table, column) and not any(check(inner) for check in checks):
        raise InputTypeError(
            f"{column!r} of {table.path} must hold bytes, structures of bytes and path, or names "
            f"of files, got {kind}."
        )
    values = _whole(_cells(table, column), table)
    return [partial(_stored, value, folder, table.path) for value in values]


def _whole(values: list[Any], table: _Table) -> list[Any]:
    """The values of a column, refused where there is not one for each row."""
    if len(values) != table.n_rows:
        raise InputValueError(
            f"{table.path} is damaged: it must have {table.n_rows} rows, a column has "
            f"{len(values)}."
        )
    return values


def _stored(value: Any, folder: ImageFolder, path: Path) -> bytes:
    """The bytes of a value: bytes, the name of a file, or {bytes, path} with the one or other."""
    try:
        held = value()
    except ChangedFileError:
        raise
    except (InputError, IndexError, UnicodeDecodeError) as error:  # a damaged part of the file
        raise ImageError(f"it cannot be read ({first_line(error)})") from error
    name = held if isinstance(held, str) else None
    if isinstance(held, dict):
        held, name = held["bytes"], held.get("path")
    if held is not None and not isinstance(held, str):
        check_size(len(held))
        return bytes(held)
    if not name:
        raise ImageError("there is neither a file nor a path")
    try:
        return folder.reader(name, path)()
    except InputValueError as error:
        raise ImageError(str(error)) from error


def _is_small(kind: Any) -> bool:
    """Texts, numbers, and lists of texts: what can be kept beside an item."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind))
    checks = (types.is_string, types.is_large_string, types.is_integer, types.is_floating)
    return any(check(kind) for check in (*checks, types.is_boolean))


def _features(schema: Any) -> dict[str, dict[str, Any]]:
    """What Hugging Face's datasets note about columns; nothing where it is not theirs."""
    try:
        noted = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: kind for name, kind in noted.items() if isinstance(kind, dict)}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {}


def _named(values: list[Any], feature: dict[str, Any]) -> list[Any]:
    """Classes by their names, where they are stored as numbers; −1 stands for none."""
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not isinstance(names, list):
        return values
    return [str(names[v]) if isinstance(v, int) and 0 <= v < len(names) else None for v in values]


def _split_of(path: Path) -> str | None:
    """The split that a shard's name says, as Hugging Face writes them.

    >>> _split_of(Path("data/validation-00000-of-00002.parquet"))
    'validation'
    >>> _split_of(Path("data/test-00000-of-00001-b42a775f407cee45.parquet"))
    'test'
    """
    found = re.fullmatch(r"(\w+)-\d+-of-\d+(-\w+)?", path.stem)
    return found[1] if found else None
