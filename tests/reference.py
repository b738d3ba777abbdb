"""Slow, obvious versions of every measure, written from definitions.md, not from the code.

Plain loops and the simplest NumPy in float64. Nothing here is meant to be fast; everything is
meant to be believed at a glance. X is (n, d), Y is (m, d), one row per item.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import scipy.special


def wide(A):
    return np.asarray(A, dtype=np.float64)


def unit(A):
    return np.array([row / math.sqrt(sum(v * v for v in row)) for row in wide(A)])


def cosine(a, b):
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))


def kl(p, q):
    return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))


# --- Gap -----------------------------------------------------------------------------------------


def gap_vector(X, Y):
    return wide(X).mean(axis=0) - wide(Y).mean(axis=0)


def gap_distance(X, Y):
    return math.sqrt(sum(v * v for v in gap_vector(X, Y)))


def local_gaps(X, Y):
    return np.array([x - y for x, y in zip(wide(X), wide(Y), strict=True)])


def gap_cosines(A, gap):
    """Cosines between the centred rows of one modality and the gap vector."""
    A = wide(A)
    return np.array([cosine(row - A.mean(axis=0), gap) for row in A])


def margin(X, Y):
    Z = unit(X) @ unit(Y).T
    n = len(Z)
    return min(
        min(Z[i, i] - Z[i, j], Z[j, j] - Z[i, j]) for i in range(n) for j in range(n) if i != j
    )


def norms(X):
    return np.array([math.sqrt(sum(v * v for v in row)) for row in wide(X)])


# --- Cone ----------------------------------------------------------------------------------------


def cone_cosines(X):
    """Cosines of all ordered pairs i ≠ j."""
    U = unit(X)
    n = len(U)
    return np.array([U[i] @ U[j] for i in range(n) for j in range(n) if i != j])


def log10_cap_fraction(cos, dim):
    """Share of the sphere in a cap of half angle arccos(cos)/2, by integrating sin^(dim−2)."""
    half = math.acos(cos) / 2
    angles = np.linspace(0, math.pi, 200_001)
    density = np.sin(angles) ** (dim - 2)
    inside = angles <= half
    return float(np.trapezoid(density[inside], angles[inside]) / np.trapezoid(density, angles))


# --- Ellipsoid -----------------------------------------------------------------------------------


def separability(X, Y):
    X, Y = wide(X), wide(Y)
    return np.array(
        [
            abs(X[:, k].mean() - Y[:, k].mean()) / math.sqrt(X[:, k].var() + Y[:, k].var())
            for k in range(X.shape[1])
        ]
    )


def feature_offset(X):
    X = wide(X)
    return np.array([abs(X[:, k].mean()) / X[:, k].std() for k in range(X.shape[1])])


def histogram_divergence(x, y, bins):
    """KL(x‖y) of two histograms over shared bins, 1e-10 added to each bin before normalising."""
    span = (min(x.min(), y.min()), max(x.max(), y.max()))
    p = np.histogram(x, bins, span)[0] + 1e-10
    q = np.histogram(y, bins, span)[0] + 1e-10
    return kl(p / p.sum(), q / q.sum())


def feature_divergence(X, Y, bins=50):
    X, Y = wide(X), wide(Y)
    return np.array([histogram_divergence(X[:, k], Y[:, k], bins) for k in range(X.shape[1])])


def shell(X):
    """Mean radius, variance of the radii, sqrt(trace C), its relative error, offset."""
    X = wide(X)
    centre = X.mean(axis=0)
    radii = np.array([np.linalg.norm(row - centre) for row in X])
    radius, root = radii.mean(), math.sqrt(sum(X[:, k].var() for k in range(X.shape[1])))
    offset = np.linalg.norm(centre) / np.linalg.norm(X.std(axis=0))
    return radius, radii.var(), root, abs(root - radius) / radius, offset


def covariance(X):
    X = wide(X)
    return sum(np.outer(row, row) for row in X - X.mean(axis=0)) / len(X)


def off_diagonal_dominance(X):
    C = covariance(X)
    d = len(C)
    return np.array([sum(abs(C[j, k]) for k in range(d) if k != j) / C[j, j] for j in range(d)])


def feature_variance(X):
    values = np.array([column.var() for column in wide(X).T])
    return values, values.max() / np.median(values)


def conformity(X, reference=None):
    U = unit(X)
    if reference is not None:
        return np.array([np.mean([u @ r for r in unit(reference)]) for u in U])
    n = len(U)
    return np.array([np.mean([U[i] @ U[j] for j in range(n) if j != i]) for i in range(n)])


def estimated_conformity(X):
    """Cosine to the mean, the line of it on conformity, the line back, Pearson, A of prop. 1."""
    X = wide(X)
    mean = X.mean(axis=0)
    values = np.array([cosine(row, mean) for row in X])
    typical = conformity(X)
    slope, intercept = np.polyfit(typical, values, 1)
    inverse_slope, inverse_intercept = np.polyfit(values, typical, 1)
    pearson = np.corrcoef(typical, values)[0, 1]
    predicted = np.linalg.norm(mean) / math.sqrt(np.linalg.norm(mean) ** 2 + shell(X)[0] ** 2)
    return values, slope, intercept, inverse_slope, inverse_intercept, pearson, predicted


def conformity_divergence(X, Y, bins=50):
    return histogram_divergence(conformity(X), conformity(Y), bins)


def vslerp(a, b, theta, alpha, mean):
    a, b, origin = wide(a) - alpha * wide(mean), wide(b) - alpha * wide(mean), alpha * wide(mean)
    angle = math.acos(cosine(a, b))
    start, end = math.sin((1 - theta) * angle), math.sin(theta * angle)
    return (start * a + end * b) / math.sin(angle) + origin


def blur(X):
    """Cosines to the mean; cosines of the others to the row of least cosine to the mean; it."""
    X = wide(X)
    to_mean = np.array([cosine(row, X.mean(axis=0)) for row in X])
    worst = int(np.argmin(to_mean))
    return to_mean, [cosine(X[i], X[worst]) for i in range(len(X)) if i != worst], worst


# --- Alignment and uniformity --------------------------------------------------------------------


def alignment(X, Y):
    return float(np.mean([np.sum((x - y) ** 2) for x, y in zip(unit(X), unit(Y), strict=True)]))


def uniformity(X):
    U = unit(X)
    n = len(U)
    terms = [
        math.exp(-2 * np.sum((U[i] - U[j]) ** 2)) for i in range(n) for j in range(n) if i != j
    ]
    return math.log(np.mean(terms))


def wasserstein_uniformity(X, Y):
    """−W₂ between two Gaussians, by the general formula with matrix square roots."""
    rows = np.concatenate([unit(X), unit(Y)])
    d = rows.shape[1]
    C, target = covariance(rows), np.eye(d) / d
    root = scipy.linalg.sqrtm(target)
    middle = scipy.linalg.sqrtm(root @ C @ root)
    squared = np.sum(rows.mean(axis=0) ** 2) + np.trace(C + target - 2 * np.real(middle))
    return -math.sqrt(squared)


# --- Contrastive loss ----------------------------------------------------------------------------


def similarities(X, Y, similarity="cosine"):
    if similarity == "cosine":
        return unit(X) @ unit(Y).T
    return np.array([[-np.sum((x - y) ** 2) for y in wide(Y)] for x in wide(X)])


def pair_losses(X, Y, temperature, similarity="cosine"):
    """Per pair, as x asks for y and as y asks for x: own logit, log-sum-exp, whether it wins."""
    S = similarities(X, Y, similarity) / temperature
    return [
        [(row[k], scipy.special.logsumexp(row), row[k] == max(row)) for k, row in enumerate(logits)]
        for logits in (S, S.T)
    ]


def loss_terms(X, Y, temperature, batch_size=None, similarity="cosine"):
    """Loss, alignment, uniformity, loss of matched rows, of the others, number matched.

    Matched is decided in each direction by itself.
    """
    n = len(X)
    size = batch_size or n
    asked = []
    for i in range(0, n, size):
        for direction in pair_losses(X[i : i + size], Y[i : i + size], temperature, similarity):
            asked += direction
    losses = [spread - own for own, spread, _ in asked]
    matched = [spread - own for own, spread, won in asked if won]
    mismatched = [spread - own for own, spread, won in asked if not won]
    return (
        np.mean(losses),
        -np.mean([own for own, _, _ in asked]),
        np.mean([spread for _, spread, _ in asked]),
        np.mean(matched) if matched else math.nan,
        np.mean(mismatched) if mismatched else math.nan,
        len(matched),
    )


def contrastive_loss(X, Y, temperature, batch_size=None, similarity="cosine"):
    return loss_terms(X, Y, temperature, batch_size, similarity)[0]


def soft_assignments(X, Y, temperature, similarity="squared_distance"):
    """Qx (rows sum to 1) and Qy (columns sum to 1)."""
    weights = np.exp(similarities(X, Y, similarity) / temperature)
    return weights / weights.sum(axis=1, keepdims=True), weights / weights.sum(axis=0)


# --- Landscapes ----------------------------------------------------------------------------------


def shift(X, Y, step):
    X, Y = unit(X), unit(Y)
    gap = gap_vector(X, Y)
    return unit(X - step * gap), unit(Y + step * gap)


def shift_landscape(X, Y, lambdas, temperatures, batch_size=50):
    """Signed gaps (lambdas) and losses (temperatures, lambdas)."""
    before = gap_vector(unit(X), unit(Y))
    moved = [shift(X, Y, step) for step in lambdas]
    gaps = [math.copysign(gap_distance(A, B), np.dot(gap_vector(A, B), before)) for A, B in moved]
    losses = [[contrastive_loss(A, B, t, batch_size) for A, B in moved] for t in temperatures]
    return np.array(gaps), np.array(losses)


def origin_landscape(X, Y, alphas, move, temperature, batch_size=None, bins=50):
    """Loss terms (alphas, 5) and conformity divergences as α·mean is subtracted."""
    X, Y = wide(X), wide(Y)
    terms, divergences = [], []
    for alpha in alphas:
        A = X - alpha * X.mean(axis=0) if move in ("x", "both") else X
        B = Y - alpha * Y.mean(axis=0) if move in ("y", "both") else Y
        terms.append(loss_terms(A, B, temperature, batch_size)[:5])
        divergences.append(conformity_divergence(A, B, bins))
    return np.array(terms), np.array(divergences)


# --- Retrieval and robustness --------------------------------------------------------------------


def ranking(scores):
    """Documents from best to worst; equal scores go to the earlier document."""
    return sorted(range(len(scores)), key=lambda j: (-scores[j], j))


def match_rank(scores, matches):
    """Non-matching documents ahead of the best match (higher, or equal and earlier); −1: none."""
    order = ranking(scores)
    found = [j for j in order if j in matches]
    if not found:
        return -1
    return sum(1 for j in order[: order.index(found[0])] if j not in matches)
