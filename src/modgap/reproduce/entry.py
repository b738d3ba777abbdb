"""An entry: one figure or table of a paper, its claim, what it needs, and what came out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from modgap.core.results import Result
from modgap.reproduce.checks import Check, Finding, as_counted, check, finding_of
from modgap.reproduce.setting import Setting, not_at_hand

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What kind of evidence an entry gives.
# "as printed": on the paper's data, with the settings it prints.
# "own settings": its experiment with settings that it does not print, or that differ.
# "other data": on data that is not the paper's.
# "consistency only": definitions, and arithmetic on printed numbers; never counted as agreement.
# "failed": the run stopped with an error, which is a mistake of ours.
Evidence = Literal[
    "as printed", "own settings", "other data", "consistency only", "missing", "failed"
]
# "trained": metrics of models trained on Flickr8k, which come with the package.
Need = Literal["nothing", "embeddings", "digits", "trained", "model"]
Number = float | int | str | None

__all__ = ["Check", "Entry", "Evidence", "Finding", "Need", "Number", "Outcome", "check"]


@dataclass(frozen=True, eq=False)
class Outcome(Result):
    """What a run found.

    ``measured`` stands beside the entry's published values, by the same names where there is a
    published one. ``data`` is what the picture draws, as plain values or results. ``on`` says what
    was used where it is not what the paper used, ``note`` names caveats; left empty, they are
    those that the paper's file declares. So is ``evidence``; where the file declares none either,
    it is other data where ``on`` says so, and else as printed.
    """

    measured: Mapping[str, Number]
    checks: Sequence[Check]
    data: Mapping[str, Any] = field(default_factory=dict)
    on: str = ""
    note: str = ""
    evidence: Evidence | None = None

    @property
    def finding(self) -> Finding:
        """Of all statements of the claim; where it makes none, of those that must hold anyway."""
        checks = as_counted(self.checks)
        claims = [check for check in checks if check.about == "claim"]
        return finding_of(claims or [c for c in checks if c.about == "consistency"])

    @property
    def holds(self) -> bool:
        """Whether every statement of the claim held."""
        return self.finding == "holds"

    @property
    def kind(self) -> Evidence:
        """The kind of evidence."""
        return self.evidence or ("other data" if self.on else "as printed")


@dataclass(frozen=True, eq=False)
class Entry:
    """One figure or table, as the file of its paper declares it.

    ``run`` is None where a model or a data set is needed that this package does not have; ``how``
    then says exactly what is missing and how it would be provided. ``run_on_model`` runs it in
    place of ``run`` where a model and data are given. ``draw`` makes the picture of an outcome.
    """

    key: str
    title: str
    claim: str
    needs: Need = "nothing"
    published: Mapping[str, Number] = field(default_factory=dict)
    how: str = ""
    fast: str = ""
    full: str = ""
    slips: tuple[str, ...] = ()
    run: Callable[[Setting], Outcome] | None = None
    run_on_model: Callable[[Setting], Outcome] | None = None
    draw: Callable[[Outcome], Figure] | None = None

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.key.partition("/")[0]

    @property
    def synthetic(self) -> bool:
        """Whether it needs nothing but this package."""
        return self.needs in ("nothing", "digits") and self.run is not None

    def runner(self, setting: Setting) -> Callable[[Setting], Outcome] | None:
        """What runs it in a setting: a function of its own where a model is given."""
        by_model = setting.rows is not None and setting.rows.model is not None
        return self.run_on_model or self.run if by_model else self.run

    def lacks(self, setting: Setting) -> str:
        """What it needs that is not there, without running it; empty when it can run."""
        if self.runner(setting) is None:
            return self.how
        return not_at_hand() if self.needs == "embeddings" and not setting.data else ""
