"""Batch norms: what they remember of their batches, held still or learned anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from modgap.train.towers.two_tower import TwoTower


@contextmanager
def momentum(model: nn.Module, value: float | None) -> Iterator[list[nn.Module]]:
    """The batch norms of a model with another momentum for a while.

    0 uses the batch but does not remember it; None remembers the plain mean of all batches.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = value
    try:
        yield list(norms)
    finally:
        for norm, old in zip(norms, before, strict=True):
            norm.momentum = old


@torch.no_grad()
def learn_statistics(model: TwoTower, batches: Iterable[Tensor]) -> None:
    """Give the batch norms of the image tower the mean statistics of some batches.

    Those of a locked tower keep what they remember.
    """
    with momentum(model, None) as norms:
        was_training = model.training
        model.train()
        learning = [norm for norm in norms if norm.training]
        for norm in learning:
            norm.reset_running_stats()
        for images in batches if learning else ():
            model.encode_image(images)
        model.train(was_training)
