"""The app: its commands, and how one is run."""

from __future__ import annotations

import inspect
import io
import os
import sys
import warnings
from typing import Annotated

import typer

from modgap._version import __version__
from modgap.cli import errors
from modgap.cli.apply import apply
from modgap.cli.demo import demo
from modgap.cli.described import described, flowing
from modgap.cli.diagnose import diagnose
from modgap.cli.drift import drift
from modgap.cli.embed import embed
from modgap.cli.evaluate import evaluate
from modgap.cli.export import export
from modgap.cli.fit import fit
from modgap.cli.fix import fix
from modgap.cli.index import index_app
from modgap.cli.kept_inputs import keeps_inputs
from modgap.cli.manifest import manifest
from modgap.cli.measure import measure
from modgap.cli.migrate import migrate
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

for command in (
    demo,
    fix,
    diagnose,
    report,
    serve,
    measure,
    fit,
    apply,
    export,
    evaluate,
    mixbench,
    drift,
    migrate,
    embed,
    manifest,
    train,
    vslerp,
    reproduce,
):
    app.command()(keeps_inputs(described(command), replaces=command in (fix, migrate)))
app.add_typer(index_app)
app.add_typer(task_app)


for one in (app, index_app, task_app):
    for known in one.registered_commands:
        known.help = flowing(inspect.getdoc(known.callback) or "")


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
    warnings.showwarning = errors.show_warning
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
        status = errors.say_what_is_wrong(error)
    if status == 130:
        # Where the interrupt came while Python ran a string, as dataclasses do, `python -m` would
        # end by the signal whatever the status is; running another string forgets that.
        exec("")
        print("modgap: interrupted; nothing half-written is left.", file=sys.stderr)
    sys.exit(status or 0)
