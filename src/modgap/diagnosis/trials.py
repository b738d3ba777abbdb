"""The corrections of one diagnosis: each fitted on one split, and looked at on the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from modgap.arrays import is_torch
from modgap.core.checks import Array, InputError
from modgap.core.memory import give_back
from modgap.core.results import Progress
from modgap.core.threads import in_threads, workers_for
from modgap.corrections import Correction, Corrector, ExpectedWrong, Metric, row_length
from modgap.diagnosis.splits import MAX_EVALUATE, Splits
from modgap.diagnosis.verdict import Trial, eligibility, lower_bound
from modgap.evaluation import Evaluator, Goal
from modgap.evaluation.evaluator import Resampled
from modgap.evaluation.metric_names import directions, metric_name
from modgap.evaluation.metrics import AsTheyAre, neighbours_kept
from modgap.evaluation.retrieval import Corrected
from modgap.io import Embeddings, Modalities
from modgap.moments import PairMoments

# Besides one for each correction: measuring, hubs, deciding, the whole index.
_OTHER_STEPS = 4
# What looking at a correction takes, in float64 copies of the rows of one side.
_COPIES = 12


@dataclass(frozen=True, eq=False)
class Tried:
    """A trial, its correction, and its metrics over each resample of both held-out splits."""

    trial: Trial
    correction: Correction
    on_choose: Resampled
    on_confirm: Resampled


@dataclass(eq=False)
class Trials:
    """What one diagnosis tries, and on which rows; ``failures`` says why some are not tried."""

    data: Modalities
    splits: Splits
    asking: tuple[str, ...]
    correctors: tuple[Corrector, ...]
    own_correctors: bool
    tries_merging: bool
    bank: Array | Embeddings | None
    goal: Goal
    metric: Metric
    model: str | None
    seed: int
    progress: Progress
    n_done: int = 0
    merging: ExpectedWrong | None = None
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The modalities."""
        return self.splits.fit.names

    @property
    def recalls(self) -> dict[str, str]:
        """The recall metrics, each with its name for people."""
        keys = directions(self.names, self.asking, self.data.asking)
        return {key: metric_name(key, self.names) for key in keys}

    def say(self, step: str) -> None:
        """Report the next step."""
        if not all(side.in_memory for side in self.data.sides.values()):
            give_back()  # what the last step has left
        self.progress(step, self.n_done, _OTHER_STEPS + len(self.correctors))
        self.n_done += 1

    def _try_all(self, choosing: Evaluator | None, confirming: Evaluator) -> list[Tried]:
        """The corrections that can be fitted and used, in the order of the correctors."""
        look = partial(self._try, choosing, confirming)
        found = []
        for method, tried in in_threads(look, self._fit_all(), self._workers(), whole_jobs=True):
            if isinstance(tried, str):
                self.failures[method] = tried
            else:
                found.append(tried)
        labels = [one.label for one in self.correctors]
        return sorted(found, key=lambda one: labels.index(one.trial.method))

    def _try(
        self, choosing: Evaluator | None, confirming: Evaluator, fitted: tuple[str, Correction]
    ) -> tuple[str, Tried | str]:
        """A fitted correction on rows that it was not fitted on, or why it is not usable there."""
        method, correction = fitted
        try:
            on_choose = choosing.resampled(correction) if choosing else {}
            on_confirm = confirming.resampled(correction)
            fitted_rows = Corrected(self._few_fitted.data, correction)
            kept = neighbours_kept(fitted_rows, self._few_fitted, self.asking).values
        except InputError as error:  # a row on the origin, for instance
            return method, str(error)
        eligible, reason, bound = False, "cannot be judged without pairs", float("nan")
        if choosing is not None:
            eligible, reason, bound = self._judged(choosing, on_choose, correction)
        trial = Trial(
            method=method,
            metric=correction.metric,
            eligible=eligible,
            reason=reason,
            lower_bound=bound,
            neighbours_kept_fitted=float(np.mean(kept)),
            confirm=confirming.scores(on_confirm),
            keeps_rankings=self._keeps_rankings(correction),
        )
        return method, Tried(trial, correction, on_choose, on_confirm)

    def _workers(self) -> int:
        """How many corrections are looked at in one go."""
        if self._on_torch:
            return 1
        n_rows = max(side.n_rows for side in self.splits.confirm.sides.values())
        return workers_for(_COPIES * 8 * self.data.dim * n_rows)

    @property
    def _on_torch(self) -> bool:
        """Whether rows are tensors, whose library has threads of its own."""
        return any(is_torch(side.rows()) for side in self.splits.confirm.sides.values())

    def _judged(
        self,
        evaluator: Evaluator,
        resampled: Resampled,
        correction: Correction,
        level: float | None = None,
    ) -> tuple[bool, str, float]:
        """Whether a correction is eligible on a split, why, and the lower bound of its gain."""
        scores = evaluator.scores(resampled, level)
        # Lists merged by expected wrong results bring about as many wrong results each, whatever
        # their length (fewer after a sure hit): that is their balance, and no bias.
        merged = correction.background is not None
        eligible, reason = eligibility(
            scores,
            self.recalls,
            keeps_rankings=self._keeps_rankings(correction),
            bias_growth=None if merged else evaluator.bias_growth(resampled, level),
        )
        return eligible, reason, lower_bound(scores)

    def _keeps_rankings(self, correction: Correction) -> bool:
        """Whether rankings within a modality stay as the index has them now.

        Those that a correction is known to keep are by cosine or inner product.
        """
        return correction.keeps_rankings and self.metric != "euclidean"

    def _evaluator(self, data: Modalities, wanted: Sequence[str] | None = None) -> Evaluator:
        return Evaluator(
            data, metric=self.metric, goal=self.goal, queries=self.asking, seed=self.seed,
            wanted=wanted,
        )  # fmt: skip

    def _fit_all(self) -> Iterator[tuple[str, Correction]]:
        """Each method with its correction; why one could not be fitted goes to ``failures``.

        Merging by expected wrong results comes first: it takes longest, and nothing is left to do
        beside it at the end.
        """
        moments = None
        if len(self.names) == 2:
            moments = self.splits.fit.moments(unit=row_length(self.metric) == "unit")
        last = len(self.correctors) - (self.merging is not None)
        for corrector in (*self.correctors[last:], *self.correctors[:last]):
            self.say(corrector.label)
            found, reason = self._fit(corrector, self.splits.fit, moments)
            if found is None:
                self.failures[corrector.label] = reason
            else:
                yield corrector.label, found

    def _fit(
        self, corrector: Corrector, data: Modalities, moments: PairMoments | None = None
    ) -> tuple[Correction | None, str]:
        if corrector.serves_one and len(self.asking) > 1:
            return None, "it serves the queries of one modality, and several ask"
        asking = self.asking[0] if corrector.serves_one else None
        bank = self.bank if corrector.needs_bank else None
        return corrector.try_fit(
            data, queries=asking, bank=bank,
            rows=row_length(self.metric), model=self.model, moments=moments,
            check=not self.own_correctors,
        )  # fmt: skip

    @cached_property
    def _few_fitted(self) -> AsTheyAre:
        """Some of the rows that corrections are fitted on."""
        sides = self.splits.fit.sides.values()
        few = [np.arange(min(side.n_rows, MAX_EVALUATE)) for side in sides]
        return AsTheyAre(self.splits.fit.take(few))
