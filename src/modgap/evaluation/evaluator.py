"""Evaluate corrections on one split of the data: every metric and its change, with intervals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.core.results import Result
from modgap.corrections import Correction, Metric
from modgap.evaluation.metric_names import NDCG, OWN_EXCESS, metric_name
from modgap.evaluation.metrics import AsTheyAre, correction_metrics, resample
from modgap.evaluation.significance import GroupBootstrap, Interval
from modgap.io import Modalities

Goal = Literal["mixed", "robust", "quantised"]
GOAL_METRICS: dict[str, tuple[str, ...]] = {
    "mixed": (NDCG,),
    "robust": ("robust_to_noise",),
    "quantised": ("robust_to_int8", "robust_to_1bit"),
}

# A metric over all groups, and over each resample of them; of a gap in two ways, see `resample`.
Resampled = Mapping[str, tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Score(Result):
    """A metric after a correction, and its change against the rows as they are."""

    value: Interval
    change: Interval | None

    def _brief(self) -> str:
        change = "" if self.change is None else f", change {self.change_cell()}"
        return f"{self.value_cell()}{change}"

    def value_cell(self) -> str:
        """The value and its interval, for a table."""
        value = self.value
        return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"

    def change_cell(self) -> str:
        """The change and its interval, for a table."""
        assert self.change is not None
        change = self.change
        return f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


@dataclass(frozen=True)
class Scores(Result):
    """One correction on one split of the data: its metrics, and the goal's."""

    metrics: Mapping[str, Score]
    goal: Score

    def _brief(self) -> str:
        known = (f"{metric_name(k, ())} {s.value.value:.3f}" for k, s in self.metrics.items())
        return ", ".join([f"goal {self.goal.value.value:.3f}", *known])


class Evaluator:
    """Holds the metrics of the rows as they are, against which corrections are compared.

    All of them see the same noise and the same resamples of groups. Where the rows as they are get
    ranked by cosine, everything is measured on rows at unit length: their lengths do not matter.

    Parameters
    ----------
    data : Modalities
        The rows to evaluate on.
    metric : {"cosine", "inner_product", "euclidean"}
        The metric that ranks the raw rows.
    goal : {"mixed", "robust", "quantised"}
        Which metrics are the goal.
    queries : sequence of str, optional
        The query modalities; every metric is about their queries. All when left out.
    seed : int
        Seed of the noise and the resamples.
    wanted : names of metrics, optional
        Those to compute, all of them when left out.
    """

    def __init__(
        self,
        data: Modalities,
        *,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        queries: Sequence[str] | None = None,
        seed: int = 0,
        wanted: Collection[str] | None = None,
    ) -> None:
        self._goal, self._wanted = goal, wanted
        data.check(nonzero=metric == "cosine")
        self._data = data.at_unit_length() if metric == "cosine" else data
        self.queries = tuple(queries or data.names)
        every = np.concatenate([*data.groups, *data.asking_codes.values()])
        self._bootstrap = GroupBootstrap(every, seed=seed)
        self._as_they_are = AsTheyAre(self._data, seed)
        identity = Correction.identity(data.dim, data.names, metric=metric)
        self._before: Resampled = {}
        before = self.resampled(identity)
        self.raw = self.scores(before)  # with nothing to compare it with
        self._before = before

    def evaluate(self, correction: Correction) -> Scores:
        """The metrics of a correction, and their changes."""
        return self.scores(self.resampled(correction))

    def resampled(self, correction: Correction) -> Resampled:
        """The metrics of a correction over all groups and over each resample; "goal" among them."""
        samples = correction_metrics(self._as_they_are, correction, self.queries, self._wanted)
        found = {name: resample(self._bootstrap, sample) for name, sample in samples.items()}
        parts = [found[name] for name in GOAL_METRICS[self._goal] if name in found]
        found["goal"] = (float("nan"), np.full(1, np.nan))
        if parts:
            values, draws = zip(*parts, strict=True)
            found["goal"] = (float(np.mean(values)), np.mean(draws, axis=0))
        return found

    def scores(self, after: Resampled, level: float | None = None) -> Scores:
        """What was resampled, with its changes; intervals are of 95 % unless told otherwise."""
        metrics = {}
        for name, (value, draws) in after.items():
            change = None
            if self._before:
                was, was_draws = self._before[name]
                change = self._bootstrap.interval(value - was, draws - was_draws, level)
            metrics[name] = Score(self._bootstrap.interval(value, draws, level), change)
        goal = metrics.pop("goal")
        return Scores(metrics, goal)

    def bias_growth(self, after: Resampled, level: float | None = None) -> Interval:
        """How much further from balanced the index is, towards either modality, than as it is."""
        (value, draws), (was, was_draws) = after[OWN_EXCESS], self._before[OWN_EXCESS]
        growth = np.abs(draws) - np.abs(was_draws)
        return self._bootstrap.interval(abs(value) - abs(was), growth, level)
