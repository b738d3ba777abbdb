"""NumPy's `.npz`: named arrays in a zip file, unpacked as they are read; and folders of such."""

from __future__ import annotations

import io
import lzma
import math
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.limits import as_text, check_dtype, check_unpacked
from modgap.core.steady_file import SteadyFile
from modgap.io._contents import Column, Contents, listed, reading
from modgap.io._file_matrices import ReadMatrix
from modgap.io._matrices import Matrix, decoded, rebatch
from modgap.io._row_stream import RowStream
from modgap.io._shards import ShardOpener, in_order
from modgap.io.formats.npy import HEADER_ERRORS, open_array, read_header
from modgap.io.formats.parquet import open_parquet
from modgap.io.remote import steady

_ERRORS = (
    *HEADER_ERRORS,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,  # a compression Python does not know
    RuntimeError,  # a password
    OSError,
)

_BUFFER = 1024**2

# A zip member starts with 30 fixed bytes; the lengths of its name and extra field end them.
_MEMBER_HEADER = struct.Struct("<26xHH")


def open_npz(path: Any) -> Contents:
    """The matrices and the one-dimensional arrays of a file; numbers without rows are left out."""
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    file = steady(path)
    with _opened(file) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            name = info.filename.removesuffix(".npy")
            member = _Member.of(file, archive, info)
            if len(member.shape) == 1:
                columns[name] = Column(member.shape[0], str(member.dtype), member.load_column)
            elif info.compress_type == zipfile.ZIP_STORED and member.dtype.kind in "biufcmMSU":
                matrices[name] = open_array(file, _data_offset(archive, info))
                if not file.is_remote:  # of a server, that would take the rows twice
                    matrices[name].verify = _Checksum(file, info.filename)
            elif member.shape:
                matrices[name] = ReadMatrix(
                    member.shape, member.dtype, member.blocks,
                    file=file, place=member.name, readers=file.readers,
                )  # fmt: skip
    return Contents(path, matrices, columns)


@contextmanager
def _opened(file: SteadyFile) -> Iterator[zipfile.ZipFile]:
    with (
        reading(file.path, "an .npz file", *_ERRORS),
        file.watched(),
        file.open() as opened,
        io.BufferedReader(opened, _BUFFER) as buffered,
        zipfile.ZipFile(buffered) as archive,
    ):
        yield archive


def _data_offset(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    assert archive.fp is not None
    archive.fp.seek(info.header_offset)
    name_length, extra_length = _MEMBER_HEADER.unpack(archive.fp.read(_MEMBER_HEADER.size))
    return info.header_offset + _MEMBER_HEADER.size + name_length + extra_length


class _Checksum:
    """Compares the checksum of a member that is not packed, once, before its rows are used."""

    def __init__(self, file: SteadyFile, name: str) -> None:
        self.file, self.name = file, name
        self._lock, self._is_right = threading.Lock(), False

    def __reduce__(self) -> tuple[Any, ...]:
        return _Checksum, (self.file, self.name)

    def __call__(self) -> None:
        with self._lock:
            if not self._is_right:
                with _opened(self.file) as archive, archive.open(self.name) as member:
                    while member.read(_BUFFER):  # which raises at the end where it is another
                        pass
                self._is_right = True


@dataclass(frozen=True)
class _Member:
    """An array of a zip file that is unpacked as it is read."""

    file: SteadyFile
    name: str
    shape: tuple[int, ...]
    fortran: bool
    stored: np.dtype

    @classmethod
    def of(cls, file: SteadyFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
        """The array of a member; it may not claim far more than the file holds."""
        with archive.open(info) as opened:
            found = cls(file, info.filename, *read_header(opened))
        claimed = found.stored.itemsize * math.prod(found.shape)
        if claimed > info.file_size and not found.stored.hasobject:
            raise InputValueError(
                f"{found.where} is cut short: an array of shape {found.shape} and dtype "
                f"{found.stored} needs {claimed:,} bytes, got {info.file_size:,}."
            )
        check_unpacked(found.where, claimed, info.compress_size)
        return found

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"{self.name.removesuffix('.npy')!r} of {self.file.path}"

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its numbers once they are read."""
        return self.stored.newbyteorder("=")

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        """The rows in order, unpacked as they are read."""
        if self.fortran:  # its columns are stored one after the other, so no row comes early
            yield from rebatch([self._load()], size)
            return
        row_bytes = self.stored.itemsize * int(np.prod(self.shape[1:]))
        with _opened(self.file) as archive, archive.open(self.name) as file:
            read_header(file)
            for start in range(0, self.shape[0], size):
                self.file.check()
                n_rows = min(size, self.shape[0] - start)
                data = np.frombuffer(file.read(n_rows * row_bytes), self.stored)
                yield decoded(data.reshape(n_rows, *self.shape[1:]), self.dtype)

    def load_column(self) -> np.ndarray:
        """The array, with bytes read as text; Python objects are refused."""
        if self.stored.hasobject:
            raise InputTypeError(
                f"{self.where} holds Python objects, "
                "which are stored as a pickle and never loaded. Save it as an array of str or int."
            )
        check_dtype(self.where, self.dtype)
        return as_text(self._load(), self.where)

    def _load(self) -> np.ndarray:
        with _opened(self.file) as archive, archive.open(self.name) as file:
            read_header(file)
            data = np.frombuffer(
                file.read(self.stored.itemsize * math.prod(self.shape)), self.stored
            )
            return decoded(data.reshape(self.shape, order="F" if self.fortran else "C"), self.dtype)


def is_npz_folder(folder: Any) -> bool:
    """Whether all that a folder has is `.npz` shards, and tables that go with them."""
    shards, tables = in_order(folder, ".npz"), in_order(folder, ".parquet")
    return bool(shards) and {path.stem for path in tables} <= {path.stem for path in shards}


def open_npz_shards(folder: Any, opener: ShardOpener) -> Contents:
    """The arrays of all shards, each after the one before, and the columns of their tables.

    DataComp (https://github.com/mlfoundations/datacomp) publishes such folders: `00000000.npz`
    holds `b32_img`, `b32_txt`, `l14_img` and `l14_txt` in float16, `00000000.parquet` the uid, url
    and text of the same rows.
    """
    tables = {path.stem for path in in_order(folder, ".parquet")}
    open_one = partial(_open_shard, tables=tables, opener=opener)
    return opener.joined(in_order(folder, ".npz"), open_one, folder)


def _open_shard(path: Any, tables: Set[str], opener: ShardOpener) -> Contents:
    found = open_npz(path)
    if not tables:
        return found
    table = path.with_suffix(".parquet")
    if path.stem not in tables:
        raise InputValueError(
            f"{path} has no table {table.name} beside it, which other shards have. Download it, "
            "or move the tables away."
        )
    opener.check_stated(table)
    columns = open_parquet(table).columns
    counts = {name: matrix.shape[0] for name, matrix in found.matrices.items() if matrix.shape}
    counts[table.name] = max(column.length for column in columns.values())
    if len(set(counts.values())) > 1:
        said = listed([f"{name}: {count}" for name, count in counts.items()])
        raise InputValueError(
            f"{path} and {table.name} must have the same number of rows, got {said}. "
            "Download both again."
        )
    return Contents(path, found.matrices, {**columns, **found.columns})


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
