"""The workbench: fit corrections on one split of the data, evaluate them on another, keep them.

The splits, the noise and the resamples are those of ``diagnose`` with the same seed, so the
metrics equal those of its trial of the same correction.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modgap.core.checks import InputError, InputValueError
from modgap.core.results import Progress
from modgap.corrections import (
    Correction,
    Corrector,
    Metric,
    make_corrector,
    query_modalities,
    row_length,
)
from modgap.corrections.files import correction_bytes
from modgap.diagnosis import Diagnosis
from modgap.diagnosis.splits import Splits, check_splittable, split
from modgap.evaluation import Evaluator, Goal, Scores
from modgap.io import Modalities
from modgap.moments import PairMoments
from modgap.reports.fix import demanded, not_judged

RECOMMENDED = "recommended"
# Reading, evaluating as it is, fitting, evaluating; and placing the rows in the index.
STEPS = 5


class Unknown(InputError):
    """Something was asked for by a name that nothing has."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A correction and its metrics on held-out rows, beside those of the raw rows.

    ``corrections`` has the one to search with for queries of each modality: the same for all, or,
    where a correction serves one modality, as many as were fitted. The metrics are about the
    modalities ``queries``. ``label`` says where relevance was not tested. The API's
    `modgap.serve.models.FittedCorrection` reads these attributes.
    """

    name: str
    corrections: Mapping[str, Correction]
    queries: tuple[str, ...]
    n_groups: int
    raw: Scores
    corrected: Scores
    label: str | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def correction(self) -> Correction:
        """The one that was evaluated."""
        return self.corrections[self.queries[0]]

    @property
    def metric(self) -> Metric:
        """The metric its rankings are meant for."""
        return self.correction.metric

    @property
    def about(self) -> Mapping[str, Any]:
        """Method, parameters and the data it was fitted on."""
        return self.correction.about

    @property
    def recommended(self) -> bool:
        """Whether the report recommends it."""
        return self.id == RECOMMENDED

    @property
    def demands(self) -> list[dict[str, Any]]:
        """What each of its files demands."""
        return [demanded(one, file) for file, one in self.files().items()]

    def serving(self, modality: str) -> Correction:
        """The correction for queries of a modality; refused in words where there is none."""
        found = self.corrections.get(modality, self.correction)
        found.check_serves(modality)
        return found

    def files(self) -> dict[str, Correction]:
        """Every correction once, by the name of its file; the evaluated one first."""
        different = list(dict.fromkeys([self.correction, *self.corrections.values()]))
        kinds = [[self.name, *(c.queries if len(different) > 1 else ())] for c in different]
        plain = [re.sub(r"[^A-Za-z0-9_.=-]+", "-", "\n".join(kind)).strip("-") for kind in kinds]
        if len(set(plain)) < len(plain):  # the letters that differ cannot be in a file's name
            plain = [f"{word}-{place}" for place, word in enumerate(plain, 1)]
        return {f"correction-{w}.safetensors": c for w, c in zip(plain, different, strict=True)}


class FittedCorrections:
    """Corrections by identifier.

    At most ``kept`` are remembered: the oldest goes first, the recommended one never.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._fitted: dict[str, Fitted] = {}
        self._lock = threading.Lock()

    def add(self, fitted: Fitted) -> None:
        """Remember a correction; an earlier one of the same name goes."""
        with self._lock:
            self._fitted[fitted.id] = fitted
            others = {key: one.name for key, one in self._fitted.items() if key != RECOMMENDED}
            again = [
                key
                for key, name in others.items()
                if name == fitted.name and fitted.id not in (RECOMMENDED, key)
            ]
            for key in [*again, *[key for key in others if key not in again][: -self._kept]]:
                del self._fitted[key]

    def recommend(
        self, diagnosis: Diagnosis, others: Mapping[str, Correction] | None = None
    ) -> None:
        """Add the correction that a diagnosis recommends, with its metrics there.

        ``others`` are the same for queries of the modalities that it does not serve.
        """
        correction = diagnosis.correction
        if correction is None or diagnosis.recommended is None:
            return
        trials = {trial.method: trial.confirm for trial in diagnosis.trials}
        fitted = Fitted(
            name=diagnosis.recommended,
            corrections={**(others or {}), **dict.fromkeys(correction.queries, correction)},
            queries=diagnosis.queries,
            n_groups=diagnosis.n_groups["confirm"],
            raw=diagnosis.raw,
            corrected=trials[diagnosis.recommended],
            label=not_judged(diagnosis),
            id=RECOMMENDED,
        )
        self.add(fitted)

    def listed(self) -> dict[str, Fitted]:
        """All of them: the recommended one first, the others by age."""
        with self._lock:
            return dict(sorted(self._fitted.items(), key=lambda entry: entry[0] != RECOMMENDED))

    def get(self, identifier: str) -> Fitted:
        """A correction by its identifier."""
        found = self.listed().get(identifier)
        if found is None:
            raise Unknown(
                f"There is no correction {identifier!r}. Newer ones may have replaced it; "
                "fit it again."
            )
        return found

    def file(self, identifier: str, queries: str | None = None) -> tuple[str, bytes]:
        """A correction as a file: a plain name for it, and its bytes.

        It is the one for queries of a modality, by default the one that was evaluated.
        """
        fitted = self.get(identifier)
        wanted = fitted.correction if queries is None else fitted.serving(queries)
        [name] = [name for name, one in fitted.files().items() if one is wanted]
        return name, correction_bytes(wanted)


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
            check_splittable(self._data)
        except InputValueError as few:
            return str(few)
        return None

    def check(self, corrector: Corrector) -> None:
        """Refuse at once what cannot be fitted on this data."""
        check_splittable(self._data)
        if corrector.needs_pairs and not self._data.paired:
            raise InputValueError(
                f"{type(corrector).__name__} needs pairs, and it is not known which rows of the "
                "data match. Say so with --groups when starting the server."
            )
        if corrector.serves_one and len(self.queries) > 1:
            raise InputValueError(
                f"{corrector.label} serves the queries of one modality, but "
                f"{' and '.join(self.queries)} both query here. Choose another form of it."
            )

    def fit(self, corrector: Corrector, progress: Progress) -> Fitted:
        """Fit on the fit split, evaluate on the confirm split.

        A correction that serves one modality is evaluated with queries of the asking one, and
        fitted for the others too, so that they can be searched with.
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
