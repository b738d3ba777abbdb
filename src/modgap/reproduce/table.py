"""Reports as tables: for the terminal, and as one Markdown page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from modgap._files import write_text
from modgap._results import SCHEMA, plain, to_json
from modgap._version import __version__
from modgap.reproduce.entry import Number, Paper
from modgap.reproduce.record import Recorded, change
from modgap.reproduce.report import Report

# A cell of the page holds so many values; a table of a paper may have dozens.
_SHOWN = 6
_NEEDS = {
    "nothing": "nothing",
    "digits": "the digits it ships",
    "embeddings": "the authors' embeddings",
    "trained": "models trained here",
    "model": "a trained model",
}
_ORDER = (
    "agrees",
    "other data: holds",
    "other data: fails",
    "disagrees",
    "missing",
    "failed",
)


def needs_words(needs: str) -> str:
    """What an entry needs, in words."""
    return _NEEDS[needs]


def value_words(value: Number) -> str:
    """A value as people read it; a number to five digits, without trailing noughts."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    said = f"{abs(value):,}" if isinstance(value, int) else f"{abs(value):.5g}"
    return f"−{said}" if value < 0 else said


def value_rows(report: Report) -> list[tuple[str, str, str]]:
    """Name, published and measured, the published names first."""
    names = [*report.published, *(name for name in report.measured if name not in report.published)]
    return [
        (
            name,
            value_words(report.published[name]) if name in report.published else "",
            value_words(report.measured[name]) if name in report.measured else "",
        )
        for name in names
    ]


def counts_line(reports: Sequence[Report]) -> str:
    """How many came out how, in one line."""
    counts = Counter(report.words for report in reports)
    parts = [f"{words} {counts[words]}" for words in _ORDER if counts[words]]
    return f"{len(reports)} entries. {'; '.join(parts).capitalize()}."


def missing_groups(reports: Sequence[Report]) -> dict[str, list[str]]:
    """What is missing and how to provide it, with the entries that wait for it."""
    groups: dict[str, list[str]] = {}
    for report in reports:
        if report.missing:
            groups.setdefault(report.missing, []).append(report.key)
    return groups


def write_tables(
    reports: Sequence[Report],
    papers: Sequence[Paper],
    record: Mapping[str, Recorded],
    folder: Path,
    base: Path,
    seed: int,
) -> tuple[Path, Path]:
    """``reproduction.md`` and ``reproduction.json`` in ``folder``; pictures lie below ``base``."""
    page, data = folder / "reproduction.md", folder / "reproduction.json"
    write_text(page, markdown(reports, papers, record, folder, base, seed))
    values = {
        "schema": f"modgap/reproduction/{SCHEMA}",
        "version": __version__,
        "seed": seed,
        "changes": [said for report in reports if (said := change(report, record))],
        "entries": [report.to_dict() for report in reports],
    }
    write_text(data, to_json(plain(values)) + "\n")
    return page, data


def markdown(
    reports: Sequence[Report],
    papers: Sequence[Paper],
    record: Mapping[str, Recorded],
    folder: Path,
    base: Path,
    seed: int,
) -> str:
    """One page: how to run, a line per entry, what stood in, slips, and what is missing."""
    settings = " and ".join(sorted({report.setting for report in reports})) or "fast"
    parts = [
        "# Figures and tables, published beside measured",
        f"modgap {__version__}, {settings} setting, seed {seed}. {counts_line(reports)}",
        _HOW_TO_RUN,
    ]
    for paper in papers:
        mine = [report for report in reports if report.paper == paper.key]
        if mine:
            parts += [f"## {paper.title}", _paper_table(mine, folder, base)]
    sections = (
        ("Verdicts that changed", [said for r in reports if (said := change(r, record))]),
        ("Failed", [f"{r.key}: {r.error}" for r in reports if r.error]),
        (
            "Statements that did not hold",
            [f"{r.key}: {c.statement}" for r in reports for c in r.checks if not c.holds],
        ),
        ("Shown on other data", [f"{r.key}: {r.on}" for r in reports if r.on]),
        (
            "What the papers' own would need",
            [f"{r.key}: {r.how}" for r in reports if r.on and r.how],
        ),
        ("Notes", [f"{r.key}: {r.note}" for r in reports if r.note]),
        ("Slips in the papers", [f"{r.key}: {slip}" for r in reports for slip in r.slips]),
        (
            "What is missing",
            [f"{', '.join(keys)}: {said}" for said, keys in missing_groups(reports).items()],
        ),
    )
    for title, lines in sections:
        if lines:
            parts += [f"## {title}", "\n".join(f"- {_one_line(line)}" for line in lines)]
    return "\n\n".join(parts) + "\n"


_HOW_TO_RUN = """```
modgap reproduce --list                      every entry, what it needs, its recorded verdict
modgap reproduce all --embeddings DIR        all that can run, in the fast setting
modgap reproduce all --full --resume         as published, going on where it was stopped
modgap reproduce yaras2024/fig2              one of them
```

DIR holds the embeddings that Liang et al. 2022 published (`features_clip.npy` and the like).
"Other data" means that the claim was put to data that is not the paper's, named below."""


def _paper_table(reports: Sequence[Report], folder: Path, base: Path) -> str:
    header = ("entry", "claim", "needs", "published", "measured", "verdict")
    rows = [header, ("---",) * len(header)]
    for report in reports:
        words = report.words
        rows.append(
            (
                _linked(report, folder, base),
                report.claim,
                needs_words(report.needs),
                _values(report.published, report.measured),
                _values(report.measured, report.published),
                f"**{words}**" if words in ("disagrees", "failed") else words,
            )
        )
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)


def _linked(report: Report, folder: Path, base: Path) -> str:
    """The entry's name, linked with its picture."""
    picture = next((name for name in report.pictures if name.endswith(".png")), None)
    if picture is None:
        return report.name
    return f"[{report.name}]({(base / report.paper / picture).relative_to(folder).as_posix()})"


def _values(values: Mapping[str, Number], beside: Mapping[str, Number]) -> str:
    """The first few values, those with a counterpart first."""
    names = [name for name in values if name in beside]
    names += [name for name in values if name not in beside]
    shown = "; ".join(f"{name} {value_words(values[name])}" for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown}; {more} more in the JSON" if more > 0 else shown


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")
