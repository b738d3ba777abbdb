"""The gap itself: where the modalities' centres are, and how cleanly the modalities part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modgap._arrays import (
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
from modgap.measures.linear_classifier import LinearClassifier, SomeRows
from modgap.moments import Moments, PairMoments
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

    Fitted on half of each modality, balanced accuracy on the other half: on all features, and on
    the two of largest ``separability``. 1 means the modalities live in separate half-spaces.
    """
    X, Y = check_two(X, Y, min_rows=2)
    rng = np.random.default_rng(seed)
    fit, held_out = [], []
    for A in (X, Y):
        order, half = rng.permutation(A.shape[0]), (A.shape[0] + 1) // 2
        fit.append(SomeRows(A, like(np.sort(order[:half]), A)))
        held_out.append(like(np.sort(order[half:]), A))
    moments = PairMoments(Moments(fit[0].moments, None), Moments(fit[1].moments, None))
    best = np.argsort(-to_numpy(moments.separability()), kind="stable")[:2]
    two = like(best, X)
    return LinearSeparability(
        all_features=_held_out_accuracy(fit, held_out),
        two_features=_held_out_accuracy(
            [SomeRows(rows.matrix[:, two], rows.numbers) for rows in fit], held_out
        ),
        features=tuple(int(f) for f in best),
        n_fit=sum(rows.moments.n for rows in fit),
        n_held_out=sum(numbers.shape[0] for numbers in held_out),
        seed=seed,
    )


def _held_out_accuracy(fit: Sequence[SomeRows], held_out: Sequence[Array]) -> float:
    """Balanced: a modality with more rows must not win by its numbers."""
    model = LinearClassifier.fit(fit[0], fit[1])
    xp, right = namespace(model.centre), []
    for side, (rows, others) in enumerate(zip(fit, held_out, strict=True)):
        # All are scored: taking some out first would take longer.
        is_second = (model.scores(rows.matrix) > 0)[others]
        right.append(xp.mean(xp.astype(is_second == bool(side), model.centre.dtype)))
    return float(sum(right)) / 2


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
