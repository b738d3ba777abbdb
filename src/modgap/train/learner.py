"""The two towers with their temperature, loss, optimiser and schedule of learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from modgap.train.checkpoint import load_optimiser, named, optimiser_tensors
from modgap.train.config import Config, LossConfig, TemperatureConfig, TrainConfig
from modgap.train.data import Data
from modgap.train.loss import ContrastiveLoss
from modgap.train.loss_sigmoid import SigmoidLoss
from modgap.train.processes import Processes
from modgap.train.start import make_model
from modgap.train.swap import Swap, make_swap
from modgap.train.temperature import Temperature, make_temperature


class Learner:
    """Everything that a step uses and changes; ``tensors`` is what a checkpoint keeps of it.

    ``towers`` is the model, wrapped where several processes share a batch.
    """

    def __init__(self, config: Config, data: Data, total: int, processes: Processes) -> None:
        settings, device = config.train, processes.device
        self.model = make_model(config, data, device)
        self.temperature = temperature_of(config.temperature, total).to(device)
        swap = None
        if config.swap.kind != "none":
            swap = make_swap(config.swap.kind, config.swap.probability, settings.seed)
        self.loss = make_loss(config.loss, swap).to(device)
        self.optimiser = make_optimiser(settings, self.model, self.temperature, device, self.loss)
        self.schedule = Schedule(settings.schedule, total, settings.warmup, settings.betas[0])
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.use_bf16 = settings.precision == "bf16" or (
            settings.precision == "auto" and device.type == "cuda"
        )
        self.towers: nn.Module = self.model
        if processes.count > 1:
            self.towers = DistributedDataParallel(
                self.model, device_ids=[device.index] if device.type == "cuda" else None
            )

    def set_rates(self, step: int) -> None:
        """The learning rates, and β₁, of a step."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.schedule.share(step)
            group["betas"] = (self.schedule.beta_1(step), group["betas"][1])

    def tensors(self) -> dict[str, Tensor]:
        """All that the next step depends on."""
        return {
            **{f"model.{k}": v for k, v in self.model.state_dict().items()},
            **{f"temperature.{k}": v for k, v in self.temperature.state_dict().items()},
            **{f"loss.{k}": v for k, v in self.loss.named_parameters()},
            **optimiser_tensors(self.optimiser),
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from ``tensors`` of a checkpoint."""
        self.model.load_state_dict(named(tensors, "model."))
        self.temperature.load_state_dict(named(tensors, "temperature."))
        # Its count of steps is not kept: the loop says which step it is.
        self.loss.load_state_dict(named(tensors, "loss."), strict=False)
        load_optimiser(self.optimiser, tensors)


@dataclass(frozen=True)
class Schedule:
    """The rate of a step as a share of the base rate, and β₁ where the schedule moves it.

    Both depend on the step alone, so a resumed run needs no state for them.
    """

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


def make_loss(config: LossConfig, swap: Swap | None = None) -> ContrastiveLoss:
    """The loss that a config names."""
    shared: dict[str, Any] = {
        "swap": swap,
        "normalise": config.normalise,
        "chunked": config.chunked,
        "align": config.align,
        "uniform": config.uniform,
    }
    if config.name == "sigmoid":
        return SigmoidLoss(**shared, bias=config.bias, rate=config.bias_rate)
    return ContrastiveLoss(**shared)


def temperature_of(config: TemperatureConfig, steps: int) -> Temperature:
    """A temperature by the name of its kind or of the paper, for a run of so many steps.

    >>> temperature_of(TemperatureConfig("fixed", value=0.04), 10).temperature()
    0.04
    """
    return make_temperature(config.name, max(1, steps), **config.options())


def make_optimiser(
    settings: TrainConfig,
    model: nn.Module,
    temperature: Temperature,
    device: torch.device,
    loss: ContrastiveLoss | None = None,
) -> torch.optim.AdamW:
    """AdamW with a group for each learning rate, and one each for temperature and bias.

    Gains and biases do not decay unless ``decay_all``.

    Parameters
    ----------
    settings : TrainConfig
        Rates and decay.
    model : Module
        Two towers; locked parameters are left out.
    temperature : Temperature
        Its number is learned at its own rate.
    device : torch.device
        On a GPU the update is one kernel.
    loss : ContrastiveLoss, optional
        Whose bias is learned, if it has one.
    """
    rates = {
        "image.body.": settings.image_learning_rate or settings.learning_rate,
        "text.body.": settings.text_learning_rate or settings.learning_rate,
    }
    by_rate: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            own = (rate for start, rate in rates.items() if name.startswith(start))
            decay = settings.weight_decay if settings.decay_all or parameter.ndim > 1 else 0.0
            by_rate.setdefault((next(own, settings.learning_rate), decay), []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": by_rate[key], "lr": key[0], "weight_decay": key[1]}
        # Those that decay first, as long as there is one rate.
        for key in sorted(by_rate, reverse=True)
    ]
    for part in (temperature, loss):
        own_group = None if part is None else part.parameter_group(settings.learning_rate)
        if own_group is not None:
            groups.append(own_group)
    return torch.optim.AdamW(
        groups,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.eps,
        fused=device.type == "cuda",
    )
