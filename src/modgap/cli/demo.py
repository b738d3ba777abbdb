"""``modgap demo``: the main job on the embedded default, told as a story."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modgap.datasets import DigitPairs

# Results of a search that are printed, and the shades of ink of a scan.
_SHOWN, _SHADES = 4, " ░▒▓█"


def demo(
    output: Path = Path("modgap-demo"),
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Diagnose real scans of digits and their captions: see the gap, the fix and the proof.

    Example: modgap demo -o out
    """
    from modgap.cli.diagnose import print_diagnosis
    from modgap.cli.outputs import check_folder
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, say
    from modgap.core.results import document
    from modgap.datasets import load_digits
    from modgap.diagnosis import diagnose
    from modgap.reports import report, write_diagnosis

    check_folder(output)
    digits = load_digits()
    given: dict[str, Any] = {"groups": digits.groups, "model": "modgap digits", "seed": seed}
    with steps() as step:
        result = diagnose(digits.X, digits.Y, **given, progress=step)
        page = report(
            digits.X, digits.Y, **given, captions=(None, digits.captions),
            images=(255 - digits.images * (255 / 16), None), diagnosis=result,
            title="Handwritten digits and their captions", progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("diagnose", result))
    else:
        out.print(
            f"[bold]{len(digits.X):,} handwritten digits and {len(digits.Y):,} captions[/bold], "
            "embedded by a small two-tower model that was not trained on them.\n"
            f"Their means are {result.measurement.gap_distance:.2f} apart: the modality gap.\n"
        )
        _print_search(digits, page.document["answers"])
        print_diagnosis(result)
    lines = write_diagnosis(result, output, page)
    if not as_json:
        out.print("\n[bold]Next[/bold], on your own: modgap fix IMAGES.npy TEXTS.npy -o out")
    for line in lines:
        say(line)
    say(f"open {(output / 'report.html').resolve()} in a browser to look at the gap and to move it")


def _print_search(digits: DigitPairs, answers: dict[str, Any]) -> None:
    """The typical one of the page's searches, before and after."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from modgap.cli.show import out

    items, query = answers["items"], answers["queries"][answers["typical"]]
    out.print(
        "One index holds scans and captions, half and half. The query is a caption whose scan is "
        f"in it:\n[bold italic]{escape(items[query['item']]['label'])}[/bold italic]\n"
    )
    shown = {
        "raw": "As it is, the four nearest are",
        "corrected": "Corrected (its own scan in green)",
    }
    for way, title in shown.items():
        table = Table(show_header=False, expand=False, padding=(0, 1))
        cells = []
        for hit in (query[way] or ())[:_SHOWN]:
            item = items[hit["item"]]
            text = item["label"] or _drawn(digits.images[item["row"]])
            cells.append(Text(text, "bold green" if hit["match"] else ""))
            table.add_column(width=16, vertical="middle")
        table.add_row(*cells)
        if cells:
            out.print(f"[bold]{title}[/bold]")
            out.print(table)


def _drawn(scan: Any) -> str:
    """An 8 × 8 scan in characters, two to a pixel; ink is from 0 to 16."""
    shades = [[_SHADES[min(int(ink / 16 * 5), 4)] * 2 for ink in line] for line in scan]
    return "\n".join(map("".join, shades))
