"""``modgap evaluate``: retrieval, mixed search and robustness, with and without a correction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, Data, MetricOption, Seed, asking_names, takes_data

if TYPE_CHECKING:
    from modgap.corrections import Correction


@takes_data()
def evaluate(
    data: Data,
    correction: Annotated[
        Path | None, typer.Option(help="A correction to compare with the rows as they are.")
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|both|all",
            help="Who asks; without it all that the correction serves, or all.",
        ),
    ] = None,
    metric: MetricOption = "cosine",
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
    from modgap.evaluation import evaluate_correction

    asking = None if queries is None else asking_names(queries, data.names)
    one = asking[0] if asking and len(asking) == 1 else None
    fixed = _one(correction, one) if correction else None
    with steps() as step:
        result = evaluate_correction(
            data,
            None,
            fixed,
            metric=metric,
            queries=asking,
            sample=sample,
            seed=seed,
            progress=step,
        )
    if result.fitted_on_these_rows:
        say(
            "modgap: warning: the correction was fitted on these very rows, so its metrics look "
            "better than they will be; evaluate on rows it has not seen."
        )
    if as_json:
        print_json(document("evaluate", result, seed=seed))
        return
    print_table(*result.table())
    out.print(f"[dim]{result.n_groups:,} groups, 95 % intervals from 1,000 resamples.[/dim]")


def _one(path: Path, queries: str | None) -> Correction:
    """The correction of a file, or the one of a folder that serves these queries."""
    from modgap.corrections import load_corrections

    found = load_corrections(path, queries)
    if len({id(one) for one in found.values()}) > 1:
        raise InputValueError(
            f"{path} holds corrections for {' and '.join(found)} queries. Choose with --queries."
        )
    return next(iter(found.values()))
