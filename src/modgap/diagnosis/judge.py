"""Judge corrections on one part of the data: every figure and its change, with intervals."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from modgap.corrections import Correction, Metric
from modgap.diagnosis.figures import noise_for, paired_figures, resample, unpaired_figures
from modgap.diagnosis.parts import Part
from modgap.diagnosis.verdict import GOAL_FIGURES, Figure, Goal, Judgement
from modgap.evaluation import GroupBootstrap

# A figure over all groups, and over each resample of them.
_Resampled = dict[str, tuple[float, np.ndarray]]


class Judge:
    """Holds the figures of the rows as they are, against which corrections are compared.

    All of them see the same noise and the same resamples of groups. ``wanted`` names the figures
    to compute, all of them when left out.
    """

    def __init__(
        self,
        part: Part,
        names: tuple[str, str],
        *,
        paired: bool = True,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        seed: int = 0,
        wanted: Collection[str] | None = None,
    ) -> None:
        self._wanted = wanted
        self._part, self._goal, self._seed = part, goal, seed
        self._figures = paired_figures if paired else unpaired_figures
        self._noise = noise_for(part)
        self._bootstrap = GroupBootstrap(np.concatenate([part.gx, part.gy]), seed=seed)
        identity = Correction.identity(part.X.shape[1], names, metric=metric)
        self._before = self._resampled(identity)
        self.raw = self._judgement(self._before, None)

    def judge(self, correction: Correction) -> Judgement:
        """The figures of a correction, and their changes."""
        return self._judgement(self._resampled(correction), self._before)

    def _resampled(self, correction: Correction) -> _Resampled:
        samples = self._figures(self._part, correction, self._noise, self._seed, self._wanted)
        found = {name: resample(self._bootstrap, sample) for name, sample in samples.items()}
        parts = [found[name] for name in GOAL_FIGURES[self._goal] if name in found]
        found["goal"] = (float("nan"), np.full(1, np.nan))
        if parts:
            values, draws = zip(*parts, strict=True)
            found["goal"] = (float(np.mean(values)), np.mean(draws, axis=0))
        return found

    def _judgement(self, after: _Resampled, before: _Resampled | None) -> Judgement:
        figures = {}
        for name, (value, draws) in after.items():
            change = None
            if before is not None:
                was, was_draws = before[name]
                change = self._bootstrap.interval(value - was, draws - was_draws)
            figures[name] = Figure(self._bootstrap.interval(value, draws), change)
        goal = figures.pop("goal")
        return Judgement(figures, goal)
