"""Arrow's lists as matrices and its columns as arrays: for tables, Parquet, Lance and datasets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.lazy import pa, pc
from modgap.core.steady_file import SteadyFile
from modgap.io._contents import Column, Contents, listed
from modgap.io._file_matrices import ReadMatrix
from modgap.io._matrices import BATCH_ROWS, Matrix


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

    def matrix(self, column: str) -> Matrix:
        """The vectors of a column."""
        kind = self.schema.field(column).type
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


def arrow_contents(part: ArrowPart) -> Contents:
    """The vectors and the plain columns of a source; no vectors where it has no rows."""
    names = part.schema.names
    if len({*names}) < len(names):
        raise InputValueError(f"{part.path} must name every column once, got {listed(names)}.")
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for field in part.schema:
        if is_list(field.type):
            matrices |= {field.name: part.matrix(field.name)} if part.n_rows else {}
        elif not pa.types.is_nested(field.type):
            load = partial(_load_column, part, field.name)
            columns[field.name] = Column(part.n_rows, str(field.type), load, load)
    return Contents(part.path, matrices, columns)


def _load_column(part: ArrowPart, column: str, rows: np.ndarray | None = None) -> np.ndarray:
    """The entries of a column, or those at ``rows``: all are read, and only they are kept."""
    chunks, first = [], 0
    wanted = None if rows is None else np.sort(rows)
    for array in part.values(column):
        if wanted is not None:
            low, high = np.searchsorted(wanted, (first, first + len(array)))
            chunks.append(array.take(pa.array(wanted[low:high] - first)))
        else:
            chunks.append(array)
        first += len(array)
    with part.reading():
        whole = pa.chunked_array(chunks)
        if rows is not None:
            whole = whole.take(np.argsort(np.argsort(rows, kind="stable"), kind="stable"))
        found = column_values(whole)
    return found.copy() if part.copies else found


def is_list(arrow_type: Any) -> bool:
    """Whether a column holds lists, of one length or of any."""
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(arrow_type) for check in checks)


def numpy_dtype(arrow_type: Any) -> np.dtype:
    """The dtype of numbers in NumPy; object for all that is no number."""
    if pa.types.is_floating(arrow_type) or pa.types.is_integer(arrow_type):
        return np.dtype(arrow_type.to_pandas_dtype())
    return np.dtype(bool if pa.types.is_boolean(arrow_type) else object)


def list_numbers(array: Any, dim: int, column: str, path: object, row: int) -> np.ndarray:
    """Lists as a matrix of ``dim`` columns; ``row`` is the number of the first one."""
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
