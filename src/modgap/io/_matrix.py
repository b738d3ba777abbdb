"""A matrix on disk that is read when asked for: in batches, by row numbers, or whole."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

from modgap._arrays import like
from modgap._validate import InputValueError

# Rows read together where a caller does not say how many.
BATCH_ROWS = 8192

Decode = Callable[[np.ndarray], np.ndarray]


class Matrix(ABC):
    """Something of a known shape and dtype; a format only has to say how its batches are read."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @abstractmethod
    def batches(self, size: int) -> Iterator[np.ndarray]:
        """The rows in order, ``size`` at a time; only the last batch may be smaller."""

    def parts(self) -> list[Matrix]:
        """The shards that it is read from, in order; itself where there is one only."""
        return [self]

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


class Shards(Matrix):
    """Matrices read one after the other as if they were one."""

    def __init__(self, parts: Sequence[Matrix]) -> None:
        self._parts = list(parts)
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])

    def parts(self) -> list[Matrix]:
        return self._parts

    def batches(self, size: int) -> Iterator[np.ndarray]:
        pieces = (
            batch.astype(self.dtype, copy=False)
            for part in self._parts
            for batch in part.batches(size)
        )
        return rebatch(pieces, size)

    def take(self, indices: np.ndarray) -> np.ndarray:
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        start = 0
        for part in self._parts:
            here = (indices >= start) & (indices < start + part.shape[0])
            if here.any():
                taken[here] = part.take(indices[here] - start)
            start += part.shape[0]
        return taken


def join_files(parts: dict[Path, Matrix]) -> Matrix:
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
