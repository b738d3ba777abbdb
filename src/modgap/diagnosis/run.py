"""``diagnose``: fit on one part, choose on the second, confirm on the third."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from modgap._drawing import Range, draw_ranges
from modgap._results import Result, html_table, text_table
from modgap._validate import (
    Array,
    InputError,
    InputValueError,
    check_choice,
    check_groups,
    check_matrix,
    check_names,
)
from modgap.corrections import (
    METRICS,
    Calibrate,
    Center,
    Correction,
    Corrector,
    Metric,
    NothingMovesWarning,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.diagnosis.figures import figure_names, neighbours_kept
from modgap.diagnosis.judge import Judge
from modgap.diagnosis.parts import MAX_JUDGE, Part, split, split_unpaired
from modgap.diagnosis.verdict import (
    GOAL_FIGURES,
    MIN_CONFIRM_GROUPS,
    Goal,
    Judgement,
    Trial,
    Verdict,
    choose,
    eligibility,
    lower_bound,
    sentence,
    unpaired_sentence,
)
from modgap.io import Embeddings
from modgap.measures import Measurement, measure
from modgap.moments import PairMoments

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
MIN_PAIRS = 8
# Measuring is not the point here: a sample keeps it to seconds.
_MEASURE_SAMPLE = 5_000

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """The verdict, what it rests on, and the recommended correction where there is one.

    ``raw`` holds the figures of the rows as they are, ``trials`` those of every correction, all
    from the confirm part (the judged half where there are no pairs).
    """

    verdict: Verdict
    sentence: str
    recommended: str | None
    goal: Goal
    names: tuple[str, str]
    n_groups: Mapping[str, int]
    seed: int
    raw: Judgement
    trials: tuple[Trial, ...]
    not_tried: Mapping[str, str]
    measurement: Measurement
    explanations: Mapping[str, str]
    correction: Correction | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the correction, which has a file of its own."""
        figures = super().to_dict()
        del figures["correction"]
        return figures

    def table(self, without: Sequence[str] = ()) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: one line per correction, the rows as they are first.

        ``without`` names figures to leave out where there is little room.
        """
        known = [name for name in self.explanations if name in self.raw.figures]
        shown = [name for name in known if name not in without]
        header = ("", *(_short(name, self.names) for name in shown), "kept, fitted rows")
        lines = [self._line("as it is", self.raw, shown, 1.0)]
        for trial in self.trials:
            mark = "→ " if trial.method == self.recommended else ""
            lines.append(
                self._line(mark + trial.method, trial.confirm, shown, trial.neighbours_kept_fitted)
            )
        return header, lines

    @staticmethod
    def _line(
        label: str, judgement: Judgement, shown: Sequence[str], kept_fitted: float
    ) -> tuple[str, ...]:
        cells = (f"{judgement.figures[name].value.value:.3f}" for name in shown)
        return (label, *cells, f"{kept_fitted:.3f}")

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{text_table(*self.table())}"

    def _repr_html_(self) -> str:
        return self._drawing() + html_table(*self.table(), caption=self.sentence)

    def _drawing(self) -> str:
        """The goal after each correction, with its interval, against the rows as they are."""
        shown = GOAL_FIGURES[self.goal][0] if len(GOAL_FIGURES[self.goal]) == 1 else self.goal
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
    X: Array | Embeddings,
    Y: Array | Embeddings,
    names: Sequence[str] = ("image", "text"),
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
    """Say whether there is a gap that hurts, and which correction mends it.

    Groups are split 50/25/25: each correction is fitted on the first part, chosen on the second
    and confirmed on the third; every figure is from the third, with a 95 % interval from 1,000
    paired resamples of groups. A correction is eligible if recall@1 falls by at most 0.02 each way
    and not beyond chance; of those, the one with the largest lower bound on the goal is
    recommended: ``"mixed"`` (one index for both modalities), ``"robust"`` (to noise) or
    ``"quantised"``. "Leave it alone" is a possible verdict. Without pairs it reports what needs
    none. The same seed gives the same answer. ``progress(step, done, total)`` is called as it goes.
    """
    first, second = check_names(names)
    check_choice(goal, "goal", tuple(GOAL_FIGURES))
    check_choice(metric, "metric", METRICS)
    X, Y = (
        rows if isinstance(rows, Embeddings) else check_matrix(rows, name)
        for rows, name in ((X, first), (Y, second))
    )
    if paired is None:
        paired = groups is not None or X.shape[0] == Y.shape[0]
    if paired:
        groups = check_groups(groups, X.shape[0], Y.shape[0])
        n_pairs = len(np.intersect1d(*groups))
        if n_pairs < MIN_PAIRS:
            raise InputValueError(
                f"diagnose needs at least {MIN_PAIRS} groups with rows on both sides, "
                f"got {n_pairs}. measure and evaluate work on fewer."
            )
    elif min(X.shape[0], Y.shape[0]) < MIN_PAIRS:
        raise InputValueError(
            f"diagnose needs at least {MIN_PAIRS} rows of each modality, "
            f"got {X.shape[0]} and {Y.shape[0]}."
        )
    run = _Run((first, second), goal, metric, model, seed, len(correctors), progress)
    run.say("measuring")
    measurement = measure(
        X, Y, (first, second), groups=groups, paired=paired, sample=_MEASURE_SAMPLE, seed=seed
    )
    if paired:
        return run.with_pairs(split(X, Y, groups, seed), correctors, measurement)
    return run.without_pairs(split_unpaired(X, Y, seed), correctors, measurement)


class _Run:
    """What the steps of one diagnosis share."""

    def __init__(
        self,
        names: tuple[str, str],
        goal: Goal,
        metric: Metric,
        model: str | None,
        seed: int,
        n_correctors: int,
        progress: Progress | None,
    ) -> None:
        self.names, self.goal, self.metric = names, goal, metric
        self.model, self.seed = model, seed
        self.recalls = [f"{name}_retrieval_recall@1" for name in names]
        self._progress = progress or (lambda step, done, total: None)
        self._done, self._total = 0, 2 + n_correctors

    def say(self, step: str) -> None:
        self._progress(step, self._done, self._total)
        self._done += 1

    def with_pairs(
        self,
        parts: tuple[Part, Part, Part],
        correctors: Sequence[Corrector],
        measurement: Measurement,
    ) -> Diagnosis:
        fit, choosing, confirming = parts
        # Choosing looks at recall and at the goal alone.
        rule = (*self.recalls, *GOAL_FIGURES[self.goal])
        judges = [self._judge(choosing, wanted=rule), self._judge(confirming)]
        trials: list[Trial] = []
        failures: dict[str, str] = {}
        corrections: dict[str, Correction] = {}
        for corrector, correction in self._fit_all(fit, correctors, failures):
            method = corrector_name(corrector)
            try:
                on_choose, on_confirm = (judge.judge(correction) for judge in judges)
                kept = self._kept_fitted(fit, correction)
            except InputError as unusable:  # a row on the origin, for instance
                failures[method] = str(unusable)
                continue
            eligible, reason = eligibility(on_choose, self.recalls)
            corrections[method] = correction
            trials.append(
                Trial(
                    method, correction.metric, eligible, reason, lower_bound(on_choose), kept,
                    on_confirm,
                )
            )  # fmt: skip
        raw = judges[1].raw
        verdict, trial, doubt = self._decide(trials, confirming.n_groups)
        return Diagnosis(
            verdict=verdict,
            sentence=sentence(
                verdict, trial, raw, self.goal, self.recalls, confirming.n_groups, doubt
            ),
            recommended=trial.method if trial else None,
            goal=self.goal,
            names=self.names,
            n_groups={
                "fit": fit.n_groups, "choose": choosing.n_groups, "confirm": confirming.n_groups
            },
            seed=self.seed,
            raw=raw,
            trials=tuple(trials),
            not_tried=failures,
            measurement=measurement,
            explanations=figure_names(self.names),
            correction=corrections[trial.method] if trial else None,
        )  # fmt: skip

    def _judge(
        self, part: Part, *, paired: bool = True, wanted: Sequence[str] | None = None
    ) -> Judge:
        return Judge(
            part, self.names, paired=paired, metric=self.metric, goal=self.goal, seed=self.seed,
            wanted=wanted,
        )  # fmt: skip

    def _decide(self, trials: Sequence[Trial], n_confirm: int) -> tuple[Verdict, Trial | None, str]:
        """The rule on the choose part, then the same rule on the confirm part."""
        if n_confirm < MIN_CONFIRM_GROUPS:
            return "not enough pairs", None, ""
        chosen = choose(trials)
        if chosen is None:
            return "leave it alone", None, ""
        holds, reason = eligibility(chosen.confirm, self.recalls)
        if not holds:
            doubt = f"{chosen.method} looked best, but on the confirm part {reason}"
            return "leave it alone", None, doubt
        if lower_bound(chosen.confirm) <= 0:
            doubt = f"{chosen.method} looked best, but its gain did not hold on the confirm part"
            return "leave it alone", None, doubt
        return "use", chosen, ""

    def without_pairs(
        self, parts: tuple[Part, Part], correctors: Sequence[Corrector], measurement: Measurement
    ) -> Diagnosis:
        fit, judged = parts
        judge = self._judge(judged, paired=False)
        trials: list[Trial] = []
        failures: dict[str, str] = {}
        for corrector, correction in self._fit_all(fit, correctors, failures, paired=False):
            method, reason = corrector_name(corrector), "cannot be judged without pairs"
            try:
                judgement = judge.judge(correction)
                kept = self._kept_fitted(fit, correction)
            except InputError as unusable:
                failures[method] = str(unusable)
                continue
            trials.append(
                Trial(method, correction.metric, False, reason, float("nan"), kept, judgement)
            )
        own = judge.raw.figures["own_modality_excess@10"].value
        return Diagnosis(
            verdict="no pairs",
            sentence=unpaired_sentence(own, len(judged.gx)),
            recommended=None,
            goal=self.goal,
            names=self.names,
            n_groups={"fit": len(fit.gx) + len(fit.gy), "confirm": len(judged.gx)},
            seed=self.seed,
            raw=judge.raw,
            trials=tuple(trials),
            not_tried=failures,
            measurement=measurement,
            explanations=figure_names(self.names),
        )

    def _fit_all(
        self,
        fit: Part,
        correctors: Sequence[Corrector],
        failures: dict[str, str],
        *,
        paired: bool = True,
    ) -> Any:
        """Each corrector with its correction; why one could not be fitted goes to ``failures``."""
        moments = PairMoments.from_batch(fit.X, fit.Y, unit=False)
        for corrector in correctors:
            name = corrector_name(corrector)
            self.say(name)
            if corrector.needs_pairs and not paired:
                failures[name] = "it needs pairs"
                continue
            rows = fit.pairs()[:2] if corrector.needs_pairs else (fit.X, fit.Y)
            known = None if corrector.needs_pairs else moments
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", NothingMovesWarning)
                    fitted = clone(corrector).fit(
                        *rows, names=self.names, model=self.model, moments=known
                    )
            except (InputError, NothingMovesWarning) as reason:
                failures[name] = str(reason)
                continue
            yield corrector, fitted.correction_

    def _kept_fitted(self, fit: Part, correction: Correction) -> float:
        few = Part(fit.X[:MAX_JUDGE], fit.Y[:MAX_JUDGE], fit.gx[:MAX_JUDGE], fit.gy[:MAX_JUDGE])
        kept = neighbours_kept(few, correction)
        return float(np.mean(kept.values))


def corrector_name(corrector: Corrector) -> str:
    """A corrector as it is written in code, without what is left at its default."""
    given = corrector.get_params()
    parameters = inspect.signature(type(corrector)).parameters.values()
    shown = [
        f"{p.name}={given[p.name]!r}"
        for place, p in enumerate(parameters)
        if place == 0 or given[p.name] != p.default
    ]
    return f"{type(corrector).__name__}({', '.join(shown)})"


def _short(figure: str, names: tuple[str, str]) -> str:
    """A figure's name as a column head."""
    short = {
        "mixed_ndcg@10": "mixed NDCG@10",
        "own_modality_excess@10": "own excess@10",
        "robust_to_noise": "noise",
        "robust_to_int8": "int8",
        "robust_to_1bit": "1-bit",
        "neighbours_kept": "kept, new rows",
        **{f"{name}_retrieval_recall@1": f"{name} R@1" for name in names},
    }
    return short.get(figure, figure)
