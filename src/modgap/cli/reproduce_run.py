"""How ``modgap reproduce`` runs entries, and what it prints: reports, or the list of entries."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modgap.cli.named import by_name
from modgap.cli.outputs import tidy_when_terminated
from modgap.cli.progress import steps
from modgap.cli.show import out, print_json, print_table, say
from modgap.core.results import document
from modgap.reproduce import Entry, EntryReport, Setting, reproduce
from modgap.reproduce.model_data import open_model_data, own_rows_of
from modgap.reproduce.page import write_pages
from modgap.reproduce.record import LISTING, Recorded, list_document, list_line, list_rows
from modgap.reproduce.run import KIND, files_of
from modgap.reproduce.setting import OwnRows
from modgap.reproduce.wording import (
    SUMMARY,
    counts_line,
    missing_groups,
    report_lines,
    summary_rows,
    value_rows,
)


def print_reports(
    names: Sequence[str], done: Sequence[EntryReport], setting: Setting, output: Path, as_json: bool
) -> None:
    """Print what came out, and name the files."""
    if not done:
        return
    if as_json:
        written = [document(KIND, report, seed=setting.seed) for report in done]
        print_json(written[0] if len(written) == 1 else {"entries": written})
    elif len(done) == 1:
        _print_one(done[0])
    else:
        print_table(SUMMARY, summary_rows(done))
        for said, keys in missing_groups(done).items():
            out.print(f"\nMissing for {', '.join(keys)}: {said}", markup=False)
        out.print(f"\n{counts_line(done)}", markup=False)
    files = files_of(done[0], output) if len(done) == 1 else []
    for path in (*files, *write_pages(names, done, output, setting.seed)):
        say(f"wrote {path}")


def _print_one(report: EntryReport) -> None:
    """One entry: claim, values, statements, verdict."""
    out.print(f"{report.key}: {report.title}", markup=False, style="bold")
    out.print(report.claim, markup=False)
    if rows := value_rows(report):
        out.print()
        print_table(("", "published", "measured"), rows)
    out.print()
    *lines, verdict = report_lines(report)
    for line in lines:
        out.print(line, markup=False)
    out.print(verdict, markup=False, style="bold")


def print_listing(
    chosen: Sequence[Entry], setting: Setting, record: Mapping[str, Recorded], as_json: bool
) -> None:
    """What there is, what it needs, whether that is here, and how it came out."""
    if as_json:
        print_json(list_document(chosen, setting, record))
        return
    print_table(LISTING, list_rows(chosen, setting, record))
    out.print(f"\n{list_line(chosen, setting)}", markup=False)


def own_rows(
    model: str,
    folder: Path,
    *,
    generated: Sequence[str] | None,
    template: Sequence[str] | None,
    other_template: Sequence[str] | None,
    **given: Any,
) -> OwnRows:
    """The rows of a model, embedded into the folder."""
    paths = by_name(generated, "--generated", "NAME=PATH, such as glide=FOLDER")
    made_by = {name: Path(path) for name, path in paths.items()}
    with steps() as step, tidy_when_terminated():
        held = open_model_data(model, folder=folder, generated=made_by, progress=step, **given)
        own = own_rows_of(held, template or (), other_template or ())
    held.progress = None
    return own


def run_entries(
    chosen: Sequence[Entry],
    setting: Setting,
    output: Path,
    done: list[EntryReport],
    *,
    required: Sequence[str] = (),
    resume: bool = False,
) -> None:
    """Add the reports to ``done``, each told when it is there."""
    with steps() as step:
        listening = dataclasses.replace(setting, progress=step)
        for report in reproduce(
            chosen, listening, output, required=required, resume=resume,
            writing=tidy_when_terminated,
        ):  # fmt: skip
            done.append(report)
            if len(chosen) > 1:
                say(f"{report.key:24} {report.words:28} {report.seconds:6.1f} s")
