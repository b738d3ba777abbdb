"""Statistics that checks of several papers use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Values = Sequence[float] | np.ndarray


def rank_correlation(a: Values, b: Values) -> float:
    """Spearman's: 1 when b rises with a throughout."""
    from scipy.stats import spearmanr  # slow to load, and seldom needed

    return float(spearmanr(a, b).statistic)


def by_chance(n: int) -> float:
    """Four standard errors of a rank correlation of unrelated values: more is not chance."""
    return 4 / (n - 1) ** 0.5


def falls(values: Values) -> bool:
    """Whether each value is smaller than the one before it."""
    return all(after < before for before, after in pairwise(values))


def rises_nowhere(values: Values, errors: Values, by: float = 2.0) -> bool:
    """Whether no value is above the one before it by more than ``by`` standard errors of both."""
    steps, spread = np.diff(values), np.hypot(errors[:-1], errors[1:])
    return bool(np.all(steps <= by * spread))
