"""``modgap evaluate``: retrieval, mixed search and robustness, with and without a correction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.engine_options import EngineOption
from modgap.cli.options import AsJson, Data, MetricOption, Seed, takes_data

if TYPE_CHECKING:
    from modgap.corrections import Correction


_MIXBENCH = "MixBench"
_SAMPLE, _WEIGHT, _MODEL = 5_000, 0.5, "CLIP-L/14"


@takes_data(unless="mixbench")
def evaluate(
    data: Data | None,
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
    ] = _SAMPLE,
    mixbench: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Evaluate on MixBench instead: its folder or that of a subset, with embeddings "
            "as its scripts save them.",
            rich_help_panel=_MIXBENCH,
        ),
    ] = None,
    weight: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share of the text in documents that have an image too.",
            rich_help_panel=_MIXBENCH,
        ),
    ] = _WEIGHT,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep", help="Show other weights as well, 0 to 1.", rich_help_panel=_MIXBENCH
        ),
    ] = False,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The model of the rows, for the published values beside them.",
            rich_help_panel=_MIXBENCH,
        ),
    ] = _MODEL,
    all_documents: Annotated[
        bool,
        typer.Option(
            "--all-documents",
            help="Also rank the sampled queries among all documents, shard by shard.",
        ),
    ] = False,
    seed: Seed = 0,
    engine: EngineOption = "local",
    as_json: AsJson = False,
) -> None:
    """Evaluate retrieval across modalities, one mixed index and robustness, on pairs.

    Example: modgap evaluate image.npy text.npy --correction correction.safetensors
    """
    if mixbench is not None:
        _refuse(
            {
                "--correction": correction is not None,
                "--queries": queries is not None,
                "--metric": metric != "cosine",
                "--sample": sample != _SAMPLE,
                "--all-documents": all_documents,
                "--engine": engine != "local",
            },
            "--mixbench has its own queries, and all of them are asked by cosine or calibrated",
        )
        _evaluate_mixbench(mixbench, weight, sweep, model, seed, as_json)
        return
    _refuse(
        {"--weight": weight != _WEIGHT, "--sweep": sweep, "--model": model != _MODEL},
        "it belongs to --mixbench",
    )
    from modgap._results import document, spoken
    from modgap.cli.show import out, print_json, print_table, say, steps
    from modgap.corrections import query_modalities
    from modgap.engines import retrieval_among_all, spread
    from modgap.evaluation import evaluate_correction

    assert data is not None  # there are no other data
    data = spread(data, engine)
    asking = None if queries is None else query_modalities(queries, data.names)
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
        among_all = {}
        if all_documents:
            options: dict[str, Any] = {"queries": asking, "sample": sample, "seed": seed}
            options |= {"engine": engine, "progress": step}
            among_all["raw"] = retrieval_among_all(data, metric=metric, **options)
            if fixed is not None:
                among_all["corrected"] = retrieval_among_all(data, correction=fixed, **options)
    if result.fitted_on_these_rows:
        say(
            "modgap: warning: the correction was fitted on these very rows, so its metrics look "
            "better than they will be; evaluate on rows it has not seen."
        )
    if as_json:
        said = document("evaluate", result, seed=seed)
        if among_all:
            said["among_all"] = {way: found.to_dict() for way, found in among_all.items()}
        print_json(said)
        return
    print_table(*result.table())
    out.print(f"[dim]{result.n_groups:,} groups, 95 % intervals from 1,000 resamples.[/dim]")
    if ratios := result.ratio_table():
        out.print("\n[bold]Over mixing ratios[/bold], matches of both modalities as targets")
        print_table(*ratios)
    sizes = spoken(f"{side.n_rows:,} {name}" for name, side in data.sides.items())
    for way, found in among_all.items():
        heading = "as it is" if way == "raw" else way
        out.print(f"\n[bold]Among all documents[/bold] ({sizes} rows), {heading}")
        print_table(*found.table())


def _refuse(given: Mapping[str, bool], why: str) -> None:
    for option, is_given in given.items():
        if is_given:
            raise InputValueError(f"{option} cannot be given here: {why}.")


def _evaluate_mixbench(
    folder: Path, weight: float, sweep: bool, model: str, seed: int, as_json: bool
) -> None:
    from modgap._results import document
    from modgap.cli.show import out, print_json, print_table, steps
    from modgap.evaluation import evaluate_mixbench

    others = [tenth / 10 for tenth in range(11)] if sweep else []
    with steps() as step:
        result = evaluate_mixbench(
            folder, weight=weight, sweep=others, model=model, seed=seed, progress=step
        )
    if as_json:
        print_json(document("mixbench", result, seed=seed))
        return
    for heading, (header, rows) in result.tables().items():
        out.print(f"[bold]{heading}[/bold]")
        print_table(header, rows, stack_heads=True)
        out.print()
    for note in result.notes():
        out.print(note, style="dim", markup=False, soft_wrap=True)


def _one(path: Path, queries: str | None) -> Correction:
    """The correction of a file, or the one of a folder that serves these queries."""
    from modgap.corrections import load_corrections

    found = load_corrections(path, queries)
    if len({id(one) for one in found.values()}) > 1:
        raise InputValueError(
            f"{path} holds corrections for {' and '.join(found)} queries. Choose with --queries."
        )
    return next(iter(found.values()))
