"""Tables and columns in memory, of pandas, Polars, Arrow or Hugging Face, read through Arrow.

None of these libraries is imported: a table that is there was made by one that is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, first_line
from modgap.core.door import as_numpy, is_picture
from modgap.core.lazy import pa
from modgap.core.steady_file import SteadyFile
from modgap.io._arrow_columns import ArrowPart, arrow_contents, is_list, null_rows, one_array
from modgap.io._contents import EMBEDDING, Contents, listed
from modgap.io._matrices import BATCH_ROWS, ArrayMatrix, Matrix

_LIBRARIES = ("pandas", "polars", "pyarrow", "datasets")
# Fewer columns of floats that are numbered may be scores, not the numbers of a vector.
_FEWEST_NUMBERED = 8
_NUMBERED = re.compile(r"(?P<name>.*?)[ _.\-]*(?P<number>\d+)")


def is_table(given: Any) -> bool:
    """Whether it is a table, or a column of one; told without importing its library."""
    kind = type(given)
    streams = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")
    return (streams and not is_picture(given)) or _library(given) in _LIBRARIES


def is_opened(given: Any) -> bool:
    """Whether rows have to be opened: a path or a table, and no array yet."""
    return isinstance(given, (str, os.PathLike)) or is_table(given)


def open_table(given: Any, label: str = "") -> Contents:
    """The contents of a table, as of a Parquet file; ``label`` names the modality it is for."""
    kind = f"{_library(given)} {type(given).__name__}"
    source = Path(f"{label} ({kind})" if label else kind)
    part = TablePart(_as_arrow(given, source), source)
    found = Contents.joined([arrow_contents(part)], source)
    if found.matrices:
        return found
    matrices: dict[str, Matrix] = {}
    columns = dict(found.columns)
    for name, own in _numbered(part.table).items():
        matrices[name] = ArrayMatrix(_side_by_side(part.table, own, source))
        columns = {other: column for other, column in columns.items() if other not in own}
    return replace(found, matrices=matrices, columns=columns)


class TablePart(ArrowPart):
    """A table of Arrow; ``file`` is the file that it is a map of, if it is one."""

    def __init__(self, table: Any, path: Path, file: SteadyFile | None = None) -> None:
        columns = [_plain(one) for one in table.columns]
        plain = pa.Table.from_arrays(columns, names=table.column_names)
        self.table = plain.replace_schema_metadata(table.schema.metadata)
        self.path, self.file, self.copies = path, file, file is not None
        self.schema, self.n_rows = self.table.schema, table.num_rows

    def arrays(self, column: str, size: int) -> Iterator[Any]:
        """The column as Arrow arrays of at most ``size`` rows."""
        for chunk in self.table.column(self.schema.get_field_index(column)).chunks:
            for start in range(0, len(chunk), size):
                self.check()
                yield chunk.slice(start, size)

    def take_rows(self, column: str, dim: int, rows: np.ndarray) -> np.ndarray:
        """The vectors of a column at rising row numbers."""
        self.check()
        array = one_array(self.table.column(self.schema.get_field_index(column)).take(rows))
        return self.numbers(array, dim, column, int(rows[0]))

    def matrix(self, column: str) -> Matrix:
        """The vectors of a column; those in one piece of memory are an array of NumPy."""
        found = super().matrix(column)
        chunks = self.table.column(self.schema.get_field_index(column)).chunks
        if len(chunks) == 1 and self.file is None and found.dtype.kind == "f":
            with suppress(InputValueError):  # raised when its rows are read: others may be wanted
                return ArrayMatrix(self.numbers(chunks[0], found.shape[1], column, 0))
        return found

    def check(self) -> None:
        """Raise if the file is not the one that was opened."""
        if self.file is not None:
            self.file.check()


def _numbered(table: Any) -> dict[str, list[str]]:
    """The matrices of a table with a column for each number: ``image_0``, ``image_1`` and so on.

    Columns that are all floats are one matrix, whatever they are called.
    """
    floats = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    if len(floats) > 1 and len(floats) == len(table.column_names):
        groups = _by_prefix(floats)
        if sum(map(len, groups.values())) < len(floats) or not groups:
            groups = {EMBEDDING: floats}
    else:
        groups = {k: v for k, v in _by_prefix(floats).items() if len(v) >= _FEWEST_NUMBERED}
    return groups


def _by_prefix(names: Sequence[str]) -> dict[str, list[str]]:
    """Names that differ in a number at their end, in its order, if it counts from 0 or 1.

    >>> _by_prefix(["a_1", "a_0", "b_7", "score"])
    {'a': ['a_0', 'a_1']}
    """
    found: dict[str, dict[int, str]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            found.setdefault(match["name"] or EMBEDDING, {})[int(match["number"])] = name
    return {
        prefix: [own[number] for number in sorted(own)]
        for prefix, own in found.items()
        if len(own) > 1 and sorted(own)[0] in (0, 1) and max(own) - min(own) == len(own) - 1
    }


def _side_by_side(table: Any, names: Sequence[str], source: Path) -> np.ndarray:
    columns = [table[name] for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            nulls = np.flatnonzero(column.is_null().to_numpy())
            raise null_rows(name, source, int(nulls[0]))
    numbers = [column.to_numpy() for column in columns]
    whole = np.empty((len(table), len(numbers)), np.result_type(*numbers))
    for start in range(0, len(whole), BATCH_ROWS):  # which stay in the cache
        block = slice(start, start + BATCH_ROWS)
        whole[block] = np.stack([one[block] for one in numbers], axis=1)
    return whole


def _plain(column: Any) -> Any:
    """A column without what few readers know: views, and lists that are called tensors."""
    if isinstance(column.type, pa.BaseExtensionType):
        stored = [chunk.storage for chunk in column.chunks]
        column = pa.chunked_array(stored, column.type.storage_type)
    kind = str(column.type)
    if kind == "string_view":
        return column.cast(pa.large_string())
    if kind.startswith(("list_view", "large_list_view")):
        return column.cast(pa.large_list(column.type.value_type))
    return column


def _as_arrow(given: Any, source: Path) -> Any:
    """The table of Arrow that it is, or can be read as."""
    readers: Mapping[str, Callable[[Any, Path], Any]] = {
        "datasets": _from_datasets,
        "pandas": _from_pandas,
    }
    try:
        if (library := _library(given)) in readers:
            return readers[library](given, source)
        if isinstance(given, pa.Table):
            return given
        if isinstance(given, (pa.Array, pa.ChunkedArray)):
            return pa.table({EMBEDDING: given})
        return _from_stream(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, InputTypeError):
            raise
        if hasattr(given, "collect"):
            raise InputTypeError(f"{source} holds no rows yet. Call .collect() on it.") from error
        if reader := next((name for name in ("to_table", "read") if hasattr(given, name)), None):
            raise InputTypeError(f"{source} is no table yet. Call .{reader}() on it.") from error
        raise InputTypeError(
            f"{source} must be a table or a column that Arrow reads ({first_line(error)[:200]}). "
            "Pass a DataFrame, a Table, or an array: .to_numpy()."
        ) from error


def _from_stream(given: Any) -> Any:
    """What gives a stream of Arrow's: a table, or one column."""
    try:
        return pa.table(given)
    except (pa.ArrowInvalid, TypeError):
        whole = hasattr(given, "__arrow_c_array__") and not hasattr(given, "__arrow_c_stream__")
        return pa.table({EMBEDDING: pa.array(given) if whole else pa.chunked_array(given)})


def _from_pandas(given: Any, source: Path) -> Any:
    """Column by column: one that Arrow cannot read does not matter where it is not needed."""
    if getattr(given, "ndim", 0) == 2 and hasattr(given, "columns"):
        # Names of several levels are written side by side.
        names = ["_".join(map(str, n)) if isinstance(n, tuple) else str(n) for n in given.columns]
        named = [(name, given.iloc[:, place]) for place, name in enumerate(names)]
    elif hasattr(given, "index"):
        named = [(str(given.name or EMBEDDING), given)]
    else:
        raise TypeError(f"got {type(given).__name__}")
    index = given.index
    levels = [(str(n), index.get_level_values(n)) for n in index.names if n is not None]
    known = {name for name, _ in named}
    named += [(name, values) for name, values in levels if name not in known]
    found, unread = [], {}
    for name, values in named:
        try:
            found.append((name, _pandas_column(values)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            unread[name] = first_line(error)[:120]
    if unread and not any(is_list(column.type) for _, column in found):
        why = ", ".join(f"{name!r} ({reason})" for name, reason in list(unread.items())[:3])
        raise InputTypeError(
            f"{source} has columns that hold neither numbers, texts nor vectors: {why}. Make each "
            "entry one vector of floats: column.map(np.ravel)."
        )
    return pa.Table.from_arrays([column for _, column in found], names=[name for name, _ in found])


def _pandas_column(values: Any) -> Any:
    if values.dtype == object:
        values = [as_numpy(v) if array_api_compat.is_torch_array(v) else v for v in values]
        first: Any = values[0] if values else None
        is_vector = isinstance(first, np.ndarray) and first.ndim == 1 and first.dtype.kind == "f"
        if is_vector and all(
            isinstance(v, np.ndarray) and (v.shape, v.dtype) == (first.shape, first.dtype)
            for v in values
        ):  # at once, not number by number
            numbers = pa.array(np.concatenate(values))
            return pa.chunked_array([pa.FixedSizeListArray.from_arrays(numbers, len(first))])
    column = pa.array(values, from_pandas=True)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _from_datasets(given: Any, source: Path) -> Any:
    """A dataset of Hugging Face; pictures and sounds in it are left alone."""
    if isinstance(given, dict):
        names = list(given)
        raise InputTypeError(
            f"{source} holds the splits {listed(names)}. Pass one of them: dataset[{names[0]!r}]."
            if names
            else f"{source} holds no split."
        )
    if hasattr(given, "column_name") and hasattr(given, "source"):  # dataset["image"]
        whole = _from_datasets(given.source, source)
        return whole.select([given.column_name])
    if not hasattr(given, "select_columns") or not hasattr(given, "__len__"):
        raise InputTypeError(
            f"{source} must be a Dataset, whose rows can be counted. Make one of a stream: "
            "datasets.Dataset.from_list(list(stream))."
        )
    schema = given.features.arrow_schema
    kept = [f.name for f in schema if not pa.types.is_struct(f.type)]
    return given.select_columns(kept).with_format("arrow")[:]


def _library(given: Any) -> str:
    return type(given).__module__.partition(".")[0]
