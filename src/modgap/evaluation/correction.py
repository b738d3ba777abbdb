"""Evaluate one correction, fitted elsewhere, on pairs: before and after, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap.core.checks import Array, InputTypeError, InputValueError, check_choice, check_count
from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    HasFigure,
    Progress,
    Result,
    notebook_html,
    notebook_table,
    silent,
    spoken,
)
from modgap.core.tables import HasTable
from modgap.corrections import (
    METRICS,
    Correction,
    Corrector,
    Metric,
    check_recognised,
    query_modalities,
)
from modgap.corrections.fitted_moments import hash_of_means
from modgap.evaluation.evaluator import Evaluator, Scores
from modgap.evaluation.metric_names import NDCG, directions, metric_label, metric_name
from modgap.evaluation.mixed import mixed_of, mixed_retrieval
from modgap.evaluation.mixed_by_share import curve_of
from modgap.evaluation.noise import Gaussian, Noise, Quantiser
from modgap.evaluation.retrieval import Corrected, matched, retrieval, retrieval_of
from modgap.evaluation.robustness import robustness
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.pairing import pairing_signal, warn_if_unpaired

# Fewer groups cannot be mixed at every ratio.
MIN_GROUPS, MAX_GROUPS = 6, 5_000
# Shares of the first modality in the index.
RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Evaluation(HasTable, HasFigure, Result):
    """Metrics of the rows as they are, and of a correction where one is given."""

    names: tuple[str, ...]
    n_groups: int
    raw: Scores
    corrected: Scores | None
    details: Mapping[str, Mapping[str, Any]]
    fitted_on_these_rows: bool
    counted: Literal["pairs", "groups"] = "groups"
    duplicates: str | None = None

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: each metric as it is and, where there is a correction, after it."""
        if self.corrected is None:
            return ("", "as it is"), [
                (metric_label(name, self.names), score.value_cell())
                for name, score in self.raw.metrics.items()
            ]
        rows: list[tuple[str, ...]] = [
            (
                metric_label(name, self.names),
                before.value_cell(),
                after.value_cell(),
                after.change_cell(),
            )
            for name, before in self.raw.metrics.items()
            for after in (self.corrected.metrics[name],)
        ]
        return ("", "as it is", "corrected", "change"), rows

    def ranges(self) -> Ranges:
        """The change of each metric; without a correction, each metric. For drawings."""
        scores = self.raw if self.corrected is None else self.corrected
        lines = []
        for name, score in scores.metrics.items():
            found = score.value if self.corrected is None else score.change
            assert found is not None
            lines.append(Range(metric_label(name, self.names), found.value, found.low, found.high))
        if self.corrected is None:
            return Ranges("The rows as they are, 95 % intervals", lines)
        title = "Change by the correction, 95 % intervals; dashed: no change"
        return Ranges(title, lines, reference=0.0)

    def _brief(self) -> str:
        before, after = self.raw.metrics, (self.corrected or self.raw).metrics
        arrow = "" if self.corrected is None else " → {:.3f}"
        found = (
            f"{metric_name(name, self.names)} {before[name].value.value:.3f}"
            + arrow.format(after[name].value.value)
            for name in (NDCG, *directions(self.names))
            if name in before
        )
        return ", ".join([f"{self.n_groups:,} {self.counted}", *found])

    def _repr_html_(self) -> str:
        said = f"{self.n_groups:,} {self.counted} of {spoken(self.names)}, with 95 % intervals"
        if self.fitted_on_these_rows:
            said += "; the correction was fitted on these very rows"
        if self.duplicates:
            said += f". {self.duplicates}"
        parts = [self.ranges().svg(), notebook_table(*self.table(), said)]
        ratios = self.ratio_table()
        if ratios is not None:
            parts.append(notebook_table(*ratios, "One index at several mixing ratios"))
        return notebook_html(*parts)

    def ratio_table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]] | None:
        """NDCG@10 and own-modality excess over mixing ratios, matches of both modalities counted.

        None beyond two modalities.
        """
        if "ratios" not in self.details["raw"]:
            return None
        ways = {"as it is": "raw", "corrected": "corrected"}
        known = {way: key for way, key in ways.items() if key in self.details}
        ratios = {way: self.details[key]["ratios"] for way, key in known.items()}
        first = next(iter(ratios.values()))
        header = [f"{self.names[0]} share"]
        header += [f"{what}, {way}" for what in ("NDCG@10", "own excess") for way in ratios]
        rows = []
        for place, share in enumerate(first["x_shares"]):
            for asking in first["ndcg"]:
                cells = [
                    f"{one[what][asking][place]:.3f}"
                    for what in ("ndcg", "own_excess")
                    for one in ratios.values()
                ]
                label = f"{share:.0%}" + (f", {asking} queries" if len(first["ndcg"]) > 1 else "")
                rows.append((label, *cells))
        return tuple(header), rows


def evaluate_correction(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    correction: Correction | None = None,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
    metric: Metric = "cosine",
    queries: str | Sequence[str] | None = None,
    sample: int = MAX_GROUPS,
    group_duplicates: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Every metric of ``diagnose`` before and after one correction.

    ``details`` of the result holds recall at 5 and 10, median ranks, and of the mixed index each
    query modality, matches of both modalities as targets, and mixing ratios. Every index holds the
    other documents of ``Modalities.with_documents`` and the rows without a match, at most 10,000 of
    each modality.

    Parameters
    ----------
    X, Y, names, groups
        The modalities, as for ``retrieval``.
    correction : Correction, optional
        Without it, the rows as they are.
    metric : {"cosine", "inner_product", "euclidean"}
        The metric that ranks the raw rows. Corrected rows are ranked by the metric of the
        correction.
    queries : str or several, optional
        The query modalities; by default all that the correction serves.
    sample : int
        Evaluate on at most this many groups.
    group_duplicates : bool
        Whether copies of a row form one group, such as an image repeated for each of its five
        captions; see ``Modalities.with_duplicates_grouped``.
    seed : int
        Seed of the sample, the noise and the resamples.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    say = progress or silent
    check_choice(metric, "metric", METRICS)
    check_count(sample, "sample")
    _refuse_other(Y, correction)
    data = matched(X, Y, names, groups)
    data = data.with_duplicates_grouped() if group_duplicates else data
    if correction is not None:
        _check_fits(correction, data)
    chosen = data.matched_groups
    if len(chosen) < MIN_GROUPS:
        raise InputValueError(
            f"An evaluation needs at least {MIN_GROUPS} groups with rows on every side, got "
            f"{len(chosen)}. Give more, or use modgap.retrieval, which takes fewer."
        )
    if len(chosen) > sample:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, sample, replace=False))
    warn_if_unpaired(pairing_signal(data, seed=seed))
    say("reading", 0, 3)
    single = data.with_rows_of(data.single_groups(), np.random.default_rng(seed))
    held = single.take_groups(chosen)
    say("as it is", 1, 3)
    corrected = None
    asking = query_modalities(queries, held.names, correction, default="all")
    evaluator = Evaluator(held, metric=metric, queries=asking, seed=seed)
    details = {"raw": _details(Corrected(held, None, metric), asking, seed)}
    if correction is not None:
        say("corrected", 2, 3)
        corrected = evaluator.evaluate(correction)
        details["corrected"] = _details(Corrected(held, correction), asking, seed)
    return Evaluation(
        names=data.names,
        n_groups=held.n_groups,
        raw=evaluator.raw,
        corrected=corrected,
        details=details,
        fitted_on_these_rows=correction is not None and _same_rows(correction, data),
        counted=held.counted,
        duplicates=data.duplicates,
    )


def _refuse_other(Y: Any, correction: Any) -> None:
    """Refuse what is no Correction, and one in the place of rows."""
    if isinstance(Y, Correction):
        raise InputTypeError("Y must be rows, got a Correction. Pass it by name: correction=….")
    if correction is None or isinstance(correction, Correction):
        return
    kind = type(correction).__name__
    what = f"a {kind}. Load it first: modgap.Correction.load(path)."
    if callable(getattr(correction, "fit", None)):
        what = f"a {kind}. Fit it and pass what it learned: correction_."
    raise InputTypeError(f"correction must be a Correction, got {what}")


def _check_fits(correction: Correction, data: Modalities) -> None:
    if correction.names != data.names:
        raise InputValueError(
            f"The correction is for {' and '.join(correction.names)}, the data for "
            f"{' and '.join(data.names)}. Give the data the same names in the same order."
        )
    if correction.dim_in != data.dim:
        raise InputValueError(
            f"The correction is for rows of {correction.dim_in} columns, got {data.dim}. "
            "It must be fitted on embeddings of the same model."
        )
    if correction.query_model and not all(map(data.asks_apart, correction.queries)):
        raise InputValueError(
            f"The correction is for {' and '.join(correction.queries)} queries of another model "
            f"({correction.query_model}) than its documents, and these rows are of one model. "
            "modgap migrate evaluates it, on rows of both."
        )
    for name, side in data.sides.items():
        check_recognised(correction, side, name, trust_rows=True)  # only warns


def _details(rows: Corrected, asking: Sequence[str], seed: int) -> dict[str, Any]:
    two = len(rows.data.names) == 2
    found = {"retrieval": retrieval_of(rows).to_dict()} if two else {}
    found["mixed"] = mixed_of(rows, asking, seed=seed).to_dict()
    found["mixed_both"] = mixed_of(rows, asking, targets="both", seed=seed).to_dict()
    if two:
        curve = curve_of(rows, asking, RATIOS, targets="both", repeats=2, seed=seed)
        found["ratios"] = curve.to_dict()
    return found


def _same_rows(correction: Correction, data: Modalities) -> bool:
    """Whether the correction was fitted on all of these rows, going by their means."""
    unit = correction.unit_rows
    found = data.side_moments(detail="mean", unit=unit).values()
    means = [moments.unit_rows() if unit else moments.given for moments in found]
    return correction.about.get("means_sha256") == hash_of_means(means)


ScoringGoal = Literal["mixed", "recall", "robust"]


def correction_scorer(
    goal: ScoringGoal = "mixed",
    *,
    noise: Noise | Quantiser | None = None,
    draws: int = 20,
    seed: int = 0,
) -> Callable[[Corrector, Array, Array], float]:
    """A ``scorer(corrector, X, Y)`` for ``GridSearchCV`` or ``cross_val_score``; more is better.

    Row i of X must belong to row i of Y.

    Parameters
    ----------
    goal : {"mixed", "recall", "robust"}
        NDCG@10 of ``mixed_retrieval``, the mean of recall@1 both ways, or the mean share of
        neighbours kept both ways under noise; only for queries that the correction serves.
    noise : Noise or Quantiser, optional
        Gaussian of standard deviation 0.025 when left out.
    draws : int
        How often noise is drawn.
    seed : int
        Seed of the splits and draws.

    >>> from sklearn.model_selection import GridSearchCV
    >>> from modgap.corrections import Shift
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 8))
    >>> search = GridSearchCV(Shift(), {"amount": [0.0, 0.5]}, scoring=correction_scorer(), cv=2)
    >>> search.fit(X + 3, X - 3).best_params_
    {'amount': 0.5}
    """
    check_choice(goal, "goal", ("mixed", "recall", "robust"))
    disturbed = Gaussian(0.025) if noise is None else noise

    def score(corrector: Corrector, X: Array, Y: Array) -> float:
        correction = corrector._fitted()
        if goal == "mixed":
            return mixed_retrieval(X, Y, correction=correction, seed=seed).ndcg
        if goal == "recall":
            found = retrieval(X, Y, 1, correction=correction, group_duplicates=False)
            return float(np.mean(list(found.recall().values())))
        options: dict[str, Any] = {"draws": draws, "correction": correction, "seed": seed}
        asking = [name in correction.queries for name in correction.names]
        kept = []
        if asking[0]:
            kept.append(robustness(X, Y, disturbed, candidate_side="y", **options).share[0])
        if asking[1]:
            kept.append(robustness(Y, X, disturbed, candidate_side="x", **options).share[0])
        return float(np.mean(kept))

    return score
