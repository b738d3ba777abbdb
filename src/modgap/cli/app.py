"""The app, and what happens when something goes wrong: one sentence, and exit status 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from modgap._validate import InputError
from modgap._version import __version__
from modgap.cli.apply import apply
from modgap.cli.demo import demo
from modgap.cli.diagnose import diagnose
from modgap.cli.evaluate import evaluate
from modgap.cli.fit import fit
from modgap.cli.measure import measure

app = typer.Typer(
    name="modgap",
    help="Measure, explain and fix the modality gap of CLIP-like embeddings.",
    epilog="New here? Run `modgap demo`, then `modgap diagnose` on your own embeddings.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (demo, diagnose, measure, fit, apply, evaluate):
    app.command()(command)


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
    """Run a command; what the user can mend is one sentence on stderr and exit status 2."""
    try:
        app()
    except (InputError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # `modgap … | head` is no mistake
            sys.stderr.close()
            sys.exit(141)
        print(f"modgap: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("modgap: interrupted; nothing half-written is left.", file=sys.stderr)
        sys.exit(130)
