"""The rule that recommends a correction, the verdict in words, and the diagnosis with both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    HasFigure,
    Result,
    notebook_html,
    notebook_table,
    notebook_words,
    signed,
    text_table,
)
from modgap.core.tables import HasTable
from modgap.corrections import Correction, demands, in_one_sentence
from modgap.diagnosis.hubs import HubChoice
from modgap.diagnosis.splits import Counted
from modgap.evaluation import GOAL_METRICS, Goal, Interval, Scores
from modgap.evaluation.evaluator import Resampled
from modgap.evaluation.metric_names import OWN_EXCESS, metric_head, metric_label
from modgap.evaluation.significance import beyond_max_t
from modgap.measures import Measurement

Verdict = Literal["use", "leave it alone", "not enough pairs", "no pairs"]

# A correction may cost this much recall@1, and no more.
MAX_RECALL_LOSS = 0.02
MIN_CONFIRM_GROUPS = 100
# So many corrections may be confirmed one after the other; each at a level that allows for it.
MAX_TRIES = 3
CONFIRM_LEVEL = 1 - 0.05 / MAX_TRIES

_GOAL_WORDS = {
    "mixed": "NDCG@10 in one index for {all} modalities",
    "robust": "the share of nearest neighbours kept under noise",
    "quantised": "the share of nearest neighbours kept in quantised indexes",
}
NOT_JUDGED = "balances the modalities; too few pairs to test relevance"
_PLURALS = {name: f"{name}s" for name in ("image", "text", "video", "sound", "caption", "photo")}


def plural(name: str) -> str:
    """Several documents of a modality.

    >>> plural("text"), plural("audio")
    ('texts', 'audio documents')
    """
    return _PLURALS.get(name, f"{name} documents")


def goal_words(goal: Goal, names: Sequence[str]) -> str:
    """What the goal's metric is called.

    >>> goal_words("mixed", ("image", "text"))
    'NDCG@10 in one index for both modalities'
    """
    return _GOAL_WORDS[goal].format(all="both" if len(names) == 2 else "all")


@dataclass(frozen=True)
class Trial(Result):
    """One correction: its metrics on the confirm split, and what the choose split said of it.

    ``eligible`` and ``lower_bound`` are from the choose split. ``keeps_rankings`` says, from its
    maps, that no ranking within a modality changes. ``neighbours_kept_fitted`` is the share of
    nearest neighbours left unchanged on the rows it was fitted on; the metrics have the same for
    new rows.
    """

    method: str
    metric: str
    eligible: bool
    reason: str
    lower_bound: float
    neighbours_kept_fitted: float
    confirm: Scores
    keeps_rankings: bool = False

    def _brief(self) -> str:
        goal = self.confirm.goal
        change = "" if goal.change is None else f" ({goal.change_cell()})"
        return f"{self.method}, goal {goal.value.value:.3f}{change}, {self.reason}"


def eligibility(
    scores: Scores,
    recalls: Mapping[str, str],
    *,
    keeps_rankings: bool = False,
    bias_growth: Interval | None = None,
) -> tuple[bool, str]:
    """Whether a correction may be recommended, and why not.

    ``recalls`` are the recall metrics, each with its name for people. One that changes no ranking
    within a modality cannot fail on recall. ``bias_growth`` is how much
    further from balanced the index is than before: a bias towards the other modality is a bias too.
    """
    for key, name in () if keeps_rankings else recalls.items():
        change = scores.metrics[key].change
        assert change is not None
        if change.value < -MAX_RECALL_LOSS:
            return False, f"{name} falls by {-change.value:.3f}"
        if change.high < 0:
            return False, f"{name} falls by {-change.value:.3f}, beyond chance"
    if bias_growth is not None and bias_growth.low > 0:
        return False, f"the bias towards one modality grows by {bias_growth.value:.3f}"
    return True, "rankings are kept" if keeps_rankings else "recall@1 holds"


def lower_bound(scores: Scores) -> float:
    """The lower end of the interval of the change of the goal."""
    assert scores.goal.change is not None
    return scores.goal.change.low


def choose(
    trials: Sequence[Trial], resampled: Sequence[Resampled], preferred: str | None = None
) -> list[Trial]:
    """The corrections worth confirming, in the order to try them; none: leave it alone.

    Eligible ones that gain come by the lower bound of their gain. First comes the method
    ``preferred``, which does not grow stale when documents change, unless others beat it on
    ``resampled`` metrics beyond what the best of so many would by chance. Among these, or where it
    is not eligible, the best of those that change no ranking within a modality comes first, as it
    costs nothing, unless others beat it in the same way.
    """
    found = [(t, r) for t, r in zip(trials, resampled, strict=True) if t.eligible]
    hopeful = sorted(
        ((t, r) for t, r in found if t.lower_bound > 0), key=lambda tr: -tr[0].lower_bound
    )
    kept = [one for one in hopeful if one[0].method == preferred]
    rivals = [one for one in hopeful if one[0].method != preferred]
    better = _better(rivals, kept[0]) if kept else rivals
    keeping = [one for one in better if one[0].keeps_rankings]
    if keeping:
        others = [one for one in better if not one[0].keeps_rankings]
        first = [*_better(others, keeping[0]), keeping[0]]
    else:
        first = better
    order = [t for t, _ in (*first, *kept)]
    return [*order, *(t for t, _ in hopeful if t not in order)]


_Tried = tuple[Trial, Resampled]


def _better(challengers: Sequence[_Tried], incumbent: _Tried) -> list[_Tried]:
    """Those that beat another on resampled goals beyond what the best of so many do by chance."""
    base = incumbent[1]["goal"]
    gains = [(r["goal"][0] - base[0], r["goal"][1] - base[1]) for _, r in challengers]
    beats = beyond_max_t(gains)
    return [one for one, beaten in zip(challengers, beats, strict=True) if beaten]


def confirm(
    order: Sequence[Trial], judge: Callable[[Trial], tuple[bool, str, float]]
) -> tuple[Trial | None, list[str]]:
    """The first of at most three corrections that holds on the confirm split, and why not others.

    ``judge`` says of one whether it is eligible there, why, and the lower bound of its gain.
    """
    doubts: list[str] = []
    for trial in order[:MAX_TRIES]:
        holds, reason, bound = judge(trial)
        if holds and bound > 0:
            return trial, doubts
        what = "its gain did not hold on" if holds else f"{reason} on"
        doubts.append(f"{trial.method} looked good, but {what} the confirm split")
    return None, doubts


def sentence(
    trial: Trial,
    correction: Correction,
    raw: Scores,
    goal: Goal,
    queries: Sequence[str],
    recalls: Mapping[str, str],
    held_out: str,
) -> str:
    """The verdict "use" in words, every number from the confirm split."""
    assert trial.confirm.goal.change is not None
    after, change = trial.confirm.goal.value, trial.confirm.goal.change
    held = "rankings within each modality stay the same"
    if not trial.keeps_rankings:
        found = {name: trial.confirm.metrics[key].change for key, name in recalls.items()}
        changes = {name: one for name, one in found.items() if one is not None}
        said = ", ".join(f"{name} {signed(one.value)}" for name, one in changes.items())
        rises = all(one.low > 0 for one in changes.values())
        held = f"recall@1 {'rises' if rises else 'holds'} ({said})"
    words, before = goal_words(goal, correction.names), raw.goal.value.value
    return (
        f"Use {trial.method}: {words} goes from {before:.3f} to "
        f"{after.value:.3f} ({signed(change.value)}, 95 % interval {signed(change.low)} to "
        f"{signed(change.high)}) on {held_out}, and {held}. "
        f"{in_one_sentence(correction, queries)}"
    )


def leave_sentence(raw: Scores, goal: Goal, doubts: Sequence[str], names: Sequence[str]) -> str:
    """The verdict "leave it alone" in words, with what did not hold."""
    words = goal_words(goal, names)
    why = f"no correction raises {words} beyond chance without costing recall@1"
    why = "; ".join(doubts) or why
    return f"Leave it alone: {why}. As it is, {words} is {raw.goal.value.value:.3f}."


def unjudged_sentence(
    trial: Trial | None,
    correction: Correction | None,
    raw: Scores,
    goal: Goal,
    n: int,
    queries: Sequence[str],
    balanced: float,
    *,
    paired: bool,
    counted: str,
    failure: str = "",
) -> str:
    """What can be said without pairs, or with too few of them to confirm a verdict.

    ``balanced`` is the share of the query's own modality in the index. ``failure`` says why no
    correction that keeps rankings could be fitted.
    """
    if paired:
        why = (
            f"Not enough pairs: the confirm split has {n} {counted}, and a verdict needs "
            f"{MIN_CONFIRM_GROUPS}."
        )
        wanted = f"Give {4 * MIN_CONFIRM_GROUPS} pairs or more to test"
    else:
        why = "No pairs."
        wanted = f"Give a few hundred pairs (at least {4 * MIN_CONFIRM_GROUPS}) to test"
    results = "the wrong results" if paired else "the results"
    if trial is None or correction is None:
        unfit = f" No correction is possible: {failure}" if failure else ""
        shares = own_share_words(results, queries, balanced, raw)
        return f"{why} Now {shares}.{unfit or f' {wanted} a correction.'}"
    shares = own_share_words(results, queries, balanced, raw, trial.confirm)
    metrics = ""
    if paired and trial.confirm.goal.change is not None:
        change, words = trial.confirm.goal.change, goal_words(goal, correction.names)
        metrics = (
            f" On these {n} {counted}, {words} goes from {raw.goal.value.value:.3f} to "
            f"{trial.confirm.goal.value.value:.3f} ({signed(change.low)} to {signed(change.high)})."
        )
    if goal != "mixed":
        metrics += f" The goal {goal} was not tested."
    return (
        f"{why} The fallback is {trial.method}: it {NOT_JUDGED}. Now {shares} "
        f"({n:,} {counted}).{metrics} "
        f"{in_one_sentence(correction)} {wanted} whether the right results come first."
    )


def own_share_words(
    results: str,
    queries: Sequence[str],
    balanced: float,
    before: Scores,
    after: Scores | None = None,
) -> str:
    """The share of the query's own modality in the first ten results, and what would be balanced.

    ``results`` says which results count.
    """
    excess = [one.metrics[OWN_EXCESS].value.value for one in (before, after or before)]
    if np.isnan(excess).any():
        return "no result is wrong, so shares cannot be counted"
    was, now = 100 * np.clip(balanced + np.array(excess), 0, 1)
    own = plural(queries[0]) if len(queries) == 1 else "of the query's own modality"
    corrected = "" if after is None else f", {now:.0f} % with the correction"
    wanted = f"{100 * balanced:.0f} % would be balanced"
    return f"{was:.0f} % of {results} are {own}{corrected}; {wanted}"


@dataclass(frozen=True)
class WholeIndex(Result):
    """NDCG@10 in one index of all groups, as they are and with the recommended correction.

    It is below the confirm split's, because more documents make a search harder. The correction
    was fitted on these very rows. ``n_groups`` are all of them, or a sample, and ``counted`` says
    whether they are pairs.
    """

    n_groups: int
    before: float
    after: float
    counted: Counted = "groups"

    def __str__(self) -> str:
        return (
            f"On all {self.n_groups:,} {self.counted}, fitting data included, NDCG@10 in one index "
            f"goes from {self.before:.3f} to {self.after:.3f}. More documents make a search harder."
        )


@dataclass(frozen=True)
class CutOff(Result):
    """What a cut at so many expected wrong results keeps, on the confirm split.

    ``kept`` is the share of queries whose match is kept, ``wrong`` the mean number of wrong results
    among the first ``places`` that are kept.
    """

    at_most: float
    kept: float
    wrong: float
    n_queries: int
    places: int

    def __str__(self) -> str:
        return (
            f"Cut at {self.at_most:g} expected wrong result: {self.kept:.0%} of {self.n_queries:,} "
            f"queries keep their match, with {self.wrong:.2f} wrong results on average."
        )


@dataclass(frozen=True)
class OtherDocuments(Result):
    """How much the other documents of the index change the goal, as it is and corrected."""

    counts: Mapping[str, int]
    before: float
    after: float
    before_alone: float
    after_alone: float

    def __str__(self) -> str:
        held = " and ".join(f"{n:,} {name}" for name, n in self.counts.items())
        return (
            f"The index holds {held} documents besides the pairs. Without them NDCG@10 would go "
            f"from {self.before_alone:.3f} to {self.after_alone:.3f}, with them it goes from "
            f"{self.before:.3f} to {self.after:.3f}."
        )


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
