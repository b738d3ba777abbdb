"""A matrix that lies in a file as plain numbers, read block by block.

Each block is copied out of the file, which is looked at before: a matrix of 20 GB is read through
as one of 20 MB is, and rows that were given out cannot change or vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO

import numpy as np

from modgap._changes import SteadyFile
from modgap.io._matrix import BATCH_ROWS, ArrayMatrix, Decode, Matrix, as_stored, decoding

# Wanted rows this near to each other are read together, and at most so many bytes at once.
_NEAR_BYTES, _SPAN_BYTES = 64 * 1024, 16 * 1024**2


class FileMatrix(Matrix):
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

    @property
    def _row_bytes(self) -> int:
        return self.stored.itemsize * int(np.prod(self.shape[1:], dtype=object))

    def batches(self, size: int) -> Iterator[np.ndarray]:
        if 0 in self.shape:
            return
        with self.file.open() as opened:
            for start in range(0, self.shape[0], size):
                yield self.decode(self._read(opened, start, min(start + size, self.shape[0])))

    def _fill(self, whole: np.ndarray) -> None:
        if self.decode is not as_stored or 0 in self.shape:
            return super()._fill(whole)
        with self.file.open() as opened:
            for start in range(0, len(whole), BATCH_ROWS):
                block = whole[start : start + BATCH_ROWS]
                self.file.read_into(opened, self.offset + start * self._row_bytes, block)
        return None

    def take(self, indices: np.ndarray) -> np.ndarray:
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        near = max(1, _NEAR_BYTES // max(1, self._row_bytes))
        span = max(1, _SPAN_BYTES // max(1, self._row_bytes))
        apart = (np.diff(wanted) > near) | (np.diff(wanted // span) > 0)
        ends = [*(np.flatnonzero(apart) + 1).tolist(), len(wanted)]
        with self.file.open() as opened:
            begin = 0
            for end in ends if len(wanted) else ():
                first, last = int(wanted[begin]), int(wanted[end - 1])
                block = self._read(opened, first, last + 1)[wanted[begin:end] - first]
                taken[order[begin:end]] = self.decode(block)
                begin = end
        return taken

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the file."""
        start = self.offset + side * self._row_bytes
        return FileMatrix(self.file, self.stored, self.shape[1:], start, self.decode, self.dtype)

    def _read(self, opened: FileIO, start: int, stop: int) -> np.ndarray:
        block = np.empty((stop - start, *self.shape[1:]), self.stored)
        self.file.read_into(opened, self.offset + start * self._row_bytes, block)
        return block


class ColumnsMatrix(FileMatrix):
    """Numbers in Fortran's order, column after column; those of ``n_sides`` matrices alternate."""

    n_sides, own_side = 1, 0

    def _fill(self, whole: np.ndarray) -> None:
        Matrix._fill(self, whole)

    def take(self, indices: np.ndarray) -> np.ndarray:
        return Matrix.take(self, indices)

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the file."""
        matrix = ColumnsMatrix(self.file, self.stored, self.shape[1:], self.offset)
        matrix.n_sides, matrix.own_side = self.shape[0], side
        return matrix

    def _read(self, opened: FileIO, start: int, stop: int) -> np.ndarray:
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

    @classmethod
    def of(cls, file: SteadyFile, matrix: ArrayMatrix) -> MappedMatrix:
        """The array of a matrix, which is a map of that file."""
        mapped = cls(matrix.array, matrix.decode, matrix.dtype)
        mapped.file = file
        return mapped

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
        return MappedMatrix.of(self.file, ArrayMatrix(self.array[side], self.decode, self.dtype))
