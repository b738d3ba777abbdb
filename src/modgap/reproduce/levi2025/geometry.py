"""Section 4: tags, thin shells and tilted ellipsoids (figs 2–5), and the same again (15–18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
from modgap.reproduce.entry import Check, check
from modgap.reproduce.levi2025.rows import BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Data = dict[str, Any]
SIDES = ("image", "text")
# A few dominances are many times the others; drawing them would flatten the rest.
TAIL = 0.01


def tag_features(X: np.ndarray, Y: np.ndarray, seed: int) -> tuple[Data, Data, list[Check]]:
    """The features that tell the modalities apart: measured, data to draw, checks."""
    values = np.asarray(separability(X, Y))
    order = np.argsort(-values, kind="stable")
    divergence = np.asarray(feature_divergence(X, Y, BINS))
    held_out = linear_separability(X, Y, seed)
    slope, intercept, fitted, pair = _separating_line(X, Y, order[:2])
    measured = {
        "KL of the most telling feature": float(divergence[order[0]]),
        "accuracy on two features": fitted,
        "accuracy on two features, held out": held_out.two_features,
    }
    points = {"image": X[:, pair], "text": Y[:, pair]}
    data = {
        "features": [int(f) for f in order[:3]],
        "histograms": [counted({"image": X[:, f], "text": Y[:, f]}) for f in order[:3]],
        "pair": pair,
        "points": {side: some(rows) for side, rows in points.items()},
        "limits": limits(points),
        "line": (slope, intercept),
    }
    checks = [
        check(
            "Two features are enough for a linear classifier to tell every row's modality, "
            "on rows it has not seen too.",
            fitted == 1 and held_out.two_features == 1,
        ),
        check(
            "Each of the three most telling features has a KL divergence above 1.",
            (divergence[order[:3]] > 1).all(),
        ),
    ]
    return measured, data, checks


def _separating_line(
    X: np.ndarray, Y: np.ndarray, features: np.ndarray
) -> tuple[float, float, float, list[int]]:
    """Slope, intercept and accuracy of a linear classifier on two features, the flatter way up."""
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    rows = np.concatenate([X[:, features], Y[:, features]])
    sides = np.repeat([0, 1], [len(X), len(Y)])
    scaler = StandardScaler().fit(rows)
    model = LinearSVC(dual=False).fit(scaler.transform(rows), sides)
    accuracy = float(model.score(scaler.transform(rows), sides))
    weights = model.coef_[0] / scaler.scale_
    constant = float(model.intercept_[0] - weights @ scaler.mean_)
    # A steep line would stretch the picture to reach the vertical axis.
    across, up = (0, 1) if abs(weights[0]) <= abs(weights[1]) else (1, 0)
    pair = [int(features[across]), int(features[up])]
    return (
        float(-weights[across] / weights[up]),
        float(-constant / weights[up]),
        accuracy,
        pair,
    )


def offsets(X: np.ndarray, Y: np.ndarray) -> tuple[Data, Data, list[Check]]:
    """How many tags there are, and how far each ellipsoid sits off the origin."""
    values = np.sort(np.asarray(separability(X, Y)))[::-1]
    tags = int((values > 1).sum())
    dim = X.shape[1]
    per_feature = [np.asarray(feature_offset(A)) for A in (X, Y)]
    top = [np.argsort(-values, kind="stable")[:10] for values in per_feature]
    off = [shell(A).offset for A in (X, Y)]
    measured = {
        "tag features": tags,
        "share of features that are tags": tags / dim,
        "offset of image": off[0],
        "offset of text": off[1],
    }
    data = {
        "separability": values,
        "offsets": {
            side: {str(f): float(values[f]) for f in chosen}
            for side, values, chosen in zip(SIDES, per_feature, top, strict=True)
        },
    }
    checks = [
        check("There are tag features, fewer than one feature in ten.", 0 < tags < 0.1 * dim),
        check(
            "Both ellipsoids sit off the origin by more than half their size.",
            min(off) > 0.5,
        ),
        check(
            "A few features carry that: the tenth largest offset is at least twice the median one.",
            all(
                values[chosen[-1]] > 2 * np.median(values)
                for values, chosen in zip(per_feature, top, strict=True)
            ),
        ),
    ]
    return measured, data, checks


def thin_shells(X: np.ndarray, Y: np.ndarray) -> tuple[Data, Data, list[Check]]:
    """Centred features that peak at zero, and centred rows of which none is near zero."""
    measured: Data = {}
    data: Data = {"features": {}}
    centred = {"image": X - X.mean(axis=0), "text": Y - Y.mean(axis=0)}
    radii = {side: np.linalg.norm(rows, axis=1) for side, rows in centred.items()}
    peaks, nearest = [], []
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
        edges = np.linspace(float(np.quantile(first, 0.001)), float(np.quantile(first, 0.999)), 25)
        middles = (edges[1:] + edges[:-1]) / 2
        heights = [np.histogram(column, edges, density=True)[0] for column in first.T]
        data["features"][side] = {
            "x": middles,
            "ys": {f"feature {k}": height for k, height in enumerate(heights)},
        }
        peaks += [abs(_mode(column)) <= column.std() for column in first.T]
        nearest.append(radii[side].min() / found.radius)
    data["radii"] = counted(radii)
    errors = [measured[f"relative error, {side}"] for side in SIDES]
    checks = [
        check(
            "Each of the first ten centred features peaks within a standard deviation of 0.",
            all(peaks),
        ),
        check(
            "No centred row is nearer to 0 than half the mean radius.",
            min(nearest) > 0.5,
        ),
        check("√trace C meets the mean radius within 1 %.", max(errors) < 0.01),
    ]
    return measured, data, checks


def _mode(values: np.ndarray) -> float:
    """The middle of the fullest of 15 bins."""
    counts, edges = np.histogram(values, 15)
    fullest = int(np.argmax(counts))
    return float(edges[fullest] + edges[fullest + 1]) / 2


def tilted(X: np.ndarray, Y: np.ndarray, seed: int) -> tuple[Data, Data, list[Check]]:
    """Unequal variances make an ellipsoid, correlated features tilt it."""
    rng = np.random.default_rng(seed)
    measured: Data = {}
    dominances: dict[str, Data] = {}
    variances, clear = {}, []
    for side, rows in zip(SIDES, (X, Y), strict=True):
        variance = feature_variance(rows)
        # Over the median, so that sides and models of any scale compare.
        variances[side] = np.asarray(variance.values) / np.median(variance.values)
        dominance = np.asarray(off_diagonal_dominance(rows))
        # With n rows unrelated features correlate by 1/√n, and d of them add up: shuffling each
        # feature on its own says how much of the dominance is that.
        chance = np.asarray(off_diagonal_dominance(rng.permuted(rows, axis=0)))
        dominances[side] = counted({"measured": dominance, "features shuffled": chance}, tail=TAIL)
        measured |= {
            f"largest over median variance, {side}": variance.tail,
            f"median dominance, {side}": float(np.median(dominance)),
            f"median dominance of shuffled features, {side}": float(np.median(chance)),
            f"least dominance, {side}": float(dominance.min()),
        }
        clear.append(float(np.mean(dominance > chance)))
        measured[f"share of features above their shuffled dominance, {side}"] = clear[-1]
    checks = [
        check(
            "Variances have a long tail: the largest is over twice the median, on both sides.",
            min(measured[f"largest over median variance, {side}"] for side in SIDES) > 2,
        ),
        check(
            "No feature is diagonally dominant: every off-diagonal dominance is above 1.",
            min(measured[f"least dominance, {side}"] for side in SIDES) > 1,
        ),
        check(
            "Features correlate beyond chance: the dominance of 95 % of them is above what the "
            "same feature has once all are shuffled.",
            min(clear) > 0.95,
        ),
    ]
    return measured, {"variance": counted(variances), "dominance": dominances}, checks


def draw_tags(data: Mapping[str, Any], axes: list[Axes], label: str = "") -> None:
    """Three histograms and the two best features with the classifier's line."""
    from modgap.plot import histograms, scatter

    for ax, feature, found in zip(axes[:3], data["features"], data["histograms"], strict=True):
        histograms(found["edges"], found["counts"], xlabel=f"feature {feature}", title=label, ax=ax)
    across, up = data["pair"]
    ax = scatter(
        data["points"],
        xlabel=f"feature {across}",
        ylabel=f"feature {up}",
        line=tuple(data["line"]),
        title=label,
        ax=axes[3],
    )
    ax.set_xlim(*data["limits"][0])
    ax.set_ylim(*data["limits"][1])


def draw_separability(data: Mapping[str, Any], ax: Axes) -> None:
    """Features sorted by how well they tell the modalities apart."""
    from modgap.plot import curves

    values = data["separability"]
    curves(
        range(1, len(values) + 1),
        {"separability": values},
        horizontal={"a tag above 1": 1.0},
        xlabel="feature, sorted",
        ylabel="separability",
        log="x",
        ax=ax,
    )


def draw_offsets(data: Mapping[str, Any], axes: list[Axes]) -> None:
    """The ten features farthest off the origin, for each side."""
    from modgap.plot import bars

    for ax, (side, values) in zip(axes, data["offsets"].items(), strict=True):
        bars(values, ylabel="|mean| / std", title=f"{side}: ten features farthest off 0", ax=ax)


def draw_shells(data: Mapping[str, Any], axes: list[Axes]) -> None:
    """The first ten centred features of each side, and the radii."""
    from modgap.plot import curves, histograms

    for ax, (side, found) in zip(axes[:2], data["features"].items(), strict=True):
        curves(
            found["x"],
            found["ys"],
            xlabel="value less its mean",
            ylabel="density",
            title=f"{side}: the first ten features",
            ax=ax,
        )
        # Ten names would hide the curves, and none of them matters.
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
    found = data["radii"]
    histograms(found["edges"], found["counts"], xlabel="distance from the mean", ax=axes[2])


def draw_tilted(data: Mapping[str, Any], axes: list[Axes]) -> None:
    """Variances of both sides, and the dominance of each beside that of shuffled features."""
    from modgap.plot import histograms

    found = data["variance"]
    histograms(
        found["edges"], found["counts"], xlabel="variance of a feature over the median", ax=axes[0]
    )
    for ax, (side, found) in zip(axes[1:], data["dominance"].items(), strict=True):
        histograms(
            found["edges"],
            found["counts"],
            xlabel=f"off-diagonal dominance (top {TAIL:.0%} left out)",
            title=side,
            ax=ax,
        )
