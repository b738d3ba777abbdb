"""Rows of a batch that lies in several processes, brought together with their gradients.

Every process calls these in the same order. They work with gloo and NCCL alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor


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
    if held.processes == 1:
        return rows
    from torch.distributed.nn.functional import all_gather  # not in every build of torch

    # Only equal counts can be gathered: the others are filled up, and cut again.
    padded = F.pad(rows, (0, 0, 0, max(held.sizes) - len(rows)))
    everyone = all_gather(padded, group=held.group or dist.group.WORLD)
    return torch.cat([part[:n] for part, n in zip(everyone, held.sizes, strict=True)])


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
