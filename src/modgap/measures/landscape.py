"""The loss as the modalities are moved: along the gap (Liang), or away from the origin (Levi).

A whole landscape needs one matrix product: every moved cosine is the unmoved product plus
rank-one terms, divided by the moved norms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap._arrays import (
    along,
    as_float,
    namespace,
    row_blocks,
    row_norms,
    rows_per_block,
    sum_squares,
    told_blocks,
    unit,
    widen,
)
from modgap._results import HasFigure, Result
from modgap._validate import (
    Array,
    InputValueError,
    check_choice,
    check_count,
    check_numbers,
    check_pairs,
    check_temperature,
)
from modgap.measures.ellipsoid import histogram_divergence
from modgap.measures.loss import LossTerms, PairLosses, batched_terms, stacked_batches, terms_of
from modgap.moments import PairMoments

DEFAULT_LAMBDAS = tuple(round(0.1 * step, 1) for step in range(-5, 26))
DEFAULT_ALPHAS = tuple(round(0.1 * step, 1) for step in range(-10, 16))
DEFAULT_TEMPERATURES = (0.01, 0.02, 0.1, 1.0)


@dataclass(frozen=True)
class _Move:
    """Cosines after a move: (S + a_i + b_j + c) / (norm_i · norm_j)."""

    a: Array
    b: Array
    c: float
    norm_x: Array
    norm_y: Array

    def cosines(self, products: Array, rows: slice, columns: slice) -> Array:
        """Moved cosines of a block of products (r, c), or of a stack of batches (k, b, b)."""
        xp = namespace(products)
        left, right = (*products.shape[:-1], 1), (*products.shape[:-2], 1, products.shape[-1])

        def shaped(values: Array, where: slice, shape: tuple[int, ...]) -> Array:
            return xp.astype(values[where], products.dtype).reshape(shape)

        moved = products + shaped(self.a, rows, left) + shaped(self.b, columns, right) + self.c
        norms = shaped(self.norm_x, rows, left) * shaped(self.norm_y, columns, right)
        return moved / norms


@dataclass(frozen=True)
class ShiftLandscape(HasFigure, Result):
    """Signed remaining gap and loss (temperatures × lambdas) as the modalities approach."""

    lambdas: np.ndarray
    temperatures: np.ndarray
    gaps: np.ndarray
    losses: np.ndarray
    batch_size: int | None

    def _brief(self) -> str:
        least = ", ".join(f"{gap:.3f} at {t:g}" for t, (gap, _) in self.best().items())
        return f"{len(self.lambdas)} steps, gap of least loss {least}"

    def best(self) -> dict[float, tuple[float, float]]:
        """For each temperature the remaining gap of least loss, and that loss."""
        least = np.argmin(self.losses, axis=1)
        return {
            float(t): (float(self.gaps[i]), float(self.losses[row, i]))
            for row, (t, i) in enumerate(zip(self.temperatures, least, strict=True))
        }


def shift_landscape(
    X: Array,
    Y: Array | None = None,
    lambdas: Sequence[float] = DEFAULT_LAMBDAS,
    temperatures: Sequence[float] = DEFAULT_TEMPERATURES,
    batch_size: int | None = 50,
) -> ShiftLandscape:
    """The contrastive loss as the gap is closed, opened or crossed (Liang et al., fig. 3 b–d).

    Unit rows move to x − λΔ and y + λΔ and are normalised again; Δ is the gap vector. The
    remaining gap is negative once the centres have crossed.

    Parameters
    ----------
    X, Y : (n, d) arrays
        Pairs, row by row.
    lambdas : sequence of float
        How far to move: 0 is where training left them, 0.5 makes the centres meet.
    temperatures : sequence of float
        One curve each.
    batch_size : int, optional
        The loss is the mean over consecutive batches of this size; None takes all pairs at once.
    """
    X, Y = check_pairs(X, Y, nonzero=True)
    steps = check_numbers(lambdas, "lambdas")
    heats = check_numbers(temperatures, "temperatures", positive=True)
    X, Y = unit(X), unit(Y)
    gap = PairMoments.from_batch(X, Y, detail="mean", unit=False).gap_vector()
    x_gap, y_gap = along(X, gap), along(Y, gap)
    x_squares, y_squares = sum_squares(X), sum_squares(Y)
    squared = float(namespace(gap).sum(gap * gap))
    moves = [
        _Move(
            a=step * x_gap,
            b=-step * y_gap,
            c=-(step**2) * squared,
            norm_x=_norm(x_squares, -2 * step * x_gap, step**2 * squared),
            norm_y=_norm(y_squares, 2 * step * y_gap, step**2 * squared),
        )
        for step in steps.tolist()
    ]
    gaps = [
        _signed_gap(X, Y, gap, step, move) for step, move in zip(steps.tolist(), moves, strict=True)
    ]
    terms = _losses(X, Y, moves, heats.tolist(), batch_size)
    losses = np.array([[t.loss for t in row] for row in terms]).T
    return ShiftLandscape(steps, heats, np.array(gaps), losses, batch_size)


def _signed_gap(X: Array, Y: Array, gap: Array, step: float, move: _Move) -> float:
    """Distance of the moved, normalised centres; negative when they have changed sides."""
    xp = namespace(X)
    centre_x = _weighted_mean(X, 1 / move.norm_x) - step * gap * xp.mean(1 / move.norm_x)
    centre_y = _weighted_mean(Y, 1 / move.norm_y) + step * gap * xp.mean(1 / move.norm_y)
    left = centre_x - centre_y
    size = float(xp.linalg.vector_norm(left))
    return -size if float(xp.sum(left * gap)) < 0 else size


@dataclass(frozen=True)
class OriginLandscape(HasFigure, Result):
    """Loss, its terms and the conformity divergence as the ellipsoids move to the origin."""

    alphas: np.ndarray
    loss: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray
    matched: np.ndarray
    mismatched: np.ndarray
    conformity_divergence: np.ndarray
    move: str
    temperature: float
    batch_size: int | None
    bins: int

    def _brief(self) -> str:
        best = int(np.argmin(self.loss))
        return (
            f"{len(self.alphas)} steps of {self.move}, least loss {self.loss[best]:.3f} at "
            f"{self.alphas[best]:g}, temperature {self.temperature:g}"
        )


def origin_landscape(
    X: Array,
    Y: Array | None = None,
    alphas: Sequence[float] = DEFAULT_ALPHAS,
    move: Literal["x", "y", "both"] = "both",
    temperature: float = 0.01,
    batch_size: int | None = None,
    bins: int = 50,
) -> OriginLandscape:
    """The loss as α·mean is subtracted from one or both modalities (Levi & Gilboa, 5, 6.2, C.3).

    Rows are used as given, then normalised.

    Parameters
    ----------
    X, Y : (n, d) arrays
        Pairs, row by row.
    alphas : sequence of float
        0 is where training left the rows, 1 the origin.
    move : {"x", "y", "both"}
        Which modality moves.
    temperature : float
        Temperature of the loss.
    batch_size : int, optional
        The loss is the mean over consecutive batches of this size; None takes all pairs at once.
    bins : int
        Bins of the conformity histograms behind the divergence.
    """
    X, Y = check_pairs(X, Y, min_rows=2, nonzero=True)
    steps = check_numbers(alphas, "alphas")
    check_choice(move, "move", ("x", "y", "both"))
    temperature = check_temperature(temperature)
    X, Y = _scaled(X), _scaled(Y)
    xp = namespace(X)
    moments = PairMoments.from_batch(X, Y, detail="mean", unit=False)
    mean_x, mean_y = moments.x.given.mean, moments.y.given.mean
    xx, xy = along(X, mean_x), along(X, mean_y)
    yx, yy = along(Y, mean_x), along(Y, mean_y)
    x_squares, y_squares = sum_squares(X), sum_squares(Y)
    moves, divergences = [], []
    for step in steps.tolist():
        ax, ay = step * (move in ("x", "both")), step * (move in ("y", "both"))
        moved = _Move(
            a=-ay * xy,
            b=-ax * yx,
            c=ax * ay * float(xp.sum(mean_x * mean_y)),
            norm_x=_norm(x_squares, -2 * ax * xx, ax**2 * float(xp.sum(mean_x**2))),
            norm_y=_norm(y_squares, -2 * ay * yy, ay**2 * float(xp.sum(mean_y**2))),
        )
        moves.append(moved)
        divergences.append(
            histogram_divergence(
                _moved_conformity(X, mean_x, ax, moved.norm_x)[:, None],
                _moved_conformity(Y, mean_y, ay, moved.norm_y)[:, None],
                bins,
            )[0]
        )
    terms = [row[0] for row in _losses(X, Y, moves, [temperature], batch_size)]

    def column(name: str) -> np.ndarray:
        return np.array([getattr(t, name) for t in terms])

    return OriginLandscape(
        alphas=steps,
        loss=column("loss"),
        alignment=column("alignment"),
        uniformity=column("uniformity"),
        matched=column("matched"),
        mismatched=column("mismatched"),
        conformity_divergence=np.array(divergences),
        move=move,
        temperature=temperature,
        batch_size=batch_size,
        bins=bins,
    )


def _moved_conformity(A: Array, mean: Array, step: float, norm: Array) -> Array:
    """Conformity of the rows a − step·mean, from their norms, without forming them."""
    n = A.shape[0]
    xp = namespace(A)
    total = n * (_weighted_mean(A, 1 / norm) - step * mean * xp.mean(1 / norm))
    products = (along(A, total) - step * float(xp.sum(mean * total))) / norm
    return (products - 1) / (n - 1)


def _losses(
    X: Array,
    Y: Array,
    moves: Sequence[_Move],
    temperatures: Sequence[float],
    batch_size: int | None,
) -> list[list[LossTerms]]:
    """Loss terms for each move (outer) and temperature (inner), from one product per block."""
    xp = namespace(X)
    n = X.shape[0]
    # Beside a row of length 1, products of rows this short leave the range of float32.
    if min(float(xp.min(row_norms(A))) for A in (X, Y)) < 1e-12:
        X, Y = widen(X), widen(Y)
    if batch_size is None or check_count(batch_size, "batch_size") >= n:
        gathered = [[PairLosses(t) for t in temperatures] for _ in moves]
        for rows in told_blocks(n, rows_per_block(n)):
            products = X[rows] @ Y.T
            for move, row in zip(moves, gathered, strict=True):
                cosines = move.cosines(products, rows, slice(None))
                for losses in row:
                    losses.add(cosines)
        return [[losses.terms() for losses in row] for row in gathered]
    parts: list[list[list[Any]]] = [[[] for _ in temperatures] for _ in moves]
    start = 0
    for A, B in stacked_batches(X, Y, batch_size):
        rows = slice(start, start + A.shape[0] * A.shape[1])
        start = rows.stop
        products = A @ xp.matrix_transpose(B)
        for move, lists in zip(moves, parts, strict=True):
            cosines = move.cosines(products, rows, rows)
            for temperature, found in zip(temperatures, lists, strict=True):
                found.append(batched_terms(cosines, temperature))
    return [[_joined(found) for found in lists] for lists in parts]


def _joined(parts: Iterable[tuple[Array, ...]]) -> LossTerms:
    columns = [list(column) for column in zip(*parts, strict=True)]
    xp = namespace(columns[0][0])
    return terms_of(*(xp.concat(column) for column in columns))


def _norm(squares: Array, mixed: Array, step_squares: float) -> Array:
    """Norms of moved rows from the terms of their squares; norms lost to rounding are refused."""
    xp = namespace(squares)
    moved = squares + mixed + step_squares
    if bool(xp.any(moved <= 1e-14 * (squares + step_squares))):
        raise InputValueError(
            "A step moves a row onto the origin, where it has no direction. "
            "Choose steps at which every moved row keeps a length."
        )
    return xp.sqrt(moved)


def _scaled(A: Array) -> Array:
    """The rows over their largest norm: no cosine changes, and no product overflows."""
    A = as_float(A)
    largest = float(namespace(A).max(row_norms(A)))
    out = namespace(A).empty_like(A)
    for rows in row_blocks(A.shape[0], rows_per_block(A.shape[1])):
        out[rows] = namespace(A).astype(widen(A[rows]) / largest, A.dtype)
    return out


def _weighted_mean(A: Array, weights: Array) -> Array:
    """mean(w_i a_i) in wide precision, in blocks."""
    xp = namespace(A)
    total = xp.zeros_like(widen(A[0]))
    for rows in row_blocks(A.shape[0], rows_per_block(A.shape[1])):
        total = total + weights[rows] @ widen(A[rows])
    return total / A.shape[0]
