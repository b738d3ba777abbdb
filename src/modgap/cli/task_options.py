"""Options that the tasks share, and how their results are shown and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.outputs import check_folder

if TYPE_CHECKING:
    import numpy as np

    from modgap.embed import Model
    from modgap.evaluation.tasks import Task, TaskSweep, Way
    from modgap.evaluation.tasks.result import Table
    from modgap.io import Modalities

ROWS, MODEL, SWEEP = "Rows from files", "A model and data instead", "The sweep"

Rows = Annotated[
    Path | None,
    typer.Argument(
        metavar="ROWS",
        help="Embeddings of the items: .npy, .npz, .safetensors, .pt, .parquet, or a folder.",
        show_default=False,
    ),
]
Column = Annotated[
    str | None,
    typer.Option(help="Array or column of ROWS.", show_default=False, rich_help_panel=ROWS),
]
Labels = Annotated[
    str | None,
    typer.Option(
        help="The class of each row, numbers from 0 or names: an array or column of ROWS, or a "
        "file with one per row.",
        show_default=False,
        rich_help_panel=ROWS,
    ),
]
Names = Annotated[
    str, typer.Option(help="What the two modalities are called.", rich_help_panel=ROWS)
]
ModelName = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="hf:NAME, open_clip:NAME/WEIGHTS, st:NAME, onnx:FOLDER or run:FOLDER, as for modgap "
        "embed.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
DataPath = Annotated[
    Path | None,
    typer.Option(
        metavar="DATA",
        help="Images or sounds with labels: a folder for each class, Parquet, CSV, JSON Lines …",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="Take this split.", show_default=False, rich_help_panel=MODEL),
]
Template = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="A sentence with {} where the class goes. May be repeated: the rows of a class are "
        "averaged. 'a photo of a {}.' for images, 'this is a sound of {}.' for sounds.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Templates = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file of templates, one a line.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The classes in their order: a label a line, with its words behind a tab. By default "
        "the labels of the data, sorted.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="cpu, cuda, cuda:1 …; the first GPU if there is one.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Items to a batch.", rich_help_panel=MODEL)]
FitOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Reference rows to fit corrections on instead of those of the task: one file of both "
        "modalities, or the option twice.",
        show_default=False,
        rich_help_panel=SWEEP,
    ),
]
Bank = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Unlabelled rows of the items' kind, none of them an item, for hubs. By default each "
        "half of the items is the bank of the other.",
        show_default=False,
        rich_help_panel=SWEEP,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FOLDER",
        help="Write a figure and the JSON there.",
        show_default=False,
    ),
]


def rows_or_model(rows: Path | None, needed: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """Whether rows are given; what belongs to the other way is refused, what is missing named."""
    if rows is not None:
        beside = [option for option, value in model.items() if value]
        if beside:
            raise InputValueError(f"{beside[0]} is for --model and --data; ROWS are given as well.")
        missing = [option for option, value in needed.items() if value is None]
        if missing:
            raise InputValueError(f"Rows from files need {' and '.join(missing)}, too.")
        return True
    beside = [option for option, value in needed.items() if value is not None]
    if beside:
        raise InputValueError(f"{beside[0]} is for ROWS from a file. Give their path.")
    if not (model["--model"] and model["--data"]):
        raise InputValueError("Give the ROWS of the items, or --model and --data.")
    return False


def two_names(names: str) -> tuple[str, str]:
    """Two names with a comma between them."""
    parts = [part.strip() for part in names.split(",")]
    if len(parts) != 2:
        raise InputValueError(f"--names takes two names with a comma between, got {names!r}.")
    return parts[0], parts[1]


def labelled_file(
    path: Path, column: str | None, labels: str, classes: Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a file and the class number of each."""
    import numpy as np

    from modgap.embed.templates import read_classes
    from modgap.io import open_embeddings

    held = open_embeddings(path, column=column, groups=labels)
    found = np.asarray(held.groups)
    if classes is not None:
        place = {label: number for number, label in enumerate(read_classes(classes))}
        unknown = next((str(label) for label in found if str(label) not in place), None)
        if unknown is not None:
            raise InputValueError(f"The label {unknown!r} is not a class of {classes}.")
        found = np.array([place[str(label)] for label in found])
    elif found.dtype.kind not in "iu":
        raise InputValueError(
            f"The labels of {path} are names, so --classes must say which row of the class texts "
            "each belongs to: a name a line, in that order."
        )
    return np.asarray(held.rows()), found


def chosen_templates(given: Sequence[str] | None, file: Path | None) -> tuple[str, ...] | None:
    """The templates of both options; None where neither is given."""
    from modgap.embed.templates import check_templates, read_templates

    found = (*(check_templates(given) if given else ()), *(read_templates(file) if file else ()))
    return found or None


def opened(model: str, device: str | None) -> Model:
    """The model of a name."""
    from modgap.embed import open_model

    return open_model(model, device=device)


def say_skipped(skipped: Mapping[str, str], n_items: int) -> None:
    """How many items could not be used, and the first of them."""
    from modgap.cli.show import say

    if skipped:
        first = "; ".join(f"{name} ({why})" for name, why in list(skipped.items())[:3])
        say(f"modgap: {len(skipped):,} of {n_items:,} items cannot be used: {first}")


def run_task(
    task: Task,
    *,
    fit_on: Sequence[str] | None,
    bank: Path | None,
    seed: int,
    as_json: bool,
    output: Path | None,
    more: Mapping[str, Any] | None = None,
    ways: Sequence[Way] | None = None,
    tables: Sequence[Table] = (),
) -> None:
    """Sweep a task, show what was found, and write it; ``tables`` are shown before."""
    from modgap._results import document
    from modgap.cli.options import open_bank
    from modgap.cli.show import out, print_json, print_table, steps
    from modgap.evaluation.tasks import sweep_task

    held = open_bank(bank)
    with steps() as step:
        sweep = sweep_task(
            task,
            ways,
            fit_on=_reference(fit_on, task.names),
            bank=None if held is None else held.rows(),
            seed=seed,
            progress=step,
        )
    found = document("task", sweep, seed=seed, **(more or {}))
    if output is not None:
        _write(sweep, found, output)
    if as_json:
        print_json(found)
    else:
        for table in tables:
            print_table(*table)
            out.print()
        _show(sweep)


def _reference(paths: Sequence[str] | None, names: tuple[str, str]) -> Modalities | None:
    if not paths:
        return None
    if len(paths) > 2:
        raise InputValueError(f"--fit-on takes one file or two, got {len(paths)}.")
    from modgap.io import open_pair

    return open_pair(paths[0], paths[1] if len(paths) > 1 else None, names=names)


def _show(sweep: TaskSweep) -> None:
    from modgap.cli.show import out, print_table

    header, rows = sweep.table()
    chosen = next((k for k, row in enumerate(rows) if row[0] == sweep.chosen.way), None)
    print_table(header, rows, marked=chosen)
    if (parts := sweep.parts_table()) is not None:
        out.print()
        print_table(*parts)
    out.print(f"\n{sweep.sentence}", markup=False, soft_wrap=True)
    notes = [
        f"{sweep.n_items:,} items, {sweep.level:.0%} intervals; corrections fitted on "
        f"{sweep.fitted_on}.",
        *(f"Not tried: {way}: {why}" for way, why in sweep.failures.items()),
        *(f"Published: {p.what}: {p.value:g} ({p.where})" for p in sweep.published),
    ]
    for note in notes:
        out.print(note, style="dim", markup=False, soft_wrap=True)


def _write(sweep: TaskSweep, found: Mapping[str, Any], folder: Path) -> None:
    """The JSON, and the figure where matplotlib is installed."""
    from modgap._files import atomic_path, write_text
    from modgap._results import to_json
    from modgap._validate import MissingExtraError
    from modgap.cli.show import say

    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{sweep.task}.json", to_json(found) + "\n")
    say(f"wrote {folder / f'{sweep.task}.json'}")
    try:
        from modgap.plot import task_figure

        figure = task_figure(sweep, title=sweep.task)
    except MissingExtraError as missing:
        say(f"modgap: no figure: {missing}")
        return
    with atomic_path(folder / f"{sweep.task}.png") as path:
        figure.savefig(path, dpi=150)
    say(f"wrote {folder / f'{sweep.task}.png'}")
