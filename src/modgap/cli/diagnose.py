"""``modgap diagnose``: a verdict, and a fix as one small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modgap.cli.options import (
    AsJson,
    Goal,
    Groups,
    Images,
    MetricOption,
    Model,
    Names,
    PathX,
    PathY,
    Seed,
    Umap,
    Unpaired,
    XColumn,
    YColumn,
    open_data,
)


def diagnose(
    path: PathX,
    path_y: PathY = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Folder for report.html, report.md, diagnosis.json and correction.safetensors.",
        ),
    ] = None,
    goal: Goal = "mixed",
    images: Images = None,
    umap: Umap = True,
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = "image,text",
    metric: MetricOption = None,
    model: Model = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Try every correction on held-out rows and say which one to use, or to leave it alone.

    Example: modgap diagnose image.npy text.npy -o out
    """
    from modgap._results import document
    from modgap.cli.diagnosis import print_diagnosis, write_diagnosis
    from modgap.cli.outputs import check_folder
    from modgap.cli.report import thumbnails_of
    from modgap.cli.show import print_json, say, steps
    from modgap.diagnosis import diagnose as run
    from modgap.reports import report as make_page

    if output is not None:
        check_folder(output)
    pair = open_data(path, path_y, x_column, y_column, groups, unpaired, names)
    thumbnail = thumbnails_of(pair, images)
    with steps() as step:
        result = run(
            pair.x, pair.y, pair.names, groups=pair.groups, paired=pair.paired, goal=goal,  # type: ignore[arg-type]
            metric=metric or "cosine", model=model, seed=seed, progress=step,  # type: ignore[arg-type]
        )  # fmt: skip
    if as_json:
        print_json(document("diagnose", result))
    else:
        print_diagnosis(result)
    if output is not None:
        with steps() as step:
            page = make_page(
                pair.x, pair.y, pair.names, groups=pair.groups, paired=pair.paired,
                images=(thumbnail, None), metric=metric or "cosine", model=model,  # type: ignore[arg-type]
                diagnosis=result, umap=None if umap else False, seed=seed, progress=step,
            )  # fmt: skip
        for line in write_diagnosis(result, output, page):
            say(line)
