"""A diagnosis: the verdict, what it rests on, and the correction it recommends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    HasFigure,
    Result,
    notebook_html,
    notebook_table,
    notebook_words,
    text_table,
)
from modgap.core.tables import HasTable
from modgap.corrections import Correction, demands
from modgap.diagnosis.hubs import HubChoice
from modgap.diagnosis.index_effects import CutOff, OtherDocuments, WholeIndex
from modgap.diagnosis.splits import Counted
from modgap.diagnosis.verdict import Trial, Verdict
from modgap.evaluation import GOAL_METRICS, Goal, Scores
from modgap.evaluation.metric_names import metric_head, metric_label
from modgap.measures import Measurement


@dataclass(frozen=True, eq=False)
class Diagnosis(HasTable, HasFigure, Result):
    """The verdict, what it rests on, and the recommended correction where there is one.

    ``raw`` holds the metrics of the rows as they are, ``trials`` those of every correction, all
    from the confirm split. ``n_groups`` says how many groups each split has; without pairs, how
    many rows of both modalities were fitted on and how many of each confirm; ``counted`` says what
    they count. ``duplicates`` counts the rows that occur several times; None if not checked.
    ``queries`` are the query modalities: recall and the mixed index are about their queries.
    ``balanced_share`` is the share of the query's own modality in the index of the confirm split.
    ``hubs`` says how much hubness to subtract, where that could be judged. ``cut`` is what a cut at
    one expected wrong result keeps, ``others`` what the other documents of the index change, where
    there are any.

    ``correction`` is the recommended one, fitted on all rows; the metrics are those of
    ``corrections``, which were fitted on the fit split alone.
    """

    verdict: Verdict
    sentence: str
    recommended: str | None
    goal: Goal
    names: tuple[str, ...]
    n_groups: Mapping[str, int]
    seed: int
    raw: Scores
    trials: tuple[Trial, ...]
    not_tried: Mapping[str, str]
    measurement: Measurement
    explanations: Mapping[str, str]
    queries: tuple[str, ...] = ()
    counted: Counted = "groups"
    duplicates: str | None = None
    balanced_share: float = float("nan")
    whole_index: WholeIndex | None = None
    hubs: HubChoice | None = None
    cut: CutOff | None = None
    others: OtherDocuments | None = None
    correction: Correction | None = field(default=None, repr=False)
    corrections: Mapping[str, Correction] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the corrections, which have files of their own."""
        found = super().to_dict()
        del found["correction"], found["corrections"]
        found["demands"] = None if self.correction is None else demands(self.correction)
        return found

    @property
    def notes(self) -> list[str]:
        """What to know besides the verdict, a sentence or two each."""
        known = [self.whole_index, self.others, self.cut]
        found = [str(one) for one in known if one is not None]
        if self.duplicates:
            found.insert(0, self.duplicates)
        if self.correction is not None and self.others is None:
            kind = "merging by expected wrong results needs no refit when documents change"
            if self.correction.background is None:
                kind = "a fixed correction knows only documents like those it was fitted on"
            found.append(
                f"The tested index holds only these rows; {kind}. Does your index hold more "
                "documents? Add them with --documents (in Python, Modalities.with_documents)."
            )
        return found if self.hubs is None else [*found, self.hubs.sentence]

    @property
    def not_eligible(self) -> str:
        """The corrections that the choose split ruled out, and why, in one sentence or none."""
        if "choose" not in self.n_groups:
            return ""
        said = [f"{one.method} ({one.reason})" for one in self.trials if not one.eligible]
        return f"Not eligible on the choose split: {', '.join(said)}." if said else ""

    @property
    def moving(self) -> str | None:
        """The method that moves rows: the recommended one, or the best fixed one beside merging."""
        chosen = self.corrections.get(str(self.recommended))
        if chosen is None or chosen.background is None:
            return self.recommended
        fixed = [one for one in self.trials if self.corrections[one.method].background is None]
        eligible = [one for one in fixed if one.eligible]
        if eligible:
            return max(eligible, key=lambda one: one.confirm.goal.value.value).method
        return next((one.method for one in fixed if one.keeps_rankings), None)

    @property
    def held_out(self) -> str:
        """The rows that every metric rests on, in words."""
        return f"{self.n_groups['confirm']:,} held-out {self.counted}"

    def table(self, without: Sequence[str] = ()) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: one line per correction, the rows as they are first.

        ``without`` names metrics to leave out where there is little room.
        """
        known = [name for name in self.explanations if name in self.raw.metrics]
        shown = [name for name in known if name not in without]
        header = ("", *(metric_head(name, self.names) for name in shown), "kept, fitted rows")
        lines = [self._line("as it is", self.raw, shown, 1.0)]
        for trial in self.trials:
            mark = "→ " if trial.method == self.recommended else ""
            lines.append(
                self._line(mark + trial.method, trial.confirm, shown, trial.neighbours_kept_fitted)
            )
        return header, lines

    def before_and_after(
        self, *, brief: bool = False
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows of the recommended correction's metrics against the rows as they are."""
        trial = next(t for t in self.trials if t.method == self.recommended)
        rows: list[tuple[str, ...]] = []
        for name in (one for one in self.explanations if one in self.raw.metrics):
            before, after = self.raw.metrics[name], trial.confirm.metrics[name]
            was = f"{before.value.value:.3f}" if brief else before.value_cell()
            label = metric_label(name, self.names)
            rows.append((label, was, after.value_cell(), after.change_cell()))
        return ("", "before", "after", "change"), rows

    @staticmethod
    def _line(
        label: str, scores: Scores, shown: Sequence[str], kept_fitted: float
    ) -> tuple[str, ...]:
        cells = (f"{scores.metrics[name].value.value:.3f}" for name in shown)
        return (label, *cells, f"{kept_fitted:.3f}")

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{text_table(*self.table())}"

    def _brief(self) -> str:
        trial = next((t for t in self.trials if t.method == self.recommended), None)
        if trial is None:
            return f"{self.verdict}, goal {self.goal} {self.raw.goal.value.value:.3f}"
        before, after = self.raw.goal.value.value, trial.confirm.goal.value.value
        return f"{self.verdict}: {trial.method}, goal {self.goal} {before:.3f} → {after:.3f}"

    def _repr_html_(self) -> str:
        header, rows = self.table()
        marked = next((i for i, row in enumerate(rows) if row[0].startswith("→")), None)
        parts = [notebook_words(self.sentence), self.ranges().svg()]
        if marked is not None:
            said = (
                f"{self.recommended} against the rows as they are, on {self.held_out}, with 95 % "
                "intervals"
            )
            parts.append(notebook_table(*self.before_and_after(), said))
        every = notebook_table(header, rows, f"Every correction, on {self.held_out}", marked)
        return notebook_html(*parts, every)

    def ranges(self) -> Ranges:
        """The goal after each correction, with its interval, against the rows as they are."""
        wanted = GOAL_METRICS[self.goal]
        shown = metric_label(wanted[0], self.names) if len(wanted) == 1 else self.goal
        goals = [(trial.method, trial.confirm.goal.value) for trial in self.trials]
        lines = [
            Range(method, value.value, value.low, value.high, marked=method == self.recommended)
            for method, value in goals
        ]
        return Ranges(
            f"{shown} after each correction, 95 % intervals; dashed: as it is",
            lines,
            self.raw.goal.value.value,
        )
