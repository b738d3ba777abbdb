"""``modgap fix``: the whole way, from embeddings to corrected documents and a search that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._results import spoken
from modgap.cli.options import (
    AsJson,
    Bank,
    Data,
    Goal,
    KeepBank,
    MetricOption,
    Model,
    Queries,
    Seed,
    TrustPairs,
    asking_names,
    open_bank,
    takes_data,
)

if TYPE_CHECKING:
    from modgap.corrections import Correction
    from modgap.io import Modalities


@takes_data(writes="folder")
def fix(
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Folder for the corrected documents, the correction, search.py and pgvector.sql.",
            show_default=False,
        ),
    ],
    queries: Queries = None,
    goal: Goal = "mixed",
    metric: MetricOption = "cosine",
    bank: Bank = None,
    keep_bank: KeepBank = True,
    model: Model = None,
    trust_pairs: TrustPairs = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Diagnose, fit the chosen correction on all rows, and write all that a search needs.

    Example: modgap fix image.npy text.npy -o fixed
    """
    from modgap._results import document
    from modgap.cli.diagnose import print_diagnosis
    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.show import out, print_json, say, steps
    from modgap.diagnosis import fix as run
    from modgap.reports.fix import where_from

    say(f"modgap: {_which_file(data)}")
    with steps() as step, tidy_when_terminated():
        result = run(
            data, None, output, queries=asking_names(queries, data.names), goal=goal,
            metric=metric, bank=open_bank(bank), keep_bank=keep_bank, model=model,
            trust_pairs=trust_pairs, seed=seed, progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("fix", result))
    else:
        for diagnosis in result.diagnoses.values():
            print_diagnosis(diagnosis, every=False)
        for asking, correction in result.corrections.items():
            out.print(str(correction), markup=False)
            out.print(f"  fitted on  {_fitted_on(correction)} rows")
            out.print(f"[dim]{where_from(result.diagnoses[asking])}[/dim]\n")
        if result.next_steps:
            out.print("[bold]What to do next[/bold]")
        for line in result.next_steps:
            out.print(f"  {line}", markup=False, soft_wrap=True)
    for path in result.files:
        say(f"wrote {path}")


def _fitted_on(correction: Correction) -> str:
    rows = correction.about.get("fitted_on", {})
    return spoken(f"{count:,} {name}" for name, count in rows.items()) if rows else ""


def _which_file(data: Modalities) -> str:
    """Which file each modality is in."""
    files = {name: side.source for name, side in data.sides.items()}
    if len(set(files.values())) == 1:
        return f"{spoken(files)} are in {next(iter(files.values()))}"
    return ", ".join(f"{name} is {file}" for name, file in files.items())
