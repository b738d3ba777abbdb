"""The workbench: fit a correction on one split of the data and evaluate it on another.

The splits, the noise and the resamples are those of ``diagnose`` with the same seed, so the
metrics are the ones its trial of the same correction has.
"""

from __future__ import annotations

import threading

from modgap._results import Progress
from modgap._validate import InputValueError
from modgap.corrections import Corrector, Metric, row_length
from modgap.diagnosis.splits import Splits, split
from modgap.evaluation import Evaluator, Goal
from modgap.io import Modalities
from modgap.moments import PairMoments
from modgap.serve.fitted import Fitted

# Reading, evaluating as it is, fitting, evaluating; and placing the rows in the index.
STEPS = 5


class Bench:
    """Fits and evaluates corrections on splits of the data, which are read when first needed.

    The options are those of ``diagnose``.
    """

    def __init__(
        self,
        data: Modalities,
        *,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        model: str | None = None,
        seed: int = 0,
    ) -> None:
        self._data, self._metric, self._goal = data, metric, goal
        self._model, self._seed = model, seed
        self._prepared: tuple[Splits, PairMoments, Evaluator] | None = None
        self._lock = threading.Lock()

    def check(self, corrector: Corrector) -> None:
        """Refuse at once what cannot be fitted on this data."""
        if corrector.needs_pairs and not self._data.paired:
            raise InputValueError(
                f"{type(corrector).__name__} needs pairs, and it is not known which rows of the "
                "data match. Say so with --groups when starting the server."
            )

    def fit(self, corrector: Corrector, progress: Progress) -> Fitted:
        """Fit on the fit split, evaluate on the confirm split."""
        self.check(corrector)
        splits, moments, evaluator = self._ready(progress)
        progress(f"fitting {corrector.label}", 2, STEPS)
        correction, reason = corrector.try_fit(splits.fit, model=self._model, moments=moments)
        if correction is None:
            raise InputValueError(reason)
        progress(f"evaluating {corrector.label}", 3, STEPS)
        corrected = evaluator.evaluate(correction)
        return Fitted(corrector.label, correction, splits.n_confirm, evaluator.raw, corrected)

    def _ready(self, progress: Progress) -> tuple[Splits, PairMoments, Evaluator]:
        """What every fit shares: the splits, and the metrics of the rows as they are."""
        with self._lock:
            if self._prepared is None:
                progress("reading the rows to fit and to evaluate on", 0, STEPS)
                splits = split(self._data, self._seed)
                moments = splits.fit.moments(unit=row_length(self._metric) == "unit")
                progress("evaluating the rows as they are", 1, STEPS)
                evaluator = Evaluator(
                    splits.confirm, metric=self._metric, goal=self._goal, seed=self._seed
                )
                self._prepared = splits, moments, evaluator
            return self._prepared
