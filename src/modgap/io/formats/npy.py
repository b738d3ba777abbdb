"""NumPy's `.npy`: one matrix, or two modalities stacked as (2, n, d)."""

from __future__ import annotations

import math
import os
import threading
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.limits import check_dtype
from modgap.core.steady_file import SteadyFile
from modgap.core.threads import ahead
from modgap.io._contents import Contents, damaged
from modgap.io._file_matrices import FileMatrix, ReadMatrix
from modgap.io._matrices import Matrix, decoded
from modgap.io._row_stream import RowStream, refuse_columns
from modgap.io.remote import steady

# What NumPy raises on headers that are not its own.
HEADER_ERRORS = (
    ValueError,
    EOFError,
    SyntaxError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,  # how Python's parser says that brackets are nested too deep
    tokenize.TokenError,
)

# Versions of the format: the bytes that tell a header's length, and what reads the header.
_HEADER_READERS = {
    (1, 0): (2, npy_format.read_array_header_1_0),
    (2, 0): (4, npy_format.read_array_header_2_0),
}
# Python 3.11 counts how deep its parser is for all threads together: where garbage is collected
# while one thread reads a header, another one must not begin.
_PARSING = threading.Lock()
# NumPy reads no longer ones itself, but takes them into memory first.
_HEADER_BYTES = 10_000
# Written rows that wait for the disk at most.
_WAITING_BYTES = 32 * 1024**2


def open_npy(path: Any) -> Contents:
    """The matrix or the stacked pair in a file; a file of Python objects is refused."""
    file = steady(path)
    return Contents.of_array(path, open_array(file), partial(open_array, file, 0))


def open_array(file: SteadyFile, offset: int = 0, side: int | None = None) -> Matrix:
    """The array at ``offset`` of a file, or one side of a stacked one.

    All that its header claims must be in the file.
    """
    path = file.path
    with file.open() as opened:
        opened.seek(offset)
        try:
            shape, fortran, dtype = read_header(opened)
        except HEADER_ERRORS as error:
            raise damaged(path, "a NumPy array", error) from error
        start = opened.tell()
    if dtype.hasobject:
        raise InputTypeError(
            f"{path} must hold plain numbers or strings, got Python objects, which are stored "
            "as a pickle and never loaded. Save it again with a dtype such as float32."
        )
    if dtype.kind not in "biuf":
        check_dtype(str(path), dtype)
    needed = dtype.itemsize * math.prod(shape)
    if file.size - start < needed:
        raise InputValueError(
            f"{path} is cut short: an array of shape {shape} and dtype {dtype} needs "
            f"{needed} bytes, got {file.size - start}. Write or download it again."
        )
    if fortran and len(shape) > 1:
        n_sides, own = (1, shape) if side is None else (shape[0], shape[1:])
        blocks = partial(_fortran_blocks, file, dtype, own, start, n_sides, side or 0)
        place = f"byte {start} {side or 0} of {n_sides}"
        kind = dtype.newbyteorder("=")
        return ReadMatrix(own, kind, blocks, file=file, place=place, readers=file.readers)
    matrix = FileMatrix(file, dtype, shape, start)
    return matrix if side is None else matrix.side(side)


def _fortran_blocks(
    file: SteadyFile,
    dtype: np.dtype,
    shape: tuple[int, ...],
    offset: int,
    n_sides: int,
    side: int,
    size: int,
) -> Iterator[np.ndarray]:
    """Rows of an array in Fortran's order; the numbers of ``n_sides`` matrices alternate."""
    n, dim = shape
    with file.open() as opened:
        for start in range(0, n if dim else 0, size):
            n_rows = min(size, n - start)
            block = np.empty((n_rows, dim), dtype)
            column = np.empty(n_rows * n_sides, dtype)
            for j in range(dim):
                first = (j * n + start) * n_sides * dtype.itemsize
                file.read_into(opened, offset + first, column)
                block[:, j] = column[side::n_sides]
            yield decoded(block, dtype.newbyteorder("="))


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and dtype; the file is left at the first number."""
    version = npy_format.read_magic(file)
    if version not in _HEADER_READERS:
        raise ValueError(f"version {version} of the format is not for plain numbers")
    length_bytes, read = _HEADER_READERS[version]
    length = file.read(length_bytes)
    if int.from_bytes(length, "little") > _HEADER_BYTES:
        raise ValueError("its header is longer than any")
    header = BytesIO(length + file.read(int.from_bytes(length, "little")))
    with _PARSING:
        shape, fortran, dtype = read(header)
    if len(shape) > 32 or any(size is True or not 0 <= size <= 2**48 for size in shape):
        raise ValueError(f"it claims the shape {shape}, which no array has")
    return shape, fortran, dtype


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
            _write_batches(file, stream.batches())
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


def _write_batches(file: IO[bytes], batches: Iterable[np.ndarray]) -> None:
    """Write rows while the next are made, and let the disk take them as they come.

    Were they all left for the end of the file, whoever makes them would wait for the disk then.
    """
    waiting = 0

    def write(batch: np.ndarray) -> None:
        nonlocal waiting
        _write_rows(file, batch)
        waiting += batch.nbytes
        if waiting >= _WAITING_BYTES:
            file.flush()
            if hasattr(os, "posix_fadvise"):  # the disk begins, and nobody waits for it
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            waiting = 0

    for _ in ahead(write, batches, workers=1):
        pass


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
