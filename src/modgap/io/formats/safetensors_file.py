"""Hugging Face's `.safetensors`: named tensors; bfloat16 is read as float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.tensor_file import list_tensors
from modgap.io._contents import Column, Contents, reading
from modgap.io._file_matrices import FileMatrix
from modgap.io._matrices import Matrix
from modgap.io._row_stream import RowStream, is_text, refuse_columns
from modgap.io.remote import steady

_SUMS = ("set of streams", "gap monitor", "set of moments", "set of pair moments")


def open_safetensors(path: Any) -> Contents:
    """The matrices and the one-dimensional tensors of a file."""
    file = steady(path)
    with reading(path, "a safetensors file", ValueError):
        said, stored = list_tensors(file)
    # Files of modgap's own that hold sums over rows and no rows.
    sums = next((one for one in _SUMS if f'"{one}"' in said.get("modgap", "")), None)
    if sums is not None:
        raise InputValueError(
            f"{path} holds no rows: it is a {sums} that modgap wrote. Compare it with others: "
            f"modgap drift {path} …"
        )
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for name, tensor in stored.items():
        if not tensor.shape:
            continue
        if tensor.dtype is None:
            raise InputTypeError(
                f"{name!r} of {path} must hold float16, bfloat16, float32 or float64, got "
                f"{tensor.kind}. Convert it to float16."
            )
        dtype = np.dtype(np.float32) if tensor.kind == "BF16" else None
        matrix = FileMatrix(file, tensor.dtype, tensor.shape, tensor.offset, dtype)
        if len(matrix.shape) == 1:
            columns[name] = Column(matrix.shape[0], str(matrix.dtype), matrix.rows)
        else:
            matrices[name] = matrix
    return Contents(path, matrices, columns)


def write_safetensors(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Write matrices and columns of numbers; the rows are collected in memory first."""
    from safetensors.numpy import save_file

    texts = {name: values for name, values in columns.items() if is_text(values)}
    refuse_columns(texts, "A .safetensors file holds only numbers")
    arrays = {name: stream.collect() for name, stream in matrices.items()}
    save_file({**arrays, **columns}, path)
