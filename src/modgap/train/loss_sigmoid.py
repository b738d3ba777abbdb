"""SigLIP's loss: every pair of the batch is classified by itself (Zhai et al. 2023, eq. 1).

−1/n Σᵢⱼ log σ(zᵢⱼ (s · xᵢ · yⱼ + b)) with z = 1 for the pairs and −1 for the rest; written with
softplus(l) = log(1 + exp(l)) of the logits l it is (Σᵢⱼ softplus(lᵢⱼ) − Σᵢ lᵢᵢ)/n.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from modgap.arrays import row_blocks
from modgap.core.checks import check_finite, check_positive
from modgap.train.gather import RankRows, gather_rows
from modgap.train.loss import ContrastiveLoss, scalar, widened
from modgap.train.loss_chunked import block_gradients, block_rows

SIGLIP_BIAS = -10.0


def sigmoid_contrastive(
    X: Tensor,
    Y: Tensor,
    logit_scale: Tensor | float,
    logit_bias: Tensor | float = SIGLIP_BIAS,
    *,
    chunked: bool = False,
    block_bytes: int | None = None,
) -> Tensor:
    """SigLIP's loss of the pairs (X[i], Y[i]).

    Parameters
    ----------
    X, Y, chunked, block_bytes
        As in `contrastive`.
    logit_scale : Tensor or float
        1/temperature; SigLIP starts at 10.
    logit_bias : Tensor or float
        Added to every logit: with many more non-pairs than pairs, it must be negative.

    >>> X = torch.eye(2)
    >>> round(sigmoid_contrastive(X, X, 1.0, 0.0).item(), 4)  # log(1 + exp(−1)) + log 2
    1.0064
    """
    X, Y = widened(X, Y, ("X", "Y"))
    with torch.autocast(X.device.type, enabled=False):
        scale, bias = scalar(logit_scale, "logit_scale", X), scalar(logit_bias, "logit_bias", X)
        return sigmoid_part(X, Y, scale, bias, RankRows((len(X),)), chunked, block_bytes)


def sigmoid_part(
    X: Tensor,
    Y: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    held: RankRows,
    chunked: bool,
    block_bytes: int | None,
    same: Tensor | None = None,
) -> Tensor:
    """This process's rows of X against all rows of Y, over the number of all rows."""
    assert bias is not None  # SigmoidLoss has one
    everyone = gather_rows(Y, held)
    if chunked:
        size = block_rows(X, len(everyone), block_bytes)
        return _ChunkedSigmoid.apply(X, everyone, scale, bias, held.rows, size)
    logits = (X * scale) @ everyone.T + bias
    pairs = logits[:, held.rows].diagonal().sum()
    if same is not None:
        logits = logits.masked_fill(same[held.rows], -torch.inf)
    return (_softplus(logits).sum() - pairs) / held.total_rows


class SigmoidLoss(ContrastiveLoss):
    """SigLIP's loss of a training step, in place of open_clip's ``SigLipLoss``.

    Only the formula and the bias differ from `ContrastiveLoss`, whose parameters it takes, too.

    Parameters
    ----------
    bias : float
        Where the bias starts, which is learned here. A ``logit_bias`` in the call takes its place.
    rate : float
        Multiplies the learning rate of the bias.
    """

    _formula = staticmethod(sigmoid_part)

    def __init__(
        self, *options: Any, bias: float = SIGLIP_BIAS, rate: float = 1.0, **more: Any
    ) -> None:
        super().__init__(*options, **more)
        self.bias = nn.Parameter(torch.tensor(check_finite(bias, "bias")))
        self.rate = check_positive(rate, "rate")

    def parameter_group(self, learning_rate: float) -> dict[str, Any] | None:
        """The optimiser's group for the bias: at ``rate`` times the learning rate, no decay."""
        rate = check_positive(learning_rate, "learning_rate") * self.rate
        return {"params": [self.bias], "lr": rate, "weight_decay": 0.0, "name": "bias"}

    def _bias(self, given: Tensor | float | None) -> Tensor | float | None:
        return self.bias if given is None else given


def _softplus(logits: Tensor) -> Tensor:
    return F.softplus(logits, threshold=40.0)  # beyond it log(1 + exp(l)) is l in float64 too


class _ChunkedSigmoid(torch.autograd.Function):
    """The gradient of the loss in the logit l_ij is (σ(l_ij) − [i = j])/N."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, Y: Tensor, scale: Tensor, bias: Tensor, own: slice, size: int
    ) -> Tensor:
        total = X.new_zeros(())
        block = X.new_empty(size, len(Y))
        for part in row_blocks(len(X), size):
            count = part.stop - part.start
            logits = torch.mm(X[part] * scale, Y.T, out=block[:count]).add_(bias)
            total += _softplus(logits).sum()
        pairs = scale * torch.einsum("ij,ij->", X, Y[own]) + bias * len(X)
        ctx.save_for_backward(X, Y, scale, bias)
        ctx.own, ctx.size = own, size
        return (total - pairs) / len(Y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        X, Y, scale, bias = ctx.saved_tensors
        shares = X.new_zeros(())

        def weights(part: slice, block: Tensor) -> Tensor:
            torch.mm(X[part] * scale, Y.T, out=block).add_(bias).sigmoid_()
            shares.add_(block.sum())
            return block

        wants = ctx.needs_input_grad
        of_x, of_y, of_scale = block_gradients(
            (X, Y, scale), ctx.own, ctx.size, gradient, wants[:3], weights
        )
        of_bias = gradient / len(Y) * (shares - len(X)) if wants[3] else None
        return of_x, of_y, of_scale, of_bias, None, None
