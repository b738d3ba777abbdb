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
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from modgap._arrays import is_torch, like
from modgap._results import Result
from modgap._tensors import read_tensors, write_tensors
from modgap._validate import (
    Array,
    InputError,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
)
from modgap.corrections import NotFitted
from modgap.search.judged_hits import JudgedHits, Pair, check_pair, check_scores
from modgap.search.pair_model import CALIBRATION_METHODS, CalibrationMethod, PairModel, arrow
from modgap.search.reliability import (
    MIN_ACCEPTED,
    Reliability,
    Strategy,
    precision_at,
    reliability_curve,
)

_KIND = "score calibrator"


@dataclass(frozen=True, eq=False)
class Cutoff(Result):
    """A threshold on the probability, and what it gives on the held-out hits.

    ``reached`` is the precision of the accepted hits of each pair, ``kept`` the share of the
    matches among its hits that are accepted. Where the precision cannot be reached, ``threshold``
    is NaN and ``reason`` says why.
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

    The probability is for an index like the held-out one: with ten times the documents there are
    ten times the non-matching documents to be mistaken for a match. Fit on hits from the index you
    search.

    Parameters
    ----------
    method : {"logistic", "isotonic"}
        ``"isotonic"`` replaces the logistic curve by the best monotone step curve.
    k : int
        How many of each query's best hits it looks at.

    >>> from modgap.search import judge_hits
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

    def __init__(self, method: CalibrationMethod = "logistic", k: int = 10) -> None:
        self.method = method
        self.k = k

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        fitted = ", ".join(arrow(pair) for pair in getattr(self, "models_", ()))
        known = super().__repr__(N_CHAR_MAX)
        return f"{known} fitted on {fitted}" if fitted else known

    def fit(self, hits: JudgedHits | Iterable[JudgedHits]) -> ScoreCalibrator:
        """Learn from judged hits of held-out pairs, one ``JudgedHits`` for each modality pair."""
        check_choice(self.method, "method", CALIBRATION_METHODS)
        check_count(self.k, "k", at_least=2)
        models: dict[Pair, PairModel] = {}
        for part in _as_list(hits):
            if part.pair in models:
                raise InputValueError(f"There are two sets of hits for {arrow(part.pair)}.")
            models[part.pair] = PairModel.fit(part, self.method, self.k)
        self.models_ = models
        return self

    def predict(self, scores: Any, pair: Pair | None = None) -> Array:
        """Probability of being a match, of each hit: (n, k), for the scores of k hits per query.

        Takes ``JudgedHits`` too. A tensor of torch gives a tensor. ``pair`` may be left out where
        the calibrator knows only one.
        """
        model, values = self._model_and_scores(scores, pair)
        found = model.predict(values)
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
            f"{arrow(name)} {curve[1].max():.2f}" if curve.size else f"{arrow(name)} none"
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

        Parameters
        ----------
        scores : (n, k) array or JudgedHits
            The k best scores of each query, as for ``predict``.
        threshold : float or Cutoff
            A probability, or what ``cutoff`` gave.
        pair : pair of str, optional
            (query modality, document modality); may be left out where only one is known.

        Returns
        -------
        (n,) array
            Infinite where no hit of the query is accepted, NaN throughout for a cut-off that
            cannot be reached.
        """
        model, values = self._model_and_scores(scores, pair)
        limit = threshold.threshold if isinstance(threshold, Cutoff) else threshold
        if not isinstance(threshold, Cutoff) and not 0 <= check_finite(limit, "threshold") <= 1:
            raise InputValueError(f"threshold must be a probability, got {threshold}.")
        if np.isnan(limit):
            return np.full(len(values), np.nan)
        return model.score_cutoff(values, limit)

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
            known = ", ".join(arrow(name) for name in models)
            got = "none" if pair is None else arrow(check_pair(pair))
            raise InputValueError(
                f"The calibrator knows the modality pairs {known}, got {got}. "
                "Give pair=(query modality, document modality), or fit it on held-out hits of it."
            )
        return models[check_pair(pair)]

    def _model_and_scores(self, scores: Any, pair: Pair | None) -> tuple[PairModel, np.ndarray]:
        if isinstance(scores, JudgedHits):
            scores, pair = scores.scores[:, : self.k], scores.pair
        return self._model(pair), check_scores(scores, self.k)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with JSON metadata, in one step."""
        tensors, pairs = {}, []
        for pair, model in self._models().items():
            entry = {"pair": pair, "n_queries": model.n_queries, "n_documents": model.n_documents}
            pairs.append({**entry, "match_share": model.match_share})
            tensors.update(model.tensors(".".join(pair)))
        write_tensors(path, _KIND, tensors, {"method": self.method, "k": self.k, "pairs": pairs})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScoreCalibrator:
        """Read what ``save`` wrote; nothing in the file is ever executed."""
        header, tensors = read_tensors(path, _KIND)
        try:
            method = check_choice(header["method"], "method", CALIBRATION_METHODS)
            loaded = cls(method, check_count(header["k"], "k", at_least=2))
            loaded.models_ = {
                check_pair(entry["pair"]): PairModel.read(
                    ".".join(entry["pair"]), tensors, {**entry, "method": method}
                )
                for entry in header["pairs"]
            }
        except InputError as error:
            raise InputValueError(f"{path} is not a complete score calibrator. {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputValueError(
                f"{path} is not a complete score calibrator: {error!r}."
            ) from error
        return loaded


def _as_list(hits: JudgedHits | Iterable[JudgedHits]) -> list[JudgedHits]:
    parts = [hits] if isinstance(hits, JudgedHits) else list(hits)
    if not parts or not all(isinstance(part, JudgedHits) for part in parts):
        raise InputTypeError("hits must be JudgedHits or several; make them with judge_hits.")
    return parts
