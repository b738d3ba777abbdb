"""NumPy's `.npy`: one matrix, or two modalities stacked as (2, n, d); memory-mapped."""

from __future__ import annotations

import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy_format

from modgap._validate import InputTypeError, InputValueError
from modgap.io._contents import Contents, reading
from modgap.io._matrix import ArrayMatrix, map_file
from modgap.io._stream import RowStream, refuse_columns

# What NumPy raises on headers that are not its own.
HEADER_ERRORS = (ValueError, EOFError, SyntaxError, TypeError, KeyError, tokenize.TokenError)

_HEADER_READERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


def open_npy(path: Path) -> Contents:
    """The matrix or the stacked pair in a file; a file of Python objects is refused."""
    return Contents.of_array(path, ArrayMatrix(map_array(path)))


def map_array(path: Path, offset: int = 0) -> np.ndarray:
    """A read-only memory map of the array that starts at ``offset`` in a file."""
    with reading(path, "a NumPy array", *HEADER_ERRORS), path.open("rb") as file:
        file.seek(offset)
        shape, fortran, dtype = read_header(file)
        start = file.tell()
        if dtype.hasobject:
            raise InputTypeError(
                f"{path} must hold plain numbers or strings, got Python objects, which are stored "
                "as a pickle and never loaded. Save it again with a dtype such as float32."
            )
        n_bytes = path.stat().st_size - start
        needed = _count(shape) * dtype.itemsize
        if n_bytes < needed:
            raise InputValueError(
                f"{path} is cut short: an array of shape {shape} and dtype {dtype} needs "
                f"{needed} bytes, got {n_bytes}. Write or download it again."
            )
        return map_file(path, dtype, shape, offset=start, fortran=fortran)


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and dtype; the file is left at the first number."""
    version = npy_format.read_magic(file)
    if version not in _HEADER_READERS:
        raise ValueError(f"version {version} of the format is not for plain numbers")
    shape, fortran, dtype = _HEADER_READERS[version](file)
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {shape} has a negative size")
    return shape, fortran, dtype


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def write_npy(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Stream one matrix, or two stacked as (2, n, d), into a file."""
    refuse_columns(columns, "A .npy file holds only the rows")
    streams = list(matrices.values())
    with path.open("wb") as file:
        start = _write_header(file, streams[0], len(streams), 0)
        counts = []
        for stream in streams:
            for batch in stream.batches():
                _write_rows(file, batch)
            counts.append(stream.n_written)
        if len(set(counts)) > 1:
            raise InputValueError(
                f"A stacked .npy file needs as many rows on both sides, got {counts[0]} and "
                f"{counts[1]}. Write two files, or one .npz."
            )
        # NumPy pads its headers, so the one with the real number of rows fits over the first.
        file.seek(0)
        assert _write_header(file, streams[0], len(streams), counts[0]) == start


def save_array(path: Path, rows: np.ndarray) -> None:
    """Write one array, as np.save does."""
    rows = np.ascontiguousarray(rows)
    with path.open("wb") as file:
        npy_format.write_array_header_1_0(file, npy_format.header_data_from_array_1_0(rows))
        _write_rows(file, rows)


def _write_rows(file: IO[bytes], rows: np.ndarray) -> None:
    # Not tofile, nor np.save which calls it: where the disk is full, what is less than their
    # buffer of 4 KiB is lost without an error.
    file.write(np.ascontiguousarray(rows).data)


def _write_header(file: IO[bytes], stream: RowStream, n_sides: int, n_rows: int) -> int:
    shape = (n_rows, stream.dim) if n_sides == 1 else (n_sides, n_rows, stream.dim)
    descr = npy_format.dtype_to_descr(stream.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(file, header)
    return file.tell()
