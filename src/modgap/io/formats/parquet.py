"""Parquet with vectors in list or fixed-size-list columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.lazy import pa, pc, pq
from modgap.core.limits import check_unpacked
from modgap.core.steady_file import SteadyFile
from modgap.io._arrow_columns import ArrowPart, arrow_contents, list_width, numpy_dtype
from modgap.io._contents import Contents, reading
from modgap.io._file_matrices import ReadMatrix
from modgap.io._matrices import BATCH_ROWS, Matrix, Shards, rebatch
from modgap.io._row_stream import RowStream
from modgap.io.remote import steady

# Bytes that are read of a column at once, from a disk and from a store far away.
_BUFFER, _REMOTE_BUFFER = 1024**2, 8 * 1024**2


def open_parquet(path: Any) -> Contents:
    """The vector columns and the plain columns of a file, which may have no rows."""
    part = ParquetPart(path)
    with part.reading():  # names that are no text, for instance
        return arrow_contents(part)


class ParquetPart(ArrowPart):
    """One file: its footer, and its columns by row group."""

    def __init__(self, path: Any) -> None:
        self.path = path
        self.file: SteadyFile = steady(path)
        self.readers = self.file.readers
        with self._opened() as file:
            self.metadata = file.metadata
            self.schema = file.schema_arrow
        self.n_rows = self.metadata.num_rows
        groups = map(self.metadata.row_group, range(self.metadata.num_row_groups))
        self.group_rows = [group.num_rows for group in groups]
        if min(self.group_rows, default=0) < 0 or sum(self.group_rows) != self.n_rows:
            raise InputValueError(
                f"{path} is damaged: it claims {self.n_rows} rows, and its row groups "
                f"{sum(self.group_rows)}. Write or download it again."
            )

    @contextmanager
    def _opened(self, **options: Any) -> Iterator[Any]:
        with self.reading(), self.file.watched(), ExitStack() as held:
            source: Any = self.path
            if self.file.is_remote:
                source = held.enter_context(self.file.open())
            yield held.enter_context(pq.ParquetFile(source, **options))

    def reading(self) -> AbstractContextManager[None]:
        """Errors about this file are one sentence."""
        errors = (pa.ArrowException, OSError, UnicodeDecodeError)
        return reading(self.path, "a Parquet file", *errors)

    def _check_claim(self, column: str, claimed: int) -> None:
        """Refuse a column that would unpack to far more bytes than the file has."""
        check_unpacked(f"{column!r} of {self.path}", claimed, self.file.size)

    def _n_values(self, column: str) -> int:
        """How many numbers a column of lists claims to hold."""
        groups = map(self.metadata.row_group, range(self.metadata.num_row_groups))
        columns = (group.column(k) for group in groups for k in range(group.num_columns))
        own = (held for held in columns if held.path_in_schema.split(".")[0] == column)
        return sum(held.num_values for held in own)

    def matrix(self, column: str) -> Matrix:
        """The vectors of a column; read by row group, so that distant rows can be skipped."""
        kind = self.schema.field(column).type
        dtype = numpy_dtype(kind.value_type)
        self._check_claim(column, self._n_values(column) * dtype.itemsize)
        dim = list_width(kind, self.arrays(column, 1), column, self.path)
        self._check_claim(column, self.n_rows * dim * dtype.itemsize)
        groups: list[Matrix] = []
        first_row = 0
        for group, n_rows in enumerate(self.group_rows):
            if n_rows:
                blocks = partial(self._group_blocks, column, group, first_row, (n_rows, dim))
                groups.append(ReadMatrix((n_rows, dim), dtype, blocks, readers=self.readers))
            first_row += n_rows
        return Shards(groups, self.file, column)

    def _group_blocks(
        self, column: str, group: int, first_row: int, shape: tuple[int, int], size: int
    ) -> Iterator[np.ndarray]:
        row = first_row
        for array in self.arrays(column, size, [group]):
            yield self.numbers(array, shape[1], column, row)
            row += len(array)
        if row - first_row != shape[0]:
            raise InputValueError(
                f"{self.path} is damaged: row group {group} claims {shape[0]} rows, "
                f"and {column!r} has {row - first_row}. Write or download it again."
            )

    def arrays(
        self,
        column: str,
        size: int,
        row_groups: list[int] | None = None,
        *,
        encoded: bool = False,
    ) -> Iterator[Any]:
        """The column as Arrow arrays of at most ``size`` rows.

        ``encoded`` strings stay a dictionary: a long value of many rows is there once.
        """
        with self._opened(
            metadata=self.metadata,
            buffer_size=_REMOTE_BUFFER if self.file.is_remote else _BUFFER,
            read_dictionary=[column] if encoded else None,
        ) as file:
            for batch in file.iter_batches(size, row_groups=row_groups, columns=[column]):
                self.file.check()
                yield batch.column(column)

    def values(self, column: str) -> Iterator[Any]:
        """A column of one entry per row; refused where it unpacks to far more than is stored."""
        kind = self.schema.field(column).type
        encoded = pa.types.is_string(kind) or pa.types.is_binary(kind)
        self._check_claim(column, 0 if encoded else 8 * self.n_rows)
        n_bytes = 0
        for array in self.arrays(column, BATCH_ROWS * 8, encoded=encoded):
            with self.reading():
                n_bytes += _text_bytes(array)
            self._check_claim(column, n_bytes)
            yield array


def _text_bytes(array: Any) -> int:
    """The bytes of the strings of an array, each counted as often as it is there."""
    if not pa.types.is_dictionary(array.type):
        return array.nbytes
    if pa.types.is_primitive(array.type.value_type):
        return 8 * len(array)
    lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
    return 8 * len(array) + (pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0)


def write_parquet(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Stream vectors as fixed-size lists, and columns beside them, batch by batch."""
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
        for sides in zip_longest(*batches, fillvalue=()):
            if len({len(side) for side in sides}) > 1:
                first, second, *_ = matrices
                raise InputValueError(
                    f"A Parquet file of pairs needs as many rows of {first!r} as of {second!r}. "
                    "Write two files, or one .npz."
                )
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
