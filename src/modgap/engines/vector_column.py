"""A column of vectors of an Arrow batch as a matrix, and a matrix as such a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from modgap._validate import InputTypeError, InputValueError, did_you_mean
from modgap.io._arrow_columns import is_list, list_numbers, numpy_dtype
from modgap.io._row_stream import FLOATS

# What errors call the place of the rows; an engine does not say which file they came from.
_PLACE = Path("the batch")


def vector_column(batch: Any, column: str | None) -> str:
    """The column of the vectors: the one asked for, else the only one of lists."""
    if not isinstance(batch, (pa.RecordBatch, pa.Table)):
        raise InputTypeError(
            f"batch must be a RecordBatch or Table of pyarrow, got {type(batch).__name__}."
        )
    names = batch.schema.names
    if column is not None:
        if column not in names:
            raise InputValueError(
                f"The batch has no column {column!r}.{did_you_mean(column, names)} "
                f"It has {', '.join(map(repr, names)) or 'none'}."
            )
        return column
    found = [field.name for field in batch.schema if is_list(_stored(field.type))]
    if len(found) != 1:
        raise InputValueError(
            "Say which column holds the vectors with column: the batch has "
            f"{', '.join(map(repr, found)) or 'no column'} of lists."
        )
    return found[0]


def rows_of_column(
    batch: pa.RecordBatch | pa.Table, column: str, first_row: int, dim: int | None = None
) -> np.ndarray:
    """The vectors of a column as a matrix; ``dim`` is the columns of a batch without rows."""
    field = batch.schema.field(column)
    kind = _stored(field.type)
    inner = numpy_dtype(kind.value_type) if is_list(kind) else np.dtype(object)
    if inner.name not in FLOATS:
        raise InputTypeError(
            f"Column {column!r} must hold lists of {', '.join(FLOATS)}, got {field.type}."
        )
    chunks = pa.table(batch).column(column).chunks
    arrays = [getattr(chunk, "storage", chunk) for chunk in chunks if len(chunk)]
    if not arrays:
        return np.empty((0, dim or 0), inner)
    found, row = [], first_row
    width = getattr(kind, "list_size", None)
    for array in arrays:
        if width is None:
            width = next((len(one) for one in array if one.is_valid), 0)
        if width == 0 and not array.null_count:
            raise InputValueError(f"The vectors of {column!r} must have numbers, got none.")
        found.append(list_numbers(array, width, column, _PLACE, row))
        row += len(array)
    return found[0] if len(found) == 1 else np.concatenate(found)


def as_column(rows: np.ndarray, dim: int) -> pa.Array:
    """A matrix as a column of lists of one length."""
    kind = pa.list_(pa.from_numpy_dtype(rows.dtype), dim)
    values = pa.array(np.ascontiguousarray(rows).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, type=kind)


def _stored(kind: Any) -> Any:
    """What an extension type, such as a tensor of Ray's, is kept as."""
    return getattr(kind, "storage_type", kind)
