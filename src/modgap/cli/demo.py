"""``modgap demo``: the main job on the embedded default, told as a story."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from modgap.cli.options import AsJson, Seed

if TYPE_CHECKING:
    from modgap.corrections import Correction
    from modgap.datasets import DigitPairs

_SHADES = " ░▒▓█"
_SHOWN = 4


def demo(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Folder for the page, the JSON and the correction."),
    ] = Path("modgap-demo"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Diagnose real scans of digits and their captions: see the gap, the fix and the proof.

    Example: modgap demo -o out
    """
    from modgap._results import document
    from modgap.cli.diagnose import print_diagnosis
    from modgap.cli.outputs import check_folder
    from modgap.cli.show import out, print_json, say, steps
    from modgap.datasets import load_digits
    from modgap.diagnosis import diagnose
    from modgap.reports import report, write_diagnosis

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

    from modgap.cli.show import out

    index = _Index(digits, seed)
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
        out.print(f"[bold]{title}[/bold]")
        out.print(index.results(query, fix))


class _Index:
    """Each scan represented by its image or by one of its captions, drawn by seed."""

    def __init__(self, digits: DigitPairs, seed: int) -> None:
        self.digits = digits
        n = len(digits.X)
        as_image = np.random.default_rng(seed).permutation(n) < n // 2
        self.images = np.flatnonzero(as_image)
        first = np.flatnonzero(digits.wording == 0)
        self.captions = first[~as_image]
        self.groups = np.concatenate(
            [digits.groups[0][self.images], digits.groups[1][self.captions]]
        )
        asks = (digits.wording == 1) & np.isin(digits.groups[1], digits.groups[0][self.images])
        self.queries = np.flatnonzero(asks)

    def search(self, queries: np.ndarray, correction: Correction | None) -> np.ndarray:
        from modgap.corrections import Correction
        from modgap.search import search

        digits = self.digits
        fix = correction or Correction.identity(digits.X.shape[1])
        documents = np.concatenate([fix.x(digits.X[self.images]), fix.y(digits.Y[self.captions])])
        return search(fix.y(digits.Y[queries], "query"), documents, _SHOWN, fix.metric)[0]

    def query_that_is_mended(self, correction: Correction) -> int:
        """The first query whose scan comes first once corrected; else the first query."""
        best = self.search(self.queries, correction)
        mended = self.groups[best[:, 0]] == self.digits.groups[1][self.queries]
        return int(self.queries[np.argmax(mended)])

    def results(self, query: int, correction: Correction | None) -> object:
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, expand=False, padding=(0, 1))
        cells = []
        for found in self.search(np.array([query]), correction)[0]:
            table.add_column(width=16, vertical="middle")
            match = self.groups[found] == self.digits.groups[1][query]
            if found < len(self.images):
                text = Text(draw_scan(self.digits.images[self.images[found]]))
            else:
                text = Text(self.digits.captions[self.captions[found - len(self.images)]])
            if match:
                text.stylize("bold green")
            cells.append(text)
        table.add_row(*cells)
        return table


def scan_pixels(images: np.ndarray) -> np.ndarray:
    """Scans as grey pixels from 0 to 255, dark ink on a light ground."""
    return 255 - images * (255 / 16)


def draw_scan(image: np.ndarray) -> str:
    """An 8 × 8 scan in characters, two to a pixel."""
    levels = np.clip(image / 16 * len(_SHADES), 0, len(_SHADES) - 1).astype(int)
    return "\n".join("".join(_SHADES[level] * 2 for level in line) for line in levels)
