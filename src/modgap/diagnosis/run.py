"""``diagnose``: fit on one split, choose on the second, confirm on the third."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modgap._drawing import Range, draw_ranges
from modgap._results import Progress, Result, html_table, silent, text_table
from modgap._validate import Array, InputError, check_choice
from modgap.corrections import (
    METRICS,
    Calibrate,
    Center,
    Correction,
    Corrector,
    Metric,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.diagnosis.splits import MAX_EVALUATE, Splits, split
from modgap.diagnosis.verdict import (
    MIN_CONFIRM_GROUPS,
    Trial,
    Verdict,
    choose,
    eligibility,
    lower_bound,
    sentence,
    unpaired_sentence,
)
from modgap.evaluation import GOAL_METRICS, Evaluator, Goal, Scores
from modgap.evaluation.metrics import (
    OWN_EXCESS,
    metric_descriptions,
    neighbours_kept,
    recall_names,
)
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import Measurement, measure

DEFAULT_CORRECTORS: tuple[Corrector, ...] = (
    Shift(0.25),
    Shift(0.5),
    OriginShift(0.5),
    OriginShift(0.75),
    Center(),
    Whiten(0.1),
    Whiten(0.5),
    Procrustes(),
    OrthogonalShift("y", 1.0),
    OrthogonalShift("y", 0.95),
    OrthogonalShift("x", 0.95),
    Calibrate("keep"),
    Calibrate("mixed"),
)
# Measuring is not the point here: a sample keeps it to seconds.
_MEASURE_SAMPLE = 5_000


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """The verdict, what it rests on, and the recommended correction where there is one.

    ``raw`` holds the metrics of the rows as they are, ``trials`` those of every correction, all
    from the confirm split. ``n_groups`` says how many groups each split has; without pairs, how
    many rows of both modalities were fitted on and how many of each confirm.
    """

    verdict: Verdict
    sentence: str
    recommended: str | None
    goal: Goal
    names: tuple[str, ...]
    n_groups: Mapping[str, int]
    seed: int
    raw: Scores
    trials: tuple[Trial, ...]
    not_tried: Mapping[str, str]
    measurement: Measurement
    explanations: Mapping[str, str]
    correction: Correction | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the correction, which has a file of its own."""
        found = super().to_dict()
        del found["correction"]
        return found

    def table(self, without: Sequence[str] = ()) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: one line per correction, the rows as they are first.

        ``without`` names metrics to leave out where there is little room.
        """
        known = [name for name in self.explanations if name in self.raw.metrics]
        shown = [name for name in known if name not in without]
        header = ("", *(_short(name, self.names) for name in shown), "kept, fitted rows")
        lines = [self._line("as it is", self.raw, shown, 1.0)]
        for trial in self.trials:
            mark = "→ " if trial.method == self.recommended else ""
            lines.append(
                self._line(mark + trial.method, trial.confirm, shown, trial.neighbours_kept_fitted)
            )
        return header, lines

    def before_and_after(
        self, *, brief: bool = False
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows of the recommended correction's metrics against the rows as they are."""
        trial = next(t for t in self.trials if t.method == self.recommended)
        rows: list[tuple[str, ...]] = []
        for name in self.explanations:
            before, after = self.raw.metrics[name], trial.confirm.metrics[name]
            was = f"{before.value.value:.3f}" if brief else before.value_cell()
            rows.append((name, was, after.value_cell(), after.change_cell()))
        return ("", "before", "after", "change"), rows

    @staticmethod
    def _line(
        label: str, scores: Scores, shown: Sequence[str], kept_fitted: float
    ) -> tuple[str, ...]:
        cells = (f"{scores.metrics[name].value.value:.3f}" for name in shown)
        return (label, *cells, f"{kept_fitted:.3f}")

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{text_table(*self.table())}"

    def _repr_html_(self) -> str:
        return self._drawing() + html_table(*self.table(), caption=self.sentence)

    def _drawing(self) -> str:
        """The goal after each correction, with its interval, against the rows as they are."""
        shown = GOAL_METRICS[self.goal][0] if len(GOAL_METRICS[self.goal]) == 1 else self.goal
        goals = [(trial.method, trial.confirm.goal.value) for trial in self.trials]
        lines = [
            Range(method, value.value, value.low, value.high, marked=method == self.recommended)
            for method, value in goals
        ]
        return draw_ranges(
            f"{shown} after each correction, 95 % intervals; dashed: as it is",
            lines,
            self.raw.goal.value.value,
        )


def diagnose(
    X: Array | Embeddings | Modalities,
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    correctors: Sequence[Corrector] = DEFAULT_CORRECTORS,
    model: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say whether there is a gap that hurts, and which correction fixes it.

    Groups are split 50/25/25: each correction is fitted on the first split, chosen on the second
    and confirmed on the third. Every metric is from the third, with a 95 % interval from 1,000
    paired resamples of groups. A correction is eligible if recall@1 falls by at most 0.02 each way
    and not beyond chance; of those, the one with the largest lower bound on the goal is
    recommended. "Leave it alone" is a possible verdict. Without pairs it reports what needs none.
    The same seed gives the same answer.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    goal : {"mixed", "robust", "quantised"}
        What to improve: one index for both modalities, robustness to noise, or quantised indexes.
    metric : {"cosine", "inner_product", "euclidean"}
        How the index ranks the rows as they are.
    correctors : sequence of Corrector
        What to try.
    model : str, optional
        The name of the model, noted in the correction.
    seed : int
        Seed of the splits, the samples, the noise and the resamples.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    check_choice(goal, "goal", tuple(GOAL_METRICS))
    check_choice(metric, "metric", METRICS)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    splits = split(data, seed)
    run = _Run(splits, goal, metric, model, seed, len(correctors), progress or silent)
    run.say("measuring")
    measurement = measure(data, sample=_MEASURE_SAMPLE, seed=seed)
    with splits.trusted():  # measuring looked at every row
        if data.paired:
            return run.with_pairs(correctors, measurement)
        return run.without_pairs(correctors, measurement)


class _Run:
    """What the steps of one diagnosis share."""

    def __init__(
        self,
        splits: Splits,
        goal: Goal,
        metric: Metric,
        model: str | None,
        seed: int,
        n_correctors: int,
        progress: Progress,
    ) -> None:
        self.splits, self.names = splits, splits.fit.names
        self.goal, self.metric, self.model, self.seed = goal, metric, model, seed
        self.recalls = recall_names(self.names)
        self.failures: dict[str, str] = {}
        self._progress = progress
        self._done, self._total = 0, 2 + n_correctors

    def say(self, step: str) -> None:
        self._progress(step, self._done, self._total)
        self._done += 1

    def with_pairs(self, correctors: Sequence[Corrector], measurement: Measurement) -> Diagnosis:
        assert self.splits.choose is not None
        # Choosing looks at recall and at the goal alone.
        rule = (*self.recalls, *GOAL_METRICS[self.goal])
        choosing = self._evaluator(self.splits.choose, wanted=rule)
        confirming = self._evaluator(self.splits.confirm)
        trials: list[Trial] = []
        corrections: dict[str, Correction] = {}
        for method, correction in self._fit_all(correctors):
            try:
                on_choose = choosing.evaluate(correction)
                on_confirm = confirming.evaluate(correction)
                kept = self._kept_fitted(correction)
            except InputError as unusable:  # a row on the origin, for instance
                self.failures[method] = str(unusable)
                continue
            eligible, reason = eligibility(on_choose, self.recalls)
            corrections[method] = correction
            bound = lower_bound(on_choose)
            trials.append(
                Trial(method, correction.metric, eligible, reason, bound, kept, on_confirm)
            )
        n_confirm = self.splits.n_confirm
        verdict, trial, doubt = self._decide(trials, n_confirm)
        raw = confirming.raw
        words = sentence(verdict, trial, raw, self.goal, self.recalls, n_confirm, doubt)
        fix = corrections[trial.method] if trial else None
        return self._diagnosis(verdict, words, raw, trials, measurement, trial, fix)

    def without_pairs(self, correctors: Sequence[Corrector], measurement: Measurement) -> Diagnosis:
        evaluator = self._evaluator(self.splits.confirm)
        trials: list[Trial] = []
        for method, correction in self._fit_all(correctors):
            try:
                scores = evaluator.evaluate(correction)
                kept = self._kept_fitted(correction)
            except InputError as unusable:
                self.failures[method] = str(unusable)
                continue
            reason = "cannot be judged without pairs"
            trials.append(
                Trial(method, correction.metric, False, reason, float("nan"), kept, scores)
            )
        own = evaluator.raw.metrics[OWN_EXCESS].value
        words = unpaired_sentence(own, self.splits.n_confirm)
        return self._diagnosis("no pairs", words, evaluator.raw, trials, measurement)

    def _diagnosis(
        self,
        verdict: Verdict,
        words: str,
        raw: Scores,
        trials: Sequence[Trial],
        measurement: Measurement,
        trial: Trial | None = None,
        correction: Correction | None = None,
    ) -> Diagnosis:
        return Diagnosis(
            verdict=verdict,
            sentence=words,
            recommended=trial.method if trial else None,
            goal=self.goal,
            names=self.names,
            n_groups=self.splits.sizes(),
            seed=self.seed,
            raw=raw,
            trials=tuple(trials),
            not_tried=self.failures,
            measurement=measurement,
            explanations=metric_descriptions(self.names),
            correction=correction,
        )

    def _evaluator(self, data: Modalities, wanted: Sequence[str] | None = None) -> Evaluator:
        return Evaluator(data, metric=self.metric, goal=self.goal, seed=self.seed, wanted=wanted)

    def _decide(self, trials: Sequence[Trial], n_confirm: int) -> tuple[Verdict, Trial | None, str]:
        """The rule on the choose split, then the same rule on the confirm split."""
        if n_confirm < MIN_CONFIRM_GROUPS:
            return "not enough pairs", None, ""
        chosen = choose(trials)
        if chosen is None:
            return "leave it alone", None, ""
        holds, reason = eligibility(chosen.confirm, self.recalls)
        if not holds:
            doubt = f"{chosen.method} looked best, but on the confirm split {reason}"
            return "leave it alone", None, doubt
        if lower_bound(chosen.confirm) <= 0:
            doubt = f"{chosen.method} looked best, but its gain did not hold on the confirm split"
            return "leave it alone", None, doubt
        return "use", chosen, ""

    def _fit_all(self, correctors: Sequence[Corrector]) -> Iterator[tuple[str, Correction]]:
        """Each method with its correction; why one could not be fitted goes to ``failures``."""
        moments = self.splits.fit.moments(unit=False)
        for corrector in correctors:
            self.say(corrector.label)
            found, reason = corrector.try_fit(self.splits.fit, model=self.model, moments=moments)
            if found is None:
                self.failures[corrector.label] = reason
            else:
                yield corrector.label, found

    def _kept_fitted(self, correction: Correction) -> float:
        fit = self.splits.fit
        few = fit.take([np.arange(min(side.n_rows, MAX_EVALUATE)) for side in fit.two()])
        return float(np.mean(neighbours_kept(few, correction).values))


def _short(metric: str, names: Sequence[str]) -> str:
    """A metric's name as a column head."""
    short = {
        "mixed_ndcg@10": "mixed NDCG@10",
        "own_modality_excess@10": "own excess@10",
        "robust_to_noise": "noise",
        "robust_to_int8": "int8",
        "robust_to_1bit": "1-bit",
        "neighbours_kept": "kept, new rows",
        **{f"{name}_retrieval_recall@1": f"{name} R@1" for name in names},
    }
    return short.get(metric, metric)
