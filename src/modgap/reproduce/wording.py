"""Reports in words: values, verdicts, one entry, and many of them in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from modgap.reproduce.checks import Check, as_counted, by_reading
from modgap.reproduce.entry import Number
from modgap.reproduce.report import EntryReport

# What an entry needs, in words.
NEEDS = {
    "nothing": "nothing",
    "digits": "the digits it ships",
    "embeddings": "the authors' embeddings",
    "trained": "models trained here",
    "model": "a trained model",
}
_KINDS = ("as printed", "own settings", "other data")
_FINDINGS = (
    "holds", "fails", "depends on the reading", "premise not met", "too small to say"
)  # fmt: skip
_ORDER = (
    *(f"{kind}: {finding}" for kind in _KINDS for finding in _FINDINGS),
    "consistency only",
    "consistency only: fails",
    "missing",
    "failed",
)
_MARKS = {"holds": "✓", "fails": "✗", "too small to say": "?", "premise not met": "–"}
_HEADS = {
    "claim": "",
    "paper": "About the printed numbers: ",
    "consistency": "Consistency: ",
    "premise": "Premise: ",
}


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


def value_rows(report: EntryReport) -> list[tuple[str, str, str]]:
    """Name, published and measured, the published names first."""
    return [
        (
            name,
            value_words(report.published[name]) if name in report.published else "",
            value_words(report.measured[name]) if name in report.measured else "",
        )
        for name in {**report.published, **report.measured}
    ]


def report_lines(report: EntryReport) -> list[str]:
    """What is to be said of one entry beside its values; the verdict comes last."""
    lines = [check_line(check) for check in as_counted(report.checks)]
    head = "Own settings" if report.evidence == "own settings" else "On other data"
    said = (
        ("By reading", readings_words(report.checks)),
        (head, report.on),
        ("Note", report.note),
        *(("Slip in the paper", slip) for slip in report.slips),
        ("The paper's own needs more", report.how if report.ran else ""),
        ("Missing", report.missing),
        ("Failed", report.error),
    )
    lines += [f"{head}: {text}" for head, text in said if text]
    seeds = report.seeds
    drawn = f", seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else ""
    took = f" ({report.setting} setting{drawn}, {report.seconds:.1f} s)"
    return [*lines, f"Verdict: {report.words}{took if report.ran else ''}"]


def check_line(check: Check) -> str:
    """How a statement came out: a mark, the statement, its number, what else might have been."""
    line = f"{_MARKS[check.finding]} {_HEADS[check.about]}{check.statement}"
    if check.value is not None:
        line += f" {number_words(check)}"
    if check.finding != "holds" and check.otherwise:
        head = "Failed" if check.finding == "fails" else "If not"
        unmet = check.finding == "premise not met"
        line += " Its premise is not met." if unmet else f" {head}: {check.otherwise}"
    return line


def readings_words(checks: Sequence[Check]) -> str:
    """What is found in each reading of the paper; empty where it has but one."""
    found = by_reading([check for check in as_counted(checks) if check.about == "claim"])
    return "; ".join(f"{reading}: {finding}" for reading, finding in found.items() if reading)


def number_words(check: Check) -> str:
    """A check's number with its interval and its bound, in brackets."""
    found = value_words(check.value)
    if check.low is not None:
        found += f" [{value_words(check.low)}, {value_words(check.high)}]"
    return f"({found}; bound {value_words(check.bound)})"


SUMMARY = ("", "needs", "verdict", "time")


def summary_rows(reports: Sequence[EntryReport]) -> list[tuple[str, ...]]:
    """A row per entry under the heads of ``SUMMARY``."""
    return [
        (
            f"{report.key}  {report.title}",
            report.needs,
            report.words,
            f"{report.seconds:.1f} s" if report.ran else "",
        )
        for report in reports
    ]


def counts_line(reports: Sequence[EntryReport]) -> str:
    """How many came out how, in one line."""
    counts = Counter(report.words for report in reports)
    parts = [f"{words} {counts[words]}" for words in _ORDER if counts[words]]
    return f"{len(reports)} entries. {'; '.join(parts).capitalize()}."


def missing_groups(reports: Sequence[EntryReport]) -> dict[str, list[str]]:
    """What is missing and how to provide it, with the entries that wait for it."""
    groups: dict[str, list[str]] = {}
    for report in reports:
        if report.missing:
            groups.setdefault(report.missing, []).append(report.key)
    return groups
