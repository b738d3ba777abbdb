"""The gap itself: where the modalities' centres are, and how cleanly the modalities part."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modgap.arrays import (
    Tile,
    as_float,
    at_unit_length,
    cached_blocks,
    histogram,
    like,
    namespace,
    paired_dots,
    product_pass,
    row_norms,
    to_numpy,
    widen,
)
from modgap.core.checks import Array, check_count, check_same_space
from modgap.core.door import check_pairs, check_rows, check_two
from modgap.core.results import Result
from modgap.io import Embeddings, Modalities
from modgap.moments import Moments, PairMoments, RowMoments, mean_distances
from modgap.moments.pair import pair_moments_of


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
    return mean_distances(list(found.values()))


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

    def _brief(self) -> str:
        return f"mean absolute cosines {self.x.mean_abs:.3g} and {self.y.mean_abs:.3g}"


def gap_orthogonality(X: Array, Y: Array | None = None, bins: int = 50) -> GapOrthogonality:
    """Cosines between each modality's centred rows and the gap vector (Chowers et al., 3.3).

    Near 0 throughout when the gap is orthogonal to both modalities. Rows are used as given. Rows
    on their mean have no direction and are left out; without a gap every number is NaN.
    """
    X, Y = check_two(X, Y)
    moments = pair_moments_of(X, Y, detail="mean", unit=False)
    return orthogonality_of(X, Y, moments, check_count(bins, "bins"))


def orthogonality_of(X: Array, Y: Array, moments: PairMoments, bins: int = 50) -> GapOrthogonality:
    """``gap_orthogonality`` of checked rows, whose means are among the moments."""
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
    for rows in cached_blocks(A):
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

    scikit-learn's linear support vector machine is fitted on half of each modality, and its
    balanced accuracy is taken on the other half: with all features, and with the two of largest
    ``separability``. 1 means the modalities live in separate half-spaces, 0.5 is chance.
    """
    return separability_of(*check_two(X, Y, min_rows=2), seed)


def separability_of(X: Array, Y: Array, seed: int) -> LinearSeparability:
    """``linear_separability`` of checked rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(seed)
    halves = [np.split(rng.permutation(len(A)), [(len(A) + 1) // 2]) for A in (X, Y)]
    (fit_x, held_out_x), (fit_y, held_out_y) = halves
    rows = np.concatenate([_rows(X, fit_x), _rows(Y, fit_y)], dtype=np.float64)
    sides = np.repeat([0, 1], [len(fit_x), len(fit_y)])
    x, y = (
        Moments(RowMoments.of_scratch(rows[sides == side], "variance"), None) for side in (0, 1)
    )
    best = np.argsort(-PairMoments(x, y).separability(), kind="stable")[:2]

    def balanced_accuracy(features: np.ndarray | slice) -> float:
        scaler = StandardScaler(copy=False)
        # The primal solver draws nothing, but without a seed it advances NumPy's global generator.
        classifier = LinearSVC(dual=False, class_weight="balanced", random_state=0)
        with warnings.catch_warnings():
            # Of very unequal sides the last of 1,000 steps may still change weights; rows stay.
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit(scaler.fit_transform(rows[:, features]), sides)
        right = []
        for side, (A, numbers) in enumerate(((X, held_out_x), (Y, held_out_y))):
            others = _rows(A, numbers)[:, features].astype(np.float64)
            right.append(np.mean(classifier.predict(scaler.transform(others)) == side))
        return float(np.mean(right))

    two_features = balanced_accuracy(best)
    return LinearSeparability(
        all_features=balanced_accuracy(slice(None)),  # last: it scales the rows in place
        two_features=two_features,
        features=tuple(int(f) for f in best),
        n_fit=len(rows),
        n_held_out=len(held_out_x) + len(held_out_y),
        seed=seed,
    )


def _rows(A: Array, numbers: np.ndarray) -> np.ndarray:
    """The rows of these numbers, in the order they are stored."""
    return to_numpy(A[like(np.sort(numbers), A)])


def margin(X: Array, Y: Array | None = None) -> float:
    """Smallest lead of a pair's cosine over any wrong one, in both directions (Yaras et al., 2).

    min over i ≠ j of min(Z_ii − Z_ij, Z_jj − Z_ij), Z the cosines of X with Y. Positive exactly
    when every row's nearest row of the other modality is its own pair. Between −2 and 2.
    """
    X, Y = check_pairs(X, Y, min_rows=2, nonzero=True)
    X, Y = at_unit_length(X), at_unit_length(Y)
    leads = Leads(X, Y)
    product_pass(X, Y, [leads])
    return leads.smallest()


class Leads:
    """Each pair's cosine, and the largest wrong one of its row and column.

    A consumer of the products of unit rows.
    """

    def __init__(self, U: Array, V: Array) -> None:
        xp = namespace(U)
        self._own = xp.astype(paired_dots(U, V), U.dtype)
        self._rows = xp.full_like(self._own, -math.inf)
        self._columns = xp.full_like(self._own, -math.inf)

    def look(self, tile: Tile) -> tuple[Array, Array]:
        """The largest wrong cosine of each row and column of a tile."""
        if tile.diagonal is None:
            return tile.row_tops, tile.column_tops
        _, i, j = tile.diagonal
        xp, Z = namespace(tile.products), tile.products
        own = Z[i, j]
        Z[i, j] = -math.inf
        found = xp.max(Z, axis=1), xp.max(Z, axis=0)
        Z[i, j] = own
        return found

    def add(self, told: tuple[Array, Array], tile: Tile) -> None:
        """Take them in."""
        xp = namespace(self._own)
        for held, span, tops in zip(
            (self._rows, self._columns), (tile.rows, tile.columns), told, strict=True
        ):
            held[span] = xp.maximum(held[span], tops)

    def smallest(self) -> float:
        """The smallest lead of a pair over anything wrong."""
        xp = namespace(self._own)
        return float(xp.min(self._own - xp.maximum(self._rows, self._columns)))


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
