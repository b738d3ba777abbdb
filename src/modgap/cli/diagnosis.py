"""A diagnosis on the terminal and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.panel import Panel

from modgap._files import write_text
from modgap._results import document, text_table, to_json
from modgap.cli.show import out, print_table
from modgap.reports.contents import CORRECTION_FILE, apply_lines

if TYPE_CHECKING:
    from modgap.diagnosis import Diagnosis, Figure
    from modgap.reports import Report

# Narrower terminals get fewer columns; report.md has them all.
_WIDE = 108
_LEFT_OUT = ("own_modality_excess@10", "robust_to_int8")
_STYLES = {"use": "green", "leave it alone": "yellow"}


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """The verdict, then before and after with intervals, then every correction."""
    style = _STYLES.get(diagnosis.verdict, "red")
    out.print(
        Panel(escape(diagnosis.sentence), title="verdict", border_style=style, padding=(0, 1))
    )
    narrow = out.width < _WIDE
    if diagnosis.recommended:
        out.print("[bold]Before and after[/bold], with 95 % intervals, on held-out groups")
        print_table(*before_and_after(diagnosis, brief=narrow))
        out.print()
    out.print("[bold]Every correction[/bold], on held-out groups")
    header, rows = diagnosis.table(without=_LEFT_OUT if narrow else ())
    marked = next((i for i, row in enumerate(rows) if row[0].startswith("→")), None)
    print_table(header, rows, marked=marked, stack_heads=True)
    for method, reason in diagnosis.not_tried.items():
        out.print(f"[dim]{escape(method)} was not tried: {escape(reason)}[/dim]")


def before_and_after(
    diagnosis: Diagnosis, *, brief: bool = False
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the recommended correction's figures against the rows as they are."""
    trial = next(t for t in diagnosis.trials if t.method == diagnosis.recommended)
    rows: list[tuple[str, ...]] = []
    for name in diagnosis.explanations:
        before, after = diagnosis.raw.figures[name], trial.confirm.figures[name]
        was = f"{before.value.value:.3f}" if brief else interval_cell(before)
        rows.append((name, was, interval_cell(after), change_cell(after)))
    return ("", "before", "after", "change"), rows


def interval_cell(figure: Figure) -> str:
    """A figure and its interval."""
    value = figure.value
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


def change_cell(figure: Figure) -> str:
    """A figure's change and its interval."""
    assert figure.change is not None
    change = figure.change
    return f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


def write_diagnosis(diagnosis: Diagnosis, folder: Path, page: Report) -> list[str]:
    """Write the page, the same as text and as JSON, and the correction; say what was done."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("diagnosis.json", "report.md", "report.html")]
    write_text(paths[0], to_json(document("diagnose", diagnosis)) + "\n")
    write_text(paths[1], report(diagnosis))
    page.save(paths[2])
    correction = folder / CORRECTION_FILE
    if diagnosis.correction is not None:
        diagnosis.correction.save(correction)
        paths.append(correction)
    said = [f"wrote {path}" for path in paths]
    if diagnosis.correction is None and correction.exists():
        # One of an earlier run must not be taken for the answer of this one.
        correction.unlink()
        said.append(f"removed {correction} of an earlier run: this verdict has none")
    return said


def report(diagnosis: Diagnosis) -> str:
    """The diagnosis as Markdown."""
    parts = [f"# modgap: {diagnosis.verdict}", diagnosis.sentence]
    if diagnosis.recommended:
        parts += ["## Before and after", _code(text_table(*before_and_after(diagnosis)))]
        parts += ["## How to apply it", _code(apply_lines(diagnosis.names))]
    parts += ["## Every correction", _code(text_table(*diagnosis.table()))]
    if diagnosis.not_tried:
        parts += [
            "\n".join(f"- not tried: {name}: {why}" for name, why in diagnosis.not_tried.items())
        ]
    meaning = [f"- `{name}`: {text}" for name, text in diagnosis.explanations.items()]
    parts += ["## What the figures mean", "\n".join(meaning)]
    parts += ["## Measured", _code(str(diagnosis.measurement))]
    counts = ", ".join(f"{name} {count:,}" for name, count in diagnosis.n_groups.items())
    parts += [f"Groups: {counts}. Seed {diagnosis.seed}. Intervals: 95 %, 1,000 resamples."]
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    return f"```\n{text}\n```"
