"""The batches of a run: drawn from (seed, epoch), so that a resumed run sees the same ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from modgap._validate import InputValueError
from modgap.train.config import TrainConfig
from modgap.train.data import Split


class Batches:
    """The batch of every step: image rows, and caption rows, of all processes together.

    Every epoch has the images in a new order, and one caption for each, drawn anew.
    """

    def __init__(self, split: Split, settings: TrainConfig, processes: int) -> None:
        self.split, self.seed = split, settings.seed
        self.per_epoch = settings.batches_per_epoch(len(split))
        self._epoch = -1
        self._drawn: list[tuple[Tensor, Tensor]] = []
        least = len(split) // self.per_epoch // processes // settings.accumulation_steps
        if least < 2:
            raise InputValueError(
                f"Every part of a batch must have at least 2 images, but {len(split)} images in "
                f"batches of {settings.batch_size} leave {least} for each of {processes} "
                f"processes and {settings.accumulation_steps} accumulated parts. "
                "Use larger batches."
            )

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        epoch = step // self.per_epoch
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(mix_seeds(self.seed, epoch, 2**31))
            order = torch.randperm(len(self.split), generator=generator)
            captions = self.split.draw_captions(order, generator)
            rows = order.to(self.split.pixels.device).tensor_split(self.per_epoch)
            texts = captions.to(self.split.tokens.device).tensor_split(self.per_epoch)
            self._epoch, self._drawn = epoch, list(zip(rows, texts, strict=True))
        return self._drawn[step % self.per_epoch]


def mix_seeds(*numbers: int) -> int:
    """One seed out of several numbers, such that close ones give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
