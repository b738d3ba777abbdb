"""What happens when something goes wrong: one line, and an exit status."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from modgap.cli import crash
from modgap.core.checks import InputError
from modgap.core.secrets import sentence_without_secrets

# What typer raises for an unknown option or a missing argument; it has moved between its versions.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def say_what_is_wrong(error: BaseException) -> int:
    """Print an error as one line, and return the exit status."""
    if os.environ.get("MODGAP_DEBUG", "0") not in ("", "0"):
        print(crash.trace_of(error), file=sys.stderr)
    status = 2
    if isinstance(error, (_UsageError, InputError, OSError)):
        said = f"modgap: {_sentence(error)}"
    elif crash.out_of_memory(error):
        lines = str(error).strip().splitlines()
        brackets = f" ({lines[0].rstrip('.')})" if lines else ""
        said = (
            "modgap: there is not enough memory for this. Give fewer rows, or free some memory"
            f"{brackets}."
        )
    else:
        said, status = crash.unexpected(error), 1
    print(_shown(said), file=sys.stderr)
    return status


def _sentence(error: Exception) -> str:
    """What is wrong, in words."""
    if isinstance(error, _UsageError):
        command = getattr(getattr(error, "ctx", None), "command_path", "modgap")
        said: str = error.format_message()  # type: ignore[attr-defined]
        said = " ".join(said.split())
        stop = "" if said.endswith((".", "?")) else "."
        return f"{said}{stop} See {command} --help."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}."
    return str(error) or type(error).__name__


def _shown(text: str) -> str:
    """What may be printed of a text: one line, without the secrets of addresses that were given."""
    return _one_line(sentence_without_secrets(text, *sys.argv[1:]))


def _one_line(text: str) -> str:
    """Text in one line; what would steer a terminal is shown instead of done.

    >>> _one_line("a\\nb \\x1b[2J")
    'a b \\\\x1b[2J'
    """
    joined = " ".join(text.splitlines())
    return "".join(c if c.isprintable() or c.isspace() else ascii(c)[1:-1] for c in joined)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a sentence; where in the code it arose helps nobody at the terminal."""
    print(_shown(f"modgap: warning: {message}"), file=sys.stderr)
