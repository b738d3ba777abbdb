"""``diagnose``: fit on one split, choose on the second, confirm on the third."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_choice
from modgap.core.results import Progress, changed, silent
from modgap.core.threads import meanwhile, processors
from modgap.corrections import (
    METRICS,
    Calibrate,
    Correction,
    Corrector,
    ExpectedWrong,
    Metric,
    query_modalities,
    row_length,
)
from modgap.corrections.background import FEW_QUERIES
from modgap.diagnosis.candidates import MEASURE_SAMPLE, correctors_for, until_codes_meet
from modgap.diagnosis.diagnosis import Diagnosis
from modgap.diagnosis.hubs import UNJUDGED_WEIGHT, HubChoice, choose_hubs
from modgap.diagnosis.index_effects import (
    CutOff,
    OtherDocuments,
    WholeIndex,
    among_others,
    cut_off,
    in_whole_index,
)
from modgap.diagnosis.splits import split
from modgap.diagnosis.trials import Trials
from modgap.diagnosis.verdict import (
    CONFIRM_LEVEL,
    MIN_CONFIRM_GROUPS,
    NOT_JUDGED,
    Trial,
    Verdict,
    choose,
    confirm,
    leave_sentence,
    sentence,
    unjudged_sentence,
)
from modgap.evaluation import GOAL_METRICS, Goal, Scores
from modgap.evaluation.metric_names import OWN_EXCESS, metric_descriptions
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import Measurement, check_pairing
from modgap.measures.summary import measured
from modgap.moments import Moments, PairMoments

# Rows whose variance is this share of their squared length differ by no more than float16 rounds.
_COLLAPSED = 1e-6


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
    tried = tuple(correctors_for(asking, data.names) if correctors is None else correctors)
    if goal == "quantised" and correctors is None:
        tried += until_codes_meet(splits.fit, metric, seed)
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


@dataclass(eq=False)
class _Run(Trials):
    """One diagnosis: measured, tried, chosen, confirmed and put into words."""

    hubs: HubChoice | None = None
    moments: PairMoments | None = None
    corrections: dict[str, Correction] = field(default_factory=dict)

    @property
    def held_out(self) -> str:
        """What confirms the verdict, counted."""
        return f"{self.splits.n_confirm:,} held-out {self.splits.counted}"

    def measure(self) -> tuple[Measurement, dict[str, Moments]]:
        """The measures and the moments of all rows; hubs are tried in the meantime.

        Whether pairs look like pairs was looked at, or is trusted.
        """
        measure = partial(
            measured, self.data, sample=MEASURE_SAMPLE, seed=self.seed, warns=False
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
            cut=None if trial is None else self._cut(trial),
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
        return in_whole_index(
            self.data,
            correction,
            counted=self.splits.counted,
            workers=1 if self._on_torch else None,
            **self._how,
        )

    def _cut(self, trial: Trial) -> CutOff | None:
        return cut_off(self.splits.confirm, self.corrections[trial.method], **self._how)

    def _others(self, trial: Trial, raw: Scores) -> OtherDocuments | None:
        if self.goal != "mixed":
            return None
        fitted = self.corrections[trial.method]
        return among_others(self.splits.confirm, fitted, raw, trial.confirm, **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        """How an index is searched, for what else a correction changes in it."""
        return {"metric": self.metric, "queries": self.asking, "seed": self.seed}
