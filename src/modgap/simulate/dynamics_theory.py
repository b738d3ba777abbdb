"""What Chowers et al. prove about the descent: its first step, and a caption with two images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modgap.core.checks import Array, InputValueError, check_positive, check_temperature
from modgap.core.results import Result
from modgap.simulate.dynamics_loss import check_embeddings, contrastive_gradient, variance_along


@dataclass(frozen=True)
class FirstStep(Result):
    """The direction of the first descent step, and what it does to the variance along the gap.

    ``cosine_x`` is, per row, the cosine between the step and the gap's direction toward the
    modality's own mean: 1 when the step only shrinks the spread along the gap; ``mean_cosine`` is
    the mean over all rows. ``variance_rate_x`` is d log(variance along the gap) per unit of
    learning rate, negative when it shrinks. ``predicted_x`` is S_i to first order (eq. 24), beside
    the exact ``assignments_x``.
    """

    cosine_x: np.ndarray
    cosine_y: np.ndarray
    mean_cosine: float
    variance_rate_x: float
    variance_rate_y: float
    assignments_x: np.ndarray
    assignments_y: np.ndarray
    predicted_x: np.ndarray
    predicted_y: np.ndarray


def first_step(X: Array, Y: Array, temperature: float) -> FirstStep:
    """Does the first step shrink the variance along the gap? (Chowers et al., th. 3.1, A.1)

    For tight clusters, S_i ≈ 1 + (2/τ)(μx − μy)·(y_i − μy) (eq. 24), so that descent moves y_i by
    −(4/(τ²N)) [g·(y_i − μy)] g plus terms of order ‖x_i − μx‖/(τN): along the gap, toward the
    mean, when ‖g‖²/τ is well above 1 (mean cosine 0.86 at τ = 0.1, 0.45 at τ = 1 for ‖g‖ = 1 in
    R²). The clusters must also be tight for eq. 24: (2/τ)‖g‖·spread well below 1.

    >>> from modgap.simulate.dynamics_start import make_clusters
    >>> step = first_step(*make_clusters(10, 2, gap=1.0, spread=0.01), temperature=0.1)
    >>> step.mean_cosine > 0.8, step.variance_rate_x < 0
    (True, True)
    """
    X, Y = check_embeddings(X, Y)
    temperature = check_temperature(temperature)
    X, Y = X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    gradient = contrastive_gradient(X, Y, temperature)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    length = float(np.linalg.norm(gap))
    if length == 0:
        raise InputValueError(
            "X and Y must have different means, got equal ones: without a gap it has no direction."
        )
    cosines, rates, predicted = [], [], []
    for rows, slope, toward in ((X, gradient.x, -gap), (Y, gradient.y, gap)):
        along = (rows - rows.mean(axis=0)) @ gap / length
        step = -slope
        norm = np.linalg.norm(step, axis=1)
        inward = -np.sign(along) * (step @ gap) / length
        cosines.append(np.divide(inward, norm, out=np.zeros_like(norm), where=norm > 0))
        pull = step @ gap / length
        variance = variance_along(rows, gap)
        change = 2 * float(np.mean(along * (pull - pull.mean())))
        rates.append(change / variance if variance > 0 else float("nan"))
        predicted.append(1 + 2 / temperature * (rows - rows.mean(axis=0)) @ toward)
    return FirstStep(
        cosine_x=cosines[0],
        cosine_y=cosines[1],
        mean_cosine=float(np.mean(np.concatenate(cosines))),
        variance_rate_x=rates[0],
        variance_rate_y=rates[1],
        assignments_x=gradient.assignments_x,
        assignments_y=gradient.assignments_y,
        predicted_x=predicted[0],
        predicted_y=predicted[1],
    )


def shared_caption_loss(first: float, second: float) -> float:
    """Loss of two images with one caption, at distances d₁ and d₂ from it (Chowers et al., B).

    log 2 + (d₁ + d₂)/2 + log(e^−d₁ + e^−d₂) = 2 log 2 + log cosh((d₁ − d₂)/2), d the squared
    distance over the temperature. The last line of eq. 46 drops the ½. Its minimum is the whole
    line d₁ = d₂: the loss leaves open whether a gap stays, and coincidence is not the only
    minimum, as the appendix concludes.

    >>> shared_caption_loss(0.0, 0.0) == shared_caption_loss(3.0, 3.0)
    True
    >>> round(shared_caption_loss(0.0, 1.0), 4)
    1.5064
    """
    first, second = (
        0.0 if d == 0 else check_positive(d, name)
        for d, name in ((first, "first"), (second, "second"))
    )
    half = abs(first - second) / 2
    # log cosh h = h + log(1 + e^−2h) − log 2, which does not overflow.
    return float(np.log(2) + half + np.log1p(np.exp(-2 * half)))
