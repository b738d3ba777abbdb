"""The workbench: fit a correction on one part of the data and judge it on another.

The parts, the noise and the resamples are those of ``diagnose`` with the same seed, so the figures
are the ones its trial of the same correction has.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from modgap._validate import InputValueError, check_groups
from modgap.corrections import Correction, Corrector, Metric, NothingMovesWarning, OrthogonalShift
from modgap.diagnosis.judge import Judge
from modgap.diagnosis.parts import Part, split, split_unpaired
from modgap.diagnosis.run import MIN_PAIRS, corrector_name
from modgap.diagnosis.verdict import Goal, Judgement
from modgap.io import EmbeddingPair
from modgap.moments import PairMoments
from modgap.serve.jobs import Progress

# Reading, judging as it is, fitting, judging; and placing the rows in the index, by the explorer.
STEPS = 5


@dataclass(frozen=True, eq=False)
class Fitted:
    """A correction and its figures on rows it has not seen, beside those of the raw rows."""

    name: str
    correction: Correction
    n_groups: int
    raw: Judgement
    corrected: Judgement


@dataclass(frozen=True, eq=False)
class _Ready:
    """What every fit shares: the part to fit on, and the judge who has seen the other as it is."""

    fit: Part
    moments: PairMoments
    judge: Judge
    n_groups: int


class Bench:
    """Fits and judges corrections on one split of the data, which is read when first needed."""

    def __init__(
        self,
        pair: EmbeddingPair,
        *,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        model: str | None = None,
        seed: int = 0,
    ) -> None:
        self._pair, self._metric, self._goal = pair, metric, goal
        self._model, self._seed = model, seed
        self._prepared: _Ready | None = None
        self._lock = threading.Lock()

    def check(self, corrector: Corrector) -> None:
        """Refuse at once what cannot be fitted on this data."""
        if corrector.needs_pairs and not self._pair.paired:
            raise InputValueError(
                f"{type(corrector).__name__} needs pairs, and it is not known which rows of the "
                "data match. Say so with --groups when starting the server."
            )

    def fit(self, corrector: Corrector, progress: Progress) -> Fitted:
        """Fit on the fit part, judge on the confirm part."""
        self.check(corrector)
        name = corrector_name(corrector)
        ready = self._ready(progress)
        fit, judge = ready.fit, ready.judge
        progress(f"fitting {name}", 2, STEPS)
        rows = fit.pairs()[:2] if corrector.needs_pairs else (fit.X, fit.Y)
        moments = None if corrector.needs_pairs else ready.moments
        try:
            corrector.fit(*rows, names=self._pair.names, model=self._model, moments=moments)
        except NothingMovesWarning as nothing:  # where warnings are made errors
            raise InputValueError(str(nothing)) from nothing
        if isinstance(corrector, OrthogonalShift) and corrector.closed_ == 0:
            raise InputValueError(
                f"{name} moves nothing: the candidates vary in every direction of the gap. "
                "Use a smaller explained_variance, 0.95 for instance."
            )
        progress(f"judging {name}", 3, STEPS)
        corrected = judge.judge(corrector.correction_)
        return Fitted(name, corrector.correction_, ready.n_groups, judge.raw, corrected)

    def _ready(self, progress: Progress) -> _Ready:
        with self._lock:
            if self._prepared is None:
                progress("reading the rows to fit and to judge on", 0, STEPS)
                fit, confirm = self._split()
                moments = PairMoments.from_batch(fit.X, fit.Y, unit=False)
                progress("judging the rows as they are", 1, STEPS)
                judge = Judge(
                    confirm, self._pair.names, paired=self._pair.paired, metric=self._metric,
                    goal=self._goal, seed=self._seed,
                )  # fmt: skip
                n_groups = confirm.n_groups if self._pair.paired else len(confirm.gx)
                self._prepared = _Ready(fit, moments, judge, n_groups)
            return self._prepared

    def _split(self) -> tuple[Part, Part]:
        x, y = self._pair.x, self._pair.y
        if not self._pair.paired:
            self._check_enough(min(x.n_rows, y.n_rows), "rows of each modality")
            return split_unpaired(x, y, self._seed)
        groups = check_groups(self._pair.groups, x.n_rows, y.n_rows)
        self._check_enough(len(np.intersect1d(*groups)), "groups with rows on both sides")
        fit, _, confirm = split(x, y, groups, self._seed)
        return fit, confirm

    @staticmethod
    def _check_enough(count: int, of_what: str) -> None:
        if count < MIN_PAIRS:
            raise InputValueError(
                f"Fitting and judging needs at least {MIN_PAIRS} {of_what}, got {count}."
            )
