"""``modgap task linear_probe``: what a linear classifier reads from the rows of one modality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, MetricOption, Seed
from modgap.cli.outputs import check_folder
from modgap.cli.task_options import (
    MODEL,
    ROWS,
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
    Template,
    Templates,
    chosen_templates,
    opened,
    rows_or_model,
    run_task,
    say_skipped,
    two_names,
)

if TYPE_CHECKING:
    import numpy as np

    from modgap.embed import LabelledRows

_TRAIN, _TEST, _SHARE = "train", "test", 0.5


def linear_probe(
    rows: Rows = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Embeddings of texts, any: they say where the other modality is.",
            show_default=False,
            rich_help_panel=ROWS,
        ),
    ] = None,
    labels: Labels = None,
    column: Column = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            help="Array or column of the texts.", show_default=False, rich_help_panel=ROWS
        ),
    ] = None,
    train_share: Annotated[
        float,
        typer.Option(
            min=0.05,
            max=0.95,
            help="Share of the rows that train, drawn at random.",
            rich_help_panel=ROWS,
        ),
    ] = _SHARE,
    names: Names = "image,text",
    model: ModelName = None,
    data: DataPath = None,
    train_split: Annotated[
        str | None,
        typer.Option(
            help="The split that trains; train where there is one, else a random share.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    test_split: Annotated[
        str | None,
        typer.Option(
            help="The split that tests; test, val or dev.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    template: Template = None,
    templates: Templates = None,
    device: Device = None,
    batch_size: BatchSize = 64,
    classes: Classes = None,
    fit_on: FitOn = None,
    metric: MetricOption = "cosine",
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Fit a logistic regression on rows of one modality, moved and corrected in every way.

    Example: modgap task linear_probe images.npy --labels labels.txt --text texts.npy

    Example: modgap task linear_probe --model hf:openai/clip-vit-base-patch32 --data photos
    """  # fmt: skip
    if output is not None:
        check_folder(output)
    needed = {"--text": text, "--labels": labels}
    of_model = {"--model": model, "--data": data, "--train-split": train_split,
                "--test-split": test_split, "--template": template,
                "--templates": templates}  # fmt: skip
    from modgap.evaluation.tasks import linear_probe_task

    more: dict[str, Any] = {}
    if rows_or_model(rows, needed, of_model):
        from modgap.io import open_embeddings

        assert labels is not None
        held = open_embeddings(str(rows), column=column, groups=labels)
        train, test = _shares(held.rows(), held.groups, train_share, seed)
        Y: Any = open_embeddings(str(text), column=text_column).rows()
        called = two_names(names)
    else:
        from modgap.cli.show import steps
        from modgap.embed import zero_shot_rows
        from modgap.embed.templates import read_classes
        from modgap.io import open_items

        filled = chosen_templates(template, templates)
        listed = None if classes is None else read_classes(classes)
        items = open_items(str(data))
        with steps() as step:
            found = zero_shot_rows(
                opened(str(model), device), items, filled, classes=listed, batch_size=batch_size,
                progress=step,
            )  # fmt: skip
        say_skipped(found.skipped, len(items))
        chosen = _splits(items, train_split, test_split)
        if chosen is None:
            train, test = _shares(found.X, found.labels, train_share, seed)
        else:
            train, test = (_of_split(found, items.split(name).names) for name in chosen)
        Y = found.class_texts.reshape(-1, found.X.shape[1])
        called = found.names
        more = {"model": model, "data": str(data), "classes": found.classes}
    task = linear_probe_task(train, test, Y, names=called, metric=metric, seed=seed)
    more["n_train"] = len(train[1])
    run_task(task, fit_on=fit_on, bank=None, seed=seed, as_json=as_json, output=output, more=more)


def _shares(
    rows: Any, labels: Any, share: float, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Rows that train and rows that test, drawn at random."""
    import numpy as np

    from modgap._arrays import to_numpy

    X, numbers = to_numpy(rows), np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(X))
    n_train = round(share * len(X))
    train, test = np.sort(order[:n_train]), np.sort(order[n_train:])
    return (X[train], numbers[train]), (X[test], numbers[test])


def _splits(items: Any, train: str | None, test: str | None) -> tuple[str, str] | None:
    """The splits that train and test, by their names; None where the data have none."""
    known = items.splits()
    if not known and train is None and test is None:
        return None
    wanted = test or next((name for name in (_TEST, "val", "dev") if name in known), _TEST)
    if (train or _TRAIN) == wanted:
        raise InputValueError(f"--train-split and --test-split must differ, got {wanted} twice.")
    return train or _TRAIN, wanted


def _of_split(found: LabelledRows, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    chosen = np.isin(np.array(found.items), np.array(names))
    return found.X[chosen], found.labels[chosen]
