"""What models of torch share: devices, precision, copies on several GPUs, pooled hidden layers."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from modgap.core.checks import (
    InputError,
    InputValueError,
    check_choice,
    did_you_mean,
    first_line,
)
from modgap.embed.model import Options, OutOfMemory, Precision, ReplicatedModel, Role
from modgap.io.devices import find_devices
from modgap.train.towers.build import is_out_of_memory
from modgap.train.towers.normalisation import without_normalisation

# "first", "last" and "end" read one token: the class token, the last one, the one that ends a
# text. "mean" is over the tokens of a text, or over all of an image; it stands in where a tower
# pools by a layer that it learned, as SigLIP does with images.
PoolingRule = Literal["first", "last", "end", "mean"]

# Text towers of transformers by the type of the model; the others are averaged.
_TEXT_RULES: dict[str, PoolingRule] = {
    "clip": "end",
    "metaclip_2": "end",
    "groupvit": "end",
    "owlvit": "end",
    "owlv2": "end",
    "siglip": "last",
    "siglip2": "last",
    "clap": "first",
    "align": "first",
    "blip": "first",
    "altclip": "first",
    "chinese_clip": "first",
}
_CLASS_TOKENS = ("class_embedding", "cls_token", "class_token")


class TorchModel(ReplicatedModel):
    """A model whose network is one of torch.

    Parameters
    ----------
    network : nn.Module
        On the processor, float32; it is put into evaluation mode.
    options : Options
        Its device, precision and norm layers.
    """

    # The token that ends a text; None where it is the largest of all.
    end_token: int | None = None

    def __init__(self, network: nn.Module, options: Options) -> None:
        devices = find_devices(options.device)
        self.precision = find_precision(options.precision, devices[0])
        network = network.float().eval().requires_grad_(False)
        if not options.norm_layers:
            network = without_normalisation(network)
        copies = [network, *(copy.deepcopy(network) for _ in devices[1:])]
        with enough_memory(devices[0], "the network", "Take a smaller one, or the processor."):
            self.networks = [one.to(place) for one, place in zip(copies, devices, strict=True)]
        self.devices = devices
        self.n_replicas = len(devices)
        self.on_processor = devices[0].type == "cpu"

    @abstractmethod
    def features(self, network: Any, inputs: Any, modality: str) -> Tensor:
        """Rows of inputs on the network's device."""

    def pooling(self, modality: str) -> PoolingRule:
        """How a tower makes one row of its tokens."""
        return "mean"

    def pool(self, states: Tensor, inputs: Mapping[str, Any], modality: str) -> Tensor:
        """A row of each item, from the states of a hidden layer."""
        return pool(states, self.pooling(modality), inputs, self.end_token)

    def part_rows(self, replica: int, prepared: Any, modality: str) -> np.ndarray:
        """Rows by the network of one device, float32."""
        return self._on(
            replica, prepared, lambda network, inputs: self.features(network, inputs, modality)
        )

    def layers(self, modality: str) -> tuple[str, ...]:
        """Names of the blocks that a modality goes through, first to last.

        They are the members of the network's lists of modules; `encode_layers` takes the name of
        any other module, too.
        """
        self.check_modality(modality)
        blank = self.prepare_part([self.blank(modality)], modality, "document")
        for kind in (nn.ModuleList, nn.Sequential):
            held = [
                f"{name}.{child}" if name else child
                for name, module in self.networks[0].named_modules()
                if isinstance(module, kind)
                for child, _ in module.named_children()
            ]
            states = self._states(held, blank, modality)
            # Blocks within blocks are left out.
            outer = [
                name for name in states if not any(name.startswith(f"{other}.") for other in states)
            ]
            if outer:
                return tuple(outer)
        raise InputValueError(f"{self.name} has no blocks for {modality} in lists of modules.")

    def layer_rows(
        self, names: Sequence[str], items: Sequence[Any], modality: str, role: Role
    ) -> dict[str, np.ndarray]:
        """Rows of one batch at hidden layers by their names; see `Model.encode_layers`."""
        known = dict(self.networks[0].named_modules())
        for name in names:
            if name not in known:
                raise InputValueError(
                    f"{self.name} has no layer {name!r}.{did_you_mean(name, known)} "
                    f"model.layers({modality!r}) names its blocks."
                )
        found = self._states(names, self.prepare_part(items, modality, role), modality)
        missing = [name for name in names if name not in found]
        if missing:
            raise InputValueError(f"{modality} does not go through {missing[0]!r} of {self.name}.")
        return found

    def _states(self, names: Sequence[str], prepared: Any, modality: str) -> dict[str, np.ndarray]:
        modules = dict(self.networks[0].named_modules())
        seen: dict[str, Tensor] = {}
        hooks = [
            modules[name].register_forward_hook(
                lambda module, args, output, name=name: seen.__setitem__(name, output)
            )
            for name in names
        ]
        found: dict[str, np.ndarray] = {}

        def run(network: Any, inputs: Any) -> Tensor:
            last = self.features(network, inputs, modality)
            for name, output in seen.items():
                states = output[0] if isinstance(output, tuple) else output
                if isinstance(states, Tensor) and states.ndim >= 2 and states.is_floating_point():
                    if states.ndim == 3 and len(states) != len(last):
                        states = states.transpose(0, 1)  # open_clip may have tokens first
                    rows = self.pool(states, inputs, modality)
                    found[name] = rows.float().cpu().numpy()
            return last

        try:
            self._on(0, prepared, run)
        finally:
            for hook in hooks:
                hook.remove()
        return found

    def _on(self, replica: int, prepared: Any, run: Callable[[Any, Any], Tensor]) -> np.ndarray:
        device = self.devices[replica]
        is_float32 = self.precision == torch.float32
        cast = nullcontext() if is_float32 else torch.autocast(device.type, self.precision)
        with (
            torch.inference_mode(),
            cast,
            enough_memory(device, "this batch", "Lower the batch size."),
        ):
            inputs = {
                name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
                for name, value in prepared.items()
            }
            rows: np.ndarray = run(self.networks[replica], inputs).float().cpu().numpy()
        return rows


def find_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """What to compute in: by default bfloat16 on a GPU that has it, else float32."""
    check_choice(precision, "precision", get_args(Precision))
    if precision != "auto":
        found: torch.dtype = getattr(torch, precision)
        return found
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.bfloat16 if has_bfloat16 else torch.float32


@contextmanager
def enough_memory(device: torch.device, what: str, advice: str) -> Iterator[None]:
    """Memory that is used up, as one sentence."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, InputError) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"There is not enough memory on {device} for {what} ({first_line(error)}). {advice}"
        ) from error


def pool(
    states: Tensor, rule: PoolingRule, inputs: Mapping[str, Any], end_token: int | None = None
) -> Tensor:
    """A row (n, width) of each item from states (n, tokens, width) or (n, width, height, width)."""
    if states.ndim > 3:
        return states.flatten(2).mean(2)
    if states.ndim == 2:
        return states
    if rule == "first":
        return states[:, 0]
    if rule == "last":
        return states[:, -1]
    tokens = inputs.get("input_ids")
    if rule == "end" and tokens is not None:
        ends = tokens if end_token is None else (tokens == end_token).int()
        return states[range(len(states)), ends.argmax(1)]
    mask = inputs.get("attention_mask")
    if mask is None or mask.shape != states.shape[:2]:
        return states.mean(1)
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def rule_of(network: nn.Module, model_type: str, modality: str) -> PoolingRule:
    """How a model of transformers pools a modality."""
    if modality == "text":
        return _TEXT_RULES.get(model_type, "mean")
    names = [name for name, _ in network.named_parameters() if name.endswith(_CLASS_TOKENS)]
    return "first" if modality == "image" and names else "mean"


def end_token_of(config: Any) -> int | None:
    """The token that ends a text; None where it is the largest of all, as in OpenAI's CLIP."""
    found = getattr(getattr(config, "text_config", config), "eos_token_id", None)
    return None if found in (None, 2) else int(found)


def temperature_and_bias(network: Any) -> tuple[float | None, float | None]:
    """Temperature and bias of a network's logits, as far as it has them.

    exp(logit_scale) is 1/temperature. CLAP has one scale for each direction; this is the one for
    text queries.
    """
    bias = getattr(network, "logit_bias", None)
    for name in ("logit_scale", "logit_scale_t"):
        if isinstance(scale := getattr(network, name, None), Tensor):
            return _positive(torch.exp(-scale.double())), None if bias is None else float(bias)
    temperature = getattr(network, "temperature", None)  # ALIGN's
    return (_positive(temperature) if isinstance(temperature, Tensor) else None), None


def _positive(temperature: Tensor) -> float | None:
    """A temperature; None if it is not above 0 and finite."""
    found = float(temperature)
    return found if 0 < found < math.inf else None
