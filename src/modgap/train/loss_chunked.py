"""The contrastive loss without its n × n logits: blocks of rows, computed again going back.

Written for one process's rows of X against all rows of Y, so that one product serves both
directions also where the batch lies in several processes: the columns' log-sum-exp is then
combined over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from modgap.arrays import row_blocks
from modgap.core.checks import check_count
from modgap.train.gather import RankRows, log_sum_exp_over

# Bytes of one block of logits; two are held at most. A GPU wants many rows at once (2,048 of
# 65,536 columns), a CPU a block that is not too far from its cache.
CPU_BLOCK_BYTES = 2**24
GPU_BLOCK_BYTES = 2**29


def chunked_loss(
    X: Tensor, Y: Tensor, scale: Tensor, held: RankRows, block_bytes: int | None = None
) -> Tensor:
    """This process's part of the loss of the whole batch; the parts of all processes sum to it.

    ``X`` (n, d) holds this process's rows, ``Y`` (N, d) the rows of all processes.
    ``scale`` has no dimensions.
    """
    return _ChunkedLoss.apply(X, Y, scale, held, block_rows(X, Y.shape[0], block_bytes))


def block_rows(X: Tensor, columns: int, block_bytes: int | None) -> int:
    """How many rows of logits a block holds."""
    if block_bytes is None:
        block_bytes = CPU_BLOCK_BYTES if X.device.type == "cpu" else GPU_BLOCK_BYTES
    size = max(1, check_count(block_bytes, "block_bytes") // (columns * X.element_size()))
    # Blocks of nearly one size: a last block of a few rows costs as many launches as a full one.
    n_blocks = -(-X.shape[0] // size)
    return -(-X.shape[0] // n_blocks)


class _ChunkedLoss(torch.autograd.Function):
    """With z_ij = scale · x_i · y_j, r and c the log-sum-exp of its rows and columns:

    loss = mean_i ((r_i + c_i)/2 − z_ii), and its gradient in z is
    ((exp(z_ij − r_i) + exp(z_ij − c_j))/2 − [i = j])/N.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, Y: Tensor, scale: Tensor, held: RankRows, size: int) -> Tensor:
        own = held.rows
        with torch.autocast(X.device.type, enabled=False):
            rows, columns = _row_and_column_sums(X, Y, scale, size)
            columns = log_sum_exp_over(columns, held)
            pairs = scale * torch.einsum("ij,ij->i", X, Y[own])
            loss = ((rows + columns[own]) / 2 - pairs).sum() / Y.shape[0]
        ctx.save_for_backward(X, Y, scale, rows, columns)
        ctx.own, ctx.size = own, size
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        X, Y, scale, rows, columns = ctx.saved_tensors

        def weights(part: slice, block: Tensor) -> Tensor:
            # exp(z − r) + exp(z − c) = exp(z + log(exp(−r) + exp(−c))): one exp of the block,
            # which is at most 2, and the product adds to it in place.
            torch.logaddexp(-rows[part, None], -columns[None, :], out=block)
            return block.addmm_(X[part] * scale, Y.T).exp_()

        with torch.autocast(X.device.type, enabled=False):
            found = block_gradients(
                (X, Y, scale), ctx.own, ctx.size, gradient, ctx.needs_input_grad[:3], weights, 0.5
            )
        return *found, None, None


def block_gradients(
    inputs: tuple[Tensor, Tensor, Tensor],
    own: slice,
    size: int,
    gradient: Tensor,
    wants: Sequence[bool],
    weights_of: Callable[[slice, Tensor], Tensor],
    share: float = 1.0,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of X, Y and the scale, block by block.

    For losses whose gradient in the logit z_ij is (``share`` · w_ij − [i = j])/N. ``weights_of``
    fills a block with the w of some rows. ``own`` are the rows of Y that are pairs of X's.
    """
    X, Y, scale = inputs
    wants_x, wants_y, wants_scale = wants
    towards_y = torch.empty_like(X) if wants_x or wants_scale else None
    towards_x = torch.zeros_like(Y) if wants_y else None
    block = X.new_empty(size, len(Y))
    for part in row_blocks(len(X), size):
        weights = weights_of(part, block[: part.stop - part.start])
        if towards_y is not None:
            torch.mm(weights, Y, out=towards_y[part])
        if towards_x is not None:
            towards_x.addmm_(weights.T, X[part])
    del block
    weight = gradient / len(Y)
    of_x = of_y = of_scale = None
    if towards_y is not None:
        towards_y.mul_(share).sub_(Y[own])
        of_scale = weight * torch.einsum("ij,ij->", X, towards_y) if wants_scale else None
        of_x = towards_y.mul_(scale * weight) if wants_x else None
    if towards_x is not None:
        towards_x.mul_(share)[own].sub_(X)
        of_y = towards_x.mul_(scale * weight)
    return of_x, of_y, of_scale


def _row_and_column_sums(X: Tensor, Y: Tensor, scale: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """log Σ exp of each row and of each column of scale · X Yᵀ."""
    n, total = X.shape[0], Y.shape[0]
    rows = X.new_empty(n)
    top = X.new_full((total,), -torch.inf)
    below = X.new_zeros(total)
    block, scratch = X.new_empty(size, total), X.new_empty(size, total)
    for part in row_blocks(n, size):
        count = part.stop - part.start
        logits = torch.mm(X[part] * scale, Y.T, out=block[:count])
        row_top = logits.amax(1)
        shifted = torch.sub(logits, row_top[:, None], out=scratch[:count])
        rows[part] = shifted.exp_().sum(1).log_() + row_top
        # Columns run over all blocks: what was summed below an older top is brought to the new.
        new_top = torch.maximum(top, logits.amax(0))
        below.mul_(torch.exp(top - new_top)).add_(logits.sub_(new_top).exp_().sum(0))
        top = new_top
    return rows, top + below.log()
