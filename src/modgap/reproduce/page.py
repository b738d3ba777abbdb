"""Reports as one Markdown page and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modgap._version import __version__
from modgap.core.files import write_text
from modgap.core.results import SCHEMA, to_json
from modgap.reproduce.checks import as_counted
from modgap.reproduce.entry import Number
from modgap.reproduce.paper import Paper, one_line
from modgap.reproduce.record import Recorded, changes, recorded
from modgap.reproduce.registry import ALL, PAPERS, papers
from modgap.reproduce.report import EntryReport
from modgap.reproduce.wording import (
    NEEDS,
    check_line,
    counts_line,
    missing_groups,
    readings_words,
    value_words,
)

# A cell of the page holds so many values; a table of a paper may have dozens.
_SHOWN = 6


def write_pages(
    names: Sequence[str], reports: Sequence[EntryReport], output: Path, seed: int
) -> list[Path]:
    """The pages of what was named as a whole: one for ``all``, else one for each such paper.

    Parameters
    ----------
    names
        What was asked for: entries, papers or "all".
    reports
        How it came out.
    output
        The folder with the files of the entries.
    seed
        The seed of the run, which the pages state.
    """
    places = {output: list(reports)}
    if ALL not in names:
        places = {
            output / key: [report for report in reports if report.paper == key]
            for key in PAPERS
            if key in names
        }
    return [
        path
        for folder, mine in places.items()
        for path in Page(mine, papers(), recorded(), seed, output).write(folder)
    ]


@dataclass(frozen=True, eq=False)
class Page:
    """Reports with the titles of their papers and the verdicts on record.

    ``output`` is the folder with the files of the entries, which pictures are linked from.
    """

    reports: Sequence[EntryReport]
    papers: Sequence[Paper]
    record: Mapping[str, Recorded]
    seed: int
    output: Path

    def write(self, folder: Path) -> tuple[Path, Path]:
        """``reproduction.md`` and ``reproduction.json`` in a folder."""
        page, data = folder / "reproduction.md", folder / "reproduction.json"
        write_text(page, self.markdown(folder))
        values = {
            "schema": f"modgap/reproduction/{SCHEMA}",
            "version": __version__,
            "seed": self.seed,
            "changes": changes(self.reports, self.record),
            "entries": [report.to_dict() for report in self.reports],
        }
        write_text(data, to_json(values) + "\n")
        return page, data

    def markdown(self, folder: Path) -> str:
        """How to run, a line per entry, what stood in, slips, and what is missing."""
        reports = self.reports
        settings = " and ".join(sorted({report.setting for report in reports})) or "fast"
        blocks = [
            "# Figures and tables, published beside measured",
            f"modgap {__version__}, {settings} setting, from seed {self.seed}. "
            f"{counts_line(reports)}",
            _HOW_TO_RUN,
        ]
        for paper in self.papers:
            mine = [report for report in reports if report.paper == paper.key]
            if mine:
                blocks += [f"## {paper.title}", _paper_table(mine, folder, self.output)]
        missing = missing_groups(reports).items()
        sections = {
            "Verdicts that changed": changes(reports, self.record),
            "Failed": [f"{r.key}: {r.error}" for r in reports if r.error],
            **{
                title: [
                    f"{r.key}: {check_line(c)}"
                    for r in reports
                    for c in as_counted(r.checks)
                    if c.about == about and (not c.holds or about == "paper")
                ]
                for about, title in _LISTED.items()
            },
            "By the reading of the paper": [
                f"{r.key}: {said}" for r in reports if (said := readings_words(r.checks))
            ],
            "Own settings": [
                f"{r.key}: {r.on}" for r in reports if r.on and r.evidence == "own settings"
            ],
            "Shown on other data": [
                f"{r.key}: {r.on}" for r in reports if r.on and r.evidence == "other data"
            ],
            "What the papers' own would need": [
                f"{r.key}: {r.how}" for r in reports if r.on and r.how
            ],
            "Notes": [f"{r.key}: {r.note}" for r in reports if r.note],
            "Slips in the papers": [f"{r.key}: {slip}" for r in reports for slip in r.slips],
            "What is missing": [f"{', '.join(keys)}: {said}" for said, keys in missing],
        }
        for title, lines in sections.items():
            if lines:
                blocks += [f"## {title}", "\n".join(f"- {one_line(line)}" for line in lines)]
        return "\n\n".join(blocks) + "\n"


_HOW_TO_RUN = """```
modgap reproduce --list                      every entry, what it needs, its recorded verdict
modgap reproduce all --embeddings DIR        all that can run, in the fast setting, with ten seeds
modgap reproduce all --seeds 1               a quick look
modgap reproduce all --full --resume         as published, going on where it was stopped
modgap reproduce yaras2024/fig2              one of them
modgap reproduce liang2022/fig4 --rows image.npy text.npy      on rows of your own
modgap reproduce liang2022/table1 --model hf:NAME --data DIR    on a model and data of your own
```

DIR holds the embeddings that Liang et al. 2022 published (`features_clip.npy` and the like), and
others as safetensors (ImageNet, ESC-50, Unsplash); without them the digits stand in.

A verdict has two parts. The kind of evidence: *as printed* (the paper's data and settings), *own
settings* (its experiment with settings that it does not print or that differ, named below), *other
data* (named below), or *consistency only* (definitions, and arithmetic on printed numbers). And the
finding: the claim holds, fails, or the data is too small to say; or it depends on how the paper is
read, where every reading is run; or a premise of the claim is not met here, and the claim is not
put to the test. What is drawn is drawn with ten seeds, and intervals are of 95 %."""

# Where checks of each kind are listed.
_LISTED = {
    "claim": "Statements that did not hold, or are too small to say",
    "premise": "Premises that are not met",
    "paper": "Findings about the printed numbers",
    "consistency": "Consistency that failed",
}


def _paper_table(reports: Sequence[EntryReport], folder: Path, output: Path) -> str:
    header = ("entry", "claim", "needs", "published", "measured", "verdict")
    rows = [header, ("---",) * len(header)]
    for report in reports:
        words = report.words
        rows.append(
            (
                _linked(report, folder, output),
                report.claim,
                NEEDS[report.needs],
                _values(report.published, report.measured),
                _values(report.measured, report.published),
                f"**{words}**" if report.disagrees or report.error else words,
            )
        )
    cells = ([one_line(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _linked(report: EntryReport, folder: Path, output: Path) -> str:
    """The entry's name, linked with its picture."""
    picture = next((name for name in report.pictures if name.endswith(".png")), None)
    if picture is None:
        return report.name
    return f"[{report.name}]({(output / report.paper / picture).relative_to(folder).as_posix()})"


def _values(values: Mapping[str, Number], beside: Mapping[str, Number]) -> str:
    """The first few values, those with a counterpart first."""
    names = [name for name in values if name in beside]
    names += [name for name in values if name not in beside]
    shown = "; ".join(f"{name} {value_words(values[name])}" for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown}; {more} more in the JSON" if more > 0 else shown
