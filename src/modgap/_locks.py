"""Locks between processes of one machine; the system lets go of them when a process is killed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from modgap._validate import InputValueError

# What a file system without locks says.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

_held: set[int] = set()

if sys.platform == "win32":
    import msvcrt

    def _lock(opened: int) -> None:
        msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _let_go_in_child() -> None:
        # Else the workers of a killed process would hold its locks for as long as they live.
        while _held:
            os.close(_held.pop())

    os.register_at_fork(after_in_child=_let_go_in_child)


def acquire(path: Path) -> int | None:
    """Make a lock file and lock it; None while another holds it. A link is not followed."""
    while True:
        flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        opened = os.open(path, flags, 0o600)
        try:
            _lock(opened)
            # One that was removed since it was opened keeps nobody out any more.
            if os.path.samestat(os.fstat(opened), os.stat(path)):
                _held.add(opened)
                return opened
        except (BlockingIOError, PermissionError):
            os.close(opened)
            return None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)


def release(opened: int, path: Path) -> None:
    """Remove a lock file and let go of it."""
    if opened not in _held:  # a child of the process that took it
        return
    with suppress(OSError):
        if os.name != "nt":
            os.unlink(path)  # before it is free: afterwards it may be another's
    _held.discard(opened)
    os.close(opened)
    with suppress(OSError):
        if os.name == "nt":
            os.unlink(path)  # refused by the system while another has it open


@contextmanager
def sole_writer_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a path, which need not exist; refused while another process holds it.

    The lock is in a private folder among the temporary files, so nothing is left beside the path,
    and it is removed when the block ends. Two machines that share a disk are not kept apart.
    """
    with ExitStack() as held:
        try:
            folder = _private_folder()
            for name in _names_of(Path(path)):
                lock = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"
                opened = acquire(lock)
                if opened is None:
                    raise InputValueError(
                        f"Another process is writing to {path}. Wait until it is done."
                    )
                held.callback(release, opened, lock)
        except OSError as error:
            raise InputValueError(
                f"{path} cannot be locked for writing: {error.filename or 'the lock'} cannot be "
                f"used ({error.strerror})."
            ) from error
        yield


def _names_of(path: Path) -> list[str]:
    """What a path is locked by: its place, and the file that is there, which may have two names."""
    place = path.resolve()
    names = [f"path {os.path.normcase(place)}"]
    with suppress(OSError):
        there = place.stat()
        names.append(f"file {there.st_dev} {there.st_ino}")
    return names


def _private_folder() -> Path:
    """A folder that only this user can enter; a link or another user's is refused."""
    user = os.getuid() if sys.platform != "win32" else os.environ.get("USERNAME", "")
    folder = Path(tempfile.gettempdir()) / f"modgap-{user}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    private = sys.platform == "win32" or (
        found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
    )
    if not (stat.S_ISDIR(found.st_mode) and private):
        raise InputValueError(
            f"Locks are kept in {folder}, which must be a folder of your own that nobody else can "
            "enter. Remove it, or name another folder for temporary files with TMPDIR."
        )
    return folder
