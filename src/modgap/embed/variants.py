"""The same architecture otherwise: with other weights, or without its normalisation."""

from __future__ import annotations

from typing import Any

from torch import nn

from modgap._validate import InputValueError
from modgap.train.towers.build import seeded


def variant_name(
    name: str, random: int | None, norm_layers: bool = True, input_normalisation: bool = True
) -> str:
    """A name that says how a model differs from the one that the name alone opens.

    >>> variant_name("hf:openai/clip-vit-base-patch32", 3, norm_layers=False)
    'hf:openai/clip-vit-base-patch32 (random weights, seed 3; no norm layers)'
    """
    changes = [] if random is None else [f"random weights, seed {random}"]
    changes += [] if norm_layers else ["no norm layers"]
    changes += [] if input_normalisation else ["no input normalisation"]
    return f"{name} ({'; '.join(changes)})" if changes else name


def draw_weights(network: nn.Module, seed: int) -> None:
    """Draw the weights of a network anew, as its layers do when they are made.

    Models of transformers draw theirs as their own code says, whatever they are part of.
    """
    from transformers import PreTrainedModel

    with seeded(seed):
        _draw(network, PreTrainedModel)


def _draw(module: Any, pretrained: Any) -> None:
    if isinstance(module, pretrained):
        drawn = type(module)(module.config)
        module.load_state_dict(drawn.state_dict(), strict=False)
        return
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()
        return
    own = [name for name, _ in module.named_parameters(recurse=False)]
    if own:
        raise InputValueError(
            f"{type(module).__name__} does not say how its {own[0]} is drawn: random weights are "
            "not to be had for this model."
        )
    for child in module.children():
        _draw(child, pretrained)
