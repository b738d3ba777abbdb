"""Hits whose probabilities of a match are known."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from modgap.search import JudgedHits

PAIR = ("text", "image")


def simulate(n, k=10, seed=0, pair=PAIR, lift=0.0):
    """Hits whose probabilities are known: log-odds linear in score, margin and mean."""
    rng = np.random.default_rng(seed)
    scores = -np.sort(-(rng.normal(size=(n, k)) + rng.normal(size=(n, 1)) + lift), axis=1)
    margin = scores - scores[:, :1]
    margin[:, 0] = scores[:, 0] - scores[:, 1]
    truth = expit(0.8 * scores + 1.2 * margin - 0.5 * scores.mean(axis=1, keepdims=True) + 0.4)
    return JudgedHits(pair, scores, rng.random((n, k)) < truth), truth


def precision(accepted, hits):
    return hits.matches[accepted].mean() if accepted.any() else np.nan
