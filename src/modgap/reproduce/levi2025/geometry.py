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
from modgap.reproduce.checks import Check
from modgap.reproduce.drawing import bin_counts, limits, some
from modgap.reproduce.entry import Outcome
from modgap.reproduce.levi2025 import PAPER, resampled
from modgap.reproduce.levi2025.resampled import Binned, divergences
from modgap.reproduce.levi2025.row_sets import BINS, RowSet
from modgap.reproduce.statistics import Interval, around, between, mean_interval

# A few dominances are many times the others; drawing them would flatten the rest.
TAIL = 0.01
# As many features as fig. 3 shows of each side.
FEW = 10
# A mean that is nearer to the origin than to one size away from it is called near the origin.
HALF = 0.5
# What "≫" means at the least.
FAR_ABOVE = 0.1


def telling_features(rows: RowSet) -> Outcome:
    """The features that tell the modalities apart best, and a line between two of them."""
    X, Y = rows.X, rows.Y
    order = np.argsort(-separability(X, Y), kind="stable")
    held_out = linear_separability(X, Y, rows.seed)
    line, fitted, pair = _separating_line(X, Y, order[:2])
    by_chance = _two_random_features(X, Y, rows.seed)
    divergence = feature_divergence(X, Y, BINS)
    points = {"image": X[:, pair], "text": Y[:, pair]}
    right = round(held_out.two_features * held_out.n_held_out)
    unseen = resampled.share_interval(np.arange(held_out.n_held_out) < right)
    least = _least_divergence(X[:, order[:3]], Y[:, order[:3]])
    return Outcome(
        {
            "KL of the most telling feature": float(divergence[order[0]]),
            "most telling features, from 0": ", ".join(str(f) for f in order[:3]),
            "accuracy on two features": fitted,
            "accuracy on two features, held out": held_out.two_features,
            "the same on two features at random": by_chance,
        },
        [
            PAPER.above("telling_features", least, 1.0, name=rows.name),
            PAPER.check("line_in_two_features", fitted == 1, name=rows.name),
            PAPER.above("line_beyond_random_features", unseen, by_chance, name=rows.name),
        ],
        {
            "features": [int(f) for f in order[:3]],
            "histograms": [bin_counts({"image": X[:, f], "text": Y[:, f]}) for f in order[:3]],
            "pair": pair,
            "points": {side: some(seen) for side, seen in points.items()},
            "limits": limits(points),
            "line": line,
        },
    )


def _least_divergence(X: np.ndarray, Y: np.ndarray) -> Interval:
    """The least KL of some features, over rows drawn anew on both sides."""
    binned = Binned.of(X.T, Y.T, BINS)
    weights = [resampled.row_weights(len(A), seed=k) for k, A in enumerate((X, Y))]
    value = divergences(binned, *(np.full((1, len(A)), 1 / len(A)) for A in (X, Y)))
    return between(float(value.min()), divergences(binned, *weights).min(axis=1))


def _two_random_features(X: np.ndarray, Y: np.ndarray, seed: int, draws: int = 5) -> float:
    """Mean held-out accuracy of a line in two features drawn at random."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        pair = rng.choice(X.shape[1], 2, replace=False)
        found.append(linear_separability(X[:, pair], Y[:, pair], seed).two_features)
    return float(np.mean(found))


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


def tags(rows: RowSet) -> Outcome:
    """How many features tell the modality by themselves, and how few make up the gap."""
    X, Y = rows.X, rows.Y
    values = np.sort(separability(X, Y))[::-1]
    count, dimension = int(np.sum(values > 1)), len(values)
    (mx, vx), (my, vy) = (resampled.drawn_moments(A, seed=k) for k, A in enumerate((X, Y)))
    drawn = np.sum(np.abs(mx - my) > np.sqrt(vx + vy), axis=1)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    carried = around(_largest(gap), _largest(mx - my))
    chance = _of_random_directions(dimension, rows.seed)
    return Outcome(
        {
            "tag features": count,
            "share of features that are tags": count / dimension,
            "share of the gap that ten features carry": carried.value,
            "the same of a random direction, at most": chance,
        },
        [
            PAPER.above("tag_features", around(count, drawn), name=rows.name),
            PAPER.above("few_features_make_gap", carried, chance, name=rows.name),
        ],
        {"separability": values, "place": np.arange(1, dimension + 1)},
    )


def offsets(rows: RowSet) -> Outcome:
    """How far each ellipsoid sits off the origin, and the features that push it there."""
    measured: dict[str, Any] = {}
    checks: list[Check] = []
    bars = {}
    for side, A in rows.sides.items():
        off = resampled.of_features(relative_offset, A)
        pushed = resampled.of_features(_pushing, A)
        chance = _of_random_directions(A.shape[1], rows.seed)
        by_feature = feature_offset(A)
        top = np.argsort(-by_feature, kind="stable")[:FEW]
        bars[side] = {str(f): float(by_feature[f]) for f in top}
        measured |= {
            f"offset of {side}": off.value,
            f"share of the mean in ten features, {side}": pushed.value,
            f"the same of a random direction, at most, {side}": chance,
        }
        checks += [
            PAPER.above("off_the_origin", off, HALF, side=side, name=rows.name),
            PAPER.above("few_features_push", pushed, chance, side=side, name=rows.name),
        ]
    return Outcome(measured, checks, {"offsets": bars})


def relative_offset(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """How far an ellipsoid sits off the origin, over its size."""
    return np.asarray(_length(means) / np.sqrt(variances.sum(axis=-1)))


def _length(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows, axis=-1)


def _largest(directions: np.ndarray) -> Any:
    """The share of the squared length of directions (…, d) in their ten largest features."""
    squares = np.sort(directions**2, axis=-1)
    return squares[..., -FEW:].sum(axis=-1) / squares.sum(axis=-1)


def _pushing(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """The share of the squared mean in the ten features of largest mean over spread."""
    top = np.argsort(means**2 / variances, axis=-1)[..., -FEW:]
    squares = means**2
    return np.take_along_axis(squares, top, axis=-1).sum(axis=-1) / squares.sum(axis=-1)


def _of_random_directions(dimension: int, seed: int, draws: int = 2000) -> float:
    """The share that the ten largest features of 97.5 % of all directions stay below."""
    drawn = np.random.default_rng(seed).standard_normal((draws, dimension))
    return float(np.quantile(_largest(drawn), 0.975))


def thin_shells(rows: RowSet) -> Outcome:
    """Centred features that peak at zero, and centred rows of which none is near zero."""
    measured: dict[str, Any] = {}
    features: dict[str, Any] = {}
    checks: list[Check] = []
    radii = {}
    for side, given in rows.sides.items():
        A = given - given.mean(axis=0)
        found, radii[side] = shell(A), _length(A)
        thin = resampled.drawn_rows(lambda r: float(r.var() / r.mean() ** 2), radii[side])
        inside = resampled.share_interval(radii[side] < HALF * found.radius)
        alone = float(np.mean(np.abs(A) < HALF * np.abs(A).mean(axis=0)))
        peak = _farthest_peak(A[:, :FEW])
        by_eq_3 = found.sqrt_trace**2 / (found.radius**2 + found.variance)
        measured |= {
            f"mean radius, {side}": found.radius,
            f"variance of the radius, {side}": found.variance,
            f"√trace C, {side}": found.sqrt_trace,
            f"relative error, {side}": found.relative_error,
            f"variance over the mean radius squared, {side}": thin.value,
            f"farthest peak of ten features, in standard deviations, {side}": peak.value,
            f"smallest radius over the mean, {side}": float(radii[side].min()) / found.radius,
            f"share within half the mean size of 0, single features, {side}": alone,
        }
        checks += [
            PAPER.below("peaks_near_zero", peak, 1.0, side=side, name=rows.name),
            PAPER.below("few_rows_near_mean", inside, alone, side=side, name=rows.name),
            PAPER.below("thin_shell", thin, FAR_ABOVE, side=side, name=rows.name),
            PAPER.check("trace_by_eq_3", abs(by_eq_3 - 1) < 1e-6, side=side, name=rows.name),
        ]
        low, high = np.quantile(A[:, :FEW], [0.001, 0.999])
        edges = np.linspace(low, high, 25)
        features[side] = {
            "x": (edges[1:] + edges[:-1]) / 2,
            "ys": {
                f"feature {k}": np.histogram(column, edges, density=True)[0]
                for k, column in enumerate(A[:, :FEW].T)
            },
        }
    return Outcome(measured, checks, {"features": features, "radii": bin_counts(radii)})


def _farthest_peak(A: np.ndarray) -> Interval:
    """How far from 0 the farthest peak of the features is, in their standard deviations.

    Peaks are those of a kernel density of Silverman's width; rows are drawn anew.
    """
    n, grid = len(A), np.linspace(-3, 3, 121)
    weights = resampled.all_and_drawn(n)
    peaks = []
    for column in (A / A.std(axis=0)).T:
        kernels = np.exp(-0.5 * ((column[:, None] - grid) / (1.06 * n**-0.2)) ** 2)
        peaks.append(np.abs(grid[(weights @ kernels).argmax(axis=1)]))
    farthest = np.max(peaks, axis=0)
    return around(farthest[0], farthest[1:])


def tilted(rows: RowSet) -> Outcome:
    """Unequal variances make an ellipsoid, correlated features tilt it."""
    rng = np.random.default_rng(rows.seed)
    measured: dict[str, Any] = {}
    checks: list[Check] = []
    variances, dominances = {}, {}
    for side, A in rows.sides.items():
        variance, sphere = feature_variance(A), rng.standard_normal(A.shape)
        round_tail = feature_variance(sphere).tail
        tail = resampled.of_features(lambda _, of: of.max(axis=-1) / np.median(of, axis=-1), A)
        # Over the median, so that sides and models of any scale compare.
        variances[side] = variance.values / np.median(variance.values)
        dominance = off_diagonal_dominance(A)
        # With n rows unrelated features correlate by 1/√n, and d of them add up: shuffling each
        # feature on its own says how much of the dominance is that.
        chance = off_diagonal_dominance(rng.permuted(A, axis=0))
        dominances[side] = bin_counts(
            {"measured": dominance, "features shuffled": chance}, tail=TAIL
        )
        measured |= {
            f"largest over median variance, {side}": tail.value,
            f"the same of as many rows on a sphere, {side}": round_tail,
            f"median dominance, {side}": float(np.median(dominance)),
            f"median dominance of shuffled features, {side}": float(np.median(chance)),
            f"least dominance, {side}": float(dominance.min()),
        }
        checks += [
            PAPER.above("long_tail_of_variances", tail, round_tail, side=side, name=rows.name),
            PAPER.above("features_correlate", _beyond_shuffled(A, rng), side=side, name=rows.name),
        ]
    return Outcome(measured, checks, {"variance": bin_counts(variances), "dominance": dominances})


def _beyond_shuffled(A: np.ndarray, rng: np.random.Generator, halves: int = 6) -> Interval:
    """Median dominance less that of shuffled features, on random halves of the rows.

    Values of halves spread as those of whole sets of rows do, so that their spread is not divided
    by their number.
    """
    found = []
    for _ in range(halves):
        half = A[rng.choice(len(A), len(A) // 2, replace=False)]
        pair = (off_diagonal_dominance(B) for B in (half, rng.permuted(half, axis=0)))
        found.append(float(np.subtract(*(np.median(values) for values in pair))))
    narrow = mean_interval(found)
    wide = (narrow.high - narrow.value) * halves**0.5
    return Interval(narrow.value, narrow.value - wide, narrow.value + wide)
