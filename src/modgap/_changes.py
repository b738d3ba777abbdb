"""Files that change while they are read: noticed before each block, and said in one sentence.

Nothing maps a file: a map of one that shrinks kills the process, without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np

from modgap._ahead import ahead
from modgap._validate import InputValueError

# Rows that are read before the file is looked at again, and in one call with the gaps between them.
_ROWS_AT_ONCE, _PIECES, _NEAR_BYTES = 4096, 1000, 8 * 1024
# What lies this near is asked of a disk together; less than that much is read by one thread.
_AHEAD_BYTES, _ALONE_BYTES = 64 * 1024, 4 * 1024**2


class ChangedFileError(InputValueError):
    """A file is not the one that was opened: it was written to, replaced or removed."""


class SteadyFile:
    """A file that must stay as it is: its size, time and place on the disk are remembered."""

    # Threads that may read it and its like at once, and the bytes that each asks for.
    readers, block_bytes = 2, 8 * 1024**2
    is_remote = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Any = Path(path)
        with _reading(self.path):
            self._seen = os.stat(self.path)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process, on another machine perhaps, the disk has another number there."""
        self.__dict__.update(state)
        with _reading(self.path):
            here = os.stat(self.path)
        seen = self._seen
        if (here.st_size, here.st_mtime_ns) == (seen.st_size, seen.st_mtime_ns):
            self._seen = here

    @property
    def size(self) -> int:
        """Its bytes when it was first seen."""
        return self._seen.st_size

    @property
    def identity(self) -> str:
        """What tells it from another file, and from itself once it is written to."""
        return f"{self._seen.st_size} {self._seen.st_mtime_ns} {self._seen.st_ino}"

    @contextmanager
    def open(self) -> Iterator[RawIOBase]:
        """The file for reading, if it is still the same."""
        with _reading(self.path):
            file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed below
        with file:
            self.check(file)
            yield file

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a library reads the file: what goes wrong because it changed is said to be that."""
        try:
            yield
        except Exception:
            self.check()
            raise

    def check(self, file: RawIOBase | None = None) -> None:
        """Refuse to go on where the file is not the same any more."""
        with _reading(self.path):
            now = os.stat(self.path if file is None else file.fileno())
        before = self._seen
        if now.st_size != before.st_size:
            what = f"it had {before.st_size:,} bytes and has {now.st_size:,} now"
        elif (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            what = "another file took its place"
        elif now.st_mtime_ns != before.st_mtime_ns:
            what = "it was written to"
        else:
            return
        raise changed(self.path, what)

    def read_into(self, file: RawIOBase, offset: int, out: np.ndarray) -> None:
        """Fill a contiguous array with what lies at ``offset``."""
        self.check(file)
        buffer = out.reshape(-1).view(np.uint8).data if out.size else memoryview(b"")
        done = 0
        with _reading(self.path):
            file.seek(offset)
            while done < len(buffer):
                n = file.readinto(buffer[done:])
                if not n:
                    raise EOFError
                done += n

    def read_each(self, file: RawIOBase, offsets: np.ndarray, out: np.ndarray) -> None:
        """Fill each row of a contiguous array with what lies at its offset."""
        order = np.argsort(offsets, kind="stable")
        row_bytes = out.itemsize * int(np.prod(out.shape[1:]))
        if not out.size:
            return
        buffer = out.reshape(-1).view(np.uint8).data
        if hasattr(os, "posix_fadvise"):  # a slow disk is asked for all of it at once
            for first, last in spans(offsets[order], row_bytes, _AHEAD_BYTES):
                os.posix_fadvise(file.fileno(), first, last - first, os.POSIX_FADV_WILLNEED)

        def read(some: np.ndarray) -> None:
            self.check(file)
            wanted = zip(offsets[some].tolist(), (some * row_bytes).tolist(), strict=True)
            with _reading(self.path):
                _scatter(file.fileno(), wanted, row_bytes, buffer)

        if hasattr(os, "preadv"):
            workers = self.readers if out.nbytes > _ALONE_BYTES else 1
            for _ in ahead(read, np.array_split(order, -(-len(order) // _ROWS_AT_ONCE)), workers):
                pass
            return
        for row in order.tolist():
            self.read_into(file, int(offsets[row]), out[row])


def changed(path: object, what: str) -> ChangedFileError:
    """What is said of a file that is not the same any more."""
    return ChangedFileError(
        f"{path} changed while it was read: {what}. Start again once nothing writes to it."
    )


def spans(offsets: np.ndarray, length: int, near: int) -> Iterator[tuple[int, int]]:
    """From where to where things of one length lie, those ``near`` to each other together."""
    ends = (np.flatnonzero(np.diff(offsets) > length + near) + 1).tolist()
    for first, end in zip([0, *ends], [*ends, len(offsets)], strict=True):
        yield int(offsets[first]), int(offsets[end - 1]) + length


def _scatter(opened: int, wanted: Iterable[tuple[int, int]], length: int, into: memoryview) -> None:
    """Read what lies at rising offsets of a file into places of a buffer, much in one call."""
    skipped = memoryview(bytearray(_NEAR_BYTES))
    pieces: list[memoryview] = []
    begin = end = 0
    for offset, place in wanted:
        gap = offset - end
        if not pieces or not 0 <= gap <= _NEAR_BYTES or len(pieces) > _PIECES:
            _read_pieces(opened, pieces, begin)
            pieces, begin = [], offset
        elif gap:
            pieces.append(skipped[:gap])
        pieces.append(into[place : place + length])
        end = offset + length
    _read_pieces(opened, pieces, begin)


def _read_pieces(opened: int, pieces: list[memoryview], offset: int) -> None:
    for piece in pieces if _pread(opened, pieces, offset) < sum(map(len, pieces)) else ():
        done = 0
        while done < len(piece):
            n = _pread(opened, [piece[done:]], offset + done)
            if not n:
                raise EOFError
            done += n
        offset += len(piece)


def _pread(opened: int, pieces: list[memoryview], offset: int) -> int:
    return os.preadv(opened, pieces, offset) if pieces else 0


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except EOFError as error:
        raise changed(path, "it ends earlier than it did") from error
    except FileNotFoundError as error:
        raise ChangedFileError(f"{path} was removed or renamed while it was read.") from error
    except OSError as error:
        raise InputValueError(f"{path} cannot be read: {error.strerror or error}.") from error
