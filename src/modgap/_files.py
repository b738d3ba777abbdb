"""Write files so that an interrupted run leaves nothing half-written."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from modgap._validate import InputValueError


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name once the block ends without an error.

    The temporary name keeps the suffix of ``path``, because some writers choose by it. A
    ``durable`` file is flushed to the disk before it takes its name: it survives a power cut.
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
        if durable:
            _flush(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        with suppress(OSError):  # not every system can flush a folder, which holds the name
            _flush(target.parent)


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
def replaced_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder that takes the place of ``path`` and of all in it when the block ends.

    After an error the old folder is there as it was.
    """
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _beside(target), _beside(target)
    try:
        temporary.mkdir(mode=0o700)
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        if target.exists():
            os.replace(target, old)
        os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def sole_writer_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a path, which need not exist; refused while another process holds it.

    SQLite's lock works on every system, and the system lets go of it when a process is killed.
    The lock file is in the folder for temporary files, so nothing is left beside the path; two
    machines that share a disk are not kept apart.
    """
    import sqlite3

    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user}:{Path(path).resolve()}".encode()).hexdigest()[:24]
    lock = Path(tempfile.gettempdir()) / f"modgap-{name}.lock"
    with ExitStack() as held:
        try:
            connection = sqlite3.connect(lock, timeout=0, isolation_level=None)
            held.callback(connection.close)
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                said = f"Another process is writing to {path}. Wait until it is done."
            else:
                said = f"{path} cannot be locked for writing: {lock} cannot be used ({error})."
            raise InputValueError(said) from error
        yield


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one step."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _beside(target: Path, suffix: str = "") -> Path:
    """A hidden name that nobody else has, in the same folder."""
    return target.parent / f".modgap-{secrets.token_hex(8)}{suffix}"


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
