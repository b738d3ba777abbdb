"""A matrix on disk that is read when asked for: in batches, by row numbers, or whole."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

from modgap._ahead import ahead
from modgap._arrays import like
from modgap._changes import SteadyFile
from modgap._validate import InputValueError
from modgap.io._ahead import AHEAD_BYTES, Stretch, read_ahead
from modgap.moments import Moments

# Rows read together where a caller does not say how many.
BATCH_ROWS = 8192
# Less than that is read block by block, by whoever asks for it.
_ALONE_BYTES = 8 * 1024**2
# Files of a disk that are read at once.
LOCAL_READERS = 2
# A disk answers at once: what two files are read in, twice.
LOCAL_AHEAD_BYTES = 32 * 1024**2

Decode = Callable[[np.ndarray], np.ndarray]


class Matrix(ABC):
    """Something of a known shape and dtype; a format only has to say how its batches are read."""

    shape: tuple[int, ...]
    dtype: np.dtype
    # Threads that read it ahead of the computation; none where the rows are in memory.
    readers = 0

    @abstractmethod
    def batches(self, size: int) -> Iterator[np.ndarray]:
        """The rows in order, ``size`` at a time; only the last batch may be smaller."""

    def parts(self) -> list[Matrix]:
        """The shards that it is read from, one after the other; itself where it is one file."""
        return [self]

    def origin(self) -> tuple[SteadyFile, str] | None:
        """The file that the rows lie in, and what tells them from others in there.

        None where no file, or more than one, says whether they have changed.
        """
        return None

    def stretches(self, size: int) -> Iterator[Stretch]:
        """The rows in order, cut into what one thread reads; blocks have at most ``size`` rows."""
        yield Stretch(partial(self.batches, size), self._bytes_of(size))

    def _bytes_of(self, n_rows: int) -> int:
        columns = int(np.prod(self.shape[1:], dtype=object))
        return min(n_rows, self.shape[0]) * columns * np.dtype(self.dtype).itemsize

    # The whole matrix, for as long as someone holds it: it is then not read again.
    _held: weakref.ref[np.ndarray] | None = None

    def rows(self) -> np.ndarray:
        """The whole matrix, in memory; it cannot be written to."""
        whole = self._held() if self._held is not None else None
        if whole is None:
            whole = np.empty(self.shape, self.dtype)
            self._fill(whole)
            whole.flags.writeable = False
            self._held = weakref.ref(whole)
        return whole

    def _fill(self, whole: np.ndarray) -> None:
        start = 0
        for batch in self.batches(BATCH_ROWS):
            whole[start : start + len(batch)] = batch
            start += len(batch)

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


class StoredMatrix(Matrix):
    """A matrix whose rows are read ahead of the computation; a format says how blocks are read."""

    # The moments of all rows, once they were gathered: of many files that takes minutes. And the
    # folder in which those of each shard were kept on the way, if they were.
    gathered: tuple[Moments, Path | None] | None = None

    @abstractmethod
    def blocks(self, size: int) -> Iterator[np.ndarray]:
        """The rows in order, read when they are asked for, at most ``size`` at a time."""

    def batches(self, size: int) -> Iterator[np.ndarray]:
        few = self.readers <= LOCAL_READERS and self._bytes_of(self.shape[0]) <= _ALONE_BYTES
        if few or not self.readers:
            return rebatch(self.blocks(size), size)
        most = LOCAL_AHEAD_BYTES if self.readers <= LOCAL_READERS else AHEAD_BYTES
        return rebatch(read_ahead(self.stretches(size), self.readers, most), size)

    def stretches(self, size: int) -> Iterator[Stretch]:
        yield Stretch(partial(self.blocks, size), self._bytes_of(size))


class ArrayMatrix(Matrix):
    """An array in memory.

    ``decode`` turns stored numbers into floats, for what NumPy cannot compute with as it is.
    """

    def __init__(
        self,
        array: np.ndarray,
        decode: Decode | None = None,
        dtype: np.dtype | None = None,
    ) -> None:
        self.array = array
        self.decode, self.dtype = decoding(array.dtype, decode, dtype)
        self.shape = array.shape

    def batches(self, size: int) -> Iterator[np.ndarray]:
        for start in range(0, self.shape[0], size):
            yield self.decode(self.array[start : start + size])

    def rows(self) -> np.ndarray:
        return self.decode(self.array)

    def take(self, indices: np.ndarray) -> np.ndarray:
        return self.decode(np.asarray(self.array[indices]))

    def side(self, side: int) -> Matrix:
        """One of the matrices that are stacked in the array."""
        return type(self)(self.array[side], self.decode, self.dtype)


class HeldMatrix(Matrix):
    """An array or tensor in memory, left in its library and on its device."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.dtype = tuple(array.shape), array.dtype

    def batches(self, size: int) -> Iterator[Any]:
        for start in range(0, self.shape[0], size):
            yield self.array[start : start + size]

    def rows(self) -> Any:
        return self.array

    def take(self, indices: np.ndarray) -> Any:
        return self.array[like(indices, self.array)]


class PickedRows(Matrix):
    """Some rows of an array in memory by their numbers, copied when asked for.

    A hundred thousand rows that are only walked through need no second copy.
    """

    def __init__(self, matrix: Matrix, numbers: np.ndarray) -> None:
        source = matrix
        if isinstance(matrix, PickedRows):
            source, numbers = matrix.matrix, matrix.numbers[numbers]
        self.matrix: Matrix = source
        self.numbers: np.ndarray = numbers
        self.shape, self.dtype = (len(numbers), *matrix.shape[1:]), matrix.dtype

    def batches(self, size: int) -> Iterator[np.ndarray]:
        for start in range(0, len(self.numbers), size):
            yield self.matrix.take(self.numbers[start : start + size])

    def take(self, indices: np.ndarray) -> np.ndarray:
        return self.matrix.take(self.numbers[indices])


class Shards(StoredMatrix):
    """Matrices read one after the other as if they were one.

    ``one_file`` says that they are pieces of the same file.
    """

    def __init__(self, parts: Sequence[Matrix], *, one_file: bool = False) -> None:
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        self.readers = max(part.readers for part in parts)
        self._parts, self._one_file = parts, one_file
        self._ends = np.cumsum([part.shape[0] for part in parts])

    def parts(self) -> list[Matrix]:
        return [self] if self._one_file else [p for part in self._parts for p in part.parts()]

    def origin(self) -> tuple[SteadyFile, str] | None:
        return self._parts[0].origin() if self._one_file else None

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        for part in self._parts:
            for block in part.batches(size):
                yield block.astype(self.dtype, copy=False)

    def stretches(self, size: int) -> Iterator[Stretch]:
        for part in self._parts:
            for stretch in part.stretches(size):
                n_bytes = stretch.block_bytes // part.dtype.itemsize * self.dtype.itemsize
                yield Stretch(partial(_cast, stretch, self.dtype), n_bytes)

    def _fill(self, whole: np.ndarray) -> None:
        def fill(part: Matrix, stop: int) -> None:
            own = whole[stop - part.shape[0] : stop]
            if part.dtype == own.dtype:
                part._fill(own)
            else:
                Matrix._fill(part, own)

        if self.readers > LOCAL_READERS:  # each part is read by as many at once
            return super()._fill(whole)
        return self._each(fill, zip(self._parts, self._ends.tolist(), strict=True))

    def take(self, indices: np.ndarray) -> np.ndarray:
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        owners = np.searchsorted(self._ends, indices, side="right")
        order = np.argsort(owners, kind="stable")
        found, firsts = np.unique(owners[order], return_index=True)

        def take_of(number: int, places: np.ndarray) -> None:
            part = self._parts[number]
            start = self._ends[number] - part.shape[0]
            taken[places] = part.take(indices[places] - start)

        self._each(take_of, zip(found.tolist(), np.split(order, firsts)[1:], strict=True))
        return taken

    def _each(self, work: Callable[..., None], items: Iterable[tuple[Any, ...]]) -> None:
        """Work on each part, as many at once as are read at once."""
        if not self.readers:
            for item in items:
                work(*item)
            return
        for _ in ahead(lambda item: work(*item), items, self.readers):
            pass


def _cast(stretch: Stretch, dtype: np.dtype) -> Iterator[np.ndarray]:
    for block in stretch.blocks():
        yield block.astype(dtype, copy=False)


def join_files(parts: Mapping[Any, Matrix]) -> Matrix:
    """The matrices of several files as one; each must have the columns of the first."""
    (first_path, first), *others = parts.items()
    for path, part in others:
        if part.shape[1:] != first.shape[1:]:
            raise InputValueError(
                f"All shards of {first_path.parent} must have the same number of columns: "
                f"{first_path.name} has shape {first.shape}, {path.name} has shape {part.shape}."
            )
    return Shards(list(parts.values())) if others else first


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


def as_numpy(array: Any) -> np.ndarray:
    """A NumPy array of the numbers of an array or tensor; bfloat16 becomes float32."""
    if not array_api_compat.is_torch_array(array):
        return np.asarray(array)
    array = array.detach().cpu()
    return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()


def decoding(
    stored: np.dtype, decode: Decode | None, dtype: np.dtype | None
) -> tuple[Decode, np.dtype]:
    """How stored numbers are read, and the dtype they then have."""
    if decode is None and not stored.isnative:
        return _to_native, stored.newbyteorder("=")
    return decode or as_stored, dtype or stored


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Bfloat16 numbers, given as uint16, as float32: they are its upper half."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _to_native(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("="))


def as_stored(array: np.ndarray) -> np.ndarray:
    """The numbers as they are."""
    return array
