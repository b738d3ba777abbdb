"""``modgap task``: the papers' tasks, as the rows are and with every correction."""

from __future__ import annotations

import typer

from modgap.cli.task_conformity import conformity
from modgap.cli.task_denigration import denigration
from modgap.cli.task_linear_probe import linear_probe
from modgap.cli.task_multiple_choice import multiple_choice
from modgap.cli.task_pair_matching import pair_matching
from modgap.cli.task_zero_shot import zero_shot

task_app = typer.Typer(
    name="task",
    help="Run a task of the papers on rows as they are, moved along the gap, and with every "
    "correction. The best is chosen on one half of the items and tested on the other.",
    epilog="Example: modgap task zero_shot images.npy --class-text classes.npy --labels labels.txt",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    zero_shot,
    linear_probe,
    multiple_choice,
    pair_matching,
    denigration,
    conformity,
):
    name = command.__name__
    task_app.command(name)(command)
    if "_" in name:  # who writes - means the same
        task_app.command(name.replace("_", "-"), hidden=True)(command)
