"""Hooks: functions that look at a run between its steps, and whose figures are logged.

    train(config, output=folder, hooks=[every(500, gap_monitor)])

A hook takes a `State` and returns figures to log, or nothing. It runs before the first step (as
step 0) and after every step, in the first process only; it must not change the model. A GPU has
to finish its work before it can be looked at, so wrap what is not needed at every step in `every`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from modgap._validate import check_count
from modgap.train.config import Config
from modgap.train.evaluation import evaluate_rows

if TYPE_CHECKING:
    from modgap.train.data import Split

Hook = Callable[["State"], "Mapping[str, Any] | None"]


@dataclass(frozen=True)
class State:
    """A run after ``step`` steps: its model, its temperature and its data."""

    config: Config
    step: int
    total: int
    model: Any
    temperature: Any
    train: Split
    test: Split
    prepare: Callable[[Tensor], Tensor]

    @property
    def temperature_value(self) -> float:
        """The temperature, 1 over the logit scale, of the last step; at the start, of the first."""
        with torch.no_grad():
            return 1 / float(self.temperature(max(0, self.step - 1)))

    def embed(self, split: Split | None = None) -> tuple[Tensor, Tensor, tuple[Any, Any]]:
        """Rows of the images and of every caption as the towers give them, and their groups.

        Of the held-out split, if none is given.
        """
        split = self.test if split is None else split
        return embed_split(self.model, split, self.prepare, self.config.evaluate.batch_size)


class every:
    """Run a hook before the first step, at every n-th one and after the last."""

    def __init__(self, n: int, hook: Hook) -> None:
        self.n = check_count(n, "every")
        self.hook = hook

    def due(self, step: int, total: int) -> bool:
        """Whether the hook runs after this step; the loop asks before it stops to look."""
        return step % self.n == 0 or step == total

    def __call__(self, state: State) -> Mapping[str, Any] | None:
        """Run the hook if it is due."""
        return self.hook(state) if self.due(state.step, state.total) else None


def gap_monitor(state: State) -> dict[str, Any]:
    """Gap, uniformity (with its n), orthogonality, alignment, temperature and retrieval.

    Of the held-out split; see `Evaluation` for what each name means.
    """
    X, Y, groups = state.embed()
    found = evaluate_rows(
        X, Y, groups,
        pairs=state.config.evaluate.pairs,
        metric=state.config.evaluate.metric,  # type: ignore[arg-type]
    )  # fmt: skip
    return {**found.figures(), "temperature": state.temperature_value}


@torch.no_grad()
def embed_split(
    model: Any, split: Split, prepare: Callable[[Tensor], Tensor], batch_size: int
) -> tuple[Tensor, Tensor, tuple[Any, Any]]:
    """Rows of a split's images and of all their captions, float32, on the model's device."""
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
