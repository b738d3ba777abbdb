"""A scorer for scikit-learn's searches: how well a fitted corrector serves a goal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from modgap._validate import Array, check_choice
from modgap.corrections import Corrector
from modgap.evaluation.mixed import mixed_retrieval
from modgap.evaluation.noise import Gaussian, Noise, Quantiser
from modgap.evaluation.retrieval import retrieval
from modgap.evaluation.robustness import robustness

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
            return float(np.mean(list(retrieval(X, Y, 1, correction=correction).recall().values())))
        options: dict[str, Any] = {"draws": draws, "correction": correction, "seed": seed}
        asking = [name in correction.queries for name in correction.names]
        kept = []
        if asking[0]:
            kept.append(robustness(X, Y, disturbed, candidate_side="y", **options).share[0])
        if asking[1]:
            kept.append(robustness(Y, X, disturbed, candidate_side="x", **options).share[0])
        return float(np.mean(kept))

    return score
