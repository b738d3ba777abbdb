"""The probability of a match from the scores of a query: a model of one modality pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from modgap.core.checks import InputValueError, check_all_finite, check_finite
from modgap.search.judged_hits import JudgedHits, Pair, padded
from modgap.search.reliability import precision_curve

CalibrationMethod = Literal["logistic", "isotonic"]
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
