"""One writer at a time for indexes that are files."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from modgap._validate import InputValueError


@contextmanager
def sole_writer_of(path: Path) -> Iterator[None]:
    """Hold a path, which need not exist; refused while another process holds it.

    SQLite's lock works on every system, and the system lets go of it when a process is killed.
    The lock file is in the folder for temporary files, so nothing is left beside the index; two
    machines that share a disk are not kept apart.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user}:{path.resolve()}".encode()).hexdigest()[:24]
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
