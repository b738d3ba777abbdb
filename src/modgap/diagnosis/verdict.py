"""The rule: which correction to recommend, and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from modgap._results import Result
from modgap.evaluation import Goal, Interval, Scores

Verdict = Literal["use", "leave it alone", "not enough pairs", "no pairs"]

# A correction may cost this much recall@1 in either direction, and no more.
MAX_RECALL_LOSS = 0.02
MIN_CONFIRM_GROUPS = 100

GOAL_WORDS = {
    "mixed": "NDCG@10 in one index for both modalities",
    "robust": "the share of nearest neighbours kept under noise",
    "quantised": "the share of nearest neighbours kept in quantised indexes",
}


@dataclass(frozen=True)
class Trial(Result):
    """One correction: its metrics on the confirm split, and what the choose split said of it.

    ``eligible`` and ``lower_bound`` are from the choose split. ``neighbours_kept_fitted`` is the
    share of nearest neighbours left unchanged on the rows it was fitted on; the metrics have the
    same for new rows.
    """

    method: str
    metric: str
    eligible: bool
    reason: str
    lower_bound: float
    neighbours_kept_fitted: float
    confirm: Scores


def eligibility(scores: Scores, recalls: Sequence[str]) -> tuple[bool, str]:
    """Whether a correction may be recommended, and why not."""
    for name in recalls:
        change = scores.metrics[name].change
        assert change is not None
        if change.value < -MAX_RECALL_LOSS:
            return False, f"{name} falls by {-change.value:.3f}"
        if change.high < 0:
            return False, f"{name} falls beyond chance"
    return True, "recall@1 holds"


def lower_bound(scores: Scores) -> float:
    """The lower end of the interval of the change of the goal."""
    assert scores.goal.change is not None
    return scores.goal.change.low


def choose(trials: Sequence[Trial]) -> Trial | None:
    """The eligible correction with the largest lower bound above zero; None: leave it alone."""
    hopeful = [t for t in trials if t.eligible and t.lower_bound > 0]
    return max(hopeful, key=lambda t: t.lower_bound) if hopeful else None


def sentence(
    verdict: Verdict,
    trial: Trial | None,
    raw: Scores,
    goal: Goal,
    recalls: Sequence[str],
    n_confirm: int,
    doubt: str = "",
) -> str:
    """The verdict in words, every number from the confirm split."""
    words = GOAL_WORDS[goal]
    if verdict == "not enough pairs":
        return (
            f"Not enough pairs: {n_confirm} groups are left to confirm on, and a verdict needs "
            f"{MIN_CONFIRM_GROUPS}. No correction is recommended; give at least "
            f"{4 * MIN_CONFIRM_GROUPS} pairs for a recommendation."
        )
    if verdict == "leave it alone":
        why = doubt or f"no correction raises {words} beyond chance without costing recall@1"
        return f"Leave it alone: {why}. As it is, {words} is {raw.goal.value.value:.3f}."
    assert trial is not None
    assert trial.confirm.goal.change is not None
    after, change = trial.confirm.goal.value, trial.confirm.goal.change
    held = ", ".join(
        f"{name} {trial.confirm.metrics[name].change.value:+.3f}"  # type: ignore[union-attr]
        for name in recalls
    )
    return (
        f"Use {trial.method}: {words} goes from {raw.goal.value.value:.3f} to {after.value:.3f} "
        f"({change.value:+.3f}, 95 % interval {change.low:+.3f} to {change.high:+.3f}) on "
        f"{n_confirm:,} held-out groups, and recall@1 holds ({held})."
    )


def unpaired_sentence(own_excess: Interval, n_judged: int) -> str:
    """What can be said without pairs."""
    return (
        f"No pairs: of the ten nearest rows in one index for both modalities, "
        f"{50 + 100 * own_excess.value:.0f} % are of the query's own modality (a fair share is "
        f"50 %; measured on {n_judged:,} rows of each). Whether a correction finds the right ones "
        "cannot be judged without pairs; a few hundred are enough."
    )
