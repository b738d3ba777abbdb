"""What section 4 measures on two modalities: tags, offsets, thin shells, tilted ellipsoids."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.measures import (
    feature_divergence,
    feature_offset,
    feature_variance,
    linear_separability,
    off_diagonal_dominance,
    separability,
    shell,
)
from modgap.reproduce.drawing import counted, limits, some
from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.levi2025.rows import BINS

# A few dominances are many times the others; drawing them would flatten the rest.
TAIL = 0.01


def telling_features(X: np.ndarray, Y: np.ndarray, seed: int) -> Outcome:
    """The features that tell the modalities apart best, and a line between two of them."""
    order = np.argsort(-separability(X, Y), kind="stable")
    divergence = feature_divergence(X, Y, BINS)
    held_out = linear_separability(X, Y, seed).two_features
    line, fitted, pair = _separating_line(X, Y, order[:2])
    points = {"image": X[:, pair], "text": Y[:, pair]}
    return Outcome(
        {
            "KL of the most telling feature": float(divergence[order[0]]),
            "accuracy on two features": fitted,
            "accuracy on two features, held out": held_out,
        },
        [
            check(
                "Two features are enough for a linear classifier to tell every row's modality, "
                "on rows it has not seen too.",
                fitted == 1 and held_out == 1,
            ),
            check(
                "Each of the three most telling features has a KL divergence above 1.",
                np.all(divergence[order[:3]] > 1),
            ),
        ],
        {
            "features": [int(f) for f in order[:3]],
            "histograms": [counted({"image": X[:, f], "text": Y[:, f]}) for f in order[:3]],
            "pair": pair,
            "points": {side: some(rows) for side, rows in points.items()},
            "limits": limits(points),
            "line": line,
        },
    )


def _separating_line(
    X: np.ndarray, Y: np.ndarray, features: np.ndarray
) -> tuple[tuple[float, float], float, list[int]]:
    """(Slope, intercept) and accuracy of a linear classifier on two features, and their order.

    The order is the one in which the line is flatter: a steep line would stretch the picture to
    reach the vertical axis.
    """
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    rows = np.concatenate([X[:, features], Y[:, features]])
    sides = np.repeat([0, 1], [len(X), len(Y)])
    scaler = StandardScaler().fit(rows)
    model = LinearSVC(dual=False).fit(scaler.transform(rows), sides)
    weights = model.coef_[0] / scaler.scale_
    constant = model.intercept_[0] - weights @ scaler.mean_
    across, up = (0, 1) if abs(weights[0]) <= abs(weights[1]) else (1, 0)
    return (
        (float(-weights[across] / weights[up]), float(-constant / weights[up])),
        float(model.score(scaler.transform(rows), sides)),
        [int(features[across]), int(features[up])],
    )


def tags(X: np.ndarray, Y: np.ndarray) -> Outcome:
    """How many features tell the modality by themselves."""
    values = np.sort(separability(X, Y))[::-1]
    count, dimension = int(np.sum(values > 1)), len(values)
    return Outcome(
        {"tag features": count, "share of features that are tags": count / dimension},
        [
            check(
                "There are tag features, fewer than one feature in ten.",
                0 < count < 0.1 * dimension,
            )
        ],
        {"separability": values, "place": np.arange(1, dimension + 1)},
    )


def offsets(X: np.ndarray, Y: np.ndarray) -> Outcome:
    """How far each ellipsoid sits off the origin, and the features that push it there."""
    sides = {"image": X, "text": Y}
    off = {side: shell(rows).offset for side, rows in sides.items()}
    by_feature = {side: feature_offset(rows) for side, rows in sides.items()}
    top = {side: np.argsort(-values, kind="stable")[:10] for side, values in by_feature.items()}
    return Outcome(
        {f"offset of {side}": value for side, value in off.items()},
        [
            check(
                "Both ellipsoids sit off the origin by more than half their size.",
                min(off.values()) > 0.5,
            ),
            check(
                "A few features carry the offset: the tenth largest is over twice the median one.",
                all(
                    values[top[side][-1]] > 2 * np.median(values)
                    for side, values in by_feature.items()
                ),
            ),
        ],
        {
            "offsets": {
                side: {str(f): float(values[f]) for f in top[side]}
                for side, values in by_feature.items()
            }
        },
    )


def thin_shells(X: np.ndarray, Y: np.ndarray) -> Outcome:
    """Centred features that peak at zero, and centred rows of which none is near zero."""
    measured: dict[str, float] = {}
    features: dict[str, Any] = {}
    centred = {"image": X - X.mean(axis=0), "text": Y - Y.mean(axis=0)}
    radii = {side: np.linalg.norm(rows, axis=1) for side, rows in centred.items()}
    for side, rows in centred.items():
        found = shell(rows)
        measured |= {
            f"mean radius, {side}": found.radius,
            f"variance of the radius, {side}": found.variance,
            f"√trace C, {side}": found.sqrt_trace,
            f"relative error, {side}": found.relative_error,
            f"smallest radius over the mean, {side}": float(radii[side].min() / found.radius),
        }
        first = rows[:, :10]
        low, high = np.quantile(first, [0.001, 0.999])
        edges = np.linspace(low, high, 25)
        features[side] = {
            "x": (edges[1:] + edges[:-1]) / 2,
            "ys": {
                f"feature {k}": np.histogram(column, edges, density=True)[0]
                for k, column in enumerate(first.T)
            },
        }
    return Outcome(
        measured,
        [
            check(
                "Each of the first ten centred features peaks within a standard deviation of 0.",
                all(
                    abs(_mode(column)) <= column.std()
                    for rows in centred.values()
                    for column in rows[:, :10].T
                ),
            ),
            check(
                "No centred row is nearer to 0 than half the mean radius.",
                min(_of_both("smallest radius over the mean", measured)) > 0.5,
            ),
            check(
                "√trace C meets the mean radius within 1 %.",
                max(_of_both("relative error", measured)) < 0.01,
            ),
        ],
        {"features": features, "radii": counted(radii)},
    )


def _mode(values: np.ndarray) -> float:
    """The middle of the fullest of 15 bins."""
    counts, edges = np.histogram(values, 15)
    fullest = int(np.argmax(counts))
    return float(edges[fullest] + edges[fullest + 1]) / 2


def tilted(X: np.ndarray, Y: np.ndarray, seed: int) -> Outcome:
    """Unequal variances make an ellipsoid, correlated features tilt it."""
    rng = np.random.default_rng(seed)
    measured: dict[str, float] = {}
    variances, dominances = {}, {}
    for side, rows in (("image", X), ("text", Y)):
        variance = feature_variance(rows)
        # Over the median, so that sides and models of any scale compare.
        variances[side] = variance.values / np.median(variance.values)
        dominance = off_diagonal_dominance(rows)
        # With n rows unrelated features correlate by 1/√n, and d of them add up: shuffling each
        # feature on its own says how much of the dominance is that.
        chance = off_diagonal_dominance(rng.permuted(rows, axis=0))
        dominances[side] = counted({"measured": dominance, "features shuffled": chance}, tail=TAIL)
        measured |= {
            f"largest over median variance, {side}": variance.tail,
            f"median dominance, {side}": float(np.median(dominance)),
            f"median dominance of shuffled features, {side}": float(np.median(chance)),
            f"least dominance, {side}": float(dominance.min()),
            f"share of features above their shuffled dominance, {side}": float(
                np.mean(dominance > chance)
            ),
        }
    return Outcome(
        measured,
        [
            check(
                "Variances have a long tail: the largest is over twice the median, on both sides.",
                min(_of_both("largest over median variance", measured)) > 2,
            ),
            check(
                "No feature is diagonally dominant: every off-diagonal dominance is above 1.",
                min(_of_both("least dominance", measured)) > 1,
            ),
            check(
                "Features correlate beyond chance: the dominance of 95 % of them is above what the "
                "same feature has once all are shuffled.",
                min(_of_both("share of features above their shuffled dominance", measured)) > 0.95,
            ),
        ],
        {"variance": counted(variances), "dominance": dominances},
    )


def _of_both(name: str, measured: dict[str, float]) -> list[float]:
    return [measured[f"{name}, {side}"] for side in ("image", "text")]
