"""``modgap task pair_matching``: are both pairs of a set matched?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from modgap.cli.options import AsJson, MetricOption, Seed
from modgap.cli.outputs import check_folder
from modgap.cli.task_files import Images, data_option, rows_of, rows_with
from modgap.cli.task_options import (
    MODEL,
    ROWS,
    Bank,
    BatchSize,
    Column,
    Device,
    FitOn,
    ModelName,
    Names,
    Output,
    Rows,
    opened,
    rows_or_model,
    run_task,
    say_skipped,
    two_names,
)


def pair_matching(
    rows: Rows = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Embeddings of the statements, row by row with ROWS; two rows are a set.",
            show_default=False,
            rich_help_panel=ROWS,
        ),
    ] = None,
    patterns: Annotated[
        str | None,
        typer.Option(
            help="The pattern of each row, reported apart: an array or column of ROWS, or a file "
            "with one per row.",
            show_default=False,
            rich_help_panel=ROWS,
        ),
    ] = None,
    column: Column = None,
    names: Names = "image,text",
    model: ModelName = None,
    data: Annotated[Path | None, data_option("MMVP-VLM: the folder with Questions.csv.")] = None,
    images: Images = None,
    prefix: Annotated[
        str,
        typer.Option(help="What stands before each statement.", rich_help_panel=MODEL),
    ] = "a photo of ",
    device: Device = None,
    batch_size: BatchSize = 64,
    asking: Annotated[
        Literal["text", "image"],
        typer.Option(help="Who chooses between the two of the other kind."),
    ] = "text",
    fit_on: FitOn = None,
    bank: Bank = None,
    metric: MetricOption = "cosine",
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Match two images with two statements that differ in a detail; both must be right.

    DATA is MMVP-VLM. Who asks is the first modality, for --fit-on and --bank.

    Example: modgap task pair_matching --model hf:openai/clip-vit-base-patch32 --data MMVP_VLM

    Example: modgap task pair_matching images.npy --text statements.npy --patterns patterns.txt
    """
    if output is not None:
        check_folder(output)
    of_model = {"--model": model, "--data": data, "--images": images}
    from modgap.evaluation.tasks import pair_matching_task
    from modgap.reproduce.published import yaras_pair_matching

    more: dict[str, Any] = {}
    labels: Any = None
    if rows_or_model(rows, {"--text": text}, of_model):
        X, Y = rows_of(str(rows), column), rows_of(str(text))
        if patterns is not None:
            labels = rows_with(str(rows), patterns)[1]
    else:
        from modgap.cli.show import steps
        from modgap.embed import matching_rows
        from modgap.io import open_mmvp

        sets = open_mmvp(str(data), images=images)
        with steps() as step:
            found = matching_rows(
                opened(str(model), device), sets, prefix=prefix, batch_size=batch_size,
                progress=step,
            )  # fmt: skip
        say_skipped(found.skipped, len(sets.images))
        X, Y, labels = found.X, found.Y, found.patterns
        more = {"model": model, "data": str(data)}
    task = pair_matching_task(
        X, Y, labels, asking=asking, names=two_names(names), metric=metric,
        published=yaras_pair_matching(),
    )  # fmt: skip
    run_task(task, fit_on=fit_on, bank=bank, seed=seed, as_json=as_json, output=output, more=more)
