"""What was learned about the hits of one modality pair: scores to probabilities and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from modgap._validate import InputValueError
from modgap.search.judged import JudgedHits, Pair
from modgap.search.odds import (
    fit_isotonic,
    fit_logistic,
    hit_features,
    least_odds,
    log_odds,
    probability,
)
from modgap.search.reliability import precision_curve

Method = Literal["logistic", "isotonic"]
METHODS = ("logistic", "isotonic")
MIN_QUERIES = 30
MIN_EACH = 10  # matches and non-matches among the hits


def arrow(pair: Pair) -> str:
    """A modality pair as people read it."""
    return f"{pair[0]}→{pair[1]}"


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

    @classmethod
    def fit(cls, hits: JudgedHits, method: Method, k: int) -> Self:
        """Learn from the k best hits of each query."""
        where = arrow(hits.pair)
        n, found = hits.scores.shape
        if found < k:
            raise InputValueError(
                f"The calibrator looks at the {k} best hits of a query, {where} has {found}. "
                f"Search for {k}, or give a smaller k."
            )
        if n < MIN_QUERIES:
            raise InputValueError(f"{where} needs at least {MIN_QUERIES} queries, got {n}.")
        truth = hits.matches[:, :k].ravel().astype(np.float64)
        n_matches, n_others = int(truth.sum()), int((1 - truth).sum())
        if n_matches < MIN_EACH or n_others < MIN_EACH:
            raise InputValueError(
                f"{where} needs at least {MIN_EACH} matches and {MIN_EACH} non-matches among its "
                f"hits, got {n_matches} and {n_others}. Are the groups those of these rows?"
            )
        features = hit_features(hits.scores[:, :k])
        weights = fit_logistic(features, truth)
        odds = log_odds(features, weights)
        steps = fit_isotonic(odds, truth) if method == "isotonic" else None
        curve = precision_curve(probability(odds, steps), truth)
        return cls(weights, steps, curve, n, hits.n_documents, n_matches / truth.size)

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Probability of being a match, of each hit, (n, k)."""
        odds = log_odds(hit_features(scores), self.weights)
        return probability(odds, self.steps).reshape(scores.shape)

    def score_cutoff(self, scores: np.ndarray, threshold: float) -> np.ndarray:
        """The lowest score of each query's hits with at least this probability, (n,)."""
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
        )
