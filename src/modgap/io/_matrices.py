"""A matrix whose rows are read when needed: in batches, by row number, or whole.

Each block is copied out of its file, which is looked at before. So a matrix of 20 GB takes as
little memory as one of 20 MB, and rows that were read cannot change or vanish.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from modgap.arrays import like
from modgap.core.door import as_numpy
from modgap.core.steady_file import SteadyFile
from modgap.core.threads import ahead, read_ahead

# Rows read together where a caller does not say how many.
BATCH_ROWS = 8192
# The most bytes of a block that is read ahead.
_BLOCK_BYTES = 8 * 1024**2
# A local matrix of fewer bytes is read in the caller's thread.
_ALONE_BYTES = 8 * 1024**2
# Local files that are read at once.
LOCAL_READERS = 2

Blocks = Callable[[int], Iterator[np.ndarray]]


class Matrix(ABC):
    """Rows of a known shape and dtype; a subclass says how its blocks are read.

    ``file`` tells whether the rows have changed, and ``place`` tells them from others in that
    file; None where no file, or more than one, does. ``readers`` is how many threads read ahead
    of the computation, 0 where the rows are in memory.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    file: SteadyFile | None = None
    place = ""
    readers = 0
    # Whether a row can be read without those before it.
    is_seekable = False
    # Called before rows are read; raises where the file does not hold them as they were written.
    verify: Callable[[], None] | None = None
    # The moments of all rows once they were gathered, and the folder that kept those of each shard.
    gathered: Any = None
    # What gathers the moments of all rows, and of pairs, elsewhere: on the workers of an engine.
    spread_moments: Callable[..., Any] | None = None
    spread_pair_moments: Callable[..., Any] | None = None
    # The whole matrix, for as long as someone holds it: it is then not read again.
    _held: weakref.ref[np.ndarray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_held"}

    @abstractmethod
    def blocks(self, size: int) -> Iterator[np.ndarray]:
        """The rows in order, at most ``size`` at a time, read in the caller's thread."""

    def shards(self) -> list[Matrix]:
        """The shards that the rows are read from, one after the other."""
        return [self]

    def streams(self, size: int) -> Iterator[Callable[[], Iterator[np.ndarray]]]:
        """The rows in order, cut into streams that one thread each reads."""
        row_bytes = max(1, self._n_bytes // max(1, self.shape[0]))
        yield partial(self.blocks, max(1, min(size, _BLOCK_BYTES // row_bytes)))

    def batches(self, size: int) -> Iterator[np.ndarray]:
        """The rows in order, ``size`` at a time; only the last batch may be smaller."""
        if not self.readers or (self.readers <= LOCAL_READERS and self._n_bytes <= _ALONE_BYTES):
            return rebatch(self.blocks(size), size)
        return rebatch(read_ahead(self.streams(size), self.readers), size)

    def rows(self) -> np.ndarray:
        """The whole matrix, in memory; it cannot be written to."""
        whole = self._held() if self._held is not None else None
        if whole is None:
            whole = np.empty(self.shape, self.dtype)
            self._fill(whole)
            whole.flags.writeable = False
            self._held = weakref.ref(whole)
        return whole

    def take(self, indices: np.ndarray) -> np.ndarray:
        """The rows at ``indices``, in that order; reads no further than the last of them."""
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        last = int(indices.max(initial=-1))
        start = 0
        for batch in self.batches(BATCH_ROWS):
            if start > last:
                break
            here = (indices >= start) & (indices < start + len(batch))
            taken[here] = batch[indices[here] - start]
            start += len(batch)
        return taken

    @property
    def _n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * np.dtype(self.dtype).itemsize

    def _fill(self, whole: np.ndarray) -> None:
        start = 0
        for batch in self.batches(BATCH_ROWS):
            whole[start : start + len(batch)] = batch
            start += len(batch)


class ArrayMatrix(Matrix):
    """An array or tensor, left in its library and on its device.

    With a ``file`` it is a map of that file, made by a library: blocks of it are copied, after a
    look at the file. ``dtype`` is what stored numbers are converted to, see `decoded`.
    """

    is_seekable = True

    def __init__(
        self,
        array: Any,
        dtype: np.dtype | None = None,
        file: SteadyFile | None = None,
        place: str = "",
    ) -> None:
        self.array, self.file, self.place = array, file, place
        self.shape, self.dtype = tuple(array.shape), dtype or array.dtype

    def blocks(self, size: int) -> Iterator[Any]:
        for start in range(0, self.shape[0], size):
            yield self._at(slice(start, start + size))

    def batches(self, size: int) -> Iterator[Any]:
        return self.blocks(size)

    def rows(self) -> Any:
        return self.array if self.file is None else super().rows()

    def take(self, indices: np.ndarray) -> Any:
        if self.file is None:
            return self.array[like(indices, self.array)]
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        for start in range(0, len(indices), BATCH_ROWS):
            some = slice(start, start + BATCH_ROWS)
            taken[some] = self._at(indices[some])
        return taken

    def between(self, start: int, stop: int) -> ArrayMatrix:
        """A copy of the rows ``start`` to ``stop``: no more than that is sent to a worker."""
        return ArrayMatrix(np.array(as_numpy(self._at(slice(start, stop)))))

    def side(self, side: int) -> ArrayMatrix:
        """One of the matrices that are stacked in the array."""
        return ArrayMatrix(self.array[side], self.dtype, self.file, f"{self.place} {side}")

    def _at(self, rows: slice | np.ndarray) -> Any:
        if self.file is None:
            return self.array[rows]
        self.file.check()
        return decoded(np.array(self.array[rows]), self.dtype)


class PickedRows(Matrix):
    """Some rows of a matrix by their numbers, copied when they are read.

    Rows that are only walked through need no second copy. Numbers of rows that are not in memory
    must rise.
    """

    def __init__(self, matrix: Matrix, numbers: np.ndarray) -> None:
        source = matrix
        if isinstance(matrix, PickedRows):
            source, numbers = matrix.matrix, matrix.numbers[numbers]
        self.matrix: Matrix = source
        self.numbers: np.ndarray = numbers
        self.shape, self.dtype = (len(numbers), *matrix.shape[1:]), matrix.dtype
        self.is_seekable = source.is_seekable

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        if not self.matrix.readers:
            for start in range(0, len(self.numbers), size):
                yield self.matrix.take(self.numbers[start : start + size])
            return
        start = last = 0
        for batch in self.matrix.batches(BATCH_ROWS):
            first, last = np.searchsorted(self.numbers, [start, start + len(batch)])
            yield batch[self.numbers[first:last] - start]
            start += len(batch)
            if last == len(self.numbers):
                return

    def take(self, indices: np.ndarray) -> np.ndarray:
        return self.matrix.take(self.numbers[indices])


class Shards(Matrix):
    """Matrices read one after the other as if they were one.

    With a ``file`` they are pieces of that one file.
    """

    def __init__(
        self, parts: Sequence[Matrix], file: SteadyFile | None = None, place: str = ""
    ) -> None:
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        self.readers = max(part.readers for part in parts)
        self.file, self.place = file, place
        self._parts = parts
        self._ends = np.cumsum([part.shape[0] for part in parts])

    def shards(self) -> list[Matrix]:
        if self.file is not None:
            return [self]
        return [shard for part in self._parts for shard in part.shards()]

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        for part in self._parts:
            for block in part.batches(size):
                yield block.astype(self.dtype, copy=False)

    def streams(self, size: int) -> Iterator[Callable[[], Iterator[np.ndarray]]]:
        for part in self._parts:
            for stream in part.streams(size):
                yield partial(_cast, stream, self.dtype)

    def take(self, indices: np.ndarray) -> np.ndarray:
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        owners = np.searchsorted(self._ends, indices, side="right")
        order = np.argsort(owners, kind="stable")

        def take_of(number: int) -> None:
            part = self._parts[number]
            own = np.searchsorted(owners, [number, number + 1], sorter=order)
            places = order[slice(*own)]
            taken[places] = part.take(indices[places] - (self._ends[number] - part.shape[0]))

        self._each(take_of, np.unique(owners).tolist())
        return taken

    def _fill(self, whole: np.ndarray) -> None:
        def fill(number: int) -> None:
            part, stop = self._parts[number], self._ends[number]
            own = whole[stop - part.shape[0] : stop]
            if part.dtype == own.dtype:
                part._fill(own)
            else:
                Matrix._fill(part, own)

        self._each(fill, range(len(self._parts)))

    def _each(self, work: Callable[[int], None], numbers: Iterable[int]) -> None:
        """Work on each part, as many at once as are read at once."""
        for _ in ahead(work, numbers, self.readers) if self.readers else map(work, numbers):
            pass


def _cast(stream: Callable[[], Iterator[np.ndarray]], dtype: np.dtype) -> Iterator[np.ndarray]:
    for block in stream():
        yield block.astype(dtype, copy=False)


def rebatch(pieces: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """The same rows in batches of exactly ``size``; only the last may be smaller.

    >>> [len(batch) for batch in rebatch([np.ones((3, 2)), np.ones((4, 2))], size=5)]
    [5, 2]
    """
    held: list[np.ndarray] = []
    n_held = 0
    for piece in pieces:
        while len(piece):
            part, piece = piece[: size - n_held], piece[size - n_held :]
            held.append(part)
            n_held += len(part)
            if n_held == size:
                yield held[0] if len(held) == 1 else np.concatenate(held)
                held, n_held = [], 0
    if held:
        yield held[0] if len(held) == 1 else np.concatenate(held)


def decoded(block: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Stored numbers as NumPy computes with them.

    bfloat16 is stored as uint16, the upper half of a float32; other bytes may be in another order.
    """
    if block.dtype == dtype:
        return block
    if block.dtype == np.uint16 and dtype == np.float32:
        return (block.astype(np.uint32) << 16).view(np.float32)
    return block.astype(dtype)
