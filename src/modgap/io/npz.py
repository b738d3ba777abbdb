"""NumPy's `.npz`: named arrays in a zip file; mapped where stored, streamed where compressed."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from modgap._validate import InputTypeError
from modgap.io._contents import Column, Contents, reading
from modgap.io._matrix import ArrayMatrix, Matrix
from modgap.io._stream import RowStream
from modgap.io.npy import HEADER_ERRORS, map_array, read_header

_ERRORS = (
    *HEADER_ERRORS,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,  # a compression Python does not know
    RuntimeError,  # a password
    OSError,
)

# A zip member starts with 30 fixed bytes; the lengths of its name and extra field end them.
_MEMBER_HEADER = struct.Struct("<26xHH")


def open_npz(path: Path) -> Contents:
    """The matrices and the one-dimensional arrays of a file; numbers without rows are left out."""
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    with reading(path, "an .npz file", *_ERRORS), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            name = info.filename.removesuffix(".npy")
            member = _Member(path, info.filename)
            if len(member.shape) == 1:
                columns[name] = Column(member.shape[0], str(member.dtype), member.load_column)
            elif info.compress_type == zipfile.ZIP_STORED and not member.dtype.hasobject:
                matrices[name] = ArrayMatrix(map_array(path, _data_offset(path, info)))
            elif member.shape:
                matrices[name] = member
    return Contents(path, matrices, columns)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name_length, extra_length = _MEMBER_HEADER.unpack(file.read(_MEMBER_HEADER.size))
    return info.header_offset + _MEMBER_HEADER.size + name_length + extra_length


class _Member(Matrix):
    """An array of a zip file that is unpacked as it is read."""

    def __init__(self, path: Path, member: str) -> None:
        self.path, self.member = path, member
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            self.shape, self.fortran, self.stored_dtype = read_header(file)
        self.dtype = self.stored_dtype.newbyteorder("=")

    def batches(self, size: int) -> Iterator[np.ndarray]:
        if self.fortran:  # its columns are stored one after the other, so no row comes early
            yield from ArrayMatrix(self._load()).batches(size)
            return
        row_bytes = self.stored_dtype.itemsize * int(np.prod(self.shape[1:]))
        with (
            reading(self.path, "an .npz file", *_ERRORS),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as file,
        ):
            read_header(file)
            for start in range(0, self.shape[0], size):
                n_rows = min(size, self.shape[0] - start)
                data = np.frombuffer(file.read(n_rows * row_bytes), self.stored_dtype)
                yield data.reshape(n_rows, *self.shape[1:]).astype(self.dtype, copy=False)

    def load_column(self) -> np.ndarray:
        """The array, with bytes read as text; Python objects are refused."""
        if self.dtype.hasobject:
            raise InputTypeError(
                f"{self.member.removesuffix('.npy')!r} of {self.path} holds Python objects, "
                "which are stored as a pickle and never loaded. Save it as an array of str or int."
            )
        values = self._load()
        return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values

    def _load(self) -> np.ndarray:
        with (
            reading(self.path, "an .npz file", *_ERRORS),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as file,
        ):
            return np.lib.format.read_array(file, allow_pickle=False)


def write_npz(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Write matrices and columns under their names; the rows are collected in memory first."""
    arrays = {name: stream.collect() for name, stream in matrices.items()}
    for name, values in columns.items():
        if values.dtype == object and any(value is None for value in values):
            raise InputTypeError(
                f"{name} must have an entry for every row in an .npz file, got None. "
                "Write a .parquet file to keep rows without one."
            )
        arrays[name] = values.astype(str) if values.dtype == object else values
    # As np.savez does, which takes the names as keywords and trips over "file".
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
