"""What happens after an error that nobody foresaw: one line for the user, the trace in a log."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from pathlib import Path

from modgap._version import __version__
from modgap.core.secrets import sentence_without_secrets

ISSUES_URL = "https://github.com/modgap/modgap/issues"
# Older logs are removed: a command in a loop must not fill the disk.
_KEPT = 20


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch has no type of its own for that."""
    said = ("DefaultCPUAllocator", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in said)
    )


def unexpected(error: BaseException) -> str:
    """What to tell the user; the trace is kept for who reports it."""
    name, said = type(error).__name__, str(error)
    what = f"{name}: {said}" if said else name
    try:
        log = f"the log {write_log(error)}"
    except OSError as failure:
        log = f"what MODGAP_DEBUG=1 shows; no log could be written ({failure.strerror or failure})"
    return f"modgap met something unexpected ({what}). Please report it at {ISSUES_URL} with {log}."


def write_log(error: BaseException) -> Path:
    """The trace in a new file that only this user can read.

    The arguments of the command are left out: an address among them may hold a password.
    """
    folder = log_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in sorted(folder.glob("crash-*.log"))[: 1 - _KEPT]:
        old.unlink(missing_ok=True)
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    # The file must be new: a link that lies in wait there is not followed.
    path.unlink(missing_ok=True)
    opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(opened, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"modgap {__version__}, Python {platform.python_version()}, ")
        file.write(f"{platform.platform()}\n\n{trace_of(error)}")
    return path


def trace_of(error: BaseException) -> str:
    """The trace of an error and of those that it came from, without passwords in addresses."""
    trace = "".join(traceback.format_exception(error))
    return sentence_without_secrets(trace, *sys.argv[1:])


def log_folder() -> Path:
    """Where this system keeps what programs note about themselves."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Logs" / "modgap"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home()) / "modgap" / "Logs"
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a path that is not absolute is ignored.
    base = Path(state) if os.path.isabs(state) else _home() / ".local" / "state"
    return base / "modgap"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:  # a user without a home
        raise OSError(str(error)) from error
