"""``modgap diagnose``: a verdict, and a fix as one small file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from modgap.cli import options
from modgap.cli.data import Data, Images, open_bank, with_documents
from modgap.cli.takes_data import takes_data

if TYPE_CHECKING:
    from modgap.diagnosis import Diagnosis

# Narrower terminals get fewer columns; report.md has them all.
_WIDE = 108
_LEFT_OUT = ("own_modality_excess@10", "robust_to_int8")
_STYLES = {"use": "green", "leave it alone": "yellow"}


@takes_data(writes="folder")
def diagnose(
    data: Data,
    output: Path | None = None,
    queries: str | None = None,
    goal: options.Goal = "mixed",
    images: Images = None,
    umap: bool = False,
    metric: options.Metric = "cosine",
    bank: Path | None = None,
    documents: list[str] | None = None,
    model: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    partial: Path | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Try every correction on held-out rows and say which one to use, or to leave it alone.

    Example: modgap diagnose image.npy text.npy -o out
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import print_json, say
    from modgap.core.results import document
    from modgap.corrections import next_commands, query_modalities
    from modgap.diagnosis.fixing import diagnose_each
    from modgap.reports import report as make_page
    from modgap.reports import write_diagnosis
    from modgap.reports.fix import CORRECTION_FILE
    from modgap.reports.rows import with_images

    data = with_documents(data, documents)
    data = with_images(data if partial is None else data.with_partial(partial), images)
    asking = query_modalities(queries, data.names)[::-1]
    with steps() as step:
        results = diagnose_each(
            data, asking, goal=goal, metric=metric, bank=open_bank(bank), model=model,
            trust_pairs=trust_pairs, group_duplicates=group_duplicates, seed=seed, progress=step,
        )  # fmt: skip
    if as_json:
        found = {name: document("diagnose", result) for name, result in results.items()}
        print_json(found if len(asking) > 1 else found[asking[0]])
    else:
        for result in results.values():
            print_diagnosis(result)
    if output is None:
        return
    files = {}
    for name, result in results.items():
        folder = output / name if len(asking) > 1 else output
        with steps() as step:
            page = make_page(
                data, metric=metric, model=model, diagnosis=result,
                umap=umap, seed=seed, progress=step,
            )  # fmt: skip
        for line in write_diagnosis(result, folder, page):
            say(line)
        if result.correction is not None:
            files[str(folder / CORRECTION_FILE)] = result.correction
    for command in next_commands(files, str(output), sides=data.sides) if files else ():
        say(f"next: {command}")


def print_verdict(verdict: str, sentence: str) -> None:
    """A verdict in a frame of its colour."""
    from rich.markup import escape
    from rich.panel import Panel

    from modgap.cli.show import out

    style = _STYLES.get(verdict, "red")
    out.print(Panel(escape(sentence), title="verdict", border_style=style, padding=(0, 1)))


def print_diagnosis(diagnosis: Diagnosis, *, every: bool = True) -> None:
    """The verdict, then before and after with intervals, then every correction."""
    from rich.markup import escape

    from modgap.cli.show import out, print_table

    print_verdict(diagnosis.verdict, diagnosis.sentence)
    narrow = out.width < _WIDE
    if diagnosis.recommended:
        out.print(f"[bold]Before and after[/bold], with 95 % intervals, on {diagnosis.held_out}")
        print_table(*diagnosis.before_and_after(brief=narrow))
        for note in diagnosis.notes:
            out.print(f"[dim]{escape(note)}[/dim]")
        out.print()
    if not every:
        return
    out.print(f"[bold]Every correction[/bold], on {diagnosis.held_out}")
    header, rows = diagnosis.table(without=_LEFT_OUT if narrow else ())
    marked = next((i for i, row in enumerate(rows) if row[0].startswith("→")), None)
    print_table(header, rows, marked=marked, stack_heads=True)
    if diagnosis.not_eligible:
        out.print(f"[dim]{escape(diagnosis.not_eligible)}[/dim]")
    for method, reason in diagnosis.not_tried.items():
        out.print(f"[dim]{escape(method)} was not tried: {escape(reason)}[/dim]")
