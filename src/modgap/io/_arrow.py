"""Arrow's lists as matrices and its columns as arrays: what Parquet files and tables share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from modgap._validate import InputValueError


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
