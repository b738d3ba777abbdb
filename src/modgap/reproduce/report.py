"""What is kept of an entry that was asked for: claim, published beside measured, verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from modgap._results import Result
from modgap.reproduce.entry import Check, Entry, Number, Outcome, Setting, Verdict

# "failed": the run stopped with an error, which is a mistake of ours.
State = Verdict | Literal["failed"]


@dataclass(frozen=True, eq=False)
class Report(Result):
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
    verdict: State
    holds: bool | None
    published: Mapping[str, Number]
    measured: Mapping[str, Number]
    checks: tuple[Check, ...] = ()
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
    outcome: Outcome | None,
    *,
    missing: str = "",
    error: str = "",
    seconds: float = 0.0,
) -> Report:
    """A report of an outcome, or of why there is none."""
    verdict: State = "failed" if error else "missing"
    if outcome is not None and not error:
        verdict = outcome.verdict
    ran = outcome is not None and not error
    return Report(
        key=entry.key,
        title=entry.title,
        claim=entry.claim,
        needs=entry.needs,
        setting=setting_words(setting),
        verdict=verdict,
        holds=outcome.holds if outcome is not None and ran else None,
        published=dict(entry.published),
        measured=dict(outcome.measured) if outcome is not None else {},
        checks=outcome.checks if outcome is not None else (),
        on=outcome.on if outcome is not None else "",
        note=outcome.note if outcome is not None else "",
        slips=entry.slips,
        how=entry.how,
        missing=missing,
        error=error,
        seconds=round(seconds, 2),
        embeddings=setting.embeddings is not None,
        synthetic=entry.synthetic,
    )


def setting_words(setting: Setting) -> str:
    """Which of the two settings it is, and whose trained models."""
    words = "full" if setting.full else "fast"
    return words if setting.trained is None else f"{words}, trained models of {setting.trained}"


def report_from(document: Mapping[str, Any]) -> Report:
    """A report read back from its JSON."""
    names = {field.name for field in dataclasses.fields(Report)}
    values = {name: value for name, value in document.items() if name in names}
    values["checks"] = tuple(Check(**check) for check in values["checks"])
    for name in ("slips", "pictures"):
        values[name] = tuple(values[name])
    return Report(**values)
