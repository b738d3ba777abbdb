"""Scores people can use: the probability that a hit is a match, and cut-offs that hold.

A raw score drifts from query to query and from one modality pair to the next, so no threshold on
it fits two of them. What tells a match apart is how a hit stands among the other hits of its own
query. The model has four numbers for each modality pair and needs nothing but the scores of the
k best hits, which every search returns: see docs/guides/search/scores.md for what else was tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from modgap.arrays import is_torch, like
from modgap.core.checks import (
    Array,
    InputError,
    InputTypeError,
    InputValueError,
    check_all_finite,
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
    padded,
    ranking,
)
from modgap.search.merging import cut
from modgap.search.reliability import (
    MIN_ACCEPTED,
    Reliability,
    Strategy,
    precision_at,
    precision_curve,
    reliability_curve,
)

_KIND = "score calibrator"
CalibrationMethod = Literal["logistic", "isotonic"]
CALIBRATION_METHODS = ("logistic", "isotonic")
MIN_QUERIES = 30
MIN_EACH = 10  # matches and non-matches among the hits
_PENALTY = 1e-4  # on standardised weights: keeps them finite when matches separate perfectly


def arrow(pair: Pair) -> str:
    """A modality pair as people read it."""
    return f"{pair[0]}→{pair[1]}"


@dataclass(frozen=True, eq=False)
class PairModel:
    """What was learned about one modality pair.

    ``weights`` (4,) turn the scores of a query into log-odds, ``steps`` (2, m) are the isotonic
    regression of matches on those, None for the logistic method. ``curve`` (3, points) holds
    probability thresholds from high to low, the precision at each on the held-out hits, and the
    share of their matches that it keeps. ``floor`` is the lowest score seen: where a query has
    fewer hits, those that are missing stand in for such ones.
    """

    weights: np.ndarray
    steps: np.ndarray | None
    curve: np.ndarray
    n_queries: int
    n_documents: int | None
    match_share: float
    floor: float

    def __post_init__(self) -> None:
        held = {"weights": self.weights, "steps": self.steps, "curve": self.curve}
        for name, values in held.items():
            if values is not None:
                check_all_finite(values, f"The {name} of a score calibrator")
        check_finite(self.match_share, "The share of matches of a score calibrator")
        check_finite(self.floor, "The lowest score of a score calibrator")

    @classmethod
    def fit(cls, hits: JudgedHits, method: CalibrationMethod, k: int) -> Self:
        """Learn from the k best hits of each query."""
        where = arrow(hits.pair)
        scores = padded(hits.scores, k, hits.scores, -np.inf)
        if scores.shape[1] < k:
            raise InputValueError(
                f"The calibrator looks at the {k} best hits of a query, {where} has "
                f"{scores.shape[1]}. Search for {k}, or give a smaller k."
            )
        assert hits.counted is not None
        counted, matches = (
            padded(part, k, hits.scores, False)[:, :k] for part in (hits.counted, hits.matches)
        )
        asking = counted.any(axis=1)
        n, counted = int(asking.sum()), counted[asking]
        if n < MIN_QUERIES:
            raise InputValueError(f"{where} needs at least {MIN_QUERIES} queries, got {n}.")
        truth = matches[asking][counted].astype(np.float64)
        n_matches, n_others = int(truth.sum()), int((1 - truth).sum())
        if n_matches < MIN_EACH or n_others < MIN_EACH:
            raise InputValueError(
                f"{where} needs at least {MIN_EACH} matches and {MIN_EACH} non-matches among its "
                f"hits, got {n_matches} and {n_others}. Are the groups those of these rows?"
            )
        scores = scores[asking, :k]
        floor = float(scores[np.isfinite(scores)].min())
        features = hit_features(with_floor(scores, floor))[counted.ravel()]
        weights = fit_logistic(features, truth)
        odds = log_odds(features, weights)
        steps = fit_isotonic(odds, truth) if method == "isotonic" else None
        curve = precision_curve(probability(odds, steps), truth)
        share = n_matches / truth.size
        return cls(weights, steps, curve, n, hits.n_documents, share, floor)

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Probability of being a match, of each hit, (n, k); NaN where there is none."""
        odds = log_odds(hit_features(with_floor(scores, self.floor)), self.weights)
        found = probability(odds, self.steps).reshape(scores.shape)
        return np.where(np.isneginf(scores), np.nan, found)

    def score_cutoff(self, scores: np.ndarray, threshold: float) -> np.ndarray:
        """The lowest score of each query's hits with at least this probability, (n,)."""
        scores = with_floor(scores, self.floor)
        first, second = scores[:, 0], scores[:, 1]
        a, c, level, base = self.weights
        rest = base + level * scores.mean(axis=1)
        least = least_odds(threshold, self.steps)
        # The others: −a s₁ + c (s + s₁) + rest ≥ least. The first: −a s₂ + c (s₁ + s₂) + rest.
        gap = least - rest + (a - c) * first
        flat = np.where(gap <= 0, -np.inf, np.inf)
        others = gap / c if c > 0 else flat
        top = (c - a) * second + c * first + rest >= least
        return np.where(others <= second, others, np.where(top, first, np.inf))

    def tensors(self, key: str) -> dict[str, np.ndarray]:
        """Its arrays, named for a file."""
        named = {f"{key}.{name}": getattr(self, name) for name in ("weights", "steps", "curve")}
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def read(cls, key: str, tensors: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Self:
        """What ``tensors`` named and the numbers beside them."""
        return cls(
            tensors[f"{key}.weights"],
            tensors[f"{key}.steps"] if about["method"] == "isotonic" else None,
            tensors[f"{key}.curve"],
            about["n_queries"],
            about["n_documents"],
            about["match_share"],
            about["floor"],
        )


def with_floor(scores: np.ndarray, floor: float) -> np.ndarray:
    """Scores with the floor, or the query's own lowest if that is lower, for hits it lacks."""
    missing = np.isneginf(scores)
    lowest = np.min(np.where(missing, floor, scores), axis=1, keepdims=True)
    return np.where(missing, np.minimum(lowest, floor), scores)


def hit_features(scores: np.ndarray) -> np.ndarray:
    """(n · k, 3): margin − s, 2 s − margin and the mean, for the scores of each query.

    The first two span the score and the margin. Their weights a, c ≥ 0 are exactly what keeps
    the order within a query: from the second to the first hit the log-odds rise by a (s₁ − s₂),
    between two of the others by c times their difference.
    """
    margin = scores - scores[:, :1]
    margin[:, 0] = scores[:, 0] - scores[:, 1]
    mean = np.broadcast_to(scores.mean(axis=1, keepdims=True), scores.shape)
    return np.stack([margin - scores, 2 * scores - margin, mean], axis=-1).reshape(-1, 3)


def log_odds(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Log-odds of being a match, linear in the features."""
    return features @ weights[:3] + weights[3]


def fit_logistic(features: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Weights of largest likelihood, the first two at least 0."""
    from scipy.optimize import minimize
    from scipy.special import expit

    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    Z = (features - centre) / spread

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        odds = log_odds(Z, w)
        value = np.mean(np.logaddexp(0, odds) - truth * odds) + _PENALTY / 2 * np.sum(w[:3] ** 2)
        off = (expit(odds) - truth) / len(truth)
        return float(value), np.append(Z.T @ off + _PENALTY * w[:3], off.sum())

    w = minimize(
        loss,
        np.zeros(4),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None), (0, None), (None, None), (None, None)],
        options={"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9},
    ).x
    weights = w[:3] / spread
    return np.append(weights, w[3] - weights @ centre)


def fit_isotonic(odds: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Corners (2, m) of the monotone curve; a level of 0 or 1 is held off by its own count."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression().fit(odds, truth)
    x, y = fitted.X_thresholds_, fitted.y_thresholds_.copy()
    levels = fitted.predict(odds)
    zeros, ones = np.sum(levels <= 0), np.sum(levels >= 1)
    inner = y[(y > 0) & (y < 1)]
    low, high = (inner.min(), inner.max()) if len(inner) else (0.5, 0.5)
    y[y <= 0] = min(1 / (zeros + 2), low)  # the rule of succession
    y[y >= 1] = max((ones + 1) / (ones + 2), high)
    return np.stack([x, y])


def probability(odds: np.ndarray, steps: np.ndarray | None) -> np.ndarray:
    """Probability of being a match, through the isotonic steps where there are any."""
    from scipy.special import expit

    return expit(odds) if steps is None else np.interp(odds, steps[0], steps[1])


def least_odds(probability: float, steps: np.ndarray | None) -> float:
    """The lowest log-odds with at least this probability; infinite where there are none."""
    from scipy.special import logit

    if steps is None:
        return float(logit(min(max(probability, 0.0), 1.0)))
    x, y = steps
    if probability > y[-1]:
        return float("inf")
    right = int(np.argmax(y >= probability))
    if right == 0:
        return float("-inf")
    share = (probability - y[right - 1]) / (y[right] - y[right - 1])
    return float(x[right - 1] + share * (x[right] - x[right - 1]))


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
