"""``modgap task``: the papers' tasks, built from what each task declares about itself."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from modgap.cli.described import flowing, option
from modgap.cli.kept_inputs import keeps_inputs
from modgap.cli.task_run import run_task

if TYPE_CHECKING:
    from modgap.tasks.command import Option, TaskCommand

TASKS = (
    "zero_shot",
    "linear_probe",
    "multiple_choice",
    "pair_matching",
    "denigration",
    "conformity",
)


class _Tasks(TyperGroup):
    """Commands that are built when one is called: the help of modgap loads no task."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TASKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = cmd_name.replace("-", "_")  # who writes - means the same
        if name not in TASKS:
            return None
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name, help=flowing(_declared(name).help))(
            keeps_inputs(_command(_declared(name)))
        )
        return typer.main.get_command(app)


task_app = typer.Typer(
    name="task",
    cls=_Tasks,
    help="Run a task of the papers on rows as they are, moved along the gap, and with every "
    "correction. The best is chosen on one half of the items and tested on the other.",
    epilog="Example: modgap task zero_shot images.npy --class-text classes.npy --labels labels.txt",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@task_app.callback()
def _tasks() -> None:
    pass


def _declared(name: str) -> TaskCommand:
    command: TaskCommand = import_module(f"modgap.tasks.{name}").COMMAND
    return command


def _command(declared: TaskCommand) -> Any:
    """The function that typer calls, with the options of a task and those that all tasks have."""
    from modgap.tasks.command import COMMON

    def run(**given: Any) -> None:
        run_task(declared, SimpleNamespace(**given))

    absent = {name for name in ("bank", "metric") if not getattr(declared, name)}
    rows = inspect.Parameter(
        "rows",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[Path | None, option("rows", "task")],
    )
    options = [one for one in (*declared.options, *COMMON) if one.name not in absent]
    parameters = [rows, *(_parameter(one, f"task {declared.name}") for one in options)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameter(own: Option, table: str) -> inspect.Parameter:
    """An option of a task as typer takes it; its words stand in its table, or in that of all."""
    shown = own.default is not None and own.kind is not bool
    words = option(own.name, table, "task", rich_help_panel=own.panel, show_default=shown)
    return inspect.Parameter(
        own.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=own.default,
        annotation=Annotated[own.kind if own.default is not None else own.kind | None, words],
    )
