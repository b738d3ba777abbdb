"""Locks between processes; the system lets go of them when a process is killed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from modgap.core.checks import InputValueError

if TYPE_CHECKING:
    from filelock import BaseFileLock

# The errors of a file system without locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def acquire(path: Path) -> BaseFileLock | None:
    """Make a lock file and lock it; None while another holds it. A link is not followed."""
    from filelock import FileLock, Timeout

    # Without locks of the system, filelock would make a file that a killed process leaves behind.
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def release(lock: BaseFileLock) -> None:
    """Remove a lock file and let go of it; in a child of the process that took it, do nothing."""
    if lock.is_locked and os.name != "nt":
        # While it is held: a process that opened it before locks it in vain, and tries again.
        with suppress(OSError):
            os.unlink(lock.lock_file)
    lock.release()


@contextmanager
def sole_writer_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a path, which need not exist; refused while another process holds it.

    The lock is a hidden file beside the path, ``.NAME.lock``, or in the folder itself where
    nothing can be made beside it. It is removed when the block ends, except on Windows.
    """
    place = Path(path).resolve()
    new_folders = [folder for folder in place.parents if not folder.exists()]
    beside = place.parent / f".{place.name}.lock"
    lock = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        in_it = place.is_dir() and not os.access(place.parent, os.W_OK)
        lock = acquire(place / ".lock" if in_it else beside)
        if lock is None:
            raise InputValueError(f"Another process is writing to {path}. Wait until it is done.")
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise InputValueError(
                f"{path} cannot be locked for writing: {error.filename or 'the lock'} cannot be "
                f"used ({error.strerror})."
            ) from error
    try:
        yield
    finally:
        if lock is not None:
            release(lock)
        with suppress(OSError):
            for folder in new_folders:
                folder.rmdir()  # where nothing was written
