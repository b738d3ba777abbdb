"""``diagnose``: fit on one split, choose on the second, confirm on the third."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from modgap.arrays import is_torch, to_numpy
from modgap.core.checks import Array, InputError, InputValueError, check_choice
from modgap.core.memory import give_back
from modgap.core.results import Progress, changed, silent
from modgap.core.threads import in_threads, meanwhile, processors, workers_for
from modgap.corrections import (
    METRICS,
    Calibrate,
    Center,
    Correction,
    Corrector,
    ExpectedWrong,
    Metric,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    query_modalities,
    row_length,
)
from modgap.corrections.background import FEW_QUERIES
from modgap.diagnosis.hubs import UNJUDGED_WEIGHT, HubChoice, choose_hubs
from modgap.diagnosis.splits import MAX_EVALUATE, Splits, split
from modgap.diagnosis.verdict import (
    CONFIRM_LEVEL,
    MIN_CONFIRM_GROUPS,
    NOT_JUDGED,
    CutOff,
    Diagnosis,
    OtherDocuments,
    Trial,
    Verdict,
    WholeIndex,
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
from modgap.evaluation.metric_names import OWN_EXCESS, directions, metric_descriptions, metric_name
from modgap.evaluation.metrics import AsTheyAre, neighbours_kept
from modgap.evaluation.mixed import mixed_of
from modgap.evaluation.mixed_results import mixed_results
from modgap.evaluation.noise import UniformQuantiser
from modgap.evaluation.quantised_gap import least_amount, quantised_gaps
from modgap.evaluation.retrieval import Corrected
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import Measurement, check_pairing
from modgap.measures.summary import measured
from modgap.moments import Moments, PairMoments

# Rows whose variance is this share of their squared length differ by no more than float16 rounds.
_COLLAPSED = 1e-6

# What is tried by default, besides merging by expected wrong results.
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
_SIDES: tuple[Literal["x", "y"], ...] = ("x", "y")
# Amounts at which the gap between codes is looked at, and the share of the candidates' variance
# that they move orthogonally to.
_AMOUNTS, _LEADING = np.linspace(0.0, 2.0, 41).round(2), 0.95
# Where results are cut to say what is kept, among so many.
_AT_MOST, _CUT_PLACES = 1.0, 50
# Besides one for each correction: measuring, hubs, deciding, the whole index.
_OTHER_STEPS = 4
# What looking at a correction takes, in float64 copies of the rows of one side.
_COPIES = 12


def diagnose(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
    paired: bool | None = None,
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    correctors: Sequence[Corrector] | None = None,
    bank: Array | Embeddings | None = None,
    model: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say whether there is a gap that hurts, and which correction fixes it.

    Groups are split 50/25/25: each correction is fitted on the first split, chosen on the second
    and confirmed on the third. Every metric is from the third, with a 95 % interval from 1,000
    paired resamples of groups. A correction is eligible if recall@1 falls by at most 0.02 and not
    beyond chance, and the index does not lean further to either modality. One that changes no
    ranking within a modality cannot cost recall, and is preferred unless another beats it beyond
    chance; merging by expected wrong results, which knows any document, is preferred to both in
    the same way. What is chosen is confirmed; else the next, at most three. "Leave it alone" is a
    possible verdict. Without pairs, or with too few, a correction that keeps rankings is offered
    as not judged. The same seed gives the same answer.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    queries : str or several, optional
        The query modality, "text" where that is a name: corrections are judged on its queries,
        and the recommended one serves them. Run it once for each where both ask. With several,
        one vector must serve them all, and ``Calibrate`` takes its block form.
    goal : {"mixed", "robust", "quantised"}
        What to improve: one index for both modalities, robustness to noise, or quantised indexes.
    metric : {"cosine", "inner_product", "euclidean"}
        How the index ranks the rows as they are. With cosine, rows are brought to unit length
        first, by the corrections too.
    correctors : sequence of Corrector, optional
        What to try; ``DEFAULT_CORRECTORS`` and ``ExpectedWrong`` when left out.
    bank : (n, d) array, optional
        Unlabelled queries like those of your users, for example a query log. Expected wrong
        results and hubness are computed from them. Default: the rows of the query modality.
    model : str, optional
        The name of the model, stored in the correction.
    trust_pairs : bool
        Go on with pairs that look like none: rows in another order, or of another model, are
        refused otherwise.
    group_duplicates : bool
        Whether copies of a row form one group, such as an image repeated for each of its five
        captions; see ``Modalities.with_duplicates_grouped``.
    seed : int
        Seed of the splits, the samples, the noise and the resamples.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    check_choice(goal, "goal", tuple(GOAL_METRICS))
    check_choice(metric, "metric", METRICS)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    data = data.with_duplicates_grouped() if group_duplicates else data
    asking = query_modalities(queries, data.names)
    splits = split(data, seed)
    tried = tuple(_correctors_for(asking, data.names) if correctors is None else correctors)
    if goal == "quantised" and correctors is None:
        tried += _until_codes_meet(splits.fit, metric, seed)
    run = _Run(
        data=data,
        splits=splits,
        asking=asking,
        correctors=tried,
        own_correctors=correctors is None,
        tries_merging=correctors is None or bank is not None,
        bank=bank,
        goal=goal,
        metric=metric,
        model=model,
        seed=seed,
        progress=progress or silent,
    )
    run.say("measuring")
    check_pairing(data, trust_pairs=trust_pairs, seed=seed)
    measurement, moments = run.measure()
    refuse_collapsed(moments, metric)
    return run.diagnose(measurement, moments)


def refuse_collapsed(moments: Mapping[str, Moments], metric: Metric) -> None:
    """Refuse a modality whose rows are all alike: no search tells its documents apart."""
    for name, found in moments.items():
        rows = found.at_unit_length().given if row_length(metric) == "unit" else found.given
        scatter = float(np.sum(to_numpy(rows.variance)))
        if scatter <= _COLLAPSED * (scatter + float(np.sum(to_numpy(rows.mean) ** 2))):
            raise InputValueError(
                f"The {found.given.n:,} {name} rows are all alike (their variance is {scatter:.1g} "
                "of their squared length), so no search can tell them apart, and no correction "
                f"helps. The {name} encoder has collapsed, or got the same input each time: look "
                "at its weights and preprocessing."
            )


def _correctors_for(asking: Sequence[str], names: Sequence[str]) -> tuple[Corrector, ...]:
    """What is tried by default: several kinds of query need the form of Calibrate for them all.

    Beyond two modalities, only what works on any number of them.
    """
    found = DEFAULT_CORRECTORS
    if len(names) > 2:
        found = tuple(one for one in found if one.takes_many)
    if len(asking) == 1:
        return found
    return tuple(
        Calibrate(one.mode, form="blocks") if isinstance(one, Calibrate) else one for one in found
    )


def _until_codes_meet(fit: Modalities, metric: Metric, seed: int) -> tuple[Corrector, ...]:
    """Each modality moved until the gap between 1-bit codes is least (Chowers et al., 5.2)."""
    if len(fit.names) != 2:
        return ()
    rng = np.random.default_rng(seed)
    rows = fit.at_unit_length() if row_length(metric) == "unit" else fit
    X, Y = (
        side.take(np.sort(rng.permutation(side.n_rows)[:_MEASURE_SAMPLE]))
        for side in (rows.x, rows.y)
    )
    found = []
    for move in _SIDES:
        shift = OrthogonalShift(move, _LEADING).fit(X, Y, rows="given")
        queries, candidates = (X, Y) if move == "y" else (Y, X)
        gaps = quantised_gaps(queries, candidates, shift.step_, UniformQuantiser(2), _AMOUNTS)
        if (amount := least_amount(_AMOUNTS, gaps)) not in (0.0, 1.0):  # which are tried anyway
            found.append(OrthogonalShift(move, _LEADING, amount))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Tried:
    """A trial, its correction, and its metrics over each resample of both held-out splits."""

    trial: Trial
    correction: Correction
    on_choose: Resampled
    on_confirm: Resampled


@dataclass(eq=False)
class _Run:
    """What the steps of one diagnosis share."""

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
    hubs: HubChoice | None = None
    merging: ExpectedWrong | None = None
    moments: PairMoments | None = None
    failures: dict[str, str] = field(default_factory=dict)
    corrections: dict[str, Correction] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return self.splits.fit.names

    @property
    def recalls(self) -> dict[str, str]:
        """The recall metrics, each with its name for people."""
        keys = directions(self.names, self.asking, self.data.asking)
        return {key: metric_name(key, self.names) for key in keys}

    @property
    def held_out(self) -> str:
        """What confirms the verdict, counted."""
        return f"{self.splits.n_confirm:,} held-out {self.splits.counted}"

    def say(self, step: str) -> None:
        if not all(side.in_memory for side in self.data.sides.values()):
            give_back()  # what the last step has left
        self.progress(step, self.n_done, _OTHER_STEPS + len(self.correctors))
        self.n_done += 1

    def measure(self) -> tuple[Measurement, dict[str, Moments]]:
        """The measures and the moments of all rows; hubs are tried in the meantime.

        Whether pairs look like pairs was looked at, or is trusted.
        """
        measure = partial(
            measured, self.data, sample=_MEASURE_SAMPLE, seed=self.seed, warns=False
        )  # fmt: skip
        in_memory = all(side.in_memory for side in self.data.sides.values())
        if not in_memory or self._on_torch or processors() == 1:
            found = measure()
            self.say("hubs")
            self._choose_hubs()
            return found
        # Both are many small steps, which leave a core idle now and then.
        with meanwhile(self._choose_hubs) as chosen:
            found = measure()
            self.say("hubs")
            chosen()
        return found

    def _choose_hubs(self) -> None:
        """Choose the weight of hubs, with which merging by expected wrong results is tried."""
        one_asks = len(self.asking) == 1 and self.metric != "euclidean"
        if not (self.tries_merging and one_asks and self.goal == "mixed"):
            if self.bank is not None:
                self.failures["expected wrong results"] = (
                    "they are tried for one query modality, the goal mixed and cosine or inner "
                    "product; modgap fit uses the bank all the same"
                )
            return
        weight = UNJUDGED_WEIGHT
        if self.splits.folds is not None:
            self.hubs = choose_hubs(
                self.splits.folds, self.asking[0], metric=self.metric, bank=self.bank,
                seed=self.seed,
            )  # fmt: skip
            weight = 0.0 if self.hubs is None else self.hubs.weight
        self.merging = ExpectedWrong(weight)
        self.correctors = (*self.correctors, self.merging)

    def diagnose(self, measurement: Measurement, moments: Mapping[str, Moments]) -> Diagnosis:
        if len(self.names) == 2:
            first, second = self.names
            self.moments = PairMoments(moments[first], moments[second])
        choosing, confirming = None, self._evaluator(self.splits.confirm)
        if self.splits.choose is not None:
            # Choosing looks at recall, at fairness and at the goal alone.
            rule = (*self.recalls, OWN_EXCESS, *GOAL_METRICS[self.goal])
            choosing = self._evaluator(self.splits.choose, wanted=rule)
        tried = self._try_all(choosing, confirming)
        self.corrections = {one.trial.method: one.correction for one in tried}
        trials = [one.trial for one in tried]
        self.say("deciding")
        raw, n = confirming.raw, self.splits.n_confirm
        if choosing is None or n < MIN_CONFIRM_GROUPS:
            trial = self._offered(trials)
            fix, paired = self._on_all_rows(trial, NOT_JUDGED), choosing is not None
            keeping = [one.label for one in self.correctors if isinstance(one, Calibrate)]
            failure = next((self.failures[one] for one in keeping if one in self.failures), "")
            words = unjudged_sentence(
                trial,
                fix,
                raw,
                self.goal,
                n,
                self.asking,
                self._balanced_share,
                paired=paired,
                counted=self.splits.counted,
                failure=failure,
            )
            verdict: Verdict = "not enough pairs" if paired else "no pairs"
            return self._diagnosis(verdict, words, raw, trials, measurement, trial, fix)
        resampled = {one.trial.method: one.on_confirm for one in tried}
        trial, doubts = confirm(
            choose(trials, [one.on_choose for one in tried], self._merging_label),
            lambda t: self._judged(
                confirming, resampled[t.method], self.corrections[t.method], CONFIRM_LEVEL
            ),
        )
        fix = self._on_all_rows(trial, "held-out rows")
        if trial is None or fix is None:
            words = leave_sentence(raw, self.goal, doubts, self.names)
            return self._diagnosis("leave it alone", words, raw, trials, measurement)
        words = sentence(trial, fix, raw, self.goal, self.asking, self.recalls, self.held_out)
        return self._diagnosis("use", words, raw, trials, measurement, trial, fix)

    @property
    def _merging_label(self) -> str | None:
        return None if self.merging is None else self.merging.label

    def _offered(self, trials: Sequence[Trial]) -> Trial | None:
        """What is offered where nothing can be judged: it needs neither pairs nor luck.

        Merging by expected wrong results with a bank that is large enough, else the first that
        keeps the rankings within a modality.
        """
        kept = next((one for one in trials if one.keeps_rankings), None)
        merged = next((one for one in trials if one.method == self._merging_label), None)
        source = self.bank if self.bank is not None else self.data.queries_of(self.asking[0])
        few = Embeddings.of(source, "bank").n_rows < FEW_QUERIES
        return kept if merged is None or few else merged

    def _try_all(self, choosing: Evaluator | None, confirming: Evaluator) -> list[_Tried]:
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
    ) -> tuple[str, _Tried | str]:
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
        return method, _Tried(trial, correction, on_choose, on_confirm)

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

    def _on_all_rows(self, trial: Trial | None, judged_on: str) -> Correction | None:
        """The correction of a trial fitted anew on every row; its metrics stay the trial's."""
        if trial is None:
            return None
        corrector = next(one for one in self.correctors if one.label == trial.method)
        found, _ = self._fit(corrector, self.data, self.moments)
        if found is None:  # the held-out rows had what fitting cannot take
            return self.corrections[trial.method]
        return changed(found, about={**found.about, "judged_on": judged_on})

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
            counted=self.splits.counted,
            duplicates=self.data.duplicates,
            seed=self.seed,
            raw=raw,
            trials=tuple(trials),
            not_tried=self.failures,
            measurement=measurement,
            explanations=metric_descriptions(self.names, self.asking, self.data.asking),
            queries=self.asking,
            balanced_share=self._balanced_share,
            hubs=self.hubs,
            whole_index=None if correction is None else self._whole_index(correction),
            cut=None if trial is None else self._cut(self.corrections[trial.method]),
            others=None if trial is None else self._others(trial, raw),
            correction=correction,
            corrections=self.corrections,
        )

    @property
    def _balanced_share(self) -> float:
        """The share of the query's own modality in the index of the confirm split."""
        data = self.splits.confirm
        if not data.paired:  # as many rows of each
            return 1 / len(data.names)
        documents = {name: side.n_rows for name, side in data.sides.items()}
        asked = {name: data.queries_of(name).n_rows for name in self.asking}
        own = sum(asked[name] * documents[name] for name in asked)
        return own / (sum(asked.values()) * sum(documents.values()))

    def _whole_index(self, correction: Correction) -> WholeIndex | None:
        self.say("the whole index")
        if not self.data.paired:
            return None
        groups = self.data.matched_groups
        if len(groups) > MAX_GROUPS:
            rng = np.random.default_rng(self.seed)
            groups = np.sort(rng.choice(groups, MAX_GROUPS, replace=False))
        data = self.data.take_groups(groups)

        def ndcg(rows: Corrected) -> float:
            return mixed_of(rows, self.asking, seed=self.seed).ndcg

        ways = [Corrected(data, None, self.metric), Corrected(data, correction)]
        workers = 1 if self._on_torch else None
        before, after = in_threads(ndcg, ways, workers, whole_jobs=True)
        return WholeIndex(len(groups), before, after, self.splits.counted)

    def _cut(self, correction: Correction) -> CutOff | None:
        """What a cut at one expected wrong result keeps of the confirm split."""
        data = self.splits.confirm
        if correction.background is None or not data.paired:
            return None
        if self.metric == "cosine":
            data = data.at_unit_length()
        (found,) = mixed_results(
            data, correction=correction, queries=self.asking, k=_CUT_PLACES, seed=self.seed
        )
        good = found.expected_wrong <= _AT_MOST
        return CutOff(
            at_most=_AT_MOST,
            kept=float(np.mean(np.any(good & found.match, axis=1))),
            wrong=float(np.mean(np.sum(good & ~found.match & (found.kind >= 0), axis=1))),
            n_queries=len(found.query),
            places=_CUT_PLACES,
        )

    def _others(self, trial: Trial, raw: Scores) -> OtherDocuments | None:
        """What the other documents change, where there are any and pairs to judge by."""
        data = self.splits.confirm
        if not data.others or not data.paired or self.goal != "mixed":
            return None
        alone = replace(data, others={})
        alone = alone.at_unit_length() if self.metric == "cosine" else alone
        ways = [
            Corrected(alone, None, self.metric),
            Corrected(alone, self.corrections[trial.method]),
        ]
        before, after = (mixed_of(way, self.asking, seed=self.seed).ndcg for way in ways)
        return OtherDocuments(
            counts={name: side.n_rows for name, side in data.others.items()},
            before=raw.goal.value.value,
            after=trial.confirm.goal.value.value,
            before_alone=before,
            after_alone=after,
        )

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
