"""What a recommended correction does to a whole index, to a cut list, and among other documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from modgap.core.results import Result
from modgap.core.threads import in_threads
from modgap.corrections import Correction, Metric
from modgap.diagnosis.splits import Counted
from modgap.evaluation import Scores
from modgap.evaluation.correction import MAX_GROUPS
from modgap.evaluation.mixed import mixed_of
from modgap.evaluation.mixed_results import mixed_results
from modgap.evaluation.retrieval import Corrected
from modgap.io import Modalities

# Where results are cut to say what is kept, among so many.
_AT_MOST, _CUT_PLACES = 1.0, 50


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


def in_whole_index(
    data: Modalities,
    correction: Correction,
    *,
    metric: Metric,
    queries: Sequence[str],
    seed: int,
    counted: Counted,
    workers: int | None = None,
) -> WholeIndex | None:
    """What all groups together give, a sample of them where they are many; None without pairs."""
    if not data.paired:
        return None
    groups = data.matched_groups
    if len(groups) > MAX_GROUPS:
        rng = np.random.default_rng(seed)
        groups = np.sort(rng.choice(groups, MAX_GROUPS, replace=False))
    chosen = data.take_groups(groups)

    def ndcg(rows: Corrected) -> float:
        return mixed_of(rows, queries, seed=seed).ndcg

    ways = [Corrected(chosen, None, metric), Corrected(chosen, correction)]
    before, after = in_threads(ndcg, ways, workers, whole_jobs=True)
    return WholeIndex(len(groups), before, after, counted)


def cut_off(
    data: Modalities, correction: Correction, *, metric: Metric, queries: Sequence[str], seed: int
) -> CutOff | None:
    """What a cut at one expected wrong result keeps of these rows; None without a background."""
    if correction.background is None or not data.paired:
        return None
    if metric == "cosine":
        data = data.at_unit_length()
    (found,) = mixed_results(data, correction=correction, queries=queries, k=_CUT_PLACES, seed=seed)
    good = found.expected_wrong <= _AT_MOST
    return CutOff(
        at_most=_AT_MOST,
        kept=float(np.mean(np.any(good & found.match, axis=1))),
        wrong=float(np.mean(np.sum(good & ~found.match & (found.kind >= 0), axis=1))),
        n_queries=len(found.query),
        places=_CUT_PLACES,
    )


def among_others(
    data: Modalities,
    correction: Correction,
    before: Scores,
    after: Scores,
    *,
    metric: Metric,
    queries: Sequence[str],
    seed: int,
) -> OtherDocuments | None:
    """What the other documents change, where there are any and pairs to judge by.

    ``before`` and ``after`` are the scores among all documents.
    """
    if not data.others or not data.paired:
        return None
    alone = replace(data, others={})
    alone = alone.at_unit_length() if metric == "cosine" else alone
    ways = [Corrected(alone, None, metric), Corrected(alone, correction)]
    before_alone, after_alone = (mixed_of(way, queries, seed=seed).ndcg for way in ways)
    return OtherDocuments(
        counts={name: side.n_rows for name, side in data.others.items()},
        before=before.goal.value.value,
        after=after.goal.value.value,
        before_alone=before_alone,
        after_alone=after_alone,
    )
