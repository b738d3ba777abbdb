"""Arrow's lists as matrices and its columns as arrays: for tables, Parquet, Lance and datasets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from modgap._changes import SteadyFile
from modgap._validate import InputTypeError, InputValueError
from modgap.io._contents import Column, Contents, listed
from modgap.io._matrices import BATCH_ROWS, Matrix, ReadMatrix, join_files


class ArrowPart(ABC):
    """One source of Arrow arrays: a table, a Parquet file, a fragment of a Lance dataset.

    ``copies`` says that its memory may end with the source, so that rows are copied.
    """

    path: Any
    n_rows: int
    schema: Any
    file: SteadyFile | None = None
    readers = 0
    copies = False

    @abstractmethod
    def arrays(self, column: str, size: int) -> Iterator[Any]:
        """The column as Arrow arrays of at most ``size`` rows."""

    def take_rows(self, column: str, dim: int, rows: np.ndarray) -> np.ndarray:
        """The vectors of a column at rising row numbers."""
        raise NotImplementedError

    def values(self, column: str) -> Iterator[Any]:
        """A column of one entry per row as Arrow arrays."""
        return self.arrays(column, 8 * BATCH_ROWS)

    def reading(self) -> AbstractContextManager[None]:
        """Turns the errors of a library into one sentence about the source."""
        return nullcontext()

    def vector_columns(self) -> list[str]:
        """The columns that hold lists."""
        return [field.name for field in self.schema if is_list(field.type)]

    def column_type(self, column: str) -> Any:
        """The type of a column, which must be there."""
        place = self.schema.get_field_index(column)
        if place < 0:
            raise InputValueError(
                f"All shards must have the same columns, but {self.path} has no {column!r}. "
                f"It has {listed(self.schema.names)}."
            )
        return self.schema.field(place).type

    def matrix(self, column: str) -> Matrix:
        """The vectors of a column."""
        kind = self._list_type(column)
        dim = list_width(kind, self.arrays(column, 1), column, self.path)
        is_taken = type(self).take_rows is not ArrowPart.take_rows
        return ReadMatrix(
            (self.n_rows, dim),
            numpy_dtype(kind.value_type),
            partial(self.blocks, column, dim),
            take_rows=partial(self.take_rows, column, dim) if is_taken else None,
            file=self.file,
            place=column,
            readers=self.readers,
        )

    def _list_type(self, column: str) -> Any:
        kind = self.column_type(column)
        if not is_list(kind):
            raise InputTypeError(f"{column!r} of {self.path} must hold lists, got {kind}.")
        return kind

    def blocks(self, column: str, dim: int, size: int) -> Iterator[np.ndarray]:
        """The vectors of a column in order, at most ``size`` at a time."""
        row = 0
        for array in self.arrays(column, size):
            yield self.numbers(array, dim, column, row)
            row += len(array)

    def numbers(self, array: Any, dim: int, column: str, row: int) -> np.ndarray:
        """Lists as a matrix; ``row`` is the number of the first one."""
        found = list_numbers(array, dim, column, self.path, row)
        return found.copy() if self.copies else found

    def look_through(self) -> None:
        """Read every column, and raise where one is damaged."""
        vectors = self.vector_columns() if self.n_rows else []
        for name in vectors:
            for _ in self.matrix(name).batches(BATCH_ROWS):
                pass
        for name in {*self.schema.names} - {*vectors}:
            for _ in self.arrays(name, BATCH_ROWS):
                pass


def arrow_contents(parts: Sequence[ArrowPart], source: Any) -> Contents:
    """The vectors and the plain columns of parts that are read one after the other."""
    import pyarrow as pa

    names = parts[0].schema.names if parts else []
    if len({*names}) < len(names):
        raise InputValueError(f"{source} must name every column once, got {listed(names)}.")
    parts = [part for part in parts if part.n_rows]
    if not parts:
        raise InputValueError(f"{source} must have at least one row, got none.")
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for field in parts[0].schema:
        if is_list(field.type):
            matrices[field.name] = join_files({p.path: p.matrix(field.name) for p in parts})
        elif not pa.types.is_nested(field.type):
            load = partial(_load_column, parts, field.name)
            n_rows = sum(part.n_rows for part in parts)
            columns[field.name] = Column(n_rows, str(field.type), load, load)
    return Contents(source, matrices, columns)


def _load_column(
    parts: Sequence[ArrowPart], column: str, rows: np.ndarray | None = None
) -> np.ndarray:
    """The entries of a column, or those at ``rows``: all are read, and only they are kept."""
    import pyarrow as pa

    chunks, first = [], 0
    wanted = None if rows is None else np.sort(rows)
    for part in parts:
        part.column_type(column)
        for array in part.values(column):
            if wanted is not None:
                low, high = np.searchsorted(wanted, (first, first + len(array)))
            kept = array if wanted is None else array.take(pa.array(wanted[low:high] - first))
            chunks.append(kept)
            first += len(array)
    with parts[0].reading():
        whole = pa.chunked_array(chunks)
        if rows is not None:
            whole = whole.take(np.argsort(np.argsort(rows, kind="stable"), kind="stable"))
        found = column_values(whole)
    return found.copy() if any(part.copies for part in parts) else found


def is_list(arrow_type: Any) -> bool:
    """Whether a column holds lists, of one length or of any."""
    import pyarrow as pa

    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(arrow_type) for check in checks)


def numpy_dtype(arrow_type: Any) -> np.dtype:
    """The dtype of numbers in NumPy; object for all that is no number."""
    import pyarrow as pa

    if pa.types.is_floating(arrow_type) or pa.types.is_integer(arrow_type):
        return np.dtype(arrow_type.to_pandas_dtype())
    return np.dtype(bool if pa.types.is_boolean(arrow_type) else object)


def list_numbers(array: Any, dim: int, column: str, path: object, row: int) -> np.ndarray:
    """Lists as a matrix of ``dim`` columns; ``row`` is the number of the first one."""
    import pyarrow.compute as pc

    if array.null_count:
        nulls = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
        raise null_rows(column, path, row + int(nulls[0]))
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != dim)
    if len(wrong):
        raise InputValueError(
            f"Every row of {column!r} in {path} must have the same length: "
            f"row 0 of the column has {dim}, row {row + int(wrong[0])} has {lengths[wrong[0]]}."
        )
    values = array.flatten()
    if values.null_count:
        first = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]
        raise null_rows(column, path, row + int(first) // dim)
    return values.to_numpy(zero_copy_only=False).reshape(-1, dim)


def list_width(kind: Any, arrays: Iterable[Any], column: str, path: object) -> int:
    """The length of the lists of a column: what its type says, else that of the first one."""
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    for array in arrays:
        if array.is_valid()[0].as_py():
            return len(array[0])
        break
    raise null_rows(column, path, 0)


def column_values(column: Any) -> np.ndarray:
    """The entries of a chunked array; None stands for one that is missing, NaN among floats."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count and not pa.types.is_floating(column.type):
        # to_numpy would turn whole numbers into floats to have a NaN.
        return np.array(column.to_pylist(), dtype=object)
    found: np.ndarray = column.to_numpy()
    return found


def null_rows(column: str, path: object, row: int) -> InputValueError:
    """What is said of a vector that is missing, or that lacks a number."""
    return InputValueError(
        f"Every row of {column!r} in {path} must be a vector without nulls, but row {row} is or "
        "holds a null. Drop such rows, from both sides to keep the pairs aligned."
    )


def one_array(column: Any) -> Any:
    """The only array of a chunked one; versions of Arrow combine chunks to either."""
    found = column.combine_chunks()
    return found.chunk(0) if hasattr(found, "chunk") else found
