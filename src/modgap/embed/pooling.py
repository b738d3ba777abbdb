"""How towers make one row of many tokens, so that hidden layers are read as the last one is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

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
