"""Rows of a batch that lies in several processes, brought together with their gradients.

Every process calls these in the same order. They work with gloo and NCCL alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Share:
    """Which rows of the whole batch this process holds: ``sizes`` counts those of each process."""

    group: Any
    rank: int
    sizes: tuple[int, ...]

    @property
    def first_row(self) -> int:
        """Where this process's rows begin in the whole batch."""
        return sum(self.sizes[: self.rank])

    @property
    def total_rows(self) -> int:
        """Rows of the whole batch."""
        return sum(self.sizes)

    @property
    def processes(self) -> int:
        """How many processes share the batch."""
        return len(self.sizes)


def share_of(rows: Tensor, group: Any = None) -> Share | None:
    """This process's part of the batch, or None where there is only one process.

    ``group`` is a process group; None stands for all processes. The counts are exchanged each
    time, since a gather of unequal counts would hang or mix up the rows.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return None
    processes = dist.get_world_size(group)
    if processes == 1:
        return None
    own = torch.tensor([rows.shape[0]], device=rows.device)
    counts = [torch.zeros_like(own) for _ in range(processes)]
    dist.all_gather(counts, own, group=group)
    return Share(group, dist.get_rank(group), tuple(torch.cat(counts).tolist()))


def gather_rows(rows: Tensor, share: Share) -> Tensor:
    """The rows of all processes, in their order; each gets back the sum of all their gradients."""
    return _GatherRows.apply(rows, share)


def average_gradient(value: Tensor, share: Share) -> Tensor:
    """The value itself; its gradient becomes the mean of those of all processes.

    For numbers that every process holds, such as the logit scale: right whether or not they are
    part of a module whose gradients are averaged again.
    """
    return _AverageGradient.apply(value, share)


def sum_over(value: Tensor, share: Share) -> Tensor:
    """The sum over all processes, without gradient."""
    value = value.detach().clone()
    dist.all_reduce(value, group=share.group)
    return value


def log_sum_exp_over(value: Tensor, share: Share) -> Tensor:
    """log Σ exp over all processes, element by element, without gradient or overflow."""
    top = value.detach().clone()
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=share.group)
    return top + sum_over(torch.exp(value - top), share).log()


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, share: Share) -> Tensor:
        ctx.share = share
        largest = max(share.sizes)
        padded = rows.detach()
        if rows.shape[0] < largest:
            padded = torch.cat([padded, padded.new_zeros(largest - rows.shape[0], rows.shape[1])])
        everyone = [torch.empty_like(padded) for _ in share.sizes]
        dist.all_gather(everyone, padded.contiguous(), group=share.group)
        return torch.cat([part[:n] for part, n in zip(everyone, share.sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        share = ctx.share
        # A reduce-scatter would move half as much, but needs equal counts and not all of gloo's
        # versions have it.
        whole = sum_over(gradient.contiguous(), share)
        return whole[share.first_row : share.first_row + share.sizes[share.rank]], None


class _AverageGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, share: Share) -> Tensor:
        ctx.share = share
        return value.view_as(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return sum_over(gradient, ctx.share) / ctx.share.processes, None
