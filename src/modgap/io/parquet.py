"""Parquet with vectors in list or fixed-size-list columns: one file, or a folder of shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modgap._changes import SteadyFile
from modgap._claims import check_unpacked
from modgap._validate import InputTypeError, InputValueError
from modgap.io._arrow import column_values, is_list, list_numbers, list_width, numpy_dtype
from modgap.io._contents import Column, Contents, reading
from modgap.io._matrix import BATCH_ROWS, Matrix, Shards, StoredMatrix, join_files, rebatch
from modgap.io._shards import Opening
from modgap.io._stream import RowStream
from modgap.io.remote import steady

# Bytes that are read of a column at once, from a disk and from a store far away.
_BUFFER, _REMOTE_BUFFER = 1024**2, 8 * 1024**2


def open_parquet(paths: Sequence[Any], source: Any, opening: Opening | None = None) -> Contents:
    """The vector columns and the plain columns of shards, read one after the other."""
    opening = opening or Opening()
    files = parquet_files(paths, opening)
    opening.refuse_none(files, source)
    return parquet_contents(list(files.values()), source)


def parquet_files(paths: Sequence[Any], opening: Opening) -> dict[str, ParquetShard]:
    """The files by the keys of their shards."""
    files = opening.open_each(paths, ParquetShard, lambda file: file.n_rows, _look_through)
    return opening.agreeing(files, _holds, "columns")


def _holds(file: ParquetShard) -> frozenset:
    widths = {c: file.matrix(c).shape[1] for c in file.list_columns() if file.n_rows}
    return frozenset((name, widths.get(name)) for name in file.schema.names)


def _look_through(file: ParquetShard) -> None:
    """Read every column of a file."""
    for name in file.list_columns() if file.n_rows else ():
        for _ in file.matrix(name).batches(BATCH_ROWS):
            pass
    for name in set(file.schema.names) - set(file.list_columns()):
        for _ in file.arrays(name, None, BATCH_ROWS):
            pass


def parquet_contents(files: Sequence[ParquetShard], source: Any) -> Contents:
    """What files hold together, read one after the other."""
    with _reading(source):  # names that are no text, for instance
        return _contents(files, source)


def _contents(files: Sequence[ParquetShard], source: Any) -> Contents:
    import pyarrow as pa

    n_rows = sum(file.n_rows for file in files)
    if n_rows == 0:
        raise InputValueError(f"{source} must have at least one row, got none.")
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for field in files[0].schema:
        if is_list(field.type):
            parts = {file.path: file.matrix(field.name) for file in files if file.n_rows}
            matrices[field.name] = join_files(parts)
        elif not pa.types.is_nested(field.type):
            load = partial(_load_column, files, field.name)
            columns[field.name] = Column(n_rows, str(field.type), load, load)
    return Contents(source, matrices, columns)


class ParquetShard:
    """What the footer of one file says."""

    def __init__(self, path: Any) -> None:
        self.path = path
        self.file = steady(path)
        with self._opened() as file:
            self.metadata = file.metadata
            self.schema = file.schema_arrow
        self.n_rows: int = self.metadata.num_rows
        groups = [self.metadata.row_group(g).num_rows for g in range(self.metadata.num_row_groups)]
        if min(groups, default=0) < 0 or sum(groups) != self.n_rows:
            raise InputValueError(
                f"{path} is damaged: it claims {self.n_rows} rows, and its row groups "
                f"{sum(groups)}. Write or download it again."
            )

    def list_columns(self) -> list[str]:
        """The columns that hold vectors."""
        return [field.name for field in self.schema if is_list(field.type)]

    @contextmanager
    def _opened(self, **options: Any) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with _reading(self.path), self.file.watched(), ExitStack() as held:
            source: Any = self.path
            if self.file.is_remote:
                source = held.enter_context(self.file.open())
            yield held.enter_context(pq.ParquetFile(source, **options))

    def check_claim(self, column: str, claimed: int) -> None:
        """Refuse a column that would unpack to far more bytes than the file has."""
        check_unpacked(f"{column!r} of {self.path}", claimed, self.file.size)

    def _n_values(self, column: str) -> int:
        """How many numbers a column of lists claims to hold."""
        total = 0
        for group in range(self.metadata.num_row_groups):
            held = self.metadata.row_group(group)
            for place in range(held.num_columns):
                if held.column(place).path_in_schema.split(".")[0] == column:
                    total += held.column(place).num_values
        return total

    def column_type(self, column: str) -> Any:
        """The type of a column, which must be there."""
        if column not in self.schema.names:
            raise InputValueError(
                f"All shards must have the same columns, but {self.path} has no {column!r}. "
                f"It has {', '.join(map(repr, self.schema.names))}."
            )
        return self.schema.field(column).type

    def matrix(self, column: str) -> Matrix:
        """The vectors of a column; read by row group, so that distant rows can be skipped."""
        list_type = self.column_type(column)
        if not is_list(list_type):
            raise InputTypeError(f"{column!r} of {self.path} must hold lists, got {list_type}.")
        itemsize = numpy_dtype(list_type.value_type).itemsize
        self.check_claim(column, self._n_values(column) * itemsize)
        dim = list_width(list_type, self.arrays(column, None, 1), column, self.path)
        self.check_claim(column, self.n_rows * dim * itemsize)
        groups, first_row = [], 0
        for group in range(self.metadata.num_row_groups):
            n_rows = self.metadata.row_group(group).num_rows
            if n_rows:
                groups.append(_RowGroup(self, column, group, first_row, (n_rows, dim)))
            first_row += n_rows
        return groups[0] if len(groups) == 1 else Shards(groups, one_file=True)

    def arrays(
        self, column: str, row_groups: list[int] | None, size: int, *, encoded: bool = False
    ) -> Iterator[Any]:
        """The column as Arrow arrays of at most ``size`` rows.

        ``encoded`` strings are left as a dictionary of values, which may be long and many rows'.
        """
        with self._opened(
            metadata=self.metadata,
            buffer_size=_REMOTE_BUFFER if self.file.is_remote else _BUFFER,
            read_dictionary=[column] if encoded else None,
        ) as file:
            for batch in file.iter_batches(size, row_groups=row_groups, columns=[column]):
                self.file.check()
                yield batch.column(column)


class _RowGroup(StoredMatrix):
    """One column of one row group."""

    def __init__(
        self, file: ParquetShard, column: str, group: int, first_row: int, shape: tuple[int, int]
    ) -> None:
        self.file, self.column, self.group = file, column, group
        self.first_row, self.shape, self.readers = first_row, shape, file.file.readers
        self.dtype = numpy_dtype(file.column_type(column).value_type)

    def origin(self) -> tuple[SteadyFile, str] | None:
        return self.file.file, self.column

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        row = self.first_row
        for array in self.file.arrays(self.column, [self.group], size):
            yield list_numbers(array, self.shape[1], self.column, self.file.path, row)
            row += len(array)
        if row - self.first_row != self.shape[0]:
            raise InputValueError(
                f"{self.file.path} is damaged: row group {self.group} claims {self.shape[0]} rows, "
                f"and {self.column!r} has {row - self.first_row}. Write or download it again."
            )


def _load_column(
    files: Sequence[ParquetShard], column: str, rows: np.ndarray | None = None
) -> np.ndarray:
    """The entries of a column, or those at ``rows``: all are read, and only they are kept."""
    import pyarrow as pa

    chunks, first = [], 0
    wanted = None if rows is None else np.sort(rows)
    for file in files:
        kind = file.column_type(column)
        encoded = pa.types.is_string(kind) or pa.types.is_binary(kind)
        file.check_claim(column, 0 if encoded else 8 * file.n_rows)
        n_bytes = 0
        for array in file.arrays(column, None, BATCH_ROWS * 8, encoded=encoded):
            with _reading(file.path):
                n_bytes += text_bytes(array)
            file.check_claim(column, n_bytes)
            chunks.append(array if wanted is None else _at(array, wanted - first))
            first += len(array)
    with _reading(files[0].path):
        whole = pa.chunked_array(chunks)
        if rows is not None:
            whole = whole.take(np.argsort(np.argsort(rows, kind="stable"), kind="stable"))
        return column_values(whole)


def _at(array: Any, places: np.ndarray) -> Any:
    """The entries at those of the sorted ``places`` that an array has."""
    low, high = np.searchsorted(places, (0, len(array)))
    return array.take(places[low:high])


def text_bytes(array: Any) -> int:
    """The bytes of the strings of an array, each counted as often as it is there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(array.type):
        return array.nbytes
    if pa.types.is_primitive(array.type.value_type):
        return 8 * len(array)
    lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
    return 8 * len(array) + (pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0)


def _reading(path: Any) -> Any:
    import pyarrow as pa

    return reading(path, "a Parquet file", pa.ArrowException, OSError, UnicodeDecodeError)


def write_parquet(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Stream vectors as fixed-size lists, and columns beside them, batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = [
        pa.field(name, pa.list_(pa.from_numpy_dtype(stream.dtype), stream.dim), nullable=False)
        for name, stream in matrices.items()
    ]
    others = {name: pa.array(values, from_pandas=False) for name, values in columns.items()}
    schema = pa.schema(vectors + [pa.field(name, array.type) for name, array in others.items()])
    batches = [rebatch(stream.batches(), BATCH_ROWS) for stream in matrices.values()]
    start = 0
    # A dictionary of values helps repeated strings; embeddings hardly repeat.
    with pq.ParquetWriter(path, schema, use_dictionary=list(columns)) as writer:
        for sides in _side_by_side(batches, list(matrices)):
            stop = start + len(sides[0])
            arrays = [
                pa.FixedSizeListArray.from_arrays(pa.array(side.ravel()), type=field.type)
                for side, field in zip(sides, vectors, strict=True)
            ]
            for name, array in others.items():
                if len(array) < stop:
                    raise InputValueError(
                        f"{name} must have one entry per row: at least {stop} rows, "
                        f"got {len(array)}."
                    )
                arrays.append(array[start:stop])
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            start = stop


def _side_by_side(
    batches: list[Iterator[np.ndarray]], names: list[str]
) -> Iterator[tuple[np.ndarray, ...]]:
    while True:
        sides = [next(side, None) for side in batches]
        present = tuple(side for side in sides if side is not None)
        if not present:
            return
        if len(present) < len(sides) or len({len(side) for side in present}) > 1:
            raise InputValueError(
                f"A Parquet file of pairs needs as many rows of {names[0]!r} as of {names[1]!r}. "
                "Write two files, or one .npz."
            )
        yield present
