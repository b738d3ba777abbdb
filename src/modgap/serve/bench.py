"""The workbench: fit a correction on one split of the data and evaluate it on another.

The splits, the noise and the resamples are those of ``diagnose`` with the same seed, so the
metrics are the ones its trial of the same correction has.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from modgap._results import Progress
from modgap._validate import InputValueError
from modgap.corrections import (
    Correction,
    Corrector,
    Metric,
    make_corrector,
    query_modalities,
    row_length,
)
from modgap.diagnosis.splits import Splits, check_enough, split
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
        queries: str | Sequence[str] | None = None,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        model: str | None = None,
        seed: int = 0,
    ) -> None:
        self.queries = query_modalities(queries, data.names)
        self._data, self._metric, self._goal = data, metric, goal
        self._model, self._seed = model, seed
        self._prepared: tuple[Splits, PairMoments, Evaluator] | None = None
        self._lock = threading.Lock()

    def why_not(self) -> str | None:
        """Why nothing can be fitted on this data; None where something can."""
        try:
            check_enough(self._data)
        except InputValueError as few:
            return str(few)
        return None

    def check(self, corrector: Corrector) -> None:
        """Refuse at once what cannot be fitted on this data."""
        check_enough(self._data)
        if corrector.needs_pairs and not self._data.paired:
            raise InputValueError(
                f"{type(corrector).__name__} needs pairs, and it is not known which rows of the "
                "data match. Say so with --groups when starting the server."
            )
        if corrector.serves_one and len(self.queries) > 1:
            raise InputValueError(
                f"{corrector.label} serves the queries of one modality, and here "
                f"{' and '.join(self.queries)} ask. Choose another form of it."
            )

    def fit(self, corrector: Corrector, progress: Progress) -> Fitted:
        """Fit on the fit split, evaluate on the confirm split.

        What serves the queries of one modality is evaluated on those that ask, and fitted for the
        others too, so that they can be searched with.
        """
        self.check(corrector)
        splits, moments, evaluator = self._ready(progress)
        progress(f"fitting {corrector.label}", 2, STEPS)
        correction, reason = self._fit(corrector, splits.fit, self.queries[0], moments)
        if correction is None:
            raise InputValueError(reason)
        others = self._for_others(corrector, correction, splits.fit, moments)
        progress(f"evaluating {corrector.label}", 3, STEPS)
        return Fitted(
            name=corrector.label,
            corrections={**others, **dict.fromkeys(correction.queries, correction)},
            queries=self.queries,
            n_groups=splits.n_confirm,
            raw=evaluator.raw,
            corrected=evaluator.evaluate(correction),
        )

    def for_other_queries(self, correction: Correction) -> dict[str, Correction]:
        """A correction of all rows, fitted anew for modalities whose queries it does not serve."""
        if correction.queries == correction.names:
            return {}
        about = correction.about
        corrector = make_corrector(about["method"], about["parameters"])
        return self._for_others(corrector, correction, self._data)

    def _for_others(
        self,
        corrector: Corrector,
        correction: Correction,
        data: Modalities,
        moments: PairMoments | None = None,
    ) -> dict[str, Correction]:
        asked = [name for name in correction.names if name not in correction.queries]
        found = {name: self._fit(corrector, data, name, moments)[0] for name in asked}
        return {name: one for name, one in found.items() if one is not None}

    def _fit(
        self, corrector: Corrector, data: Modalities, asking: str, moments: PairMoments | None
    ) -> tuple[Correction | None, str]:
        return corrector.try_fit(
            data,
            queries=asking if corrector.serves_one else None,
            rows=row_length(self._metric),
            model=self._model,
            moments=moments,
        )

    def _ready(self, progress: Progress) -> tuple[Splits, PairMoments, Evaluator]:
        """What every fit shares: the splits, and the metrics of the rows as they are."""
        with self._lock:
            if self._prepared is None:
                progress("reading the rows to fit and to evaluate on", 0, STEPS)
                splits = split(self._data, self._seed)
                moments = splits.fit.moments(unit=row_length(self._metric) == "unit")
                progress("evaluating the rows as they are", 1, STEPS)
                evaluator = Evaluator(
                    splits.confirm, metric=self._metric, goal=self._goal, queries=self.queries,
                    seed=self._seed,
                )  # fmt: skip
                self._prepared = splits, moments, evaluator
            return self._prepared
