"""A linear support vector machine on all features at once, over the array API.

The squared hinge loss with balanced classes is minimised by a trust-region Newton method (Lin,
Weng and Keerthi 2008), step for step as LIBLINEAR's primal solver takes them, which scikit-learn's
``LinearSVC(dual=False)`` calls: the same weights, from BLAS, on whatever device the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from modgap._ahead import in_threads
from modgap._arrays import (
    Scratch,
    as_float,
    cached_blocks,
    filled,
    from_half,
    is_torch,
    namespace,
    widen,
)
from modgap._stopping import stop_here
from modgap._validate import Array
from modgap.moments import RowMoments

# Rows of up to so many numbers are widened. Every step goes over all of more, whose time is that of
# the memory, so that they keep their precision.
_WIDE = 2**21
# Where fewer rows bend the loss they are taken out; with more, that would take longer.
_MOST = 0.5
_TOLERANCE, _MAX_STEPS = 1e-4, 1000
# Of the trust region: when a step counts, when the region shrinks or grows, and how far.
_TAKEN, _POOR, _GOOD = 1e-4, 0.25, 0.75
_SHRINK, _HALVE, _GROW = 0.25, 0.5, 4.0


class SomeRows:
    """Rows ``numbers`` of a matrix, in float32 at least, with their mean and variance."""

    def __init__(self, matrix: Array, numbers: Array) -> None:
        self.matrix, self.numbers = matrix, numbers
        parts: Iterator[RowMoments]
        if is_torch(matrix):
            self.rows = _precise(matrix[numbers])
            blocks = (self.rows[block] for block in cached_blocks(self.rows))
            parts = map(partial(RowMoments.of, detail="variance"), blocks)
        else:
            self.rows, parts = _taken(matrix, numbers)
        self.moments = reduce(RowMoments.add, parts)


def _taken(matrix: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, Iterator[RowMoments]]:
    """Room for the rows of these numbers, and the moments of blocks, which fill it as they come."""
    shape = len(numbers), matrix.shape[1]
    wide = _is_small(shape) or matrix.dtype == np.float64
    found, scratch = np.empty(shape, dtype=np.float64 if wide else np.float32), Scratch()

    def take(block: slice) -> RowMoments:
        own = numbers[block]
        given = scratch.room((len(own), shape[1]), matrix.dtype, 0)
        # Numbers are never out of bounds; told to clip them, NumPy writes where it is told to.
        from_half(np.take(matrix, own, axis=0, out=given, mode="clip"), out=found[block])
        room = scratch.room(given.shape, np.float64, 1)
        room[...] = found[block]
        return RowMoments.of_scratch(room, "variance")

    return found, in_threads(take, cached_blocks(found), 1 if _is_small(shape) else None)


def _precise(matrix: Array) -> Array:
    return widen(matrix) if _is_small(matrix.shape) else as_float(matrix)


def _is_small(shape: tuple[int, ...]) -> bool:
    return shape[0] * shape[1] <= _WIDE


@dataclass(frozen=True)
class LinearClassifier:
    """Weights for standardised features; a row is of the second side where its score is above 0."""

    centre: Array
    scale: Array
    weights: Array
    intercept: float

    @classmethod
    def fit(cls, first: SomeRows, second: SomeRows) -> LinearClassifier:
        """Tell two sets of rows apart; the larger must not win by its numbers."""
        xp, together = namespace(first.rows), first.moments + second.moments
        rows = _Standardised([first.rows, second.rows], together)
        n, counts, like = together.n, (first.moments.n, second.moments.n), together.mean
        signs = [filled(sign, m, like, like.dtype) for sign, m in zip((-1, 1), counts, strict=True)]
        costs = [filled(n / (2 * m), m, like, like.dtype) for m in counts]
        loss = _SquaredHinge(rows, xp.concat(signs), xp.concat(costs))
        found = _minimise(loss, _TOLERANCE * min(counts) / n)
        return cls(rows.centre, rows.scale, found[:-1], float(found[-1]))

    def scores(self, matrix: Array) -> Array:
        """How far each row is on the second side."""
        xp, weights, rows = namespace(matrix), self.weights / self.scale, _precise(matrix)
        products = widen(rows @ xp.astype(weights, rows.dtype, copy=False))
        return products + (self.intercept - xp.sum(weights * self.centre))


class _Standardised:
    """Rows with mean 0 and variance 1 in each feature, and a 1; multiplied, but never made."""

    def __init__(self, parts: Sequence[Array], moments: RowMoments) -> None:
        xp = namespace(parts[0])
        self.parts, self.centre = parts, moments.mean
        n, variance = moments.n, moments.variance
        # A feature that varies by rounding alone is left as it is.
        eps = float(xp.finfo(variance.dtype).eps)
        flat = variance <= n * eps * variance + (n * self.centre * eps) ** 2
        self.scale = xp.sqrt(xp.where(flat, xp.ones_like(variance), variance))

    def times(self, w: Array) -> Array:
        """The rows times weights and intercept."""
        xp, weights = namespace(w), w[:-1] / self.scale
        parts = [widen(A @ xp.astype(weights, A.dtype, copy=False)) for A in self.parts]
        return xp.concat(parts) + (w[-1] - weights @ self.centre)

    def back(self, v: Array) -> Array:
        """The sum of the rows, each with its weight."""
        xp, start = namespace(v), 0
        total, found = xp.sum(v, keepdims=True), 0 * self.centre
        for A in self.parts:
            some = v[start : start + A.shape[0]]
            found = found + widen(xp.astype(some, A.dtype, copy=False) @ A)
            start += A.shape[0]
        return xp.concat([(found - total * self.centre) / self.scale, total])

    def some(self, chosen: Array) -> _Standardised:
        """Those that are true in ``chosen``."""
        xp, start = namespace(chosen), 0
        parts = []
        for A in self.parts:
            (numbers,) = xp.nonzero(chosen[start : start + A.shape[0]])
            parts.append(A[numbers])
            start += A.shape[0]
        found = copy(self)
        found.parts = parts
        return found


class _SquaredHinge:
    """½‖w‖² + Σ cost · max(0, 1 − sign · score)², the intercept being the last weight."""

    def __init__(self, rows: _Standardised, signs: Array, costs: Array) -> None:
        self.rows, self.signs, self.costs = rows, signs, costs

    def margins(self, w: Array) -> Array:
        return self.signs * self.rows.times(w)

    def value(self, w: Array, margins: Array) -> float:
        xp = namespace(w)
        short = xp.clip(1 - margins, 0.0, None)
        return float(0.5 * (w @ w) + xp.sum(self.costs * short**2))

    def active(self, margins: Array) -> tuple[_SquaredHinge, Array]:
        """The rows that are not clearly on their side, which alone bend the loss; their margins."""
        xp = namespace(margins)
        some = margins < 1
        if float(xp.sum(some)) > _MOST * margins.shape[0]:
            costs = self.costs * xp.astype(some, self.costs.dtype)
            return _SquaredHinge(self.rows, self.signs, costs), margins
        found = _SquaredHinge(self.rows.some(some), self.signs[some], self.costs[some])
        return found, margins[some]

    def gradient(self, w: Array, margins: Array) -> Array:
        return w + 2 * self.rows.back(self.costs * self.signs * (margins - 1))

    def curved(self, v: Array) -> Array:
        """The Hessian times a vector."""
        return v + 2 * self.rows.back(self.costs * self.rows.times(v))


def _minimise(loss: _SquaredHinge, tolerance: float) -> Array:
    centre = loss.rows.centre
    w = filled(0.0, centre.shape[0] + 1, centre, centre.dtype)
    margins = 0 * loss.signs
    f = loss.value(w, margins)
    active, their_margins = loss.active(margins)
    gradient = active.gradient(w, their_margins)
    first = radius = _length(gradient)
    for step_number in range(_MAX_STEPS):
        stop_here()
        step, left = _inside(active, gradient, radius)
        new = w + step
        margins = loss.margins(new)
        f_new = loss.value(new, margins)
        slope = float(gradient @ step)
        predicted, gained = -0.5 * (slope - float(step @ left)), f - f_new
        length = _length(step)
        if step_number == 0:
            radius = min(radius, length)
        radius = _next_radius(radius, length, slope, predicted, gained)
        if gained > _TAKEN * predicted:
            w, f = new, f_new
            active, their_margins = loss.active(margins)
            gradient = active.gradient(w, their_margins)
            if _length(gradient) <= tolerance * first:
                break
        if max(abs(gained), abs(predicted)) <= 1e-12 * abs(f):
            break
    return w


def _next_radius(
    radius: float, length: float, slope: float, predicted: float, gained: float
) -> float:
    """The trust region after a step, by how well its gain was predicted."""
    bend = -gained - slope
    reach = length * (_GROW if bend <= 0 else max(_SHRINK, -0.5 * slope / bend))
    if gained < _TAKEN * predicted:
        return min(max(reach, _SHRINK * length), _HALVE * radius)
    if gained < _POOR * predicted:
        return max(_SHRINK * radius, min(reach, _HALVE * radius))
    if gained < _GOOD * predicted:
        return max(_SHRINK * radius, min(reach, _GROW * radius))
    return max(radius, min(reach, _GROW * radius))


def _inside(active: _SquaredHinge, gradient: Array, radius: float) -> tuple[Array, Array]:
    """Conjugate gradients for the Newton step within the radius: the step, and what is left."""
    step = 0 * gradient
    left = -gradient
    direction, enough = left, 0.1 * _length(gradient)
    squares = float(left @ left)
    while squares**0.5 > enough:
        curved = active.curved(direction)
        amount = squares / float(direction @ curved)
        longer = step + amount * direction
        if _length(longer) > radius:
            amount = _to_the_edge(step, direction, radius)
            return step + amount * direction, left - amount * curved
        step, left = longer, left - amount * curved
        squares, before = float(left @ left), squares
        direction = left + (squares / before) * direction
    return step, left


def _to_the_edge(step: Array, direction: Array, radius: float) -> float:
    """How far along a direction the edge of the trust region is."""
    along, inside = float(step @ direction), radius**2 - float(step @ step)
    squares = float(direction @ direction)
    root = (along**2 + squares * inside) ** 0.5
    return inside / (along + root) if along >= 0 else (root - along) / squares


def _length(v: Array) -> float:
    return float(v @ v) ** 0.5
