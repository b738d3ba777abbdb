"""Chowers' contrastive loss of free embeddings, and its gradients in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_temperature
from modgap.core.door import check_pairs
from modgap.core.results import Result

# Logits that differ by less than this share one exponential: nothing underflows, and their sums
# and the inverses of the sums stay within the range of floats.
ONE_EXPONENTIAL = {np.dtype(np.float64): 600.0, np.dtype(np.float32): 60.0}


@dataclass(frozen=True)
class ContrastiveGradient(Result):
    """The loss and how it changes with every embedding and with the temperature.

    ``loss`` is Chowers' eq. 6, twice ``contrastive_loss(similarity="squared_distance")``. ``x``
    and ``y`` are its gradients (n, d), ``log_scale`` its derivative by ν, where 1/temperature =
    exp(ν). ``assignments_x`` and ``assignments_y`` are the sums S_i: a row with S_i above 1 is
    pushed away from the other modality.
    """

    loss: float
    x: np.ndarray
    y: np.ndarray
    log_scale: float
    assignments_x: np.ndarray
    assignments_y: np.ndarray

    @property
    def norm(self) -> float:
        """Length of the gradient by all embeddings together."""
        return math.hypot(float(np.linalg.norm(self.x)), float(np.linalg.norm(self.y)))


def contrastive_gradient(
    X: Array, Y: Array, temperature: float, *, sphere: bool = False
) -> ContrastiveGradient:
    """Loss of Chowers et al., eq. 6, and its gradients in closed form.

    L = −(1/N) Σ_i [log Qx(i, i) + log Qy(i, i)], Qx and Qy the softmax over rows and columns of
    −‖x_i − y_j‖²/τ (eq. 5). With A = Qx + Qy − 2I,

    ∂L/∂x_i = −(2/(τN)) Σ_j A_ij (x_i − y_j),  ∂L/∂y_j = (2/(τN)) Σ_i A_ij (x_i − y_j),
    ∂L/∂ν = −(1/(τN)) Σ_ij A_ij ‖x_i − y_j‖².

    Eqs 7, 8 and 13–17 print the descent direction and leave out 1/N. ``sphere=True`` makes the
    rows unit and keeps only the part of the gradients tangent to the sphere.

    >>> import numpy as np
    >>> g = contrastive_gradient(np.eye(2), np.eye(2), temperature=1.0)
    >>> round(g.loss, 4)  # twice log(1 + e⁻²), because own pairs coincide and others are √2 apart
    0.2539
    >>> g.assignments_x.tolist()
    [1.0, 1.0]
    """
    X, Y = check_embeddings(X, Y, sphere=sphere)
    temperature = check_temperature(temperature)
    X, Y = X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    L = np.empty((len(X), len(X)))
    logits(X, Y, 1 / temperature, out=L)
    A = np.empty_like(L)
    forces(L, out=A)
    scale = 2 / (temperature * len(X))
    x, y = (-scale * part for part in pulls(A, X, Y, sphere))
    return ContrastiveGradient(
        loss=_loss(L),
        x=x,
        y=y,
        log_scale=float(np.vdot(A, L)) / len(X),
        assignments_x=1 + A.sum(axis=1),
        assignments_y=1 + A.sum(axis=0),
    )


def check_embeddings(X: Array, Y: Array, *, sphere: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Pairs in two or more dimensions as NumPy arrays, float32 or float64, unit on the sphere."""
    X, Y = check_pairs(X, Y, min_rows=2, nonzero=sphere)
    if X.shape[1] < 2:
        raise InputValueError(
            f"X and Y must have at least 2 columns, got {X.shape[1]}. "
            "In one dimension nothing is orthogonal to the gap; add a column."
        )
    arrays = [np.asarray(to_numpy(A)) for A in (X, Y)]
    single = all(A.dtype == np.float32 for A in arrays)
    dtype = np.float32 if single else np.float64
    arrays = [np.ascontiguousarray(A, dtype=dtype) for A in arrays]
    if sphere:
        arrays = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in arrays]
    return arrays[0], arrays[1]


def logits(X: np.ndarray, Y: np.ndarray, scale: float, out: np.ndarray) -> None:
    """−scale·‖x_i − y_j‖² for all pairs, by one matrix product."""
    np.matmul(X, Y.T, out=out)
    out *= 2 * scale
    out -= (scale * np.einsum("ij,ij->i", X, X))[:, None]
    out -= scale * np.einsum("ij,ij->i", Y, Y)


def forces(L: np.ndarray, out: np.ndarray) -> None:
    """A = Qx + Qy − 2I of the logits.

    Its diagonal is minus the sum of what the row and the column give to others: subtracting
    Q(i, i) from 1 would lose all digits once the loss is small.
    """
    if L.max() - L.min() < ONE_EXPONENTIAL[L.dtype]:
        np.subtract(L, L.max(), out=out)
        np.exp(out, out=out)
        own = out.diagonal().copy()
        np.fill_diagonal(out, 0)
        rows, columns = out.sum(axis=1), out.sum(axis=0)
        out *= np.add.outer(1 / (rows + own), 1 / (columns + own))
        np.fill_diagonal(out, -(rows / (rows + own) + columns / (columns + own)))
        return
    total = np.zeros(len(L), dtype=L.dtype)
    out.fill(0)
    for axis in (1, 0):
        E, own, others = _exponentials(L, axis)
        E /= np.expand_dims(others + own, axis)
        out += E
        total += others / (others + own)
    np.fill_diagonal(out, -total)


def _exponentials(L: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp(L − its maximum) with 0 for own pairs, that of own pairs, and the sums of the others."""
    E = np.exp(L - L.max(axis=axis, keepdims=True))
    own = E.diagonal().copy()
    np.fill_diagonal(E, 0)
    return E, own, E.sum(axis=axis)


def pulls(A: np.ndarray, X: np.ndarray, Y: np.ndarray, sphere: bool) -> list[np.ndarray]:
    """Σ_j A_ij (x_i − y_j) for each x_i and Σ_i A_ij (y_j − x_i) for each y_j; tangent parts."""
    x = A.sum(axis=1)[:, None] * X - A @ Y
    y = A.sum(axis=0)[:, None] * Y - A.T @ X
    if sphere:
        for part, rows in ((x, X), (y, Y)):
            part -= np.einsum("ij,ij->i", part, rows)[:, None] * rows
    return [x, y]


def _loss(L: np.ndarray) -> float:
    """Sum of both cross-entropies, with all digits also where it is nearly zero."""
    total = 0.0
    own = L.diagonal()
    for axis in (1, 0):
        _, share, others = _exponentials(L, axis)
        matched = share > 0.5
        ratio = np.divide(others, share, out=np.zeros_like(others), where=matched)
        total += float(np.sum(np.where(matched, np.log1p(ratio), 0)))
        lost = ~matched
        total += float(np.sum((L.max(axis=axis) - own)[lost] + np.log((others + share)[lost])))
    return total / len(L)


def variance_along(A: np.ndarray, direction: np.ndarray) -> float:
    """Population variance of the rows along a direction; NaN without a direction.

    >>> import numpy as np
    >>> variance_along(np.array([[1.0, 5.0], [3.0, 9.0]]), np.array([2.0, 0.0]))
    1.0
    """
    length = float(np.linalg.norm(direction))
    if length == 0:
        return float("nan")
    return float((A @ (direction / length)).var())
