"""A linear support vector machine on all features at once, over the array API.

The squared hinge loss with balanced classes is minimised by a trust-region Newton method (Lin,
Weng and Keerthi 2008), step for step as LIBLINEAR's primal solver takes them, which scikit-learn's
``LinearSVC(dual=False)`` calls: the same weights, from BLAS, on whatever device the rows are.
"""

from __future__ import annotations

from dataclasses import dataclass

from modgap._arrays import filled, namespace, row_blocks, rows_per_block, wide_dtype, widen
from modgap._stopping import stop_here
from modgap._validate import Array

_TOLERANCE, _MAX_STEPS = 1e-4, 1000
# Of the trust region: when a step counts, when the region shrinks or grows, and how far.
_TAKEN, _POOR, _GOOD = 1e-4, 0.25, 0.75
_SHRINK, _HALVE, _GROW = 0.25, 0.5, 4.0


@dataclass(frozen=True)
class LinearClassifier:
    """Weights for standardised features; a row is of the second side where its score is above 0."""

    centre: Array
    scale: Array
    weights: Array
    intercept: float

    @classmethod
    def fit(cls, first: Array, second: Array) -> LinearClassifier:
        """Tell two sets of rows apart; the larger must not win by its numbers."""
        xp = namespace(first)
        rows, centre, scale = _standardised(first, second)
        n = rows.shape[0]
        counts = first.shape[0], second.shape[0]
        sides = xp.concat([filled(-1.0, counts[0], rows, rows.dtype),
                           filled(1.0, counts[1], rows, rows.dtype)])  # fmt: skip
        costs = xp.concat([filled(n / (2 * count), count, rows, rows.dtype) for count in counts])
        tolerance = _TOLERANCE * min(counts) / n
        found = _minimise(_SquaredHinge(rows, sides, costs), tolerance)
        return cls(centre, scale, found[:-1], float(found[-1]))

    def scores(self, rows: Array) -> Array:
        """How far each row is on the second side."""
        xp, weights = namespace(rows), self.weights / self.scale
        blocks = row_blocks(rows.shape[0], rows_per_block(rows.shape[1]))
        found = xp.concat([widen(rows[block]) @ weights for block in blocks])
        return found + (self.intercept - xp.sum(weights * self.centre))


def _standardised(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Rows of both with mean 0 and variance 1 in each feature, and the mean and scale they had."""
    xp = namespace(first)
    rows = widen(xp.concat([first, second]))
    n, eps = rows.shape[0], float(xp.finfo(rows.dtype).eps)
    centre = xp.mean(rows, axis=0)
    rows -= centre
    squares = xp.zeros_like(centre)
    for block in row_blocks(n, rows_per_block(rows.shape[1])):
        squares = squares + xp.sum(rows[block] ** 2, axis=0)
    variance = squares / n
    # A feature that varies by rounding alone is left as it is.
    flat = variance <= n * eps * variance + (n * centre * eps) ** 2
    scale = xp.sqrt(xp.where(flat, xp.ones_like(variance), variance))
    rows *= 1 / scale
    return rows, centre, scale


class _SquaredHinge:
    """½‖w‖² + Σ cost · max(0, 1 − side · score)², the intercept being the last weight."""

    def __init__(self, rows: Array, sides: Array, costs: Array) -> None:
        self.rows, self.sides, self.costs = rows, sides, costs

    def times(self, w: Array) -> Array:
        return self.rows @ w[:-1] + w[-1]

    def back(self, v: Array) -> Array:
        xp = namespace(v)
        return xp.concat([v @ self.rows, xp.sum(v, keepdims=True)])

    def value(self, w: Array, margins: Array) -> float:
        xp = namespace(w)
        short = xp.clip(1 - margins, 0.0, None)
        return float(0.5 * (w @ w) + xp.sum(self.costs * short**2))

    def gradient(self, w: Array, margins: Array, active: Array) -> Array:
        return w + 2 * self.back(active * self.costs * self.sides * (margins - 1))

    def curved(self, v: Array, active: Array) -> Array:
        """The Hessian times a vector."""
        return v + 2 * self.back(active * self.costs * self.times(v))


def _minimise(loss: _SquaredHinge, tolerance: float) -> Array:
    rows = loss.rows
    xp = namespace(rows)
    w = filled(0.0, rows.shape[1] + 1, rows, wide_dtype(rows))
    margins = loss.sides * loss.times(w)
    f, active = loss.value(w, margins), xp.astype(margins < 1, w.dtype)
    gradient = loss.gradient(w, margins, active)
    first = radius = _length(gradient)
    for step_number in range(_MAX_STEPS):
        stop_here()
        step, left = _inside(loss, active, gradient, radius)
        new = w + step
        new_margins = loss.sides * loss.times(new)
        f_new = loss.value(new, new_margins)
        slope = float(gradient @ step)
        predicted, gained = -0.5 * (slope - float(step @ left)), f - f_new
        length = _length(step)
        if step_number == 0:
            radius = min(radius, length)
        radius = _next_radius(radius, length, slope, predicted, gained)
        if gained > _TAKEN * predicted:
            w, f, margins = new, f_new, new_margins
            active = xp.astype(margins < 1, w.dtype)
            gradient = loss.gradient(w, margins, active)
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


def _inside(
    loss: _SquaredHinge, active: Array, gradient: Array, radius: float
) -> tuple[Array, Array]:
    """Conjugate gradients for the Newton step within the radius: the step, and what is left."""
    step = 0 * gradient
    left = -gradient
    direction, enough = left, 0.1 * _length(gradient)
    squares = float(left @ left)
    while squares**0.5 > enough:
        curved = loss.curved(direction, active)
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
