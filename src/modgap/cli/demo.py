"""``modgap demo``: the main job on the embedded default, told as a story."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from modgap.cli.options import AsJson, Seed, output_option

if TYPE_CHECKING:
    from modgap.corrections import Correction
    from modgap.datasets import DigitPairs


def demo(
    output: Annotated[
        Path, output_option(help="Folder for the page, the JSON and the correction.")
    ] = Path("modgap-demo"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Diagnose real scans of digits and their captions: see the gap, the fix and the proof.

    Example: modgap demo -o out
    """
    from modgap.cli.diagnose import print_diagnosis
    from modgap.cli.outputs import check_folder
    from modgap.cli.show import out, print_json, say, steps
    from modgap.core.results import document
    from modgap.datasets import load_digits
    from modgap.diagnosis import diagnose
    from modgap.reports import report, write_diagnosis
    from modgap.reports.demo import scan_pixels

    check_folder(output)
    digits = load_digits()
    with steps() as step:
        result = diagnose(
            digits.X,
            digits.Y,
            groups=digits.groups,
            model="modgap digits",
            seed=seed,
            progress=step,
        )
    if as_json:
        print_json(document("diagnose", result))
    else:
        out.print(
            f"[bold]{len(digits.X):,} handwritten digits and {len(digits.Y):,} captions[/bold], "
            "embedded by a small two-tower model that was not trained on them.\n"
            f"Their means are {result.measurement.gap_distance:.2f} apart: the modality gap.\n"
        )
        if result.correction is not None:
            _print_search(digits, result.correction, seed)
        print_diagnosis(result)
    with steps() as step:
        page = report(
            digits.X,
            digits.Y,
            groups=digits.groups,
            captions=(None, digits.captions),
            images=(scan_pixels(digits.images), None),
            model="modgap digits",
            title="Handwritten digits and their captions",
            diagnosis=result,
            seed=seed,
            progress=step,
        )
    lines = write_diagnosis(result, output, page)
    if not as_json:
        out.print("\n[bold]Next[/bold], on your own: modgap fix IMAGES.npy TEXTS.npy -o out")
    for line in lines:
        say(line)
    say(f"open {(output / 'report.html').resolve()} in a browser to look at the gap and to move it")


def _print_search(digits: DigitPairs, correction: Correction, seed: int) -> None:
    """One text query in an index of both modalities, before and after."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from modgap.cli.show import out
    from modgap.reports.demo import SHOWN, DigitIndex

    index = DigitIndex(digits, seed)
    query = index.query_that_is_mended(correction)
    out.print(
        "One index holds scans and captions, half and half. The query is a caption whose scan is "
        f"in it:\n[bold italic]{escape(digits.captions[query])}[/bold italic]\n"
    )
    shown = (
        ("As it is, the four nearest are", None),
        ("Corrected (its own scan in green)", correction),
    )
    for title, fix in shown:
        table = Table(show_header=False, expand=False, padding=(0, 1))
        for _ in range(SHOWN):
            table.add_column(width=16, vertical="middle")
        found = index.results(query, fix)
        table.add_row(*(Text(text, "bold green" if match else "") for text, match in found))
        out.print(f"[bold]{title}[/bold]")
        out.print(table)
