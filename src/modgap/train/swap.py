"""Swapping: mixing the two features of a pair, so that the modalities cannot stay apart.

Yaras et al. 2024, appendices D.2 and F. Each acts on a random share of the steps, in training
only, on the normalised features; the swapped rows go into the loss as they are.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from modgap.core.checks import (
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
)
from modgap.train.described import Described


def check_features(X: Any, Y: Any, names: tuple[str, str] = ("X", "Y")) -> None:
    """Refuse anything but a batch of pairs: two tensors of floats (n, d), n at least 1."""
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


class Swap(Described):
    """Exchanges what the two sides of each pair hold, at a share ``probability`` of the steps.

    Draws depend on (seed, step) and on nothing else: every process makes the same ones, and a
    resumed training those of an uninterrupted one. Numbers for features on a GPU are drawn there,
    and are not those that a CPU draws. Like dropout, it does nothing in evaluation mode.
    """

    kind: ClassVar[str]
    whole_rows: ClassVar[bool] = False

    def __init__(self, probability: float, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= check_finite(probability, "probability") <= 1:
            raise InputValueError(
                f"probability must be a share of the steps between 0 and 1, got {probability}."
            )
        self.probability = float(probability)
        self.seed = check_count(seed, "seed", at_least=0)

    def active(self, step: int) -> bool:
        """Whether this step swaps."""
        step = check_count(step, "step", at_least=0)
        return bool(np.random.default_rng((self.seed, step)).random() < self.probability)

    def forward(
        self,
        X: Tensor,
        Y: Tensor,
        step: int,
        *,
        first_row: int = 0,
        total_rows: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The two batches (n, d) of a step, swapped.

        Where several processes hold parts of one batch, ``first_row`` and ``total_rows`` say which
        rows these are: each then gets what it would get if the batch were in one place.
        """
        check_features(X, Y)
        n = X.shape[0]
        first_row = check_count(first_row, "first_row", at_least=0)
        total = n + first_row if total_rows is None else check_count(total_rows, "total_rows")
        if first_row + n > total:
            raise InputValueError(
                f"Rows {first_row} to {first_row + n - 1} must lie within total_rows, got {total}."
            )
        if not (self.training and self.active(step)):
            return X, Y
        generator = torch.Generator(device=X.device)
        # A stream apart from the one that says whether the step swaps.
        high, low = np.random.SeedSequence((self.seed, step, 1)).generate_state(2)
        generator.manual_seed((int(high) << 31) ^ int(low))
        # The whole batch is drawn and these rows taken, so that where a row lies decides its draw.
        columns = 1 if self.whole_rows else X.shape[1]
        draws = torch.rand(total, columns, generator=generator, device=X.device)
        return self._mix(X, Y, draws[first_row : first_row + n])

    def _mix(self, X: Tensor, Y: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


class HardSwap(Swap):
    """Exchanges X[i, j] and Y[i, j] with probability ½, each entry by itself (HS)."""

    kind = "hard"

    def _mix(self, X: Tensor, Y: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        exchanged = draws < 0.5
        return torch.where(exchanged, Y, X), torch.where(exchanged, X, Y)


class SoftSwap(Swap):
    """λX + (1 − λ)Y and λY + (1 − λ)X with λ[i, j] uniform in [0, 1), each by itself (SS)."""

    kind = "soft"

    def _mix(self, X: Tensor, Y: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        kept = draws.to(X.dtype)
        return torch.lerp(Y, X, kept), torch.lerp(X, Y, kept)


class FeatureSwap(HardSwap):
    """Exchanges whole rows X[i] and Y[i] with probability ½ (hard swap of features)."""

    kind, whole_rows = "feature", True


KINDS: dict[str, type[Swap]] = {made.kind: made for made in (HardSwap, SoftSwap, FeatureSwap)}
# Kind and probability by the paper's names: HS P* of table 5, and 1e-3 (HS) and 5e-2 (SS) of
# table 2. The paper gives no share for its swap of features; this one is at every step.
SWAPS: dict[str, tuple[str, float]] = {
    "HS P1": ("hard", 1.0),
    "HS P1e-1": ("hard", 0.1),
    "HS P1e-2": ("hard", 0.01),
    "HS P1e-3": ("hard", 0.001),
    "SS P1e-1": ("soft", 0.1),
    "SS P5e-2": ("soft", 0.05),
    "SS P1e-2": ("soft", 0.01),
    "Hard Swap Feature": ("feature", 1.0),
}


def make_swap(name: str, probability: float | None = None, seed: int = 0) -> Swap:
    """A swap by its kind, with its share of the steps, or by the paper's name.

    >>> swap = make_swap("SS P5e-2")
    >>> swap.kind, swap.probability
    ('soft', 0.05)
    """
    check_choice(name, "swap", (*KINDS, *SWAPS))
    kind, preset = SWAPS.get(name, (name, None))
    share = preset if probability is None else probability
    if share is None:
        raise InputValueError(f"The swap {name!r} needs a probability, a share of the steps.")
    return KINDS[kind](share, seed)
