"""The small models behind ``ScoreCalibrator``: log-odds of a hit, and steps on top of them."""

from __future__ import annotations

import numpy as np

_PENALTY = 1e-4  # on standardised weights: keeps them finite when matches separate perfectly


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
