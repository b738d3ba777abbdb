"""Hooks: functions that look at a run between its steps, and whose metrics are logged.

    train(config, output=folder, hooks=[every(500, gap_monitor)])

A hook takes a `TrainState` and returns metrics to log, or nothing. It runs before the first step
(as step 0) and after every step, in the first process only; it must not change the model. A GPU
has to finish its work before it can be looked at: wrap hooks that are not needed at every step in
`every`, and those that run once in `at_end`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from modgap.core.checks import check_count
from modgap.io import write_pair
from modgap.train.checkpoint import EMBEDDINGS
from modgap.train.config import Config
from modgap.train.data import Data, Split
from modgap.train.metrics import SplitMetrics, evaluate_rows

Hook = Callable[["TrainState"], "Mapping[str, Any] | None"]
SplitRows = tuple[Tensor, Tensor, tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class TrainState:
    """A run after ``step`` of its ``total`` steps: its folder, model, temperature and data."""

    config: Config
    output: Path
    step: int
    total: int
    model: Any
    temperature: Any
    data: Data

    @property
    def epochs(self) -> float:
        """How often every training image was seen."""
        return self.step / self.config.train.batches_per_epoch(len(self.data.train))

    @property
    def temperature_value(self) -> float:
        """The temperature, 1 over the logit scale, of the last step; at the start, of the first."""
        value: float = self.temperature.temperature(max(0, self.step - 1))
        return value

    def embed(self, split: Split) -> SplitRows:
        """SplitRows of a split's images and captions, as the towers give them, and their groups."""
        return embed_split(self.model, split, self.data.prepare, self.config.evaluate.batch_size)

    @cached_property
    def held_out(self) -> SplitRows:
        """The rows of the held-out split, as `embed` gives them."""
        return self.embed(self.data.test)

    @cached_property
    def metrics(self) -> SplitMetrics:
        """The metrics of the held-out split."""
        settings = self.config.evaluate
        return evaluate_rows(*self.held_out, pairs=settings.pairs, metric=settings.metric)


class every:
    """Run a hook before the first step, at every n-th one and after the last."""

    def __init__(self, n: int, hook: Hook) -> None:
        self.n, self.hook = check_count(n, "every"), hook

    def due(self, step: int, total: int) -> bool:
        """Whether the hook runs after this step; checked before the loop waits for the device."""
        return step % self.n == 0 or step == total

    def __call__(self, state: TrainState) -> Mapping[str, Any] | None:
        """Run the hook."""
        return self.hook(state)


class at_end(every):
    """Run a hook once, after the last step, when the model is saved; it may write to the folder."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(1, hook)

    def due(self, step: int, total: int) -> bool:
        """Not between steps."""
        return False


def own_hooks(config: Config) -> tuple[Hook, ...]:
    """The hooks that a config sets."""
    hooks: list[Hook] = []
    if config.evaluate.every:
        hooks.append(every(config.evaluate.every, gap_monitor))
    if config.evaluate.save_embeddings:
        hooks.append(at_end(save_embeddings))
    return tuple(hooks)


def gap_monitor(state: TrainState) -> dict[str, Any]:
    """Gap, uniformity (with its n), orthogonality, alignment, temperature and retrieval.

    Of the held-out split; see `SplitMetrics` for what each name means.
    """
    return {**state.metrics.flat(), "temperature": state.temperature_value}


def save_embeddings(state: TrainState) -> None:
    """Write the unit rows of the held-out split, as `modgap diagnose` takes them."""
    X, Y, groups = state.held_out
    unit = [normalize(rows, dim=1).cpu().numpy() for rows in (X, Y)]
    write_pair(state.output / EMBEDDINGS, *unit, groups=groups, dtype="float16")


@torch.no_grad()
def embed_split(
    model: Any, split: Split, prepare: Callable[[Tensor], Tensor], batch_size: int
) -> SplitRows:
    """SplitRows of a split's images and of all their captions, float32, on the model's device."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        images = [
            model.encode_image(prepare(part.to(device))).float()
            for part in split.pixels.split(batch_size)
        ]
        texts = [
            model.encode_text(part.to(device).long()).float()
            for part in split.tokens.split(batch_size)
        ]
    finally:
        model.train(was_training)
    return torch.cat(images), torch.cat(texts), split.groups
