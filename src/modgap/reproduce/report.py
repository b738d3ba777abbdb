"""What is kept of an entry that was asked for: claim, published beside measured, verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modgap.core.results import Result
from modgap.reproduce.entry import Check, Entry, Evidence, Finding, Number, Outcome
from modgap.reproduce.setting import Setting


@dataclass(frozen=True, eq=False)
class EntryReport(Result):
    """One entry and how it came out.

    ``evidence`` says of what kind it is, and ``finding`` whether the claim holds by it, None where
    nothing was run. ``seeds`` are those it was drawn with: one where nothing is drawn.
    ``missing`` says what an entry that did not run needs and how to provide it; ``how``, what the
    paper's own figure needs where other data stood in. ``data`` names what was at hand.
    ``pictures`` are file names.
    """

    key: str
    title: str
    claim: str
    needs: str
    setting: str
    evidence: Evidence
    finding: Finding | None
    seeds: tuple[int, ...]
    published: Mapping[str, Number]
    measured: Mapping[str, Number]
    checks: Sequence[Check] = ()
    on: str = ""
    note: str = ""
    slips: tuple[str, ...] = ()
    how: str = ""
    missing: str = ""
    error: str = ""
    seconds: float = 0.0
    data: tuple[str, ...] = ()
    synthetic: bool = False
    pictures: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The entry's name within its paper."""
        return self.key.partition("/")[2]

    @property
    def ran(self) -> bool:
        """Whether there is an outcome."""
        return self.finding is not None

    @property
    def disagrees(self) -> bool:
        """Whether something fails that needs nothing but this package, and is not new data."""
        return (
            self.synthetic
            and self.finding == "fails"
            and self.evidence in ("as printed", "consistency only")
        )

    @property
    def words(self) -> str:
        """The verdict as people read it."""
        return verdict_words(self.evidence, self.finding)


def verdict_words(evidence: str, finding: str | None) -> str:
    """Both fields of a verdict; that arithmetic is right is nothing to speak of."""
    if finding is None or (evidence == "consistency only" and finding == "holds"):
        return evidence
    return f"{evidence}: {finding}"


def report_of(
    entry: Entry,
    setting: Setting,
    outcome: Outcome | None = None,
    *,
    seeds: tuple[int, ...] = (),
    missing: str = "",
    error: str = "",
    seconds: float = 0.0,
) -> EntryReport:
    """A report of an outcome, or of why there is none.

    Parameters
    ----------
    entry, setting
        What was run, and how.
    outcome
        What the run found; None where something is ``missing`` or the run stopped with an
        ``error``.
    seeds
        Those that it was drawn with.
    missing, error
        Why there is no outcome, in one sentence.
    seconds
        How long the run took.
    """
    found = Outcome({}, ()) if outcome is None else outcome
    declared = ("key", "title", "claim", "needs", "slips", "how", "synthetic")
    return EntryReport(
        **{name: getattr(entry, name) for name in declared},
        setting=setting.words,
        evidence=("failed" if error else "missing") if outcome is None else outcome.kind,
        finding=None if outcome is None else outcome.finding,
        seeds=seeds,
        published=dict(entry.published),
        measured=dict(found.measured),
        checks=found.checks,
        on=found.on,
        note=found.note,
        missing=missing,
        error=error,
        seconds=round(seconds, 2),
        data=setting.data,
    )


def report_from(document: Mapping[str, Any]) -> EntryReport:
    """A report read back from its JSON."""
    names = {field.name for field in dataclasses.fields(EntryReport)}
    values = {name: value for name, value in document.items() if name in names}
    values["checks"] = tuple(Check(**check) for check in values["checks"])
    for name in ("slips", "pictures", "seeds", "data"):
        values[name] = tuple(values[name])
    return EntryReport(**values)
