"""``modgap task``: the papers' tasks, built from what each task declares about itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from modgap.cli.data import open_bank
from modgap.cli.named import two_names
from modgap.cli.outputs import check_folder
from modgap.core.checks import InputValueError

if TYPE_CHECKING:
    from modgap.core.results import Progress
    from modgap.embed import Model
    from modgap.tasks import TaskSweep
    from modgap.tasks.command import Option, Prepared, TaskCommand

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
        app.command(name, help=_help(name))(_command(_declared(name)))
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


def _help(name: str) -> str:
    paragraphs = _declared(name).help.split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _command(declared: TaskCommand) -> Any:
    """The function that typer calls, with the options of a task and those that all tasks have."""
    from modgap.tasks.command import common_options

    def run(**given: Any) -> None:
        _run(declared, SimpleNamespace(**given))

    absent = {name for name in ("bank", "metric") if not getattr(declared, name)}
    options = (*declared.options, *common_options(declared.data))
    parameters = [_ROWS, *(_parameter(one) for one in options if one.name not in absent)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


_ROWS = inspect.Parameter(
    "rows",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        typer.Argument(
            metavar="ROWS",
            help="Embeddings of the items: .npy, .npz, .safetensors, .pt, .parquet, or a folder.",
            show_default=False,
        ),
    ],
)


def _parameter(option: Option) -> inspect.Parameter:
    """An option of a task as typer takes it."""
    described = typer.Option(
        *(option.words or (_dashed(option.name),)),
        help=option.help,
        metavar=option.metavar,
        min=option.least,
        max=option.most,
        show_default=option.default is not None and option.kind is not bool,
        rich_help_panel=option.panel,
    )
    kind = option.kind if option.default is not None else option.kind | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=option.default,
        annotation=Annotated[kind, described],
    )


def _run(declared: TaskCommand, given: SimpleNamespace) -> None:
    from modgap.cli.show import out, print_json, print_table, steps
    from modgap.core.results import document

    if (lines := declared.lines(given)) is not None:
        typer.echo("\n".join(lines))
        return
    if given.output is not None:
        check_folder(given.output)
    given.names = two_names(given.names)
    with steps() as step:
        inputs, about = _inputs(declared, given, step)
        ready = declared.prepare(inputs, given, step)
        sweep = None if ready.task is None else _swept(ready, given, step)
    about = {**about, **ready.more}
    if sweep is None:
        found = document("task", ready.result, seed=given.seed, task=declared.name, **about)
    else:
        found = document("task", sweep, seed=given.seed, **about)
    if given.output is not None:
        _write(found, ready.result, sweep, given.output)
    if given.as_json:
        print_json(found)
        return
    if ready.result is not None:
        print_table(*ready.result.table())
        out.print()
    if sweep is None:
        out.print(ready.result.sentence, markup=False, soft_wrap=True)
    else:
        _show(sweep)


def _inputs(
    declared: TaskCommand, given: SimpleNamespace, step: Progress
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """What the task takes, from files or from a model; and what the JSON says about it."""
    if _from_files(declared.options, given):
        return declared.read(given), {}
    from modgap.cli.show import say

    data = declared.open(given)
    settings = {name: getattr(given, name) for name in ("batch_size", *declared.settings)}
    model = opened(given.model, given.device)
    found = declared.embed(model, data, **settings, progress=step)
    if found.skipped:
        first = "; ".join(f"{name} ({why})" for name, why in list(found.skipped.items())[:3])
        n_skipped, n_items = len(found.skipped), found.n_items
        say(f"modgap: {n_skipped:,} of {n_items:,} items cannot be used: {first}")
    return found.inputs, {"model": given.model, "data": str(given.data), **found.about}


def _from_files(options: Sequence[Option], given: SimpleNamespace) -> bool:
    """Whether rows are given; options of the other source are refused, missing ones named."""
    from modgap.tasks.command import MODEL, ROWS

    values = {option.name: getattr(given, option.name) for option in options}
    changed = [option for option in options if values[option.name] != option.default]
    if given.rows is None:
        beside = [_dashed(option.name) for option in changed if option.panel == ROWS]
        if beside:
            raise InputValueError(f"{beside[0]} is for ROWS from a file. Give their path.")
        if not (given.model and given.data):
            raise InputValueError("Give the ROWS of the items, or --model and --data.")
        return False
    beside = [f"--{name}" for name in ("model", "data") if getattr(given, name)]
    beside += [_dashed(option.name) for option in changed if option.panel == MODEL]
    if beside:
        raise InputValueError(f"{beside[0]} is for --model and --data; ROWS are given as well.")
    missing = [_dashed(o.name) for o in options if o.needed and values[o.name] is None]
    if missing:
        raise InputValueError(f"Rows from files need {' and '.join(missing)}, too.")
    return True


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def opened(model: str, device: str | None) -> Model:
    """The model of a name."""
    from modgap.embed import open_model

    return open_model(model, device=device)


def _swept(ready: Prepared, given: SimpleNamespace, step: Progress) -> TaskSweep:
    from modgap.io import open_pair
    from modgap.tasks import sweep_task

    assert ready.task is not None
    reference, paths = None, given.fit_on or ()
    if len(paths) > 2:
        raise InputValueError(f"--fit-on takes one file or two, got {len(paths)}.")
    if paths:
        second = paths[1] if len(paths) > 1 else None
        reference = open_pair(paths[0], second, names=ready.task.names)
    bank = open_bank(getattr(given, "bank", None))
    return sweep_task(
        ready.task,
        ready.ways,
        fit_on=reference,
        bank=None if bank is None else bank.rows(),
        seed=given.seed,
        progress=step,
    )


def _show(sweep: TaskSweep) -> None:
    from modgap.cli.show import out, print_table

    header, rows = sweep.table()
    chosen = next((k for k, row in enumerate(rows) if row[0] == sweep.chosen.way), None)
    print_table(header, rows, marked=chosen)
    if (parts := sweep.parts_table()) is not None:
        out.print()
        print_table(*parts)
    out.print(f"\n{sweep.sentence}", markup=False, soft_wrap=True)
    for note in sweep.notes():
        out.print(note, style="dim", markup=False, soft_wrap=True)


def _write(found: Mapping[str, Any], result: Any, sweep: TaskSweep | None, folder: Path) -> None:
    """The JSON, and the figures where matplotlib is installed."""
    from modgap.cli.show import say
    from modgap.core.checks import MissingExtraError
    from modgap.core.files import atomic_path, write_text
    from modgap.core.results import to_json

    folder.mkdir(parents=True, exist_ok=True)
    name = found["task"]
    write_text(folder / f"{name}.json", to_json(found) + "\n")
    say(f"wrote {folder / f'{name}.json'}")
    figures = {}
    try:
        from modgap.plot import histograms, panels, task_figure

        if sweep is not None:
            figures[name] = task_figure(sweep, title=name)
        if hasattr(result, "histogram"):
            figures[f"{name}_rows"], (axes,) = panels(1, size=(5.2, 3.8))
            histograms(*result.histogram(), xlabel=name, ax=axes)
    except MissingExtraError as missing:
        say(f"modgap: no figure: {missing}")
        return
    for called, figure in figures.items():
        with atomic_path(folder / f"{called}.png") as path:
            figure.savefig(path, dpi=150)
        say(f"wrote {folder / f'{called}.png'}")
