"""``modgap evaluate``: retrieval, mixed search and robustness, with and without a correction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modgap.cli.data import Data, with_documents
from modgap.cli.options import Metric
from modgap.cli.takes_data import takes_data


@takes_data(needs_matches=True)
def evaluate(
    data: Data,
    correction: Path | None = None,
    queries: str | None = None,
    documents: list[str] | None = None,
    metric: Metric = "cosine",
    sample: int = 5_000,
    all_documents: bool = False,
    group_duplicates: bool = True,
    seed: int = 0,
    engine: str = "local",
    as_json: bool = False,
) -> None:
    """Evaluate retrieval across modalities, one mixed index and robustness, on pairs.

    Example: modgap evaluate image.npy text.npy --correction correction.safetensors
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, print_table, say
    from modgap.core.results import document, spoken
    from modgap.corrections import query_modalities
    from modgap.corrections.files import load_correction
    from modgap.engines import retrieval_among_all, spread
    from modgap.evaluation import evaluate_correction

    data = spread(with_documents(data, documents), engine)
    data = data.with_duplicates_grouped() if group_duplicates else data
    asking = None if queries is None else query_modalities(queries, data.names)
    fixed = None if correction is None else load_correction(correction, asking)
    options: dict[str, Any] = {"queries": asking, "sample": sample, "seed": seed}
    among_all = {}
    with steps() as step:
        result = evaluate_correction(
            data, None, fixed, metric=metric, group_duplicates=False, **options, progress=step
        )
        if all_documents:
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
    held = f"{result.n_groups:,} {result.counted}"
    out.print(f"[dim]{held}, 95 % intervals from 1,000 resamples.[/dim]")
    if result.duplicates:
        out.print(f"[dim]{result.duplicates}[/dim]")
    if ratios := result.ratio_table():
        out.print("\n[bold]Over mixing ratios[/bold], matches of both modalities as targets")
        print_table(*ratios)
    sizes = spoken(f"{side.n_rows:,} {name}" for name, side in data.sides.items())
    for way, found in among_all.items():
        heading = "as it is" if way == "raw" else way
        out.print(f"\n[bold]Among all documents[/bold] ({sizes} rows), {heading}")
        print_table(*found.table())
