"""Items of Parquet files, and of Hugging Face datasets as ``save_to_disk`` writes them."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from modgap._limits import check_unpacked
from modgap._steady_file import ChangedFileError, SteadyFile
from modgap._validate import InputError, InputTypeError, InputValueError, first_line
from modgap.io._contents import listed, reading
from modgap.io.formats.parquet import text_bytes
from modgap.io.formats.saved_dataset import arrow_files, read_arrow, saved_splits
from modgap.io.images import ImageError, ImageFolder, check_size
from modgap.io.items.columns import Roles, label_of, plain_fields
from modgap.io.items.item import Item, Opened, clean, join_files, merge_names, no_file

# Row groups kept in memory: threads that decode in order straddle at most two.
_KEPT = 2


def find_parquet(folder: Path) -> Sequence[Path]:
    """The shards of a folder, or of its folder ``data``, as Hugging Face writes them."""
    return sorted(folder.glob("*.parquet")) or sorted((folder / "data").glob("*.parquet"))


def open_saved(files: Sequence[Path], images: Path | None) -> Opened:
    """A dataset, or the splits of several."""
    stated = files[0]
    opened = [
        _open_all([_Arrow(path) for path in arrow_files(state)], images, name)
        for name, state in saved_splits(stated).items()
    ]
    return opened[0] if len(opened) == 1 else join_files(opened, stated.parent)


def open_parquet_items(files: Sequence[Path], images: Path | None) -> Opened:
    """Parquet files; shards that Hugging Face names by split are splits."""
    return _open_all([_Parquet(file) for file in files], images, None)


class _Table(ABC):
    """A file of columns: small ones are read at once, images and sounds when they are needed."""

    path: Path
    schema: Any
    names: list[str]
    n: int

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """A whole column."""

    @abstractmethod
    def values(self, name: str) -> list[Callable[[], Any]]:
        """For each row, what gives its value in a column."""


class _Parquet(_Table):
    """A Parquet file; images are read a row group at a time, and the last few groups are kept."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path, self.file = path, SteadyFile(path)
        with self._reading(), self.file.watched(), pq.ParquetFile(path) as file:
            self.metadata = file.metadata
            self.schema = file.schema_arrow
            self.names = self.schema.names
        self.n = self.metadata.num_rows
        self._groups: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self._lock = Lock()

    def column(self, name: str) -> list[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        kind = self.schema.field(name).type
        # Strings stay a dictionary of values until it is known how long all are.
        coded = [name] if pa.types.is_string(kind) or pa.types.is_binary(kind) else None
        with (
            self._reading(),
            self.file.watched(),
            pq.ParquetFile(self.path, metadata=self.metadata, read_dictionary=coded) as file,
        ):
            column = file.read([name])[name]
            n_bytes = sum(text_bytes(chunk) for chunk in column.chunks)
            check_unpacked(f"{name!r} of {self.path}", n_bytes, self.file.size)
            found: list[Any] = column.to_pylist()
            return found

    def values(self, name: str) -> list[Callable[[], Any]]:
        return [
            partial(self._value, name, group, row)
            for group in range(self.metadata.num_row_groups)
            for row in range(self.metadata.row_group(group).num_rows)
        ]

    def _value(self, name: str, group: int, row: int) -> Any:
        import pyarrow.parquet as pq

        with self._lock:
            if (name, group) not in self._groups:
                with (
                    self._reading(),
                    self.file.watched(),
                    pq.ParquetFile(self.path, metadata=self.metadata) as file,
                ):
                    self.file.check()
                    self._groups[name, group] = file.read_row_group(group, [name])[name]
                while len(self._groups) > _KEPT:
                    self._groups.popitem(last=False)
            self._groups.move_to_end((name, group))
            values = self._groups[name, group]
        return values[row].as_py()

    def _reading(self) -> Any:
        import pyarrow as pa

        errors = (pa.ArrowException, OSError, UnicodeDecodeError)
        return reading(self.path, "a Parquet file", *errors)


class _Arrow(_Table):
    """A stream of record batches, mapped into memory; the file is looked at before each item."""

    def __init__(self, path: Path) -> None:
        self.path, self.part = path, read_arrow(path)
        self.table = self.part.table
        self.schema, self.names = self.table.schema, self.table.column_names
        self.n = self.table.num_rows

    def column(self, name: str) -> list[Any]:
        found: list[Any] = self.table[name].to_pylist()
        return found

    def values(self, name: str) -> list[Callable[[], Any]]:
        chunks = self.table[name].chunks
        return [partial(self._value, chunk, row) for chunk in chunks for row in range(len(chunk))]

    def _value(self, chunk: Any, row: int) -> Any:
        self.part.check()
        return chunk[row].as_py()


def _open_all(tables: Sequence[_Table], images: Path | None, split: str | None) -> Opened:
    opened = [_open(table, images or table.path.parent, split) for table in tables]
    kind, items = join_files(opened, tables[0].path.parent)
    return kind, merge_names(items, kind)


def _open(table: _Table, images: Path, split: str | None) -> Opened:
    if len(set(table.names)) < len(table.names):
        raise InputValueError(f"{table.path} must name every column once: {listed(table.names)}.")
    features = _features(table.schema)
    noted_images, sounds, classes = (
        [name for name, feature in features.items() if feature.get("_type") == wanted]
        for wanted in ("Image", "Audio", "ClassLabel")
    )
    files = [*noted_images, *sounds]
    roles = Roles.of(table.names, table.path, files=files, classes=classes)
    nothing: list[Any] = [None] * table.n

    def column(name: str | None) -> list[Any]:
        if name is None:
            return nothing
        return _named(_whole(table.column(name), table), features.get(name, {}))

    paths = column(roles.file) if roles.file and _is_text(table, roles.file) else nothing
    names = column(roles.name) if paths is nothing else paths
    said, labels, splits = column(roles.captions), column(roles.label), column(roles.split)
    others = roles.others if names is paths else roles.without_name
    small = [name for name in others if _is_small(table.schema.field(name).type)]
    fields = {name: column(name) for name in small}
    readers = _readers(table, roles.file, ImageFolder(images))
    where = f"{split}/{table.path.name}" if split else table.path.name
    items = [
        Item(
            label_of(names[row]) or f"{where}/{row}",
            clean(said[row] if isinstance(said[row], list) else [said[row]]),
            label_of(splits[row]) or split or _split_of(table.path),
            readers[row],
            label_of(labels[row]),
            plain_fields({name: values[row] for name, values in fields.items()}, small),
            named=label_of(names[row]) is not None,
        )
        for row in range(table.n)
    ]
    return roles.kind(paths, sounds=sounds), items


def _is_text(table: _Table, column: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(column).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _readers(table: _Table, column: str | None, folder: ImageFolder) -> list[Callable[[], bytes]]:
    import pyarrow as pa

    if column is None:
        return [no_file] * table.n
    kind = table.schema.field(column).type
    inner = kind.field("bytes").type if _has_bytes(kind) else kind
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
    if not _is_text(table, column) and not any(check(inner) for check in checks):
        raise InputTypeError(
            f"{column!r} of {table.path} must hold bytes, structures of bytes and path, or names "
            f"of files, got {kind}."
        )
    values = _whole(table.values(column), table)
    return [partial(_stored, value, folder, table.path) for value in values]


def _whole(values: list[Any], table: _Table) -> list[Any]:
    """The values of a column, refused where there is not one for each row."""
    if len(values) != table.n:
        raise InputValueError(
            f"{table.path} is damaged: it must have {table.n} rows, a column has {len(values)}."
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


def _has_bytes(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(kind)) and kind.get_field_index("bytes") >= 0


def _is_small(kind: Any) -> bool:
    """Texts, numbers, and lists of texts: what can be kept beside an item."""
    import pyarrow as pa

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
