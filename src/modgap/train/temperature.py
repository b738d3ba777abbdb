"""Temperatures: learned, fixed or scheduled, each giving the logit scale of a training step.

Yaras et al. 2024, appendices D.1 and F: the gap closes faster while the temperature stays large,
and CLIP's learned one falls. In what follows ν is the learned number and 1/τ the logit scale.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from modgap.core.checks import InputValueError, check_choice, check_count, check_positive
from modgap.train.described import Described

CLIP_TEMPERATURE = 0.07
CLIP_MAX_SCALE = 100.0
# The paper gives no period for A0 and A1. Whole cycles end where they start, at the low
# temperature, which agrees with the large gaps of its table 4.
DEFAULT_CYCLES = 5


class Temperature(Described):
    """Gives the logit scale, 1/temperature, of a step: a tensor without dimensions.

    Subclasses say how in ``forward``. Where the scale is learned, gradients flow into it.
    """

    kind: ClassVar[str]
    rate = 1.0

    def __init__(self) -> None:
        super().__init__()
        # Moves with .to(device), so that scales are made where the features are.
        self.register_buffer("_place", torch.zeros(()), persistent=False)

    def forward(self, step: int = 0) -> Tensor:
        """The logit scale of a step, counted from 0."""
        raise NotImplementedError

    def temperature(self, step: int = 0) -> float:
        """The temperature of a step as a number."""
        with torch.no_grad():
            return 1.0 / float(self(step))

    def parameter_group(self, learning_rate: float) -> dict[str, Any] | None:
        """The optimiser's group for the learned parameters; None if there are none.

        At ``rate`` times the learning rate, without weight decay.
        """
        rate = check_positive(learning_rate, "learning_rate") * self.rate
        learned = list(self.parameters())
        group = {"params": learned, "lr": rate, "weight_decay": 0.0, "name": "temperature"}
        return group if learned else None

    def _constant(self, temperature: float) -> Tensor:
        return torch.full_like(self._place, 1.0 / temperature)


class LearnedTemperature(Temperature):
    """1/τ = exp(ν/s), learned: CLIP's with s = 1 (Radford et al. 2021; Yaras et al., D.1).

    Parameters
    ----------
    initial : float
        The temperature at the start.
    max_scale : float, optional
        ν is clamped so that 1/τ is at most this, as CLIP does with 100 after each step: a later
        gradient can still bring it down.
    scale : float
        s; above 1 the paper's reparameterisation (its appendix F prints τ for 1/τ).
    rate : float
        Multiplies the learning rate: 0.1 is the paper's smaller rate of the temperature, SLRT.

    >>> round(LearnedTemperature(0.05)().item(), 3)
    20.0
    """

    kind = "learned"

    def __init__(
        self,
        initial: float = CLIP_TEMPERATURE,
        max_scale: float | None = None,
        scale: float = 1.0,
        rate: float = 1.0,
    ) -> None:
        super().__init__()
        self.initial = check_positive(initial, "initial")
        self.max_scale = None if max_scale is None else check_positive(max_scale, "max_scale")
        self.scale = check_positive(scale, "scale")
        self.rate = check_positive(rate, "rate")
        if self.max_scale is not None and self.initial * self.max_scale < 1:
            raise InputValueError(
                f"initial must be at least 1/max_scale, got a temperature of {initial} and a "
                f"largest scale of {max_scale}. Raise one of them."
            )
        self.nu = nn.Parameter(torch.tensor(-self.scale * math.log(self.initial)))

    def forward(self, step: int = 0) -> Tensor:
        """exp(ν/s); the step does not matter."""
        if self.max_scale is not None and self.training:
            with torch.no_grad():
                # exp keeps its result for the backward pass, not ν, so ν may change in place.
                self.nu.clamp_(max=self.scale * math.log(self.max_scale))
        scale = torch.exp(self.nu / self.scale)
        return scale if self.max_scale is None or self.training else scale.clamp(max=self.max_scale)


class SoftplusTemperature(Temperature):
    """1/τ = log(1 + exp(ν)), learned (Yaras et al., D.1): it grows by steps, not by factors."""

    kind = "softplus"

    def __init__(self, initial: float = CLIP_TEMPERATURE, rate: float = 1.0) -> None:
        super().__init__()
        self.initial = check_positive(initial, "initial")
        self.rate = check_positive(rate, "rate")
        target = 1.0 / self.initial
        # log(exp(t) − 1) without exp(t), which overflows for a temperature below 0.0015.
        self.nu = nn.Parameter(torch.tensor(target + math.log(-math.expm1(-target))))

    def forward(self, step: int = 0) -> Tensor:
        """log(1 + exp(ν)); the step does not matter."""
        return torch.logaddexp(self.nu, torch.zeros_like(self.nu))


class FixedTemperature(Temperature):
    """The same temperature throughout (Yaras et al., D.1: fixed on a large temperature, FLT)."""

    kind = "fixed"

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = check_positive(value, "value")

    def forward(self, step: int = 0) -> Tensor:
        """1/value; the step does not matter."""
        return self._constant(self.value)


class LinearTemperature(Temperature):
    """τ goes from ``start`` to ``end`` in a straight line over ``steps``, then stays (S0 to S3).

    τ(t) = start + (end − start) · min(t/steps, 1) (Yaras et al., D.1 and F).
    """

    kind = "linear"

    def __init__(self, start: float, end: float, steps: int) -> None:
        super().__init__()
        self.start = check_positive(start, "start")
        self.end = check_positive(end, "end")
        self.steps = check_count(steps, "steps")

    def forward(self, step: int = 0) -> Tensor:
        """1/τ of the step."""
        done = min(check_count(step, "step", at_least=0) / self.steps, 1.0)
        return self._constant(self.start + (self.end - self.start) * done)


class CosineTemperature(Temperature):
    """τ swings between ``low`` and ``high`` as a cosine with the given period in steps (A0, A1).

    τ(t) = low + (high − low) · (1 − cos(2π t/period))/2, so it starts at ``low``. Yaras et al., F;
    their table 4 says A0 and A1 where the text says A1 and A2.
    """

    kind = "cosine"

    def __init__(self, low: float, high: float, period: float) -> None:
        super().__init__()
        self.low = check_positive(low, "low")
        self.high = check_positive(high, "high")
        self.period = check_positive(period, "period")
        if self.low > self.high:
            raise InputValueError(f"low must be at most high, got {low} and {high}. Swap them.")

    def forward(self, step: int = 0) -> Tensor:
        """1/τ of the step."""
        turn = check_count(step, "step", at_least=0) / self.period
        rise = (1.0 - math.cos(2.0 * math.pi * turn)) / 2.0
        return self._constant(self.low + (self.high - self.low) * rise)


KINDS: dict[str, type[Temperature]] = {
    made.kind: made
    for made in (
        LearnedTemperature,
        SoftplusTemperature,
        FixedTemperature,
        LinearTemperature,
        CosineTemperature,
    )
}

# Kind and settings by the paper's names (tables 2 to 5). Schedules last as long as the training.
_CLIP = {"kind": "learned", "max_scale": CLIP_MAX_SCALE}
TEMPERATURES: dict[str, dict[str, Any]] = {
    "baseline": _CLIP,
    **{
        f"FLT{value:g}": {"kind": "fixed", "value": value}
        for value in (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.3, 0.4)
    },
    **{
        f"S{place}": {"kind": "linear", "start": 0.01, "end": end}
        for place, end in enumerate((0.02, 0.03, 0.04, 0.05))
    },
    "A0": {"kind": "cosine", "low": 0.01, "high": 0.02},
    "A1": {"kind": "cosine", "low": 0.01, "high": 0.04},
    "softplus": {"kind": "softplus"},
    "scale2": {**_CLIP, "scale": 2.0},
    "scale10": {**_CLIP, "scale": 10.0},
    "SLRT": {**_CLIP, "rate": 0.1},
}


def make_temperature(name: str, training_steps: int, **settings: Any) -> Temperature:
    """A temperature by its kind or the paper's name, for a training of so many steps.

    ``settings`` go to its class, in place of the preset's. A schedule without a length lasts as
    long as the training: a line to its end, a cosine for five whole cycles.

    >>> line = make_temperature("S3", 1_000)
    >>> line.kind, line.start, line.end, line.steps
    ('linear', 0.01, 0.05, 1000)
    """
    check_choice(name, "temperature", tuple(dict.fromkeys((*KINDS, *TEMPERATURES))))
    check_count(training_steps, "training_steps")
    given = dict(TEMPERATURES.get(name, {"kind": name}))
    made = KINDS[given.pop("kind")]
    given.update(settings)
    if made is LinearTemperature:
        given.setdefault("steps", training_steps)
    elif made is CosineTemperature:
        given.setdefault("period", training_steps / DEFAULT_CYCLES)
    known = inspect.signature(made).parameters
    for setting in given:
        check_choice(setting, f"A setting of the temperature {name!r}", tuple(known))
    missing = [key for key, p in known.items() if p.default is p.empty and key not in given]
    if missing:
        raise InputValueError(f"The temperature {name!r} needs {' and '.join(missing)}. Set them.")
    return made(**given)
