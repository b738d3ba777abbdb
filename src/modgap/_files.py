"""Write files so that an interrupted run leaves nothing half-written."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name once the block ends without an error.

    The temporary name keeps the suffix of ``path``, because some writers choose by it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(target, target.suffix)
    try:
        # Made inside the block, so that a signal at this very moment leaves nothing either.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield temporary
        # Some writers make files private; the finished file gets the permissions any other would.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``path`` that takes its name once the block ends without an error.

    ``path`` must not exist yet, or be an empty folder.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(target)
    try:
        temporary.mkdir(mode=0o700)
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def sole_writer(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a folder, made if need be, against other processes that ask for it; BlockingIOError.

    The hold ends with the process, however it ends, and leaves nothing behind. Where the system
    cannot hold a folder, nothing is held.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # some network file systems
        yield
    finally:
        os.close(held)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one step."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _beside(target: Path, suffix: str = "") -> Path:
    """A hidden name that nobody else has, in the same folder."""
    return target.parent / f".modgap-{secrets.token_hex(8)}{suffix}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
