"""The loss as the modalities are moved: along the gap (Liang), or away from the origin (Levi).

A whole landscape needs one matrix product: every moved cosine is the unmoved product plus
rank-one terms, divided by the moved norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.arrays import (
    along,
    cached_blocks,
    like,
    namespace,
    row_blocks,
    rows_per_block,
    sum_squares,
    to_numpy,
    unit,
    widen,
)
from modgap.core.checks import Array, check_choice, check_count, check_numbers, check_temperature
from modgap.core.door import check_pairs
from modgap.core.results import HasFigure, Result
from modgap.measures.ellipsoid import histogram_divergence
from modgap.measures.moved_losses import Move, moved_losses, moved_norms, scaled_rows
from modgap.moments.pair import pair_moments_of

DEFAULT_LAMBDAS = tuple(round(0.1 * step, 1) for step in range(-5, 26))
DEFAULT_ALPHAS = tuple(round(0.1 * step, 1) for step in range(-10, 16))
_TERMS = ("loss", "alignment", "uniformity", "matched", "mismatched")
DEFAULT_TEMPERATURES = (0.01, 0.02, 0.1, 1.0)


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
    if batch_size is not None:
        check_count(batch_size, "batch_size")
    return shift_landscape_of(X, Y, steps, heats, batch_size)


def shift_landscape_of(
    X: Array,
    Y: Array,
    lambdas: Sequence[float] | np.ndarray = DEFAULT_LAMBDAS,
    temperatures: Sequence[float] | np.ndarray = DEFAULT_TEMPERATURES,
    batch_size: int | None = 50,
) -> ShiftLandscape:
    """``shift_landscape`` of checked pairs."""
    steps, heats = np.asarray(lambdas), np.asarray(temperatures)
    X, Y = unit(X), unit(Y)
    gap = pair_moments_of(X, Y, detail="mean", unit=False).gap_vector()
    x_gap, y_gap = along(X, gap), along(Y, gap)
    x_squares, y_squares = sum_squares(X), sum_squares(Y)
    squared = float(namespace(gap).sum(gap * gap))
    moves = [
        Move(
            a=step * x_gap,
            b=-step * y_gap,
            c=-(step**2) * squared,
            norm_x=moved_norms(x_squares, -2 * step * x_gap, step**2 * squared),
            norm_y=moved_norms(y_squares, 2 * step * y_gap, step**2 * squared),
        )
        for step in steps.tolist()
    ]
    gaps = _signed_gaps(X, Y, gap, steps, moves)
    terms = moved_losses(X, Y, moves, heats.tolist(), batch_size)
    losses = np.array([[t.loss for t in row] for row in terms]).T
    return ShiftLandscape(steps, heats, gaps, losses, batch_size)


def _signed_gaps(
    X: Array, Y: Array, gap: Array, steps: np.ndarray, moves: Sequence[Move]
) -> np.ndarray:
    """Distances of the moved, normalised centres; negative when they have changed sides."""
    xp = namespace(X)
    shifts = like(steps, gap, gap.dtype)[:, None] * gap[None, :]
    x = _moved_centres(X, xp.stack([1 / move.norm_x for move in moves]), -shifts)
    y = _moved_centres(Y, xp.stack([1 / move.norm_y for move in moves]), shifts)
    left = x - y
    sizes = xp.linalg.vector_norm(left, axis=1)
    return to_numpy(xp.where(left @ gap < 0, -sizes, sizes))


def _moved_centres(A: Array, weights: Array, shifts: Array) -> Array:
    """For each step the mean of the rows a + shift, each times its weight (steps, n)."""
    xp = namespace(A)
    total = xp.zeros_like(weights[:, :1] * widen(A[:1]))
    for rows in cached_blocks(A):
        total = total + weights[:, rows] @ widen(A[rows])
    return total / A.shape[0] + shifts * xp.mean(weights, axis=1)[:, None]


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
    check_count(bins, "bins")
    if batch_size is not None:
        check_count(batch_size, "batch_size")
    return origin_landscape_of(X, Y, steps, move, temperature, batch_size, bins)


def origin_landscape_of(
    X: Array,
    Y: Array,
    alphas: Sequence[float] | np.ndarray = DEFAULT_ALPHAS,
    move: Literal["x", "y", "both"] = "both",
    temperature: float = 0.01,
    batch_size: int | None = None,
    bins: int = 50,
) -> OriginLandscape:
    """``origin_landscape`` of checked pairs."""
    steps = np.asarray(alphas)
    X, Y = scaled_rows(X), scaled_rows(Y)
    xp = namespace(X)
    moments = pair_moments_of(X, Y, detail="mean", unit=False)
    mean_x, mean_y = moments.x.given.mean, moments.y.given.mean
    xx, xy = along(X, mean_x), along(X, mean_y)
    yx, yy = along(Y, mean_x), along(Y, mean_y)
    x_squares, y_squares = sum_squares(X), sum_squares(Y)
    xx_mean, yy_mean = float(xp.sum(mean_x**2)), float(xp.sum(mean_y**2))
    xy_mean = float(xp.sum(mean_x * mean_y))
    by_x = [step * (move in ("x", "both")) for step in steps.tolist()]
    by_y = [step * (move in ("y", "both")) for step in steps.tolist()]
    moves = [
        Move(
            a=-ay * xy,
            b=-ax * yx,
            c=ax * ay * xy_mean,
            norm_x=moved_norms(x_squares, -2 * ax * xx, ax**2 * xx_mean),
            norm_y=moved_norms(y_squares, -2 * ay * yy, ay**2 * yy_mean),
        )
        for ax, ay in zip(by_x, by_y, strict=True)
    ]
    typical_x = _moved_conformities(X, mean_x, by_x, [moved.norm_x for moved in moves])
    typical_y = _moved_conformities(Y, mean_y, by_y, [moved.norm_y for moved in moves])
    divergences = histogram_divergence(typical_x, typical_y, bins)
    terms = [row[0] for row in moved_losses(X, Y, moves, [temperature], batch_size)]
    return OriginLandscape(
        alphas=steps,
        **{name: np.array([getattr(t, name) for t in terms]) for name in _TERMS},
        conformity_divergence=divergences,
        move=move,
        temperature=temperature,
        batch_size=batch_size,
        bins=bins,
    )


def _moved_conformities(
    A: Array, mean: Array, steps: Sequence[float], norms: Sequence[Array]
) -> Array:
    """Conformity of the rows a − step·mean, (n, steps), from their norms, without forming them."""
    n, xp = A.shape[0], namespace(A)
    weights = 1 / xp.stack(list(norms))
    shifts = like(steps, mean, mean.dtype)[:, None] * mean[None, :]
    totals = n * _moved_centres(A, weights, -shifts)
    along_totals = xp.concat(
        [widen(A[rows]) @ totals.T for rows in row_blocks(n, rows_per_block(A.shape[1]))]
    )
    products = (along_totals - xp.sum(shifts * totals, axis=1)) * weights.T
    return (products - 1) / (n - 1)
