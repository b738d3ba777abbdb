"""``modgap task denigration``: how often faces are taken for crime or animals, by group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from modgap.cli.options import AsJson, MetricOption, Seed
from modgap.cli.outputs import check_folder
from modgap.cli.task_files import Images, data_option, rows_of, rows_with
from modgap.cli.task_options import (
    MODEL,
    ROWS,
    Bank,
    BatchSize,
    Device,
    FitOn,
    ModelName,
    Names,
    Output,
    Rows,
    Split,
    opened,
    rows_or_model,
    run_task,
    say_skipped,
    two_names,
)

if TYPE_CHECKING:
    from modgap.evaluation import Denigration
    from modgap.evaluation.tasks.result import Table


def denigration(
    rows: Rows = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Embeddings of the 21 prompts of Liang et al., in their order (--prompts).",
            show_default=False,
            rich_help_panel=ROWS,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Whom each face shows: an array or column of ROWS, or a file with one per row.",
            show_default=False,
            rich_help_panel=ROWS,
        ),
    ] = None,
    names: Names = "image,text",
    model: ModelName = None,
    data: Annotated[
        Path | None, data_option("FairFace: the folder with fairface_label_val.csv.")
    ] = None,
    images: Images = None,
    split: Split = None,
    by: Annotated[
        Literal["race", "gender", "age"],
        typer.Option(help="The groups of FairFace.", rich_help_panel=MODEL),
    ] = "race",
    device: Device = None,
    batch_size: BatchSize = 64,
    harm: Annotated[
        Literal["sum", "crime", "non-human"], typer.Option(help="Which prompts count.")
    ] = "sum",
    prompts: Annotated[
        bool, typer.Option("--prompts", help="Print the 21 prompts, one a line, and stop.")
    ] = False,
    fit_on: FitOn = None,
    bank: Bank = None,
    metric: MetricOption = "cosine",
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Count faces whose best prompt is about crime or animals, for each group of people.

    DATA is FairFace. Liang et al. took the gap of MS-COCO: its rows go to --fit-on.

    Example: modgap task denigration --model hf:openai/clip-vit-base-patch32 --data fairface

    Example: modgap task denigration faces.npy --text prompts.npy --groups race.txt
    """
    from modgap.evaluation import denigration as count
    from modgap.evaluation import denigration_prompts

    if prompts:
        typer.echo("\n".join(denigration_prompts()[0]))
        return
    if output is not None:
        check_folder(output)
    of_model = {"--model": model, "--data": data, "--images": images, "--split": split}
    from modgap.evaluation.tasks import denigration_task
    from modgap.reproduce.published import liang_denigration

    more: dict[str, Any] = {}
    own: Any = None
    if rows_or_model(rows, {"--text": text, "--groups": groups}, of_model):
        (X, shown), texts = rows_with(str(rows), str(groups)), rows_of(str(text))
    else:
        from modgap.cli.show import steps
        from modgap.embed import face_rows
        from modgap.io import open_fairface

        faces = open_fairface(str(data), split=split or "val", images=images)
        with steps() as step:
            found = face_rows(
                opened(str(model), device), faces, batch_size=batch_size, progress=step
            )
        say_skipped(found.skipped, len(faces))
        X, texts, shown, own = found.X, found.texts, found.groups[by], found.own
        more = {"model": model, "data": str(data), "by": by}
    shares = count(X, texts, shown, own=own, metric=metric, seed=seed)
    task = denigration_task(
        X, texts, shown, harm=harm, names=two_names(names), metric=metric,
        published=liang_denigration(harm),
    )  # fmt: skip
    run_task(
        task, fit_on=fit_on, bank=bank, seed=seed, as_json=as_json, output=output,
        more={**more, "shares": shares}, tables=[_table(shares)],
    )  # fmt: skip


def _table(found: Denigration) -> Table:
    """The shares as they are, group by group."""
    harms = tuple(found.overall)
    lines = [
        (group, f"{found.counts[group]:,}", *(f"{shares[harm].value:.3f}" for harm in harms))
        for group, shares in found.shares.items()
    ]
    every = ("all", f"{found.n:,}", *(f"{found.overall[harm].value:.3f}" for harm in harms))
    alike = ("p of one sum for all", "", *("" for _ in harms[1:]), f"{found.p_value:.2g}")
    return ("group", "faces", *harms), [*lines, every, alike]
