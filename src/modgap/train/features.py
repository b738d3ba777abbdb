"""What the two towers give for a batch, checked once: rows of pairs, floats, on one device."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from modgap._validate import InputTypeError, InputValueError


def check_features(X: Any, Y: Any, names: tuple[str, str] = ("X", "Y")) -> None:
    """Refuse what is no batch of pairs: two tensors of floats (n, d), n at least 1."""
    for name, features in zip(names, (X, Y), strict=True):
        if not isinstance(features, Tensor):
            raise InputTypeError(f"{name} must be a torch tensor, got {type(features).__name__}.")
        if not features.is_floating_point():
            raise InputTypeError(f"{name} must hold floats, got {features.dtype}.")
    if X.ndim != 2 or X.shape != Y.shape or X.numel() == 0:
        raise InputValueError(
            f"{names[0]} and {names[1]} must hold the same pairs row by row, at least one, "
            f"got {tuple(X.shape)} and {tuple(Y.shape)}."
        )
    if X.device != Y.device:
        raise InputValueError(
            f"{names[0]} and {names[1]} must be on one device, got {X.device} and {Y.device}."
        )
