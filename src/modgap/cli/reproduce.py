"""``modgap reproduce``: the figures and tables of the papers, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from modgap.cli.named import by_name
from modgap.cli.options import AsJson, Device, Seed, refuse

if TYPE_CHECKING:
    from modgap.reproduce import Entry, EntryReport, Setting
    from modgap.reproduce.setting import OwnRows


def reproduce(
    names: list[str] | None = None,
    listing: bool = False,
    full: bool = False,
    output: Path = Path("reproduction"),
    embeddings: list[Path] | None = None,
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
    device: Device = None,
    resume: bool = False,
    record: bool = False,
    seed: Seed = 0,
    seeds: int = 10,
    as_json: AsJson = False,
) -> None:
    """Run figures and tables of the four papers and put the published numbers beside ours.

    The exit status is 1 if a claim that needs no outside data disagrees, a verdict is not the one
    on record, or a run fails. With --rows, an entry that needs only embeddings runs on your own;
    with --model and --data, also one that needs a model.

    Example: modgap reproduce liang2022/fig2b
    """
    from modgap.cli.outputs import check_folder
    from modgap.cli.reproduce_print import print_listing, print_reports
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
    alone = not (listing or record or resume or embeddings or trained)
    check_sources(rows, model, of_rows, of_model, alone=alone)
    own = None if rows is None else read_own_rows(rows, **of_rows)
    chosen = select(names or ["all"])
    if model is not None:
        check_folder(output)
        own = _own_rows(model, output / "rows", **of_model)
    setting = Setting(
        full=full,
        embeddings=find_embeddings(embeddings or ()),
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
        _run(chosen, setting, output, reports, required=names or [], resume=resume)
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
        _run(*drawn_again(reports, setting), output / "again", again, resume=resume)
        others = {report.key: report for report in again}
        rewrite([(report, others.get(report.key)) for report in reports], entries())
        say("wrote the verdicts on record")
    wrong = complaints(reports, on_record)
    for said in wrong:
        say(f"modgap: {said}")
    raise typer.Exit(1 if wrong else 0)


def _own_rows(
    model: str,
    folder: Path,
    *,
    generated: Sequence[str] | None,
    template: Sequence[str] | None,
    other_template: Sequence[str] | None,
    **given: Any,
) -> OwnRows:
    """The rows of a model, embedded into the folder."""
    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.show import steps
    from modgap.reproduce.model_data import open_model_data, own_rows_of

    paths = by_name(generated, "--generated", "NAME=PATH, such as glide=FOLDER")
    made_by = {name: Path(path) for name, path in paths.items()}
    with steps() as step, tidy_when_terminated():
        held = open_model_data(model, folder=folder, generated=made_by, progress=step, **given)
        own = own_rows_of(held, template or (), other_template or ())
    held.progress = None
    return own


def _run(
    chosen: Sequence[Entry],
    setting: Setting,
    output: Path,
    done: list[EntryReport],
    *,
    required: Sequence[str] = (),
    resume: bool = False,
) -> None:
    """Add the reports to ``done``, each told when it is there."""
    import dataclasses

    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.show import say, steps
    from modgap.reproduce import reproduce

    with steps() as step:
        listening = dataclasses.replace(setting, progress=step)
        for report in reproduce(
            chosen, listening, output, required=required, resume=resume,
            writing=tidy_when_terminated,
        ):  # fmt: skip
            done.append(report)
            if len(chosen) > 1:
                say(f"{report.key:24} {report.words:28} {report.seconds:6.1f} s")
