"""Read blocks of a file, and notice before each block if the file has changed.

Nothing maps a file: a map of a file that shrinks kills the process without a message.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError

OpenedFile = RawIOBase | BufferedReader


class ChangedFileError(InputValueError):
    """A file is not the one that was opened: it was written to, replaced or removed."""


class SteadyFile:
    """A file that must stay as it is: its size, time and place on the disk are remembered."""

    # Threads that may read it and its like at once, and the bytes that each asks for. Rows that are
    # ``near_bytes`` apart or less are read together.
    readers, block_bytes, near_bytes = 2, 8 * 1024**2, 64 * 1024
    is_remote = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Any = Path(path)
        try:
            self._seen = os.stat(self.path)
        except OSError as error:
            raise _unreadable(self.path, error) from error
        # Its bytes when it was first seen.
        self.size = self._seen.st_size

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process, perhaps on another machine, the disk has another number."""
        self.__dict__.update(state)
        here, seen = SteadyFile(self.path)._seen, self._seen
        if (here.st_size, here.st_mtime_ns) == (seen.st_size, seen.st_mtime_ns):
            self._seen = here

    @property
    def identity(self) -> str:
        """A text that differs for another file, and for this one once it is written to."""
        return f"{self._seen.st_size} {self._seen.st_mtime_ns} {self._seen.st_ino}"

    def open(self) -> OpenedFile:
        """The file for reading, if it is still the same; to be closed by the caller."""
        try:
            file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by the caller
        except OSError as error:
            raise _unreadable(self.path, error) from error
        try:
            self.check(file)
        except BaseException:
            file.close()
            raise
        return file

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a library reads the file: an error raised because it changed says so."""
        try:
            yield
        except Exception:
            self.check()
            raise

    def check(self, file: OpenedFile | None = None) -> None:
        """Raise if the file is not the same any more."""
        try:
            now = os.stat(self.path if file is None else file.fileno())
        except OSError as error:
            raise _unreadable(self.path, error) from error
        before = self._seen
        if now.st_size != before.st_size:
            what = f"it had {before.st_size:,} bytes and has {now.st_size:,} now"
        elif (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            what = "another file took its place"
        elif now.st_mtime_ns != before.st_mtime_ns:
            what = "it was written to"
        else:
            return
        raise changed_file(self.path, what)

    def read_into(self, file: OpenedFile, offset: int, out: np.ndarray) -> None:
        """Fill a contiguous array with the bytes at ``offset``."""
        self.check(file)
        buffer = out.reshape(-1).view(np.uint8).data if out.size else memoryview(b"")
        done = 0
        try:
            file.seek(offset)
            while done < len(buffer):
                n = file.readinto(buffer[done:])
                if not n:
                    raise changed_file(self.path, "it ends earlier than it did")
                done += n
        except OSError as error:
            raise _unreadable(self.path, error) from error


def changed_file(path: object, what: str) -> ChangedFileError:
    """The error for a file that is not the same any more."""
    return ChangedFileError(
        f"{path} changed while it was read: {what}. Start again once nothing writes to it."
    )


def _unreadable(path: Path, error: OSError) -> InputValueError:
    if isinstance(error, FileNotFoundError):
        return ChangedFileError(f"{path} was removed or renamed while it was read.")
    return InputValueError(f"{path} cannot be read: {error.strerror or error}.")
