"""``modgap diagnose``: a verdict, and a fix as one small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modgap.cli.options import (
    AsJson,
    Groups,
    MetricOption,
    Names,
    PathX,
    PathY,
    Seed,
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
            help="Folder for diagnosis.json, report.md and correction.safetensors.",
        ),
    ] = None,
    goal: Annotated[
        str, typer.Option(help="What to improve: mixed (one index), robust or quantised.")
    ] = "mixed",
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = "image,text",
    metric: MetricOption = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model, noted in the correction.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Try every correction on held-out rows and say which one to use, or to leave it alone.

    Example: modgap diagnose image.npy text.npy -o out
    """
    from modgap._results import document
    from modgap.cli.outputs import check_folder
    from modgap.cli.report import print_diagnosis, write_diagnosis
    from modgap.cli.show import print_json, say, steps
    from modgap.diagnose import diagnose as run

    if output is not None:
        check_folder(output)
    pair = open_data(path, path_y, x_column, y_column, groups, unpaired, names)
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
        for line in write_diagnosis(result, output):
            say(line)
