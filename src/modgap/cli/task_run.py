"""How a task runs: what it is given, its sweep, and what is printed and written."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from modgap.cli.data import open_bank
from modgap.cli.named import two_names
from modgap.cli.outputs import check_folder

if TYPE_CHECKING:
    from modgap.core.results import Progress
    from modgap.tasks import TaskSweep
    from modgap.tasks.command import TaskCommand


def run_task(declared: TaskCommand, given: SimpleNamespace) -> None:
    """Run a task with what the command line gave, and print and write what came out."""
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, print_table, say
    from modgap.core.results import document
    from modgap.reports.task_files import write_task

    if (lines := declared.lines(given)) is not None:
        typer.echo("\n".join(lines))
        return
    if given.output is not None:
        check_folder(given.output)
    given.names = two_names(given.names)
    with steps() as step:
        inputs, about = _inputs(declared, given, step)
        ready = declared.prepare(inputs, given, step)
        sweep = None
        if ready.task is not None:
            bank = open_bank(getattr(given, "bank", None))
            sweep = ready.swept(given.fit_on or (), bank, seed=given.seed, progress=step)
    about = {**about, **ready.more}
    if sweep is None:
        found = document("task", ready.result, seed=given.seed, task=declared.name, **about)
    else:
        found = document("task", sweep, seed=given.seed, **about)
    if given.output is not None:
        for line in write_task(found, ready.result, sweep, given.output):
            say(line)
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
    if declared.takes_files(given):
        return declared.read(given), {}
    from modgap.cli.show import say
    from modgap.embed import open_model

    data = declared.open(given)
    settings = {name: getattr(given, name) for name in ("batch_size", *declared.settings)}
    model = open_model(given.model, device=given.device)
    found = declared.embed(model, data, **settings, progress=step)
    if found.skipped:
        say(f"modgap: {found.skipped_sentence()}")
    return found.inputs, {"model": given.model, "data": str(given.data), **found.about}


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
