"""The app, and what happens when something goes wrong: one line, and an exit status."""

from __future__ import annotations

import inspect
import io
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from modgap._secrets import sentence_without_secrets
from modgap._validate import InputError
from modgap._version import __version__
from modgap.cli import crash
from modgap.cli.apply import apply
from modgap.cli.demo import demo
from modgap.cli.diagnose import diagnose
from modgap.cli.drift import drift
from modgap.cli.embed import embed
from modgap.cli.evaluate import evaluate
from modgap.cli.fit import fit
from modgap.cli.fix import fix
from modgap.cli.index import index_app
from modgap.cli.manifest import manifest
from modgap.cli.measure import measure
from modgap.cli.mixbench import mixbench
from modgap.cli.report import report
from modgap.cli.reproduce import reproduce
from modgap.cli.serve import serve
from modgap.cli.task import task_app
from modgap.cli.train import train
from modgap.cli.vslerp import vslerp

app = typer.Typer(
    name="modgap",
    help="Measure, explain and fix the modality gap of CLIP-like embeddings.",
    epilog="New here? Run `modgap demo`, then `modgap fix` on your own embeddings.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# What typer raises for an unknown option or a missing argument; it has moved between its versions.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

for command in (
    demo,
    fix,
    diagnose,
    report,
    serve,
    measure,
    fit,
    apply,
    evaluate,
    mixbench,
    drift,
    embed,
    manifest,
    train,
    vslerp,
    reproduce,
):
    app.command()(command)
app.add_typer(index_app)
app.add_typer(task_app)


def _flowing(text: str) -> str:
    """A docstring without line breaks in its paragraphs, which a terminal of any width sets."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


for one in (app, index_app, task_app):
    for known in one.registered_commands:
        known.help = _flowing(inspect.getdoc(known.callback) or "")


def _version(asked: bool) -> None:
    if asked:
        print(f"modgap {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure, explain and fix the modality gap of CLIP-like embeddings."""


def main() -> None:
    """Run a command; what the user can mend is one sentence on stderr and exit status 2.

    What nobody foresaw is one line too, with exit status 1; the trace is in a log. With
    MODGAP_DEBUG=1 the trace of every error is shown.
    """
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows only ASCII gets a question mark for → and no traceback.
            stream.reconfigure(errors="replace")
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="modgap", standalone_mode=False)
        if sys.stdout is not None:  # `>&-` closes it
            sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except BrokenPipeError:  # `modgap … | head` is no mistake
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except SystemExit:
        raise
    except BaseException as error:  # libraries in Rust raise what is no Exception
        status = _say_what_is_wrong(error)
    if status == 130:
        print("modgap: interrupted; nothing half-written is left.", file=sys.stderr)
    sys.exit(status or 0)


def _say_what_is_wrong(error: BaseException) -> int:
    """Print an error as one line, and return the exit status."""
    if os.environ.get("MODGAP_DEBUG", "0") not in ("", "0"):
        print(crash.trace_of(error), file=sys.stderr)
    status = 2
    if isinstance(error, (_UsageError, InputError, OSError)):
        said = f"modgap: {_sentence(error)}"
    elif crash.out_of_memory(error):
        said = (
            "modgap: there is not enough memory for this. Give fewer rows, or free some memory"
            f"{_in_brackets(error)}."
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


def _in_brackets(error: BaseException) -> str:
    said = str(error).strip().splitlines()
    return f" ({said[0].rstrip('.')})" if said else ""


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


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a sentence; where in the code it arose helps nobody at the terminal."""
    print(_shown(f"modgap: warning: {message}"), file=sys.stderr)
