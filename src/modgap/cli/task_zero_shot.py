"""``modgap task zero_shot``: is the nearest class text the right one?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from modgap.cli.options import AsJson, MetricOption, Seed
from modgap.cli.outputs import check_folder
from modgap.cli.task_options import (
    ROWS,
    Bank,
    BatchSize,
    Classes,
    Column,
    DataPath,
    Device,
    FitOn,
    Labels,
    ModelName,
    Names,
    Output,
    Rows,
    Split,
    Template,
    Templates,
    chosen_templates,
    labelled_file,
    opened,
    rows_or_model,
    run_task,
    say_skipped,
    two_names,
)


def zero_shot(
    rows: Rows = None,
    class_text: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Embeddings of the class texts, a row a class in the order of their numbers.",
            show_default=False,
            rich_help_panel=ROWS,
        ),
    ] = None,
    labels: Labels = None,
    column: Column = None,
    class_column: Annotated[
        str | None,
        typer.Option(
            help="Array or column of the class texts.", show_default=False, rich_help_panel=ROWS
        ),
    ] = None,
    names: Names = "image,text",
    model: ModelName = None,
    data: DataPath = None,
    split: Split = None,
    template: Template = None,
    templates: Templates = None,
    device: Device = None,
    batch_size: BatchSize = 64,
    classes: Classes = None,
    fit_on: FitOn = None,
    bank: Bank = None,
    metric: MetricOption = "cosine",
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Classify items by the nearest class text, and see what each correction changes.

    Example: modgap task zero_shot images.npy --class-text classes.npy --labels labels.txt

    Example: modgap task zero_shot --model hf:openai/clip-vit-base-patch32 --data photos
    """
    if output is not None:
        check_folder(output)
    needed = {"--class-text": class_text, "--labels": labels}
    of_model = {"--model": model, "--data": data, "--split": split, "--template": template,
                "--templates": templates}  # fmt: skip
    from modgap.evaluation.tasks import zero_shot_task
    from modgap.reproduce.published import liang_zero_shot

    more: dict[str, Any] = {}
    if rows_or_model(rows, needed, of_model):
        assert rows is not None
        assert labels is not None
        from modgap.io import open_embeddings

        X, numbers = labelled_file(rows, column, labels, classes)
        texts: Any = open_embeddings(str(class_text), column=class_column).rows()
        called = two_names(names)
    else:
        from modgap.cli.show import steps
        from modgap.embed import zero_shot_rows
        from modgap.embed.templates import read_classes
        from modgap.io import open_items

        filled = chosen_templates(template, templates)
        listed = None if classes is None else read_classes(classes)
        items = open_items(str(data), split=split)
        with steps() as step:
            found = zero_shot_rows(
                opened(str(model), device), items, filled, classes=listed, batch_size=batch_size,
                progress=step,
            )  # fmt: skip
        say_skipped(found.skipped, len(items))
        X, numbers, texts, called = found.X, found.labels, found.class_texts, found.names
        more = {"model": model, "data": str(data), "classes": found.classes}
    task = zero_shot_task(
        X, texts, numbers, names=called, metric=metric, published=liang_zero_shot()
    )
    run_task(task, fit_on=fit_on, bank=bank, seed=seed, as_json=as_json, output=output, more=more)
