"""``diagnose``: fit on one split, choose on the second, confirm on the third."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    asking_modality,
    demands,
    row_length,
)
from modgap.diagnosis.splits import MAX_EVALUATE, Splits, split
from modgap.diagnosis.verdict import (
    CONFIRM_LEVEL,
    MIN_CONFIRM_GROUPS,
    NOT_JUDGED,
    Trial,
    Verdict,
    choose,
    confirm,
    eligibility,
    leave_sentence,
    lower_bound,
    sentence,
    unjudged_sentence,
)
from modgap.evaluation import GOAL_METRICS, Evaluator, Goal, Scores
from modgap.evaluation.correction import MAX_GROUPS
from modgap.evaluation.evaluator import Resampled
from modgap.evaluation.metrics import (
    OWN_EXCESS,
    metric_descriptions,
    neighbours_kept,
    recall_names,
)
from modgap.evaluation.mixed import asking_modalities, mixed_retrieval
from modgap.io import Embeddings, Modalities, PairingWarning
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import Measurement, check_pairing, measure
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
# Measuring is not the point here: a sample keeps it to seconds.
_MEASURE_SAMPLE = 5_000


@dataclass(frozen=True)
class WholeIndex(Result):
    """NDCG@10 in one index of all groups, as they are and with the recommended correction.

    The more documents there are, the harder the search: it is below that of the confirm split. The
    correction was fitted on these very rows. ``n_groups`` are all of them, or a sample.
    """

    n_groups: int
    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"In one index of {self.n_groups:,} groups, on which the correction was fitted, "
            f"NDCG@10 goes from {self.before:.3f} to {self.after:.3f}. The more documents, the "
            "harder the search."
        )


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """The verdict, what it rests on, and the recommended correction where there is one.

    ``raw`` holds the metrics of the rows as they are, ``trials`` those of every correction, all
    from the confirm split. ``n_groups`` says how many groups each split has; without pairs, how
    many rows of both modalities were fitted on and how many of each confirm. ``queries`` are the
    modalities that ask: recall and the mixed index are about their queries.

    ``correction`` is the recommended one, fitted on all rows; the metrics are those of
    ``corrections``, which were fitted on the fit split alone.
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
    queries: tuple[str, ...] = ()
    whole_index: WholeIndex | None = None
    correction: Correction | None = field(default=None, repr=False)
    corrections: Mapping[str, Correction] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the corrections, which have files of their own."""
        found = super().to_dict()
        del found["correction"], found["corrections"]
        found["demands"] = None if self.correction is None else demands(self.correction)
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
        for name in (one for one in self.explanations if one in self.raw.metrics):
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
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    correctors: Sequence[Corrector] | None = None,
    model: str | None = None,
    trust_pairs: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say whether there is a gap that hurts, and which correction fixes it.

    Groups are split 50/25/25: each correction is fitted on the first split, chosen on the second
    and confirmed on the third. Every metric is from the third, with a 95 % interval from 1,000
    paired resamples of groups. A correction is eligible if recall@1 falls by at most 0.02 and not
    beyond chance, and the index does not lean further to either modality. One that changes no
    ranking within a modality cannot cost recall, and is preferred unless another beats it beyond
    chance. What is chosen is confirmed; else the next, at most three. "Leave it alone" is a
    possible verdict. Without pairs, or with too few, a correction that keeps rankings is offered
    as not judged. The same seed gives the same answer.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    queries : str or several, optional
        The modality that asks, "text" where that is a name: corrections are judged on its queries,
        and the recommended one serves them. Run it once for each where both ask. With several,
        one vector must serve them all, and ``Calibrate`` takes its block form.
    goal : {"mixed", "robust", "quantised"}
        What to improve: one index for both modalities, robustness to noise, or quantised indexes.
    metric : {"cosine", "inner_product", "euclidean"}
        How the index ranks the rows as they are. With cosine, rows are brought to unit length
        first, by the corrections too.
    correctors : sequence of Corrector, optional
        What to try; ``DEFAULT_CORRECTORS`` when left out.
    model : str, optional
        The name of the model, noted in the correction.
    trust_pairs : bool
        Go on with pairs that look like none: rows in another order, or of another model, are
        refused otherwise.
    seed : int
        Seed of the splits, the samples, the noise and the resamples.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    check_choice(goal, "goal", tuple(GOAL_METRICS))
    check_choice(metric, "metric", METRICS)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    asking = asking_modalities(queries or asking_modality(None, data.names), data.names)
    tried = correctors_for(asking) if correctors is None else tuple(correctors)
    splits = split(data, seed)
    run = _Run(data, splits, asking, goal, metric, model, seed, len(tried), progress or silent)
    run.say("measuring")
    check_pairing(data, trust_pairs=trust_pairs, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PairingWarning)  # refused above, or trusted
        measurement = measure(data, sample=_MEASURE_SAMPLE, seed=seed)
    with splits.trusted():  # measuring looked at every row
        return run.diagnose(tried, measurement)


def correctors_for(asking: Sequence[str]) -> tuple[Corrector, ...]:
    """What is tried by default: several kinds of query need the form of Calibrate for them all."""
    if len(asking) == 1:
        return DEFAULT_CORRECTORS
    return tuple(
        Calibrate(one.mode, form="blocks") if isinstance(one, Calibrate) else one
        for one in DEFAULT_CORRECTORS
    )


@dataclass(frozen=True, eq=False)
class _Tried:
    """A trial, and its metrics over each resample of the choose and of the confirm split."""

    trial: Trial
    on_choose: Resampled
    on_confirm: Resampled


class _Run:
    """What the steps of one diagnosis share."""

    def __init__(
        self,
        data: Modalities,
        splits: Splits,
        asking: tuple[str, ...],
        goal: Goal,
        metric: Metric,
        model: str | None,
        seed: int,
        n_correctors: int,
        progress: Progress,
    ) -> None:
        self.data, self.splits, self.names = data, splits, splits.fit.names
        self.asking = asking
        self.goal, self.metric, self.model, self.seed = goal, metric, model, seed
        self.recalls = recall_names(self.names, asking)
        self.failures: dict[str, str] = {}
        self.corrections: dict[str, Correction] = {}
        self._progress = progress
        self._done, self._total = 0, 3 + n_correctors

    def say(self, step: str) -> None:
        self._progress(step, self._done, self._total)
        self._done += 1

    def diagnose(self, correctors: Sequence[Corrector], measurement: Measurement) -> Diagnosis:
        choosing, confirming = None, self._evaluator(self.splits.confirm)
        if self.splits.choose is not None:
            # Choosing looks at recall, at fairness and at the goal alone.
            rule = (*self.recalls, OWN_EXCESS, *GOAL_METRICS[self.goal])
            choosing = self._evaluator(self.splits.choose, wanted=rule)
        tried = list(self._try_all(correctors, choosing, confirming))
        trials = [one.trial for one in tried]
        self.say("deciding")
        raw, n = confirming.raw, self.splits.n_confirm
        if choosing is None or n < MIN_CONFIRM_GROUPS:
            trial = next((one for one in trials if one.keeps_rankings), None)
            fix, paired = self._on_all_rows(trial, correctors, NOT_JUDGED), choosing is not None
            words = unjudged_sentence(
                trial, fix, raw, self.goal, n, paired=paired, failure=self._why_none(correctors)
            )
            verdict: Verdict = "not enough pairs" if paired else "no pairs"
            return self._diagnosis(verdict, words, raw, trials, measurement, trial, fix)
        resampled = {one.trial.method: one.on_confirm for one in tried}
        trial, doubts = confirm(
            choose(trials, [one.on_choose for one in tried]),
            lambda t: self._judged(
                confirming, resampled[t.method], self.corrections[t.method], CONFIRM_LEVEL
            ),
        )
        fix = self._on_all_rows(trial, correctors, "held-out rows")
        if trial is None or fix is None:
            words = leave_sentence(raw, self.goal, doubts)
            return self._diagnosis("leave it alone", words, raw, trials, measurement)
        words = sentence(trial, fix, raw, self.goal, self.asking, self.recalls, n)
        return self._diagnosis("use", words, raw, trials, measurement, trial, fix)

    def _try_all(
        self, correctors: Sequence[Corrector], choosing: Evaluator | None, confirming: Evaluator
    ) -> Iterator[_Tried]:
        for method, correction in self._fit_all(correctors):
            try:
                on_choose = choosing.resampled(correction) if choosing else {}
                on_confirm = confirming.resampled(correction)
                kept = self._kept_fitted(correction)
            except InputError as unusable:  # a row on the origin, for instance
                self.failures[method] = str(unusable)
                continue
            eligible, reason, bound = False, "cannot be judged without pairs", float("nan")
            if choosing is not None:
                eligible, reason, bound = self._judged(choosing, on_choose, correction)
            self.corrections[method] = correction
            trial = Trial(
                method=method,
                metric=correction.metric,
                eligible=eligible,
                reason=reason,
                lower_bound=bound,
                neighbours_kept_fitted=kept,
                confirm=confirming.scores(on_confirm),
                keeps_rankings=self._keeps_rankings(correction),
            )
            yield _Tried(trial, on_choose, on_confirm)

    def _judged(
        self,
        evaluator: Evaluator,
        resampled: Resampled,
        correction: Correction,
        level: float | None = None,
    ) -> tuple[bool, str, float]:
        """Whether a correction is eligible on a split, why, and the lower bound of its gain."""
        scores = evaluator.scores(resampled, level)
        eligible, reason = eligibility(
            scores,
            self.recalls,
            keeps_rankings=self._keeps_rankings(correction),
            bias_growth=evaluator.bias_growth(resampled, level),
        )
        return eligible, reason, lower_bound(scores)

    def _why_none(self, correctors: Sequence[Corrector]) -> str:
        """Why the correction that keeps rankings could not be fitted, where it was tried."""
        labels = [one.label for one in correctors if isinstance(one, Calibrate)]
        return next((self.failures[label] for label in labels if label in self.failures), "")

    def _keeps_rankings(self, correction: Correction) -> bool:
        """Whether rankings within a modality stay as the index has them now.

        Those that a correction is known to keep are by cosine or inner product.
        """
        return correction.keeps_rankings and self.metric != "euclidean"

    def _on_all_rows(
        self, trial: Trial | None, correctors: Sequence[Corrector], judged_on: str
    ) -> Correction | None:
        """The correction of a trial fitted anew on every row; its metrics stay the trial's."""
        if trial is None:
            return None
        corrector = next(one for one in correctors if one.label == trial.method)
        found, _ = self._fit(corrector, self.data)
        if found is None:  # the held-out rows had what fitting cannot take
            return self.corrections[trial.method]
        return replace(found, about={**found.about, "judged_on": judged_on})

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
            explanations=metric_descriptions(self.names, self.asking),
            queries=self.asking,
            whole_index=None if correction is None else self._whole_index(correction),
            correction=correction,
            corrections=self.corrections,
        )

    def _whole_index(self, correction: Correction) -> WholeIndex | None:
        if not self.data.paired:
            return None
        groups = self.data.matched_groups
        if len(groups) > MAX_GROUPS:
            rng = np.random.default_rng(self.seed)
            groups = np.sort(rng.choice(groups, MAX_GROUPS, replace=False))
        data = self.data.take_groups(groups)
        options: dict[str, Any] = {"queries": self.asking, "seed": self.seed}
        before = mixed_retrieval(data, metric=self.metric, **options).ndcg
        after = mixed_retrieval(data, correction=correction, **options).ndcg
        return WholeIndex(len(groups), before, after)

    def _evaluator(self, data: Modalities, wanted: Sequence[str] | None = None) -> Evaluator:
        return Evaluator(
            data, metric=self.metric, goal=self.goal, queries=self.asking, seed=self.seed,
            wanted=wanted,
        )  # fmt: skip

    def _fit_all(self, correctors: Sequence[Corrector]) -> Iterator[tuple[str, Correction]]:
        """Each method with its correction; why one could not be fitted goes to ``failures``."""
        moments = self.splits.fit.moments(unit=row_length(self.metric) == "unit")
        for corrector in correctors:
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
        rows = row_length(self.metric)
        return corrector.try_fit(data, queries=asking, rows=rows, model=self.model, moments=moments)

    def _kept_fitted(self, correction: Correction) -> float:
        fit = self.splits.fit
        few = fit.take([np.arange(min(side.n_rows, MAX_EVALUATE)) for side in fit.two()])
        return float(np.mean(neighbours_kept(few, correction, self.asking).values))


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
