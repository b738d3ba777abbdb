"""Hugging Face's `.safetensors`: named tensors, memory-mapped; bfloat16 is read as float32."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from modgap._validate import InputTypeError
from modgap.io._contents import Column, Contents, reading
from modgap.io._matrix import ArrayMatrix, Matrix, bfloat16_matrix, map_file
from modgap.io._stream import RowStream, is_text, refuse_columns

_DTYPES = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "BOOL": "?",
    "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "<u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip


def open_safetensors(path: Path) -> Contents:
    """The matrices and the one-dimensional tensors of a file."""
    import safetensors

    # The library checks the header against the file; the offsets are read from it below.
    with (
        reading(path, "a safetensors file", safetensors.SafetensorError),
        safetensors.safe_open(path, framework="numpy"),
    ):
        pass
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for name, entry in header.items():
        if name == "__metadata__" or not entry["shape"]:
            continue
        matrix = _map_tensor(path, name, entry, 8 + header_bytes)
        if len(matrix.shape) == 1:
            columns[name] = Column(matrix.shape[0], str(matrix.dtype), matrix.rows)
        else:
            matrices[name] = matrix
    return Contents(path, matrices, columns)


def _map_tensor(path: Path, name: str, entry: dict, data_start: int) -> ArrayMatrix:
    kind = entry["dtype"]
    if kind not in _DTYPES:
        raise InputTypeError(
            f"{name!r} of {path} must hold float16, bfloat16, float32 or float64, got {kind}. "
            "Convert it to float16."
        )
    offset = data_start + entry["data_offsets"][0]
    array = map_file(path, np.dtype(_DTYPES[kind]), tuple(entry["shape"]), offset=offset)
    return bfloat16_matrix(array) if kind == "BF16" else ArrayMatrix(array)


def write_safetensors(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Write matrices and columns of numbers; the rows are collected in memory first."""
    from safetensors.numpy import save_file

    texts = {name: values for name, values in columns.items() if is_text(values)}
    refuse_columns(texts, "A .safetensors file holds only numbers")
    arrays = {name: stream.collect() for name, stream in matrices.items()}
    save_file({**arrays, **columns}, path)
