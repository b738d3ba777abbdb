"""What is kept of an entry that was asked for: claim, published beside measured, verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modgap._results import Result
from modgap.reproduce.entry import Check, Entry, EntryVerdict, Number, Outcome
from modgap.reproduce.setting import Setting


@dataclass(frozen=True, eq=False)
class EntryReport(Result):
    """One entry and how it came out.

    ``holds`` is None where nothing was run. ``missing`` says what an entry that did not run needs
    and how to provide it; ``how``, what the paper's own figure needs where other data stood in.
    ``embeddings`` is whether the authors' embeddings were there. ``pictures`` are file names.
    """

    key: str
    title: str
    claim: str
    needs: str
    setting: str
    verdict: EntryVerdict
    holds: bool | None
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
    embeddings: bool = False
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
        return self.holds is not None

    @property
    def disagrees(self) -> bool:
        """Whether a claim was put to the test as the paper did, here alone, and did not hold."""
        return self.synthetic and self.verdict == "disagrees"

    @property
    def words(self) -> str:
        """The verdict as people read it."""
        return verdict_words(self.verdict, self.holds)


def verdict_words(verdict: str, holds: bool | None) -> str:
    """A verdict, and on other data whether the claim holds there."""
    if verdict != "other data":
        return verdict
    return "other data: holds" if holds else "other data: fails"


def report_of(
    entry: Entry,
    setting: Setting,
    outcome: Outcome | None = None,
    *,
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
    missing, error
        Why there is no outcome, in one sentence.
    seconds
        How long the run took.
    """
    found = Outcome({}, ()) if outcome is None else outcome
    return EntryReport(
        key=entry.key,
        title=entry.title,
        claim=entry.claim,
        needs=entry.needs,
        setting=setting.words,
        verdict=("failed" if error else "missing") if outcome is None else outcome.verdict,
        holds=None if outcome is None else outcome.holds,
        published=dict(entry.published),
        measured=dict(found.measured),
        checks=found.checks,
        on=found.on,
        note=found.note,
        slips=entry.slips,
        how=entry.how,
        missing=missing,
        error=error,
        seconds=round(seconds, 2),
        embeddings=setting.embeddings is not None,
        synthetic=entry.synthetic,
    )


def report_from(document: Mapping[str, Any]) -> EntryReport:
    """A report read back from its JSON."""
    names = {field.name for field in dataclasses.fields(EntryReport)}
    values = {name: value for name, value in document.items() if name in names}
    values["checks"] = tuple(Check(**check) for check in values["checks"])
    for name in ("slips", "pictures"):
        values[name] = tuple(values[name])
    return EntryReport(**values)
