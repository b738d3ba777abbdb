"""``modgap drift``: what moved between two sets of rows, and whether a correction still fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from modgap.cli.named import set_of_rows, two_names


def drift(
    a: str,
    b: str,
    correction: Path | None = None,
    rows: str | None = None,
    independent: bool = False,
    alpha: float = 1e-6,
    fail_on_drift: bool = False,
    as_json: bool = False,
    names: str = "image,text",
) -> None:
    """Compare two sets of rows: what changed, and whether a correction still fits.

    Examples: modgap drift fitted.npz today.npz --correction correction.safetensors

    modgap drift "text=captions.npy" "text queries=log.npy" --fail-on-drift
    """  # fmt: skip
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, print_table
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
            f"[dim]* significant (z above {report.threshold:.1f}) and large; {report.rows} rows"
            "[/dim]"
        )
    if fail_on_drift and (report.drifted or report.fits is False):
        raise typer.Exit(1)


def _opened(given: str, names: tuple[str, str]) -> Any:
    """What an argument means: a path, or several with commas between them."""
    from modgap.drift.named_moments import open_named
    from modgap.io import open_pair

    paths = set_of_rows(given)
    if isinstance(paths, dict):
        return open_named(paths)
    return given if len(paths) == 1 else open_pair(*paths, names=names, paired=False)
