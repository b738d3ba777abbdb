"""Scores people can use: the probability that a hit is a match, and cut-offs that hold.

A raw score drifts from query to query and from one modality pair to the next, so no threshold on
it fits two of them. What tells a match apart is how a hit stands among the other hits of its own
query. The model has four numbers for each modality pair and needs nothing but the scores of the
k best hits, which every search returns: see docs/scores.md for what else was tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from modgap._arrays import is_torch, like
from modgap._results import Result
from modgap._tensors import read_tensors, write_tensors
from modgap._validate import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
)
from modgap.corrections import NotFitted
from modgap.search.odds import (
    fit_isotonic,
    fit_logistic,
    hit_features,
    least_odds,
    log_odds,
    probability,
)
from modgap.search.reliability import (
    MIN_ACCEPTED,
    JudgedHits,
    Pair,
    Reliability,
    Strategy,
    check_pair,
    check_scores,
    precision_at,
    precision_curve,
    reliability_curve,
)

Method = Literal["logistic", "isotonic"]
METHODS = ("logistic", "isotonic")
_KIND = "score calibrator"
MIN_QUERIES = 30
MIN_EACH = 10  # matches and non-matches among the hits


@dataclass(frozen=True, eq=False)
class PairModel:
    """What was learned about one modality pair.

    ``weights`` (4,) turn the scores of a query into log-odds, ``steps`` (2, m) are the isotonic
    regression of matches on those, None for the logistic method. ``curve`` (3, points) holds
    probability thresholds from high to low, the precision at each on the held-out hits, and the
    share of their matches that it keeps.
    """

    weights: np.ndarray
    steps: np.ndarray | None
    curve: np.ndarray
    n_queries: int
    n_documents: int | None
    match_share: float


@dataclass(frozen=True, eq=False)
class Cutoff(Result):
    """A threshold on the probability, and what it gives on the held-out hits.

    ``reached`` is the precision of the accepted hits of each pair, ``kept`` the share of the
    matches among its hits that are accepted. Where the precision cannot be had, ``threshold`` is
    NaN and ``reason`` says why.
    """

    precision: float
    threshold: float
    pairs: tuple[Pair, ...]
    reached: np.ndarray
    kept: np.ndarray
    reason: str | None = None


class ScoreCalibrator(BaseEstimator):
    """Maps the scores of a query's k best hits to probabilities of being a match.

    For hit i of a query with scores s₁ ≥ … ≥ s_k the log-odds are linear in s_i, in its margin to
    the best other hit (s₁ − s₂ for the first, s_i − s₁ for the others) and in the mean of the k
    scores, with weights of their own for every (query modality, document modality). They are
    bounded so that within a query a better score never has a lower probability.
    ``method="isotonic"`` then replaces the logistic curve by the best monotone step curve.

    The probability is for an index like the held-out one: with ten times the documents there are
    ten times the strangers to be mistaken for a match. Fit on hits from the index you search.

    >>> from modgap.search.reliability import judge_hits
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 8)); Y = X + 0.5 * rng.normal(size=(200, 8))
    >>> hits = judge_hits(Y, X, pair=("text", "image"))
    >>> calibrator = ScoreCalibrator().fit(hits)
    >>> calibrator.predict(hits.scores, hits.pair).shape
    (200, 10)
    >>> calibrator.cutoff(0.8, hits.pair).reached.round(1).tolist()
    [0.8]
    """

    models_: dict[Pair, PairModel]

    def __init__(self, method: Method = "logistic", k: int = 10) -> None:
        self.method = method
        self.k = k

    def fit(self, hits: JudgedHits | Iterable[JudgedHits]) -> ScoreCalibrator:
        """Learn from judged hits of held-out pairs, one ``JudgedHits`` for each modality pair."""
        check_choice(self.method, "method", METHODS)
        check_count(self.k, "k", at_least=2)
        models: dict[Pair, PairModel] = {}
        for part in _as_list(hits):
            if part.pair in models:
                raise InputValueError(f"There are two sets of hits for {_arrow(part.pair)}.")
            models[part.pair] = self._fit_pair(part)
        self.models_ = models
        return self

    def _fit_pair(self, hits: JudgedHits) -> PairModel:
        where = _arrow(hits.pair)
        if hits.scores.shape[1] < self.k:
            raise InputValueError(
                f"The calibrator looks at the {self.k} best hits of a query, {where} has "
                f"{hits.scores.shape[1]}. Search for {self.k}, or give a smaller k."
            )
        n = len(hits.scores)
        if n < MIN_QUERIES:
            raise InputValueError(f"{where} needs at least {MIN_QUERIES} queries, got {n}.")
        truth = hits.matches[:, : self.k].ravel().astype(np.float64)
        n_matches, n_others = int(truth.sum()), int((1 - truth).sum())
        if n_matches < MIN_EACH or n_others < MIN_EACH:
            raise InputValueError(
                f"{where} needs at least {MIN_EACH} matches and {MIN_EACH} non-matches among its "
                f"hits, got {n_matches} and {n_others}. Are the groups those of these rows?"
            )
        features = hit_features(hits.scores[:, : self.k])
        weights = fit_logistic(features, truth)
        odds = log_odds(features, weights)
        steps = fit_isotonic(odds, truth) if self.method == "isotonic" else None
        curve = precision_curve(probability(odds, steps), truth)
        return PairModel(weights, steps, curve, n, hits.n_documents, n_matches / truth.size)

    def predict(self, scores: Any, pair: Pair | None = None) -> Array:
        """Probability of being a match, of each hit: (n, k), for the scores of k hits per query.

        Takes ``JudgedHits`` too. A tensor of torch gives a tensor.
        """
        if isinstance(scores, JudgedHits):
            scores, pair = scores.scores[:, : self.k], scores.pair
        model = self._model(pair)
        values = check_scores(scores, self.k)
        found = probability(log_odds(hit_features(values), model.weights), model.steps)
        found = found.reshape(values.shape)
        return like(found, scores, scores.dtype) if is_torch(scores) else found

    def cutoff(self, precision: float, pair: Pair | None = None) -> Cutoff:
        """The lowest probability whose accepted hits have this precision on the held-out hits.

        Without a pair it is one threshold for all: the lowest at which every pair has the
        precision. What rests on fewer than 20 accepted hits is not promised.
        """
        if not 0 < check_finite(precision, "precision") < 1:
            raise InputValueError(f"precision must be between 0 and 1, got {precision}.")
        models = self._models()
        chosen = {check_pair(pair): self._model(pair)} if pair is not None else models
        curves = [model.curve for model in chosen.values()]
        thresholds = np.unique(np.concatenate([curve[0] for curve in curves]))
        # (pairs, precision and kept, thresholds)
        at = np.stack([precision_at(curve, thresholds) for curve in curves])
        good = np.flatnonzero(np.all(at[:, 0] >= precision, axis=0))
        if len(good):
            first = good[0]
            return Cutoff(
                precision, float(thresholds[first]), tuple(chosen), at[:, 0, first], at[:, 1, first]
            )
        reach = ", ".join(
            f"{_arrow(name)} {curve[1].max():.2f}" if curve.size else f"{_arrow(name)} none"
            for name, curve in zip(chosen, curves, strict=True)
        )
        reason = (
            f"No cut-off on the held-out hits has a precision of {precision:g} with at least "
            f"{MIN_ACCEPTED} hits accepted{' in every pair' if len(chosen) > 1 else ''}; "
            f"the highest seen: {reach}."
        )
        nothing = np.full(len(chosen), np.nan)
        return Cutoff(precision, float("nan"), tuple(chosen), nothing, nothing, reason)

    def score_cutoff(
        self, scores: Any, threshold: float | Cutoff, pair: Pair | None = None
    ) -> np.ndarray:
        """The raw score from which on a query's hits have at least this probability, (n,).

        ``scores`` are its k best, as for ``predict``; infinite where no hit of the query is
        accepted, NaN throughout for a cut-off that cannot be had.
        """
        if isinstance(scores, JudgedHits):
            scores, pair = scores.scores[:, : self.k], scores.pair
        model = self._model(pair)
        values = check_scores(scores, self.k)
        limit = threshold.threshold if isinstance(threshold, Cutoff) else threshold
        if not isinstance(threshold, Cutoff) and not 0 <= check_finite(limit, "threshold") <= 1:
            raise InputValueError(f"threshold must be a probability, got {threshold}.")
        if np.isnan(limit):
            return np.full(len(values), np.nan)
        first, second = values[:, 0], values[:, 1]
        a, c, level, base = model.weights
        rest = base + level * values.mean(axis=1)
        least = least_odds(limit, model.steps)
        # The others: −a s₁ + c (s + s₁) + rest ≥ least. The first: −a s₂ + c (s₁ + s₂) + rest.
        gap = least - rest + (a - c) * first
        flat = np.where(gap <= 0, -np.inf, np.inf)
        others = gap / c if c > 0 else flat
        top = (c - a) * second + c * first + rest >= least
        return np.where(others <= second, others, np.where(top, first, np.inf))

    def reliability(
        self,
        hits: JudgedHits | Iterable[JudgedHits],
        bins: int = 10,
        strategy: Strategy = "mass",
    ) -> Reliability:
        """Reliability curve and expected calibration error on other held-out hits, all together.

        Bins hold equal numbers of hits by default; ``strategy="width"`` gives bins of one width.
        """
        parts = _as_list(hits)
        predicted = [self.predict(part).ravel() for part in parts]
        truth = [part.matches[:, : self.k].ravel() for part in parts]
        return reliability_curve(np.concatenate(predicted), np.concatenate(truth), bins, strategy)

    def _models(self) -> dict[Pair, PairModel]:
        if not hasattr(self, "models_"):
            raise NotFitted("This ScoreCalibrator is not fitted yet; call fit first.")
        return self.models_

    def _model(self, pair: Pair | None) -> PairModel:
        models = self._models()
        if pair is None and len(models) == 1:
            return next(iter(models.values()))
        if pair is None or check_pair(pair) not in models:
            known = ", ".join(_arrow(name) for name in models)
            got = "none" if pair is None else _arrow(check_pair(pair))
            raise InputValueError(
                f"The calibrator knows the modality pairs {known}, got {got}. "
                "Give pair=(query modality, document modality), or fit it on held-out hits of it."
            )
        return models[check_pair(pair)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with JSON metadata, in one step."""
        tensors, pairs = {}, []
        for pair, model in self._models().items():
            entry = {"pair": pair, "n_queries": model.n_queries, "n_documents": model.n_documents}
            pairs.append({**entry, "match_share": model.match_share})
            for part in ("weights", "steps", "curve"):
                value = getattr(model, part)
                if value is not None:
                    tensors[f"{pair[0]}.{pair[1]}.{part}"] = value
        header = {"method": self.method, "k": self.k, "pairs": pairs}
        write_tensors(path, _KIND, tensors, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScoreCalibrator:
        """Read what ``save`` wrote; nothing in the file is ever executed."""
        header, tensors = read_tensors(path, _KIND)
        try:
            loaded = cls(header["method"], header["k"])
            loaded.models_ = {
                check_pair(e["pair"]): _read(e, tensors, header) for e in header["pairs"]
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise InputValueError(f"{path} is not a whole score calibrator: {error!r}.") from error
        return loaded


def _read(
    entry: dict[str, Any], tensors: dict[str, np.ndarray], header: dict[str, Any]
) -> PairModel:
    key = ".".join(entry["pair"])
    has_steps = check_choice(header["method"], "method", METHODS) == "isotonic"
    return PairModel(
        tensors[f"{key}.weights"],
        tensors[f"{key}.steps"] if has_steps else None,
        tensors[f"{key}.curve"],
        entry["n_queries"],
        entry["n_documents"],
        entry["match_share"],
    )


def _arrow(pair: Pair) -> str:
    return f"{pair[0]}→{pair[1]}"


def _as_list(hits: JudgedHits | Iterable[JudgedHits]) -> list[JudgedHits]:
    parts = [hits] if isinstance(hits, JudgedHits) else list(hits)
    if not parts or not all(isinstance(part, JudgedHits) for part in parts):
        raise InputTypeError("hits must be JudgedHits or several; make them with judge_hits.")
    return parts
