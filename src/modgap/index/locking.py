"""One writer at a time for indexes that are files."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from pathlib import Path

from modgap._validate import InputValueError


def lock_path(path: Path) -> sqlite3.Connection:
    """Hold a path until the connection is closed; refused while another process holds it.

    SQLite's lock works on every system, and the system lets go of it when a process is killed.
    The lock file is in the folder for temporary files, so nothing is left beside the index; two
    machines that share a disk are not kept apart.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user}:{path.resolve()}".encode()).hexdigest()[:24]
    lock = Path(tempfile.gettempdir()) / f"modgap-{name}.lock"
    held = None
    try:
        held = sqlite3.connect(lock, timeout=0, isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if held is not None:
            held.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            said = f"Another process is writing to {path}. Wait until it is done."
        else:
            said = f"{path} cannot be held for writing: {lock} cannot be used ({error})."
        raise InputValueError(said) from error
    return held
