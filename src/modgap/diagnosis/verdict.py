"""The rule that recommends a correction, the verdict in words, and the diagnosis with both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.core.results import Result, signed
from modgap.corrections import Correction, in_one_sentence
from modgap.evaluation import Goal, Interval, Scores
from modgap.evaluation.evaluator import Resampled
from modgap.evaluation.metric_names import OWN_EXCESS
from modgap.evaluation.significance import beyond_max_t

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
