"""The symmetric contrastive loss, as a function and as a module with open_clip's call.

½ (row + column cross-entropy) of logit_scale · X Yᵀ with each row's own pair as its class
(Radford et al. 2021; Yaras et al. 2024, eq. 2).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from modgap._validate import (
    InputTypeError,
    InputValueError,
    check_count,
    check_finite,
    check_positive,
)
from modgap.train.gather import Share, average_gradient, gather_rows, share_of, sum_over
from modgap.train.loss_lean import lean_share
from modgap.train.swap import Swap
from modgap.train.temperature import Temperature


def contrastive(
    X: Tensor,
    Y: Tensor,
    logit_scale: Tensor | float,
    logit_bias: Tensor | float | None = None,
    *,
    lean: bool = False,
    block_bytes: int | None = None,
) -> Tensor:
    """Symmetric contrastive loss of the pairs (X[i], Y[i]), rows used as given; 0 for one pair.

    ``logit_scale`` is 1/temperature. ``logit_bias`` is added to every logit and so cancels; it is
    there for open_clip's call. The lean form never holds the n × n logits: it computes blocks of at
    most ``block_bytes`` and computes them again going back. Half precision is widened to float32,
    under autocast too: logits of a scale of 100 are off by up to half in bfloat16.

    >>> X = torch.eye(2)
    >>> round(contrastive(X, X, 1.0).item(), 4)  # log(1 + exp(−1))
    0.3133
    """
    X, Y = _check_features(X, Y, ("X", "Y"))
    with torch.autocast(X.device.type, enabled=False):
        scale, bias = _scalar(logit_scale, "logit_scale", X), _bias(logit_bias, X)
        return _part(X, Y, scale, bias, None, lean, _check_block(block_bytes))


class ContrastiveLoss(nn.Module):
    """The contrastive loss of a training step, in place of open_clip's ``ClipLoss``.

    Rows are normalised (``normalise=False`` leaves them, the paper's "remove normalization"), then
    swapped if there is a ``swap``, and go into ``contrastive``, plain or ``lean``.

    Under ``torch.distributed`` the loss is that of the whole batch, the rows of all processes,
    and every process gets the same value. ``gather="auto"`` does that whenever several processes
    are at work, ``None`` never; a process group can be given too. Gradients are such that their
    mean over the processes, which DDP takes, is that of one process with the whole batch; the
    scale's is already the mean. Every process must call the loss; their counts of rows may differ.

    ``temperature`` gives the scale of each step in place of the one in the call, for loops that
    know only their model's; a learned one must be added to the optimiser (`parameter_group`).

    The step for swap and temperature is counted by the calls in training, ``calls_per_step`` of
    them to a step where gradients are accumulated, and is part of the ``state_dict``; a loop that
    does not keep it calls ``set_step`` when it resumes. ``step=`` says it instead.
    """

    def __init__(
        self,
        swap: Swap | None = None,
        normalise: bool = True,
        lean: bool = False,
        gather: Any = "auto",
        block_bytes: int | None = None,
        temperature: Temperature | None = None,
        calls_per_step: int = 1,
    ) -> None:
        super().__init__()
        if temperature is not None and not isinstance(temperature, Temperature):
            raise InputTypeError(
                f"temperature must be a Temperature such as FixedTemperature(0.04) or None, "
                f"got {type(temperature).__name__}."
            )
        if swap is not None and not isinstance(swap, nn.Module):
            raise InputTypeError(
                f"swap must be a module such as HardSwap(0.01) or None, got {type(swap).__name__}."
            )
        if isinstance(gather, (str, bool)) and gather != "auto":
            raise InputValueError(
                f'gather must be "auto", None or a process group, got {gather!r}.'
            )
        self.swap = swap
        self.temperature = temperature
        self.normalise = bool(normalise)
        self.lean = bool(lean)
        self.gather = gather
        self.block_bytes = _check_block(block_bytes)
        self.calls_per_step = check_count(calls_per_step, "calls_per_step")
        self._calls = 0

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | float | None = None,
        output_dict: bool = False,
        *,
        step: int | None = None,
        same: Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """The loss, or ``{"contrastive_loss": loss}``.

        ``same`` (N, N), symmetric and for the whole batch over all processes, says which pairs are
        no negatives of each other, their texts being `identical` for instance.
        """
        X, Y = _check_features(image_features, text_features, ("image_features", "text_features"))
        if same is not None and self.lean:
            raise InputValueError(
                "same needs the whole matrix of logits, which a lean loss never holds. Choose one."
            )
        with torch.autocast(X.device.type, enabled=False):
            step = self._count(step)
            if self.temperature is None:
                loss = self._loss(X, Y, logit_scale, logit_bias, step, same)
            else:
                loss = self._loss(X, Y, self.temperature(step), logit_bias, step, same)
                # The caller's own scale stays in the graph, for DDP waits for its gradient, 0.
                loss = loss + 0.0 * _scalar(logit_scale, "logit_scale", X)
        return {"contrastive_loss": loss} if output_dict else loss

    def _loss(
        self,
        X: Tensor,
        Y: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | float | None,
        step: int,
        same: Tensor | None,
    ) -> Tensor:
        scale, bias = _scalar(logit_scale, "logit_scale", X), _bias(logit_bias, X)
        if self.normalise:
            X, Y = F.normalize(X, dim=1), F.normalize(Y, dim=1)
        share = None
        if self.gather is not None:
            share = share_of(X, None if isinstance(self.gather, str) else self.gather)
        if self.swap is not None:
            first, total = (0, None) if share is None else (share.first_row, share.total_rows)
            X, Y = self.swap(X, Y, step, first_row=first, total_rows=total)
        if share is None:
            return _part(X, Y, scale, bias, None, self.lean, self.block_bytes, same)
        scale = average_gradient(scale, share)
        bias = None if bias is None else average_gradient(bias, share)
        part = _part(X, Y, scale, bias, share, self.lean, self.block_bytes, same)
        # The value is the sum of the parts; the gradient this process's part, times the number of
        # processes because DDP divides by it.
        return sum_over(part, share) + share.processes * (part - part.detach())

    def _count(self, step: int | None) -> int:
        if step is not None:
            step = check_count(step, "step", at_least=0)
            if self.training:
                self.set_step(step + 1)
            return step
        step = self._calls // self.calls_per_step
        if self.training:
            self._calls += 1
        return step

    def set_step(self, step: int) -> None:
        """Go on at a step, as after so many."""
        self._calls = check_count(step, "step", at_least=0) * self.calls_per_step

    def get_extra_state(self) -> Tensor:
        """How often it was called in training, for the ``state_dict``."""
        return torch.tensor(self._calls)

    def set_extra_state(self, state: Tensor) -> None:
        """Go on from a ``state_dict``."""
        self._calls = int(state)

    def extra_repr(self) -> str:
        """The settings, where torch prints the module."""
        return f"normalise={self.normalise}, lean={self.lean}, gather={self.gather!r}"


def _part(
    X: Tensor,
    Y: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    share: Share | None,
    lean: bool,
    block_bytes: int | None,
    same: Tensor | None = None,
) -> Tensor:
    """This process's part of the loss of the whole batch; all of it where there is one process."""
    if lean:
        part = lean_share(
            X, Y if share is None else gather_rows(Y, share), scale, share, block_bytes
        )
        # Keeps the bias in the graph, for DDP waits for every parameter's gradient, here 0.
        return part if bias is None else part + 0.0 * bias
    if share is None:
        logits = _logits(X, Y, scale, bias, same)
        classes = torch.arange(X.shape[0], device=X.device)
        return (F.cross_entropy(logits, classes) + F.cross_entropy(logits.T, classes)) / 2
    classes = torch.arange(share.first_row, share.first_row + X.shape[0], device=X.device)
    own = None if same is None else same[classes]
    by_row = _logits(X, gather_rows(Y, share), scale, bias, own)
    by_column = _logits(Y, gather_rows(X, share), scale, bias, own)
    total = F.cross_entropy(by_row, classes, reduction="sum")
    total = total + F.cross_entropy(by_column, classes, reduction="sum")
    return total / (2 * share.total_rows)


def _logits(
    A: Tensor, B: Tensor, scale: Tensor, bias: Tensor | None, same: Tensor | None
) -> Tensor:
    # The scale goes to the rows, which are fewer than the logits.
    logits = (A * scale) @ B.T
    logits = logits if bias is None else logits + bias
    return logits if same is None else logits.masked_fill(same, -torch.inf)


def identical(tokens: Tensor) -> Tensor:
    """Which captions of a batch (n, context_length) are the same word for word, beside themselves.

    >>> identical(torch.tensor([[1, 2], [3, 0], [1, 2]])).int().tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    _, kind = torch.unique(tokens, dim=0, return_inverse=True)
    same = kind[:, None] == kind
    return same.fill_diagonal_(False)


def _check_features(X: Any, Y: Any, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
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
    wide = torch.promote_types(torch.promote_types(X.dtype, Y.dtype), torch.float32)
    return X.to(wide), Y.to(wide)


def _scalar(value: Any, name: str, X: Tensor) -> Tensor:
    """One number as a tensor without dimensions, in the precision and place of the features."""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise InputValueError(
                f"{name} must be one number, got shape {tuple(value.shape)}. "
                "Give the scale of the step, not one per row."
            )
        return value.reshape(()).to(device=X.device, dtype=X.dtype)
    value = check_positive(value, name) if name == "logit_scale" else check_finite(value, name)
    return torch.full((), value, device=X.device, dtype=X.dtype)


def _bias(value: Any, X: Tensor) -> Tensor | None:
    return None if value is None else _scalar(value, "logit_bias", X)


def _check_block(block_bytes: int | None) -> int | None:
    return None if block_bytes is None else check_count(block_bytes, "block_bytes")
