"""``modgap drift``: what moved between two sets of rows, and whether a correction still fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from modgap.cli.data import Names
from modgap.cli.named import by_name, is_named, two_names
from modgap.cli.options import AsJson
from modgap.core.checks import InputValueError

_FORMS = (
    "One file or folder of both modalities, two with a comma between them, any number with names "
    "(image=image.npy,text=text.npy), saved moments (modgap measure --save-moments) or the file "
    "of a monitor."
)


def drift(
    a: Annotated[str, typer.Argument(metavar="A", help=f"The rows then. {_FORMS}")],
    b: Annotated[
        str,
        typer.Argument(metavar="B", help="The rows now, in any of these ways."),
    ],
    correction: Annotated[
        Path | None,
        typer.Option(help="A correction file, or a folder of them: does it still fit?"),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="unit|given",
            help="Whether rows are brought to unit length: as the correction does, else unit.",
        ),
    ] = None,
    independent: Annotated[
        bool,
        typer.Option(
            "--independent",
            help="Rows are independent of each other, whatever their order: of a sorted file. "
            "Those of a log come in sessions.",
        ),
    ] = False,
    alpha: Annotated[
        float, typer.Option(help="How likely chance may make a change that counts.")
    ] = 1e-6,
    fail_on_drift: Annotated[
        bool,
        typer.Option(
            "--fail-on-drift",
            help="Exit with status 1 where something moved or a correction is to be fitted again.",
        ),
    ] = False,
    as_json: AsJson = False,
    names: Names = "image,text",
) -> None:
    """Compare two sets of rows: what moved, and does a correction still fit.

    Examples: modgap drift fitted.npz today.npz --correction correction.safetensors

    modgap drift "text=captions.npy" "text queries=log.npy" --fail-on-drift
    """  # fmt: skip
    from modgap.cli.show import out, print_json, print_table, steps
    from modgap.core.results import document
    from modgap.drift import detect_drift

    called = two_names(names)
    with steps() as step:
        report = detect_drift(
            _opened(a, called), _opened(b, called), correction, names=called,
            rows=rows,  # type: ignore[arg-type]
            independent=independent, alpha=alpha, progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("drift", report))
    else:
        if report.streams:
            print_table(*report.table())
        gaps = report.gap_table()
        if gaps is not None:
            out.print()
            print_table(*gaps)
        if report.streams:
            out.print()
        for sentence in report.sentences():
            out.print(sentence, markup=False, soft_wrap=True)
        out.print(
            f"[dim]* beyond chance (z above {report.threshold:.1f}) and large; {report.rows} rows"
            "[/dim]"
        )
    if fail_on_drift and (report.drifted or report.fits is False):
        raise typer.Exit(1)


def _opened(given: str, names: tuple[str, str]) -> Any:
    """What an argument means: a path, or several with commas between them."""
    from modgap.drift.named_moments import open_named
    from modgap.io import open_pair

    if Path(given).exists():
        return given
    parts = given.split(",")
    if all(is_named(part) for part in parts):
        return open_named(by_name(parts, "A set of rows with names", "NAME=PATH"))
    if len(parts) == 1:
        return given
    if len(parts) > 2 or any(is_named(part) for part in parts):
        raise InputValueError(
            f"A set of rows is one path, two with a comma between them, or NAME=PATH for each, "
            f"got {given!r}."
        )
    return open_pair(parts[0], parts[1], names=names, paired=False)

