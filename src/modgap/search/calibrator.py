"""Scores people can use: the probability that a hit is a match, and cut-offs that hold.

A raw score drifts from query to query and from one modality pair to the next, so no threshold on
it fits two of them. What tells a match apart is how a hit stands among the other hits of its own
query. The model has four numbers for each modality pair and needs nothing but the scores of the
k best hits, which every search returns: see docs/guides/search/scores.md for what else was tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from modgap.arrays import is_torch, like
from modgap.core.checks import (
    Array,
    InputError,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
)
from modgap.core.results import Result
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.corrections import NotFitted
from modgap.search.hits import Hits
from modgap.search.judged_hits import (
    RANKED_BY,
    JudgedHits,
    Pair,
    RankedBy,
    check_pair,
    check_scores,
    ranking,
)
from modgap.search.merging import cut
from modgap.search.pair_model import CalibrationMethod, PairModel, arrow
from modgap.search.reliability import (
    MIN_ACCEPTED,
    Reliability,
    Strategy,
    precision_at,
    reliability_curve,
)

_KIND = "score calibrator"
CALIBRATION_METHODS = ("logistic", "isotonic")


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

    It takes the ``Hits`` of any search with what people say of them: of several modalities, where
    a hit stands among all hits of its query; merged by expected wrong results E, where −log E
    takes the place of the score; and fewer than k, where those that are missing count as the
    lowest score seen.

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
    ranked_by_: RankedBy

    def __init__(self, method: CalibrationMethod = "logistic", k: int = 10) -> None:
        self.method = method
        self.k = k

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        fitted = ", ".join(arrow(pair) for pair in getattr(self, "models_", ()))
        known = super().__repr__(N_CHAR_MAX)
        return f"{known} fitted on {fitted}" if fitted else known

    def fit(
        self,
        hits: Hits | JudgedHits | Iterable[JudgedHits],
        matches: Any = None,
        *,
        modality: str | None = None,
    ) -> ScoreCalibrator:
        """Learn from hits whose matches are known.

        Parameters
        ----------
        hits : Hits, JudgedHits or several JudgedHits
            What a search returned, of one modality or several; or hits that are judged already,
            one ``JudgedHits`` for each modality pair.
        matches : (n, k) array, or n sets
            For ``Hits``: whether each is a match, None or NaN where nobody judged it; or for each
            query the set of the ids that match it, (modality, id) where modalities share ids.
        modality : str
            For ``Hits``: the modality of the queries.
        """
        check_choice(self.method, "method", CALIBRATION_METHODS)
        check_count(self.k, "k", at_least=2)
        models: dict[Pair, PairModel] = {}
        parts = _as_list(hits, matches, modality, self.k)
        if len({part.ranked_by for part in parts}) > 1:
            raise InputValueError(
                "Some of these hits are ranked by expected wrong results and some by scores; fit a "
                "calibrator for each."
            )
        for part in parts:
            if part.pair in models:
                raise InputValueError(f"There are two sets of hits for {arrow(part.pair)}.")
            models[part.pair] = PairModel.fit(part, self.method, self.k)
        self.models_, self.ranked_by_ = models, parts[0].ranked_by
        return self

    def predict(
        self, scores: Any, pair: Pair | None = None, *, modality: str | None = None
    ) -> Array:
        """Probability of being a match, of each hit: (n, k), for the scores of k hits per query.

        Takes ``JudgedHits`` too, and ``Hits`` of any modalities with the modality of the queries;
        NaN where a query has fewer hits. A tensor of torch gives a tensor. ``pair`` and
        ``modality`` may be left out where the calibrator knows only one.
        """
        if isinstance(scores, Hits):
            return self._predict_hits(scores, modality)
        model, values = self._model_and_scores(scores, pair)
        found = model.predict(values)
        return like(found, scores, scores.dtype) if is_torch(scores) else found

    def judge(
        self,
        hits: Hits,
        modality: str | None = None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Hits:
        """Hits with their probability of being a match, and cut by it or by expected wrong results.

        Parameters
        ----------
        hits : Hits
            As the search returned them, not yet cut: a hit is judged by those it stands among.
        modality : str, optional
            That of the queries; may be left out where the calibrator knows only one.
        at_least : float, optional
            Leave out results with a lower probability, and those after the k best, which have none.
        at_most : float, optional
            Leave out results with more expected wrong results, as a search with ``at_most`` does.
        """
        if at_least is not None and not 0 <= check_finite(at_least, "at_least") <= 1:
            raise InputValueError(f"at_least must be a probability, got {at_least}.")
        predicted = self._predict_hits(hits, modality)
        beyond = hits.ids.shape[1] - predicted.shape[1]
        predicted = np.pad(predicted, ((0, 0), (0, beyond)), constant_values=np.nan)
        judged = replace(hits, probability=predicted)
        if at_least is not None:
            judged = judged.kept(predicted >= at_least)
        return judged if at_most is None else cut(judged, at_most)

    def _predict_hits(self, hits: Hits, modality: str | None) -> np.ndarray:
        asking = list(dict.fromkeys(pair[0] for pair in self._models()))
        if modality is None and len(asking) > 1:
            raise InputValueError(
                f"The calibrator knows queries of {' and '.join(asking)}; say which modality these "
                "are with modality."
            )
        best, order = ranking(hits, self.ranked_by_, self.k)
        values, width = check_scores(best, self.k), best.shape[1]
        names = np.where(np.isfinite(best), np.take_along_axis(hits.modalities, order, axis=1), "")
        found = np.full(names.shape, np.nan)
        for name in filter(None, np.unique(names.astype(str)).tolist()):
            here = names == name
            judged = self._model((modality or asking[0], name)).predict(values)
            found[here] = judged[:, :width][here]
        return np.take_along_axis(found, np.argsort(order, axis=1), axis=1)

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
        hits: Hits | JudgedHits | Iterable[JudgedHits],
        bins: int = 10,
        strategy: Strategy = "mass",
        *,
        matches: Any = None,
        modality: str | None = None,
    ) -> Reliability:
        """Reliability curve and expected calibration error on other held-out hits, all together.

        Hits are given as to ``fit``. Bins hold equal numbers of hits by default;
        ``strategy="width"`` gives bins of one width.
        """
        predicted, truth = [], []
        for part in _as_list(hits, matches, modality, self.k):
            assert part.counted is not None
            counted = part.counted[:, : self.k]
            predicted.append(self.predict(part)[:, : counted.shape[1]][counted])
            truth.append(part.matches[:, : self.k][counted])
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
        model = self._model(scores.pair if isinstance(scores, JudgedHits) else pair)
        ranked_by = scores.ranked_by if isinstance(scores, JudgedHits) else "score"
        if ranked_by != self.ranked_by_:
            raise InputValueError(
                f"The calibrator was fitted on hits ranked by {self.ranked_by_}, and these are "
                f"ranked by {ranked_by}. Give the Hits that a search returned."
            )
        values = scores.scores[:, : self.k] if isinstance(scores, JudgedHits) else scores
        return model, check_scores(values, self.k)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with JSON metadata, in one step."""
        tensors, pairs = {}, []
        for pair, model in self._models().items():
            entry = {"pair": pair, "n_queries": model.n_queries, "n_documents": model.n_documents}
            pairs.append({**entry, "match_share": model.match_share, "floor": model.floor})
            tensors.update(model.tensors(".".join(pair)))
        about = {"method": self.method, "k": self.k, "ranked_by": self.ranked_by_, "pairs": pairs}
        write_tensors(path, _KIND, tensors, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScoreCalibrator:
        """Read what ``save`` wrote; nothing in the file is ever executed."""
        header, tensors = read_tensors(path, _KIND)
        try:
            method = check_choice(header["method"], "method", CALIBRATION_METHODS)
            loaded = cls(method, check_count(header["k"], "k", at_least=2))
            loaded.ranked_by_ = check_choice(header["ranked_by"], "ranked_by", RANKED_BY)
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


def _as_list(
    hits: Hits | JudgedHits | Iterable[JudgedHits], matches: Any, modality: str | None, k: int
) -> list[JudgedHits]:
    if isinstance(hits, Hits):
        if matches is None or modality is None:
            raise InputValueError(
                "Hits need what people say of them and the modality of the queries: "
                "fit(hits, matches, modality='text')."
            )
        hits = JudgedHits.of(hits, matches, modality, k)
    elif matches is not None or modality is not None:
        raise InputValueError("JudgedHits hold their matches and modalities; give them alone.")
    parts = [hits] if isinstance(hits, JudgedHits) else list(hits)
    if not parts or not all(isinstance(part, JudgedHits) for part in parts):
        raise InputTypeError("hits must be JudgedHits or several; make them with judge_hits.")
    return parts
