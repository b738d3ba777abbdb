"""Rows in files: those that are read where they lie, and those that a reader gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from modgap.core.steady_file import SteadyFile
from modgap.core.threads import ahead
from modgap.io._matrices import BATCH_ROWS, Blocks, Matrix, decoded


class FileMatrix(Matrix):
    """Plain numbers that start at ``offset`` of a file, row after row."""

    file: SteadyFile
    is_seekable = True

    def __init__(
        self,
        file: SteadyFile,
        stored: np.dtype,
        shape: tuple[int, ...],
        offset: int,
        dtype: np.dtype | None = None,
    ) -> None:
        self.file, self.stored, self.shape, self.offset = file, stored, shape, offset
        self.dtype = dtype or stored.newbyteorder("=")
        self.place, self.readers = f"byte {offset}", file.readers
        self.row_bytes = stored.itemsize * int(np.prod(shape[1:], dtype=object))

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        return self._range(0, self.shape[0], size)

    def streams(self, size: int) -> Iterator[Callable[[], Iterator[np.ndarray]]]:
        for start, stop in self._ranges(size):
            yield partial(self._range, start, stop, stop - start)

    def take(self, indices: np.ndarray) -> np.ndarray:
        """The rows at ``indices``, read in the order of the file, near ones together."""
        taken = np.empty((len(indices), *self.shape[1:]), self.stored)
        order = np.argsort(indices, kind="stable")
        rising = indices[order]
        with self.file.open() as opened:

            def read(some: slice) -> None:
                first, last = int(rising[some.start]), int(rising[some.stop - 1])
                block = self._read(opened, first, last + 1)
                taken[order[some]] = block[rising[some] - first]

            spans = _spans(rising, self.row_bytes, self.file)
            # A handle of a local file has one position, so one thread reads it.
            for _ in ahead(read, spans, self.readers) if self.file.is_remote else map(read, spans):
                pass
        return decoded(taken, self.dtype)

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the file."""
        return self._from(side, self.shape[1:])

    def between(self, start: int, stop: int) -> FileMatrix:
        """The rows ``start`` to ``stop``."""
        return self._from(start, (stop - start, *self.shape[1:]))

    def _from(self, row: int, shape: tuple[int, ...]) -> FileMatrix:
        offset = self.offset + row * self.row_bytes
        part = FileMatrix(self.file, self.stored, shape, offset, self.dtype)
        part.verify = self.verify
        return part

    def _ranges(self, size: int) -> Iterator[tuple[int, int]]:
        """The rows in ranges of at most the bytes that are read at once."""
        most = max(1, self.file.block_bytes // max(1, self.row_bytes))
        step = most if size > most else most // size * size
        for start in range(0, self.shape[0] if self.row_bytes else 0, step):
            yield start, min(start + step, self.shape[0])

    def _range(self, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        if not self.row_bytes:
            return
        with self.file.open() as opened:
            for first in range(start, stop, size):
                block = self._read(opened, first, min(first + size, stop))
                yield decoded(block, self.dtype)

    def _fill(self, whole: np.ndarray) -> None:
        if self.stored != self.dtype:
            return super()._fill(whole)

        def read(some: tuple[int, int]) -> None:
            with self.file.open() as opened:
                self._read(opened, *some, out=whole[slice(*some)])

        ranges = list(self._ranges(BATCH_ROWS))
        for _ in ahead(read, ranges, self.readers) if len(ranges) > 1 else map(read, ranges):
            pass
        return None

    def _read(
        self, opened: Any, start: int, stop: int, out: np.ndarray | None = None
    ) -> np.ndarray:
        if self.verify is not None:
            self.verify()
        if out is None:
            out = np.empty((stop - start, *self.shape[1:]), self.stored)
        self.file.read_into(opened, self.offset + start * self.row_bytes, out)
        return out


class ReadMatrix(Matrix):
    """Rows that a library reads, or that are computed from others.

    ``blocks`` gives the rows in order, at most as many at a time as it is called with.
    ``take_rows`` gives those at rising row numbers, where that needs less than reading all before.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        blocks: Blocks,
        *,
        take_rows: Callable[[np.ndarray], np.ndarray] | None = None,
        file: SteadyFile | None = None,
        place: str = "",
        readers: int = 0,
    ) -> None:
        self.shape, self.dtype, self.file, self.place = shape, dtype, file, place
        self._blocks, self._take_rows, self.readers = blocks, take_rows, readers

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        if self.verify is not None:
            self.verify()
        return self._blocks(size)

    def take(self, indices: np.ndarray) -> np.ndarray:
        if self._take_rows is None:
            return super().take(indices)
        rising, places = np.unique(indices, return_inverse=True)
        taken = np.empty((len(rising), *self.shape[1:]), self.dtype)
        for start in range(0, len(rising), BATCH_ROWS):
            some = slice(start, start + BATCH_ROWS)
            taken[some] = self._take_rows(rising[some])
        return taken[places]


def _spans(rising: np.ndarray, row_bytes: int, file: SteadyFile) -> Iterator[slice]:
    """Slices of rising row numbers: rows that lie near to each other, up to a block."""
    if not row_bytes or not len(rising):
        return
    gaps = np.diff(rising) * row_bytes > row_bytes + file.near_bytes
    ends = (np.flatnonzero(gaps) + 1).tolist()
    for first, end in zip([0, *ends], [*ends, len(rising)], strict=True):
        start = first
        while start < end:
            reach = rising[start] + max(1, file.block_bytes // 8 // row_bytes)
            stop = int(np.searchsorted(rising[start:end], reach)) + start
            yield slice(start, stop)
            start = stop
