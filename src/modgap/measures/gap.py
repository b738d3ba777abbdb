"""The gap itself: where the modalities' centres are, and how cleanly the modalities part."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modgap._arrays import (
    as_float,
    histogram,
    like,
    namespace,
    paired_dots,
    row_blocks,
    row_norms,
    rows_per_block,
    to_numpy,
    told_blocks,
    unit,
    widen,
)
from modgap._results import Result
from modgap._validate import (
    Array,
    check_count,
    check_pairs,
    check_rows,
    check_same_space,
    check_two,
)
from modgap.io import Embeddings, Modalities
from modgap.moments import PairMoments
from modgap.moments import gap_matrix as moments_gap_matrix


def gap_vector(X: Array, Y: Array | None = None) -> Array:
    """mean(X) − mean(Y), the vector from the centre of Y to the centre of X (Liang et al., 4.2).

    Rows are used as given; X is (n, d), Y is (m, d). Chowers et al. write its negative.

    >>> import numpy as np
    >>> gap_vector(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[0.0, 1.0]])).tolist()
    [2.0, -1.0]
    """
    return PairMoments.from_batch(X, Y, detail="mean", unit=False).gap_vector()


def gap_distance(X: Array, Y: Array | None = None) -> float:
    """Distance between the means of the two modalities (Liang et al. 2022, sec. 4.2).

    0 when the means coincide, at most 2 on unit rows. Rows are used as given.

    >>> import numpy as np
    >>> gap_distance(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])) == 2**0.5
    True
    """
    return PairMoments.from_batch(X, Y, detail="mean", unit=False).gap_distance()


def gap_matrix(rows: Modalities | Mapping[str, Array | Embeddings]) -> np.ndarray:
    """Distance between the means of every two modalities, (k, k) in the order of their names.

    Entry (i, j) is ``gap_distance`` of modalities i and j: symmetric, 0 on the diagonal. Rows are
    used as given.

    >>> import numpy as np
    >>> rows = {"image": np.eye(2)[:1], "text": np.eye(2)[1:], "audio": -np.eye(2)[:1]}
    >>> gap_matrix(rows).round(3).tolist()
    [[0.0, 1.414, 2.0], [1.414, 0.0, 1.414], [2.0, 1.414, 0.0]]
    """
    data = rows if isinstance(rows, Modalities) else Modalities.of(rows, paired=False)
    found = data.side_moments(detail="mean", unit=False)
    means = {name: side.given.mean[None, :] for name, side in found.items()}
    for name in data.names[1:]:
        check_same_space(means[data.names[0]], means[name], (data.names[0], name))
    return moments_gap_matrix(list(found.values()))


def local_gaps(X: Array, Y: Array | None = None) -> Array:
    """X − Y row by row, the gap of each pair (Chowers et al., eq. 3). Rows are used as given."""
    X, Y = check_pairs(X, Y)
    return as_float(X) - as_float(Y)


@dataclass(frozen=True)
class GapCosines(Result):
    """Cosines between the centred rows of one modality and the gap vector."""

    mean: float
    mean_abs: float
    std: float
    counts: np.ndarray
    edges: np.ndarray
    n: int


@dataclass(frozen=True)
class GapOrthogonality(Result):
    """How far each modality varies along the gap: 0 means not at all."""

    x: GapCosines
    y: GapCosines


def gap_orthogonality(X: Array, Y: Array | None = None, bins: int = 50) -> GapOrthogonality:
    """Cosines between each modality's centred rows and the gap vector (Chowers et al., 3.3).

    Near 0 throughout when the gap is orthogonal to both modalities. Rows are used as given. Rows
    on their mean have no direction and are left out; without a gap every number is NaN.
    """
    X, Y = check_two(X, Y)
    bins = check_count(bins, "bins")
    moments = PairMoments.from_batch(X, Y, detail="mean", unit=False)
    gap = moments.gap_vector()
    return GapOrthogonality(
        _gap_cosines(X, moments.x.given.mean, gap, bins),
        _gap_cosines(Y, moments.y.given.mean, gap, bins),
    )


def _gap_cosines(A: Array, mean: Array, gap: Array, bins: int) -> GapCosines:
    xp = namespace(A)
    length = xp.linalg.vector_norm(gap)
    scale = xp.linalg.vector_norm(mean) + length
    radius = 0.0
    parts = []
    for rows in row_blocks(A.shape[0], rows_per_block(A.shape[1])):
        centred = widen(A[rows]) - mean
        norm = xp.linalg.vector_norm(centred, axis=1)
        radius = max(radius, float(xp.max(norm)))
        # A row that differs from the mean by rounding alone has no direction either.
        keep = norm > 1e-12 * scale
        safe = xp.where(keep, norm, xp.ones_like(norm)) * xp.where(
            length > 0, length, xp.ones_like(length)
        )
        parts.append(((centred @ gap) / safe)[keep])
    cosines = xp.concat(parts)
    edges = np.linspace(-1, 1, bins + 1)
    # Means that differ by rounding alone leave no gap.
    if float(length) <= 1e-14 * (float(scale) + radius) or cosines.shape[0] == 0:
        nothing = np.zeros(bins, dtype=np.int64)
        return GapCosines(float("nan"), float("nan"), float("nan"), nothing, edges, 0)
    low, high = like([-1.0], A, cosines.dtype), like([1.0], A, cosines.dtype)
    clipped = xp.clip(cosines, -1.0, 1.0)
    return GapCosines(
        mean=float(xp.mean(cosines)),
        mean_abs=float(xp.mean(xp.abs(cosines))),
        std=float(xp.std(cosines)),
        counts=histogram(clipped[:, None], bins, low, high)[0],
        edges=edges,
        n=int(cosines.shape[0]),
    )


@dataclass(frozen=True)
class LinearSeparability(Result):
    """Held-out accuracy of linear classifiers that tell the modalities apart; 0.5 is chance."""

    all_features: float
    two_features: float
    features: tuple[int, ...]
    n_fit: int
    n_held_out: int
    seed: int


def linear_separability(X: Array, Y: Array | None = None, seed: int = 0) -> LinearSeparability:
    """How well a linear classifier tells the modalities apart on rows it has not seen (Levi, 4).

    Fitted on half of each modality, balanced accuracy on the other half: on all features, and on
    the two of largest ``separability``. 1 means the modalities live in separate half-spaces.
    """
    X, Y = check_two(X, Y, min_rows=2)
    rng = np.random.default_rng(seed)
    fit, held_out = [], []
    for A in (to_numpy(X), to_numpy(Y)):
        order = rng.permutation(len(A))
        half = (len(A) + 1) // 2
        fit.append(A[order[:half]].astype(np.float64))
        held_out.append(A[order[half:]].astype(np.float64))
    separability = PairMoments.from_batch(*fit, detail="variance", unit=False).separability()
    best = np.argsort(-to_numpy(separability), kind="stable")[:2]
    return LinearSeparability(
        all_features=_held_out_accuracy(fit, held_out, slice(None)),
        two_features=_held_out_accuracy(fit, held_out, best),
        features=tuple(int(f) for f in best),
        n_fit=len(fit[0]) + len(fit[1]),
        n_held_out=len(held_out[0]) + len(held_out[1]),
        seed=seed,
    )


def _held_out_accuracy(
    fit: list[np.ndarray], held_out: list[np.ndarray], features: slice | np.ndarray
) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    # Balanced weights: a modality with more rows must not win by its numbers.
    model = make_pipeline(StandardScaler(), LinearSVC(dual=False, class_weight="balanced"))
    rows = np.concatenate([A[:, features] for A in fit])
    with warnings.catch_warnings():
        # Where the sides are easily told apart, the last digits of the weights do not matter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, np.repeat([0, 1], [len(A) for A in fit]))
    right = [np.mean(model.predict(A[:, features]) == side) for side, A in enumerate(held_out)]
    return float(np.mean(right))


def margin(X: Array, Y: Array | None = None) -> float:
    """Smallest lead of a pair's cosine over any wrong one, in both directions (Yaras et al., 2).

    min over i ≠ j of min(Z_ii − Z_ij, Z_jj − Z_ij), Z the cosines of X with Y. Positive exactly
    when every row's nearest row of the other modality is its own pair. Between −2 and 2.
    """
    X, Y = check_pairs(X, Y, min_rows=2, nonzero=True)
    xp = namespace(X)
    X, Y = unit(X), unit(Y)
    own = xp.astype(paired_dots(X, Y), X.dtype)
    lead = float("inf")
    column_best = xp.full_like(own, -float("inf"))
    for rows in told_blocks(X.shape[0], rows_per_block(Y.shape[0])):
        Z = X[rows] @ Y.T
        diagonal = like(np.arange(rows.start, rows.stop), X)
        Z[diagonal - rows.start, diagonal] = -float("inf")
        lead = min(lead, float(xp.min(own[rows] - xp.max(Z, axis=1))))
        column_best = xp.maximum(column_best, xp.max(Z, axis=0))
    return min(lead, float(xp.min(own - column_best)))


@dataclass(frozen=True)
class Norms(Result):
    """Row norms, and the rows of largest norm, longest first."""

    values: Array
    largest: np.ndarray
    mean: float
    std: float
    min: float
    max: float


def norms(X: Array, top: int = 10) -> Norms:
    """Row norms and the rows of largest norm (Levi & Gilboa, fig. 14). Rows are used as given."""
    X = check_rows(X)
    xp = namespace(X)
    values = row_norms(X)
    order = np.argsort(-to_numpy(values), kind="stable")[: check_count(top, "top")]
    return Norms(
        values=values,
        largest=order,
        mean=float(xp.mean(values)),
        std=float(xp.std(values)),
        min=float(xp.min(values)),
        max=float(xp.max(values)),
    )
