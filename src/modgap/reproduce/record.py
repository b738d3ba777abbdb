"""The verdicts on record: what a later run is compared with, and what the list of entries shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from modgap._version import __version__
from modgap.core.files import write_text
from modgap.core.results import SCHEMA, to_json
from modgap.reproduce.checks import Check, as_counted
from modgap.reproduce.entry import Entry, Outcome
from modgap.reproduce.registry import select
from modgap.reproduce.report import EntryReport, verdict_words
from modgap.reproduce.setting import YOUR_ROWS, Setting
from modgap.reproduce.wording import check_line, number_words, readings_words

RECORD = Path(__file__).with_name("recorded.json")
# Seeds that a verdict is made with, and again.
SEEDS = 10


@dataclass(frozen=True)
class Recorded:
    """A verdict on record; ``finding`` is None where nothing could be run.

    ``seeds`` is how many it was drawn with. ``flips`` are the statements that came out differently
    with as many others, which makes the finding too small to say. ``decided_by`` is the statement
    that decides, with its number and interval, if it has one. ``readings`` says what each reading
    of the paper finds, where it has several, and ``premises`` how those came out that claims rest
    on. ``data`` names what was at hand.
    """

    evidence: str
    finding: str | None
    seeds: int = 1
    flips: tuple[str, ...] = ()
    decided_by: str = ""
    readings: str = ""
    premises: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The verdict as people read it."""
        return verdict_words(self.evidence, self.finding)


def recorded(path: Path = RECORD) -> dict[str, Recorded]:
    """The verdicts on record, by entry."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))["entries"]
    lists = ("flips", "premises", "data")
    return {
        key: Recorded(**{**entry, **{name: tuple(entry.get(name, ())) for name in lists}})
        for key, entry in found.items()
    }


def change(report: EntryReport, record: Mapping[str, Recorded]) -> str:
    """How a verdict differs from the one on record; empty where it does not, or nothing ran.

    Where a statement flips from seed to seed, the record says so and no finding is a change; nor is
    one with fewer seeds, on your own rows, or of other data where other data was at hand.
    """
    before = record.get(report.key)
    if before is None or not report.ran or before.words == report.words:
        return ""
    if report.data == (YOUR_ROWS,):
        return ""
    if before.evidence == report.evidence and (before.flips or len(report.seeds) < before.seeds):
        return ""
    if "other data" in (before.evidence, report.evidence) and before.data != report.data:
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
            if check.finding == "fails"
        ),
        *changes(reports, record),
    ]


def changes(reports: Iterable[EntryReport], record: Mapping[str, Recorded]) -> list[str]:
    """Every verdict that differs from the one on record, a sentence each."""
    return [said for report in reports if (said := change(report, record))]


def verdict_of(report: EntryReport, again: EntryReport | None = None) -> Recorded:
    """A verdict from a report, and from another one with other seeds where anything is drawn."""
    steady = [
        before if before.finding == after.finding else replace(before, finding="too small to say")
        for before, after in zip(
            report.checks, report.checks if again is None else again.checks, strict=True
        )
    ]
    flips = tuple(
        check.statement
        for check, before in zip(steady, report.checks, strict=True)
        if check is not before
    )
    finding = Outcome({}, steady).finding if report.ran else None
    decided_by = _decisive(steady, finding)
    return Recorded(
        report.evidence,
        finding,
        len(report.seeds),
        flips,
        decided_by,
        readings_words(steady),
        tuple(check_line(each) for each in steady if each.about == "premise"),
        report.data,
    )


def _decisive(checks: Sequence[Check], finding: str | None) -> str:
    """The first statement of the claim that came out as the whole did, one with a number first.

    Where a premise is not met, that premise; where it depends on the reading, what fails.
    """
    about, came = ("premise" if finding == "premise not met" else "claim"), finding
    if finding in ("premise not met", "depends on the reading"):
        came = "fails"
    ours = [each for each in as_counted(checks) if each.about == about and each.finding == came]
    found = sorted(ours, key=lambda check: check.value is None)[:1]
    return " ".join(
        f"{check.statement}{'' if check.value is None else f' {number_words(check)}'}"
        for check in found
    )


def drawn_again(reports: Sequence[EntryReport], setting: Setting) -> tuple[list[Entry], Setting]:
    """The entries that draw random numbers, and a setting with as many other seeds."""
    drawn = [select([report.key])[0] for report in reports if len(report.seeds) > 1]
    return drawn, replace(setting, seed=setting.seed + setting.seeds)


def rewrite(
    reports: Iterable[tuple[EntryReport, EntryReport | None]],
    keys: Iterable[str],
    path: Path = RECORD,
) -> None:
    """Put verdicts on record, in the order of ``keys``; what did not run keeps the one it has."""
    known = recorded(path)
    for report, again in reports:
        if report.ran or (report.evidence == "missing" and report.key not in known):
            known[report.key] = verdict_of(report, again)
    entries = {key: asdict(known[key]) for key in keys if key in known}
    write_text(path, to_json({"schema": "modgap/recorded/2", "entries": entries}) + "\n")


LISTING = ("", "needs", "here", "verdict on record")


def list_rows(
    entries: Sequence[Entry], setting: Setting, record: Mapping[str, Recorded]
) -> list[tuple[str, ...]]:
    """A row per entry under the heads of ``LISTING``."""
    return [
        (
            f"{entry.key}  {entry.title}",
            entry.needs,
            _here(entry, setting),
            record[entry.key].words if entry.key in record else "–",
        )
        for entry in entries
    ]


def list_line(entries: Sequence[Entry], setting: Setting) -> str:
    """How many there are, and how many can run."""
    ready = sum(not entry.lacks(setting) for entry in entries)
    return (
        f"{len(entries)} entries, {ready} can run here. "
        "Running one that cannot says exactly what is missing and how to provide it."
    )


def list_document(
    entries: Sequence[Entry], setting: Setting, record: Mapping[str, Recorded]
) -> dict[str, Any]:
    """The same with all that is declared, for JSON."""
    declared = (
        "key", "title", "claim", "needs", "how", "fast", "full", "published", "slips",
    )  # fmt: skip
    listed = []
    for entry in entries:
        known, missing = record.get(entry.key, Recorded("missing", None)), entry.lacks(setting)
        listed.append(
            {name: getattr(entry, name) for name in declared}
            | {"can_run": not missing, "missing": missing}
            | {"evidence": known.evidence, "finding": known.finding}
        )
    head = {"schema": f"modgap/reproduce-list/{SCHEMA}", "version": __version__}
    return {**head, "entries": listed}


def _here(entry: Entry, setting: Setting) -> str:
    if entry.runner(setting) is None:
        return "no model"
    if entry.lacks(setting):
        return "--embeddings DIR"
    return "in part" if entry.needs == "model" else "can run"
