"""``modgap evaluate``: retrieval, mixed search and robustness, with and without a correction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.options import (
    AsJson,
    Groups,
    MetricOption,
    Names,
    PathX,
    PathY,
    Seed,
    XColumn,
    YColumn,
    open_data,
)

if TYPE_CHECKING:
    from modgap.diagnosis import Evaluation


def evaluate(
    path: PathX,
    path_y: PathY = None,
    correction: Annotated[
        Path | None, typer.Option(help="A correction to compare with the rows as they are.")
    ] = None,
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    names: Names = "image,text",
    metric: MetricOption = None,
    sample: Annotated[
        int, typer.Option(min=8, help="Evaluate on at most this many groups.")
    ] = 5_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Evaluate retrieval across modalities, one mixed index and robustness, on pairs.

    Example: modgap evaluate image.npy text.npy --correction correction.safetensors
    """
    from modgap._results import document
    from modgap.cli.show import out, print_json, print_table, say, steps
    from modgap.corrections import Correction
    from modgap.diagnosis import evaluate_correction

    fixed = Correction.load(correction) if correction else None
    pair = open_data(path, path_y, x_column, y_column, groups, False, names)
    if not pair.paired:
        raise InputValueError(
            f"evaluate needs to know which rows match, and the sides have {pair.x.n_rows} and "
            f"{pair.y.n_rows} rows. Say so with --groups."
        )
    with steps() as step:
        result = evaluate_correction(
            pair.x, pair.y, fixed, names=pair.names, groups=pair.groups, metric=metric,  # type: ignore[arg-type]
            sample=sample, seed=seed, progress=step,
        )  # fmt: skip
    if result.fitted_on_these_rows:
        say(
            "warning: the correction was fitted on these very rows, so its figures flatter it; "
            "evaluate on rows it has not seen."
        )
    if as_json:
        print_json(document("evaluate", result, seed=seed))
        return
    print_table(*_table(result))
    out.print(f"[dim]{result.n_groups:,} groups, 95 % intervals from 1,000 resamples.[/dim]")


def _table(result: Evaluation) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from modgap.cli.diagnosis import change_cell, interval_cell

    rows: list[tuple[str, ...]] = []
    for name, before in result.raw.figures.items():
        cells: list[Any] = [name, interval_cell(before)]
        if result.corrected is not None:
            after = result.corrected.figures[name]
            cells += [interval_cell(after), change_cell(after)]
        rows.append(tuple(cells))
    header = ("", "as it is", "corrected", "change") if result.corrected else ("", "as it is")
    return header, rows
