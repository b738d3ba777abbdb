"""``modgap reproduce``: the figures and tables of the papers, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, Seed

if TYPE_CHECKING:
    from modgap.reproduce import Entry, Report, Setting
    from modgap.reproduce.record import Recorded


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENTRY]...",
            help="Figures and tables such as liang2022/fig2b, a paper such as liang2022, or all.",
            show_default=False,
        ),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Show every entry, what it needs and its verdict.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="As published, which may take hours, not minutes.")
    ] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for numbers, pictures and the table.")
    ] = Path("reproduction"),
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the embeddings that Liang et al. 2022 published (features_*.npy). "
            "Without it, the environment variable MODGAP_PUBLISHED.",
        ),
    ] = None,
    trained: Annotated[
        Path | None,
        typer.Option(
            help="Results of training runs of your own (python -m modgap.reproduce.flickr8k), in "
            "place of those that come with modgap.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Take from the output folder what this version wrote there with the same setting "
            "and seed. Without it everything runs anew.",
        ),
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Put these verdicts on record, inside the package.")
    ] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run figures and tables of the four papers and put the published numbers beside ours.

    The exit status is 1 if a claim that needs no outside data disagrees, a verdict is not the one
    on record, or a run fails.

    Example: modgap reproduce liang2022/fig2b
    """
    from modgap.cli.outputs import check_folder
    from modgap.reproduce import Setting, select
    from modgap.reproduce.record import recorded
    from modgap.reproduce.run import find_embeddings

    if not names and not listing:
        raise InputValueError(
            "Name a figure or table, a paper or 'all'; modgap reproduce --list shows them."
        )
    if listing and (record or resume):
        raise InputValueError("--list runs nothing; leave out --record and --resume.")
    chosen = select(names or ["all"])
    setting = Setting(full=full, embeddings=find_embeddings(embeddings), trained=trained, seed=seed)
    if listing:
        _print_list(chosen, setting, recorded(), as_json)
        return
    check_folder(output)
    raise typer.Exit(_run(names or [], chosen, setting, output, resume, record, as_json))


def _run(
    names: Sequence[str],
    chosen: Sequence[Entry],
    setting: Setting,
    output: Path,
    resume: bool,
    keep: bool,
    as_json: bool,
) -> int:
    """Run, print, write; the exit status."""
    from modgap.cli.show import say
    from modgap.reproduce.record import change, recorded, rewrite
    from modgap.reproduce.registry import entries

    on_record = recorded()
    reports = _reports(names, chosen, setting, output, resume, as_json)
    if keep:
        rewrite(reports, entries())
        say("wrote the verdicts on record")
    changes = [] if keep else [said for report in reports if (said := change(report, on_record))]
    wrong = [f"{report.key} failed: {report.error}" for report in reports if report.error]
    wrong += [
        f"{report.key} disagrees: not so that {check.statement}"
        for report in reports
        if report.disagrees
        for check in report.checks
        if not check.holds
    ]
    for said in (*wrong, *changes):
        say(f"modgap: {said}")
    return 1 if wrong or changes else 0


def _reports(
    names: Sequence[str],
    chosen: Sequence[Entry],
    setting: Setting,
    output: Path,
    resume: bool,
    as_json: bool,
) -> list[Report]:
    """The reports, each told when it is there; the table also where the run is interrupted."""
    import dataclasses

    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.show import say, steps
    from modgap.reproduce import reproduce

    # What was named by itself must run, or say in one sentence why it cannot.
    asked = {entry.key for entry in chosen if entry.key in names and entry.run is not None}
    done: list[Report] = []
    with steps() as step:

        def progress(name: str, at: int = 0, total: int = 1) -> None:
            place = min(len(done), len(chosen) - 1)
            step(f"{place + 1}/{len(chosen)} {chosen[place].key} {name}", at, total)

        listening = dataclasses.replace(setting, progress=progress)
        progress("")
        try:
            for report in reproduce(
                chosen, listening, output, resume=resume, writing=tidy_when_terminated
            ):
                if report.missing and report.key in asked:
                    raise InputValueError(report.missing)
                done.append(report)
                if len(chosen) > 1:
                    say(f"{report.key:24} {report.words:18} {report.seconds:6.1f} s")
                progress("")
        except KeyboardInterrupt:
            _finish(names, done, setting, output, as_json)
            say("What is finished is kept; the same command with --resume goes on from there.")
            raise
    _finish(names, done, setting, output, as_json)
    return done


def _finish(
    names: Sequence[str], done: Sequence[Report], setting: Setting, output: Path, as_json: bool
) -> None:
    """Print what came out; a paper and ``all`` also get their table as files."""
    from modgap.cli.show import out, say
    from modgap.reproduce import papers
    from modgap.reproduce.record import recorded
    from modgap.reproduce.registry import ALL, PAPERS
    from modgap.reproduce.run import place_of
    from modgap.reproduce.table import counts_line, write_tables

    if not done:
        return
    if as_json:
        _print_reports_json(done, setting)
    elif len(done) == 1:
        _print_report(done[0])
    else:
        _print_table(done)
        out.print(counts_line(done), markup=False)
    for report in done if len(done) == 1 else ():
        place = place_of(report.key, output)
        numbers = [place.with_suffix(".json").name] if report.ran else []
        for name in (*report.pictures, *numbers):
            say(f"wrote {place.parent / name}")
    folders = [(output, done)] if ALL in names else []
    for key in PAPERS if ALL not in names else ():
        if key in names:
            folders.append((output / key, [report for report in done if report.paper == key]))
    for folder, mine in folders:
        for path in write_tables(mine, papers(), recorded(), folder, output, setting.seed):
            say(f"wrote {path}")


def _print_reports_json(done: Sequence[Report], setting: Setting) -> None:
    from modgap._results import document
    from modgap.cli.show import print_json
    from modgap.reproduce.run import KIND

    written = [document(KIND, report, seed=setting.seed) for report in done]
    print_json(written[0] if len(written) == 1 else {"entries": written})


def _print_report(report: Report) -> None:
    """One entry: claim, values, statements, verdict."""
    from modgap.cli.show import out, print_table
    from modgap.reproduce.table import value_rows

    def line(text: str, style: str | None = None) -> None:
        out.print(text, markup=False, style=style)

    line(f"{report.key}: {report.title}", "bold")
    line(report.claim)
    if rows := value_rows(report):
        out.print()
        print_table(("", "published", "measured"), rows)
    out.print()
    for check in report.checks:
        line(f"{'✓' if check.holds else '✗'} {check.statement}")
    if report.on:
        line(f"On other data: {report.on}")
    if report.note:
        line(f"Note: {report.note}")
    for slip in report.slips:
        line(f"Slip in the paper: {slip}")
    if report.how and report.ran:
        line(f"The paper's own needs more: {report.how}")
    if report.missing:
        line(f"Missing: {report.missing}")
    if report.error:
        line(f"Failed: {report.error}")
    line(
        f"Verdict: {report.words} ({report.setting} setting, {report.seconds:.1f} s)"
        if report.ran
        else f"Verdict: {report.words}",
        "bold",
    )


def _print_table(done: Sequence[Report]) -> None:
    from modgap.cli.show import out, print_table
    from modgap.reproduce.table import missing_groups

    rows = [
        (
            f"{report.key}  {report.title}",
            report.needs,
            report.words,
            f"{report.seconds:.1f} s" if report.ran else "",
        )
        for report in done
    ]
    print_table(("", "needs", "verdict", "time"), rows)
    for said, keys in missing_groups(done).items():
        out.print(f"\nMissing for {', '.join(keys)}: {said}", markup=False)
    out.print()


def _print_list(
    chosen: Sequence[Entry], setting: Setting, on_record: dict[str, Recorded], as_json: bool
) -> None:
    """What there is, what it needs, whether that is here, and how it came out."""
    from modgap._results import SCHEMA
    from modgap._version import __version__
    from modgap.cli.show import out, print_json, print_table
    from modgap.reproduce.run import lacks

    if as_json:
        listed = [
            {
                "key": entry.key,
                "title": entry.title,
                "claim": entry.claim,
                "needs": entry.needs,
                "can_run": not lacks(entry, setting),
                "missing": lacks(entry, setting),
                "how": entry.how,
                "fast": entry.fast,
                "full": entry.full,
                "published": entry.published,
                "slips": entry.slips,
                "recorded": on_record[entry.key].verdict if entry.key in on_record else None,
                "holds": on_record[entry.key].holds if entry.key in on_record else None,
            }
            for entry in chosen
        ]
        head = {"schema": f"modgap/reproduce-list/{SCHEMA}", "version": __version__}
        print_json({**head, "entries": listed})
        return
    rows = []
    for entry in chosen:
        here = "can run"
        if entry.run is None:
            here = "no model"
        elif lacks(entry, setting):
            here = "--embeddings DIR"
        elif entry.needs == "model":
            here = "in part"
        words = on_record[entry.key].words if entry.key in on_record else "–"
        rows.append((f"{entry.key}  {entry.title}", entry.needs, here, words))
    print_table(("", "needs", "here", "verdict on record"), rows)
    ready = sum(not lacks(entry, setting) for entry in chosen)
    out.print(
        f"\n{len(chosen)} entries, {ready} can run here. "
        "Running one that cannot says exactly what is missing and how to provide it.",
        markup=False,
    )
