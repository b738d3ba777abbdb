"""A matrix that lies in a file as plain numbers, read block by block.

Each block is copied out of the file, which is looked at before: a matrix of 20 GB is read through
as one of 20 MB is, and rows that were given out cannot change or vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import RawIOBase

import numpy as np

from modgap._changes import SteadyFile
from modgap.io._ahead import Stretch
from modgap.io._matrix import (
    BATCH_ROWS,
    ArrayMatrix,
    Decode,
    Matrix,
    StoredMatrix,
    as_stored,
    decoding,
)


class FileMatrix(StoredMatrix):
    """Numbers that start at ``offset`` of a file, row after row."""

    def __init__(
        self,
        file: SteadyFile,
        dtype: np.dtype,
        shape: tuple[int, ...],
        offset: int,
        decode: Decode | None = None,
        decoded: np.dtype | None = None,
    ) -> None:
        self.file, self.shape, self.offset = file, shape, offset
        self.stored = dtype
        self.decode, self.dtype = decoding(dtype, decode, decoded)
        self.readers = file.readers

    @property
    def _row_bytes(self) -> int:
        return self.stored.itemsize * int(np.prod(self.shape[1:], dtype=object))

    def origin(self) -> tuple[SteadyFile, str] | None:
        return self.file, f"byte {self.offset}"

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        return self._between(0, self.shape[0], size)

    def stretches(self, size: int) -> Iterator[Stretch]:
        row_bytes = max(1, self._bytes_of(1))
        most = max(1, self.file.block_bytes // row_bytes)
        step = most if size > most else most // size * size
        for start in range(0, self.shape[0], step):
            stop = min(start + step, self.shape[0])
            yield Stretch(partial(self._between, start, stop, step), (stop - start) * row_bytes)

    def _between(self, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        if 0 in self.shape:
            return
        with self.file.open() as opened:
            for first in range(start, stop, size):
                yield self.decode(self._read(opened, first, min(first + size, stop)))

    def _fill(self, whole: np.ndarray) -> None:
        if self.decode is not as_stored or 0 in self.shape or self.file.is_remote:
            return super()._fill(whole)
        with self.file.open() as opened:
            for start in range(0, len(whole), BATCH_ROWS):
                block = whole[start : start + BATCH_ROWS]
                self.file.read_into(opened, self.offset + start * self._row_bytes, block)
        return None

    def take(self, indices: np.ndarray) -> np.ndarray:
        taken = np.empty((len(indices), *self.shape[1:]), self.stored)
        with self.file.open() as opened:
            self.file.read_each(opened, self.offset + indices * self._row_bytes, taken)
        return self.decode(taken)

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the file."""
        return self._from(side, self.shape[1:])

    def between(self, start: int, stop: int) -> Matrix:
        """The rows ``start`` to ``stop``."""
        return self._from(start, (stop - start, *self.shape[1:]))

    def _from(self, row: int, shape: tuple[int, ...]) -> FileMatrix:
        offset = self.offset + row * self._row_bytes
        return FileMatrix(self.file, self.stored, shape, offset, self.decode, self.dtype)

    def _read(self, opened: RawIOBase, start: int, stop: int) -> np.ndarray:
        block = np.empty((stop - start, *self.shape[1:]), self.stored)
        self.file.read_into(opened, self.offset + start * self._row_bytes, block)
        return block


class ColumnsMatrix(FileMatrix):
    """Numbers in Fortran's order, column after column; those of ``n_sides`` matrices alternate."""

    n_sides, own_side = 1, 0

    def origin(self) -> tuple[SteadyFile, str] | None:
        return self.file, f"byte {self.offset} {self.own_side} of {self.n_sides}"

    def _fill(self, whole: np.ndarray) -> None:
        Matrix._fill(self, whole)

    def take(self, indices: np.ndarray) -> np.ndarray:
        return Matrix.take(self, indices)

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the file."""
        matrix = ColumnsMatrix(self.file, self.stored, self.shape[1:], self.offset)
        matrix.n_sides, matrix.own_side = self.shape[0], side
        return matrix

    def _read(self, opened: RawIOBase, start: int, stop: int) -> np.ndarray:
        n, dim = self.shape
        block = np.empty((stop - start, dim), self.stored)
        column = np.empty((stop - start) * self.n_sides, self.stored)
        for j in range(dim):
            first = (j * n + start) * self.n_sides * self.stored.itemsize
            self.file.read_into(opened, self.offset + first, column)
            block[:, j] = column[self.own_side :: self.n_sides]
        return block


class MappedMatrix(ArrayMatrix):
    """An array that a library mapped from a file; nothing of the map itself is given out."""

    file: SteadyFile
    place: str

    @classmethod
    def of(cls, file: SteadyFile, matrix: ArrayMatrix, place: str) -> MappedMatrix:
        """The array of a matrix, which is a map of that file; ``place`` says of what in there."""
        mapped = cls(matrix.array, matrix.decode, matrix.dtype)
        mapped.file, mapped.place = file, place
        return mapped

    def origin(self) -> tuple[SteadyFile, str] | None:
        return self.file, self.place

    def batches(self, size: int) -> Iterator[np.ndarray]:
        for start in range(0, self.shape[0], size):
            self.file.check()
            yield self.decode(self.array[start : start + size].copy())

    def rows(self) -> np.ndarray:
        return Matrix.rows(self)

    def take(self, indices: np.ndarray) -> np.ndarray:
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        for start in range(0, len(indices), BATCH_ROWS):
            self.file.check()
            here = slice(start, start + BATCH_ROWS)
            taken[here] = self.decode(self.array[indices[here]])
        return taken

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the array."""
        own = ArrayMatrix(self.array[side], self.decode, self.dtype)
        return MappedMatrix.of(self.file, own, f"{self.place} {side}")
