"""The verdicts on record: a later run that comes out differently is told from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from modgap._files import write_text
from modgap._results import to_json
from modgap.reproduce.report import EntryReport, verdict_words

RECORD = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class Recorded:
    """A verdict on record; ``holds`` is None where nothing could be run."""

    verdict: str
    holds: bool | None

    @property
    def words(self) -> str:
        """The verdict as people read it."""
        return verdict_words(self.verdict, self.holds)


def recorded(path: Path = RECORD) -> dict[str, Recorded]:
    """The verdicts on record, by entry."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))["entries"]
    return {key: Recorded(entry["verdict"], entry["holds"]) for key, entry in found.items()}


def change(report: EntryReport, record: Mapping[str, Recorded]) -> str:
    """How a verdict differs from the one on record; empty where it does not, or nothing ran."""
    before = record.get(report.key)
    if before is None or not report.ran or before.words == report.words:
        return ""
    return f"{report.key} is on record as {before.words!r} and came out as {report.words!r}"


def complaints(reports: Iterable[EntryReport], record: Mapping[str, Recorded]) -> list[str]:
    """What is wrong, a sentence each: failures, claims that disagree, changed verdicts."""
    reports = list(reports)
    return [
        *(f"{report.key} failed: {report.error}" for report in reports if report.error),
        *(
            f"{report.key} disagrees. This did not hold: {check.statement}"
            for report in reports
            if report.disagrees
            for check in report.checks
            if not check.holds
        ),
        *changes(reports, record),
    ]


def changes(reports: Iterable[EntryReport], record: Mapping[str, Recorded]) -> list[str]:
    """Every verdict that differs from the one on record, a sentence each."""
    return [said for report in reports if (said := change(report, record))]


def rewrite(reports: Iterable[EntryReport], keys: Iterable[str], path: Path = RECORD) -> None:
    """Put verdicts on record, in the order of ``keys``; what did not run keeps the one it has."""
    known = recorded(path)
    for report in reports:
        if report.ran or (report.verdict == "missing" and report.key not in known):
            known[report.key] = Recorded(report.verdict, report.holds)
    entries = {
        key: {"verdict": known[key].verdict, "holds": known[key].holds}
        for key in keys
        if key in known
    }
    write_text(path, to_json({"schema": "modgap/recorded/1", "entries": entries}) + "\n")
