"""One row for a document of two parts, an image and its text for instance."""

from __future__ import annotations

from modgap._arrays import unit
from modgap._validate import Array, InputValueError, check_finite, check_two


def fuse(X: Array, Y: Array, weight: float = 0.5) -> Array:
    """The rows of documents that have both parts: weight · x + (1 − weight) · y, at unit length.

    x and y are unit rows. Fused documents lie between the modalities, so they are a modality of
    their own, with their own mean and spread: fit ``Calibrate`` on ``{"image": …, "text": …,
    "fused": …}`` and index them as ``"fused"``.

    Parameters
    ----------
    X, Y : (n, d) arrays
        The parts, row i of both of document i, of any length.
    weight : float
        Share of X, between 0 and 1.

    >>> fuse([[2.0, 0.0]], [[0.0, 1.0]]).round(4).tolist()
    [[0.7071, 0.7071]]
    """
    X, Y = check_two(X, Y, nonzero=True)
    if X.shape[0] != Y.shape[0]:
        raise InputValueError(
            f"X and Y must hold the two parts of the same documents, got {X.shape[0]} and "
            f"{Y.shape[0]} rows."
        )
    if not 0 <= check_finite(weight, "weight") <= 1:
        raise InputValueError(f"weight must be between 0 and 1, got {weight}.")
    return unit(weight * unit(X) + (1 - weight) * unit(Y))
