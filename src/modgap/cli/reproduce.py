"""``modgap reproduce``: the figures and tables of the papers, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.data import Groups, by_name
from modgap.cli.embed import ImageFolder, Split
from modgap.cli.options import AsJson, Device, Seed

if TYPE_CHECKING:
    from modgap.reproduce import Entry, EntryReport, Setting
    from modgap.reproduce.setting import OwnRows

_YOURS = "Rows of your own"
_MODEL = "A model and data"
Rows = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="IMAGE TEXT",
        help="Rows of your own in place of all others: images and texts in any format that modgap "
        "measure reads, raw or at unit length, pairs row by row. A file that holds both is given "
        "twice.",
        rich_help_panel=_YOURS,
    ),
]

ModelName = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="A model in place of all rows, as modgap embed takes it: hf:NAME, open_clip:NAME/"
        "WEIGHTS … It embeds --data; the rows are kept in the output folder.",
        rich_help_panel=_MODEL,
    ),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DATA",
        help="Images or sounds with captions, or with classes, in any format that modgap embed "
        "reads; or FairFace, A-OKVQA or MMVP-VLM as published. May be given again.",
        rich_help_panel=_MODEL,
    ),
]
Generated = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="Generated images, or captions a line, by what made them: glide=FOLDER, "
        "clipcap=FILE.txt. May be given again.",
        rich_help_panel=_MODEL,
    ),
]
Template = Annotated[
    list[str] | None,
    typer.Option(
        help="How a class is said, with {} for its name; several are averaged.",
        rich_help_panel=_MODEL,
    ),
]
OtherTemplate = Annotated[
    list[str] | None,
    typer.Option(help="The same in another wording.", rich_help_panel=_MODEL),
]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENTRY]...",
            help="Figures and tables such as liang2022/fig2b, a paper such as liang2022, or all.",
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
        list[Path] | None,
        typer.Option(
            help="Folder with the embeddings that Liang et al. 2022 published (features_*.npy), or "
            "others published as safetensors. May be given again. Without it, the environment "
            "variable MODGAP_PUBLISHED."
        ),
    ] = None,
    trained: Annotated[
        Path | None,
        typer.Option(
            help="Results of training runs of your own (python -m modgap.reproduce.flickr8k), in "
            "place of those that come with modgap."
        ),
    ] = None,
    rows: Rows = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="The class of each of your image rows, whole numbers from 0: .npy, .txt, .csv or "
            ".parquet.",
            rich_help_panel=_YOURS,
        ),
    ] = None,
    class_text: Annotated[
        Path | None,
        typer.Option(help="A text row for each of your classes, in order.", rich_help_panel=_YOURS),
    ] = None,
    other_class_text: Annotated[
        Path | None,
        typer.Option(help="The same in another wording.", rich_help_panel=_YOURS),
    ] = None,
    groups: Groups = None,
    model: ModelName = None,
    data: Data = None,
    generated: Generated = None,
    images: ImageFolder = None,
    split: Split = None,
    template: Template = None,
    other_template: OtherTemplate = None,
    device: Device = None,
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
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Draw what is drawn with so many seeds; 1 for a quick look."),
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Run figures and tables of the four papers and put the published numbers beside ours.

    The exit status is 1 if a claim that needs no outside data disagrees, a verdict is not the one
    on record, or a run fails. With --rows, an entry that needs only embeddings runs on your own;
    with --model and --data, also one that needs a model.

    Example: modgap reproduce liang2022/fig2b
    """
    from modgap.cli.outputs import check_folder, tidy_when_terminated
    from modgap.cli.show import say, steps
    from modgap.reproduce import Setting, entries, select
    from modgap.reproduce.own_rows import read_own_rows
    from modgap.reproduce.record import complaints, recorded, rewrite
    from modgap.reproduce.run import kept_report
    from modgap.reproduce.setting import find_embeddings

    if not names and not listing:
        raise InputValueError(
            "Name a figure or table, a paper or 'all'; modgap reproduce --list shows them."
        )
    if listing and (record or resume):
        raise InputValueError("--list runs nothing; leave out --record and --resume.")
    alone = not (listing or record or resume or embeddings or trained)
    of_rows: dict[str, Any] = {"labels": labels, "class_text": class_text}
    of_rows |= {"other_class_text": other_class_text, "groups": groups}
    of_model = (data, generated, images, split, template, other_template, device)
    own: OwnRows | None = None
    if rows is not None:
        _check_alone("--rows", alone and model is None)
        own = read_own_rows(rows, **of_rows)
    elif any(of_rows.values()):
        raise InputValueError(
            "--labels, --class-text, --other-class-text and --groups belong to --rows."
        )
    chosen = select(names or ["all"])
    if model is not None:
        from modgap.reproduce.model_data import open_model_data, own_rows_of

        _check_alone("--model", alone)
        check_folder(output)
        if not data:
            raise InputValueError("A model needs data to embed: name some with --data.")
        paths = by_name(generated, "--generated", "NAME=PATH, such as glide=FOLDER")
        made_by = {name: Path(path) for name, path in paths.items()}
        with steps() as step, tidy_when_terminated():
            held = open_model_data(
                model, data, output / "rows", generated=made_by, images=images, split=split,
                progress=step, device=device,
            )  # fmt: skip
            own = own_rows_of(held, template or (), other_template or ())
        held.progress = None
    elif any(of_model):
        raise InputValueError(
            "--data, --generated, --images, --split, --template, --other-template and --device "
            "belong to --model."
        )
    setting = Setting(
        full=full,
        embeddings=find_embeddings(embeddings or ()),
        trained=trained,
        seed=seed,
        seeds=seeds,
        rows=own,
    )
    if listing:
        _print_list(chosen, setting, as_json)
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
        _finish(names or [], reports, setting, output, as_json)
        say("What is finished is kept; the same command with --resume goes on from there.")
        raise
    _finish(names or [], reports, setting, output, as_json)
    if record:
        again = _run_again(reports, setting, output, resume)
        rewrite([(report, again.get(report.key)) for report in reports], entries())
        say("wrote the verdicts on record")
    wrong = complaints(reports, on_record)
    for said in wrong:
        say(f"modgap: {said}")
    raise typer.Exit(1 if wrong else 0)


def _check_alone(option: str, alone: bool) -> None:
    if not alone:
        others = "--rows" if option == "--model" else "--model"
        raise InputValueError(
            f"{option} takes the place of other data and is not kept on record; leave out --list, "
            f"--record, --resume, --embeddings, --trained and {others}."
        )


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

        def progress(name: str, at: int = 0, total: int = 1) -> None:
            place = min(len(done), len(chosen) - 1)
            step(f"{place + 1}/{len(chosen)} {chosen[place].key} {name}", at, total)

        listening = dataclasses.replace(setting, progress=progress)
        progress("")
        for report in reproduce(
            chosen,
            listening,
            output,
            required=required,
            resume=resume,
            writing=tidy_when_terminated,
        ):
            done.append(report)
            if len(chosen) > 1:
                say(f"{report.key:24} {report.words:28} {report.seconds:6.1f} s")
            progress("")


def _run_again(
    reports: Sequence[EntryReport], setting: Setting, output: Path, resume: bool
) -> dict[str, EntryReport]:
    """The reports of everything that is drawn, with as many other seeds."""
    import dataclasses

    from modgap.reproduce import select

    drawn = [select([report.key])[0] for report in reports if len(report.seeds) > 1]
    other = dataclasses.replace(setting, seed=setting.seed + setting.seeds)
    again: list[EntryReport] = []
    if drawn:
        _run(drawn, other, output / "again", again, resume=resume)
    return {report.key: report for report in again}


def _finish(
    names: Sequence[str], done: Sequence[EntryReport], setting: Setting, output: Path, as_json: bool
) -> None:
    """Print what came out, and name the files."""
    from modgap._results import document
    from modgap.cli.show import print_json, say
    from modgap.reproduce.page import write_pages
    from modgap.reproduce.run import KIND, files_of

    if not done:
        return
    if as_json:
        written = [document(KIND, report, seed=setting.seed) for report in done]
        print_json(written[0] if len(written) == 1 else {"entries": written})
    elif len(done) == 1:
        _print_report(done[0])
    else:
        _print_reports(done)
    files = files_of(done[0], output) if len(done) == 1 else []
    for path in (*files, *write_pages(names, done, output, setting.seed)):
        say(f"wrote {path}")


def _print_report(report: EntryReport) -> None:
    """One entry: claim, values, statements, verdict."""
    from modgap.cli.show import out, print_table
    from modgap.reproduce.wording import report_lines, value_rows

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


def _print_reports(done: Sequence[EntryReport]) -> None:
    from modgap.cli.show import out, print_table
    from modgap.reproduce.wording import SUMMARY, counts_line, missing_groups, summary_rows

    print_table(SUMMARY, summary_rows(done))
    for said, keys in missing_groups(done).items():
        out.print(f"\nMissing for {', '.join(keys)}: {said}", markup=False)
    out.print(f"\n{counts_line(done)}", markup=False)


def _print_list(chosen: Sequence[Entry], setting: Setting, as_json: bool) -> None:
    """What there is, what it needs, whether that is here, and how it came out."""
    from modgap.cli.show import out, print_json, print_table
    from modgap.reproduce.listing import LISTING, list_document, list_line, list_rows
    from modgap.reproduce.record import recorded

    if as_json:
        print_json(list_document(chosen, setting, recorded()))
        return
    print_table(LISTING, list_rows(chosen, setting, recorded()))
    out.print(f"\n{list_line(chosen, setting)}", markup=False)
