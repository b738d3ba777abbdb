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
class RankRows:
    """Which rows of the whole batch this process holds; ``sizes`` are the rows of each process."""

    sizes: tuple[int, ...]
    rank: int = 0
    group: Any = None

    @property
    def rows(self) -> slice:
        """This process's rows of the whole batch."""
        first = sum(self.sizes[: self.rank])
        return slice(first, first + self.sizes[self.rank])

    @property
    def total_rows(self) -> int:
        """Rows of the whole batch."""
        return sum(self.sizes)

    @property
    def processes(self) -> int:
        """How many processes share the batch."""
        return len(self.sizes)


def rank_rows(rows: Tensor, group: Any = None) -> RankRows:
    """This process's part of the batch: all of it where there is only one process.

    ``group`` is a process group; None stands for all processes. The counts are exchanged each
    time, since a gather of unequal counts would hang or mix up the rows.
    """
    alone = RankRows((rows.shape[0],))
    if not (dist.is_available() and dist.is_initialized()):
        return alone
    processes = dist.get_world_size(group)
    if processes == 1:
        return alone
    own = torch.tensor(alone.sizes, device=rows.device)
    counts = [torch.zeros_like(own) for _ in range(processes)]
    dist.all_gather(counts, own, group=group)
    return RankRows(tuple(torch.cat(counts).tolist()), dist.get_rank(group), group)


def gather_rows(rows: Tensor, held: RankRows) -> Tensor:
    """The rows of all processes, in their order; each gets back the sum of all their gradients."""
    return rows if held.processes == 1 else _GatherRows.apply(rows, held)


def average_gradient(value: Tensor, held: RankRows) -> Tensor:
    """The value itself; its gradient becomes the mean over all processes.

    For numbers that every process holds, such as the logit scale: right whether or not they are
    part of a module whose gradients are averaged again.
    """
    value = value.view_as(value)
    if value.requires_grad:
        value.register_hook(lambda gradient: sum_over(gradient, held) / held.processes)
    return value


def sum_over(value: Tensor, held: RankRows) -> Tensor:
    """The sum over all processes, without gradient."""
    value = value.detach().clone()
    dist.all_reduce(value, group=held.group)
    return value


def log_sum_exp_over(value: Tensor, held: RankRows) -> Tensor:
    """log Σ exp over all processes, element by element, without gradient or overflow."""
    if held.processes == 1:
        return value
    top = value.detach().clone()
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=held.group)
    return top + sum_over(torch.exp(value - top), held).log()


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, held: RankRows) -> Tensor:
        ctx.held = held
        largest = max(held.sizes)
        padded = rows.detach()
        if rows.shape[0] < largest:
            padded = torch.cat([padded, padded.new_zeros(largest - rows.shape[0], rows.shape[1])])
        everyone = [torch.empty_like(padded) for _ in held.sizes]
        dist.all_gather(everyone, padded.contiguous(), group=held.group)
        return torch.cat([part[:n] for part, n in zip(everyone, held.sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        held = ctx.held
        # A reduce-scatter would move half as much, but needs equal counts and not all of gloo's
        # versions have it.
        whole = sum_over(gradient.contiguous(), held)
        return whole[held.rows], None
