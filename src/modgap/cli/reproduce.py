"""``modgap reproduce``: the figures and tables of the papers, published beside measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from modgap.cli.options import refuse

if TYPE_CHECKING:
    from modgap.reproduce import EntryReport


def reproduce(
    names: list[str] | None = None,
    listing: bool = False,
    full: bool = False,
    output: Path = Path("reproduction"),
    published: list[Path] | None = None,
    trained: Path | None = None,
    rows: tuple[Path, Path] | None = None,
    labels: Path | None = None,
    class_text: Path | None = None,
    other_class_text: Path | None = None,
    groups: str | None = None,
    model: str | None = None,
    data: list[Path] | None = None,
    generated: list[str] | None = None,
    images: Path | None = None,
    split: str | None = None,
    template: list[str] | None = None,
    other_template: list[str] | None = None,
    device: str | None = None,
    resume: bool = False,
    record: bool = False,
    seed: int = 0,
    seeds: int = 10,
    as_json: bool = False,
) -> None:
    """Reproduce figures and tables of the four papers, and compare with the published numbers.

    The exit status is 1 if a claim that needs no outside data disagrees, a verdict is not the one
    on record, or a run fails. With --rows, an entry that needs only embeddings runs on your own;
    with --model and --data, also one that needs a model.

    Example: modgap reproduce liang2022/fig2b
    """
    from modgap.cli.outputs import check_folder
    from modgap.cli.reproduce_run import own_rows, print_listing, print_reports, run_entries
    from modgap.cli.show import say
    from modgap.reproduce import Setting, entries, select
    from modgap.reproduce.own_rows import check_sources, read_own_rows
    from modgap.reproduce.record import complaints, drawn_again, recorded, rewrite
    from modgap.reproduce.run import kept_report
    from modgap.reproduce.setting import find_embeddings

    refuse(
        not names and not listing,
        "Name a figure or table, a paper or 'all'; modgap reproduce --list shows them.",
    )
    refuse(listing and (record or resume), "--list runs nothing; leave out --record and --resume.")
    of_rows: dict[str, Any] = {"labels": labels, "class_text": class_text}
    of_rows |= {"other_class_text": other_class_text, "groups": groups}
    of_model: dict[str, Any] = {"data": data, "generated": generated, "images": images}
    of_model |= {"split": split, "template": template, "other_template": other_template}
    of_model["device"] = device
    alone = not (listing or record or resume or published or trained)
    check_sources(rows, model, of_rows, of_model, alone=alone)
    own = None if rows is None else read_own_rows(rows, **of_rows)
    chosen = select(names or ["all"])
    if model is not None:
        check_folder(output)
        own = own_rows(model, output / "rows", **of_model)
    setting = Setting(
        full=full,
        embeddings=find_embeddings(published or ()),
        trained=trained,
        seed=seed,
        seeds=seeds,
        rows=own,
    )
    if listing:
        print_listing(chosen, setting, recorded(), as_json)
        return
    check_folder(output)
    on_record = {} if record else recorded()
    reports: list[EntryReport] = []
    try:
        run_entries(chosen, setting, output, reports, required=names or [], resume=resume)
    except KeyboardInterrupt:
        # Its files may be there though its report did not come back any more.
        last = [kept_report(entry, setting, output) for entry in chosen[len(reports) :][:1]]
        reports += [report for report in last if report is not None]
        print_reports(names or [], reports, setting, output, as_json)
        say("What is finished is kept; the same command with --resume goes on from there.")
        raise
    print_reports(names or [], reports, setting, output, as_json)
    if record:
        again: list[EntryReport] = []
        run_entries(*drawn_again(reports, setting), output / "again", again, resume=resume)
        others = {report.key: report for report in again}
        rewrite([(report, others.get(report.key)) for report in reports], entries())
        say("wrote the verdicts on record")
    wrong = complaints(reports, on_record)
    for said in wrong:
        say(f"modgap: {said}")
    raise typer.Exit(1 if wrong else 0)
