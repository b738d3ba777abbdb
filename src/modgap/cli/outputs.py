"""Where results may be written; refused before any work is done, in words."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from modgap.core.checks import InputValueError
from modgap.core.files import file_to_write, kind_of, refuse_url

if TYPE_CHECKING:
    from modgap.corrections import Correction


def check_folder(folder: Path) -> None:
    """A folder that is there and can be written to, or can be made."""
    refuse_url(folder)
    if folder.exists() and not folder.is_dir():
        raise InputValueError(f"-o takes a folder to write to, but {folder} is {kind_of(folder)}.")
    _check_place(folder, folder)


def check_file(path: Path) -> None:
    """A file that can be written."""
    if path.exists() and not path.is_file():
        raise InputValueError(f"-o takes a file to write to, but {path} is {kind_of(path)}.")
    file_to_write(path)
    _check_place(path.parent, path)


def write_without_bank(corrections: Iterable[Correction], path: Path) -> None:
    """Write corrections without their banks of queries; several side by side, as fit does."""
    from modgap.cli.show import say
    from modgap.corrections import save_corrections

    bare = [one.without_bank() for one in corrections]
    for file in save_corrections({name: one for one in bare for name in one.queries}, path):
        say(f"wrote {file}, without a bank of queries: it maps queries only")


@contextmanager
def tidy_when_terminated() -> Iterator[None]:
    """Make SIGTERM, which `timeout` and `docker stop` send, remove a temporary file on its way out.

    Only around a long write: elsewhere the process should end at once, even inside a library's
    loop where Python cannot raise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_place(folder: Path, wanted: Path) -> None:
    """The nearest folder that is there already must be one, and writable."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise InputValueError(f"{wanted} cannot be written: {nearest} is a file.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputValueError(f"{wanted} cannot be written: {nearest} does not allow it.")
