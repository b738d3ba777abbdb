"""The learning rate of a step: pure functions, so that a resumed run needs no state for it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The rate of a step as a share of the base rate, and β₁ where the schedule moves it."""

    kind: str
    total: int
    warmup: float
    beta: float

    def share(self, step: int) -> float:
        """The share of the base rate at step 0, 1, …, total − 1."""
        if self.kind == "one-cycle":
            return one_cycle(step, self.total, 1 / 25, 1.0, 1 / 25 / 1e4)
        n_warm = round(self.warmup * self.total)
        if step < n_warm:
            return (step + 1) / n_warm
        if self.kind == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (step - n_warm) / max(1, self.total - n_warm)))

    def beta_1(self, step: int) -> float:
        """β₁ of AdamW; only one cycle moves it, against the rate."""
        if self.kind == "one-cycle":
            return one_cycle(step, self.total, 0.95, 0.85, 0.95)
        return self.beta


def one_cycle(step: int, total: int, first: float, middle: float, last: float) -> float:
    """Half a cosine from ``first`` to ``middle`` over 30 % of the steps, then one to ``last``.

    The defaults of torch's OneCycleLR (Smith and Topin 2018).
    """
    turn = 0.3 * total - 1
    if step <= turn or total == 1:
        return _between(first, middle, step / turn if turn > 0 else 1.0)
    return _between(middle, last, (step - turn) / (total - 1 - turn))


def _between(start: float, end: float, share: float) -> float:
    """Half a cosine from ``start`` to ``end``."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))
