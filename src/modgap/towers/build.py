"""Towers with random weights, and the rows they give.

torch and transformers are loaded when a tower is made, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from modgap._arrays import is_torch
from modgap._validate import (
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    require,
)
from modgap.towers.presets import PRESETS, Preset, Size

Kind = Literal["mlp", "resnet", "vision", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)

EXTRA = "towers"


@dataclass(frozen=True, eq=False)
class Tower:
    """An encoder: ``model`` is a torch module, and calling the tower gives its rows as a tensor.

    ``kind`` says which network, ``preset`` how large. Gradients flow through a call, so that a
    tower can be trained; ``embed`` is for rows that only get measured.
    """

    kind: Kind
    preset: Preset
    model: Any

    def __call__(self, inputs: Any) -> Any:
        """Rows (n, dimension), not normalised, of a tensor of images or of token ids."""
        return _READ_OUT[self.kind](self.model, inputs)

    @property
    def takes(self) -> Literal["image", "text"]:
        """What goes in: images (n, channels, size, size), or token ids (n, up to length)."""
        return "text" if self.kind == "text" else "image"


def make_tower(kind: Kind, preset: Size = "tiny", seed: int = 0) -> Tower:
    """A tower with random weights; the same seed gives the same weights.

    ``"vision"`` and ``"text"`` are CLIP's two transformers, which Liang et al. use, ``"resnet"``
    a residual network and ``"mlp"`` the network of their sec. 2.2 with ReLU, weights and biases
    N(0, 1/width). Rows are read out before any projection: the class token, the token that ends
    the caption, or the average over the image.
    """
    check_choice(kind, "kind", KINDS)
    sizes = PRESETS[check_choice(preset, "preset", tuple(PRESETS))]
    seed = check_count(seed, "seed", at_least=0)
    torch = require("torch", EXTRA, "A tower")
    # The weights are drawn from torch's global generator; the caller's is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _BUILDERS[kind](sizes)
    return Tower(kind, sizes, model.eval())


def _mlp(preset: Preset) -> Any:
    nn = require("torch", EXTRA, "A tower").nn
    layers: list[Any] = [nn.Flatten()]
    width = preset.channels * preset.image_size**2
    for _ in range(preset.layers):
        linear = nn.Linear(width, preset.dimension)
        for parameter in (linear.weight, linear.bias):
            nn.init.normal_(parameter, std=preset.dimension**-0.5)
        layers += [linear, nn.ReLU()]
        width = preset.dimension
    return nn.Sequential(*layers)


def _resnet(preset: Preset) -> Any:
    transformers = require("transformers", EXTRA, "A residual network")
    return transformers.ResNetModel(
        transformers.ResNetConfig(
            num_channels=preset.channels,
            embedding_size=preset.stages[0],
            hidden_sizes=list(preset.stages),
            depths=[2] * len(preset.stages),
            layer_type="basic",
        )
    )


def _vision(preset: Preset) -> Any:
    transformers = require("transformers", EXTRA, "A vision transformer")
    return transformers.CLIPVisionModel(
        transformers.CLIPVisionConfig(
            hidden_size=preset.dimension,
            intermediate_size=4 * preset.dimension,
            num_hidden_layers=preset.layers,
            num_attention_heads=preset.heads,
            num_channels=preset.channels,
            image_size=preset.image_size,
            patch_size=preset.patch_size,
        )
    )


def _text(preset: Preset) -> Any:
    transformers = require("transformers", EXTRA, "A text transformer")
    return transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=preset.vocab_size,
            hidden_size=preset.dimension,
            intermediate_size=4 * preset.dimension,
            num_hidden_layers=preset.layers,
            num_attention_heads=preset.heads,
            max_position_embeddings=preset.context_length,
            pad_token_id=preset.pad_token_id,
            bos_token_id=preset.bos_token_id,
            eos_token_id=preset.eos_token_id,
        )
    )


_BUILDERS: dict[str, Callable[[Preset], Any]] = {
    "mlp": _mlp,
    "resnet": _resnet,
    "vision": _vision,
    "text": _text,
}
_READ_OUT: dict[str, Callable[[Any, Any], Any]] = {
    "mlp": lambda model, images: model(images),
    "resnet": lambda model, images: model(pixel_values=images).pooler_output.flatten(1),
    "vision": lambda model, images: model(pixel_values=images).pooler_output,
    "text": lambda model, tokens: model(input_ids=tokens).pooler_output,
}


def embed(tower: Tower, inputs: Any, batch_size: int = 256) -> np.ndarray:
    """Rows (n, dimension) of images or captions, float32, not normalised.

    ``inputs`` are arrays or tensors: images (n, channels, size, size) of floats, or captions
    (n, length) of token ids. The model is used as it is for answering, not for training:
    layers that normalise over a batch use what they have stored.
    """
    torch = require("torch", EXTRA, "A tower")
    batch_size = check_count(batch_size, "batch_size")
    rows = check_inputs(tower, inputs, torch)
    was_training = tower.model.training
    tower.model.eval()
    try:
        with torch.no_grad():
            parts = [tower(part).float().cpu() for part in torch.split(rows, batch_size)]
    finally:
        tower.model.train(was_training)
    return torch.cat(parts).numpy()


def check_inputs(tower: Tower, inputs: Any, torch: Any) -> Any:
    """Inputs as a tensor that the tower takes, on its device; or why it cannot take them."""
    preset = tower.preset
    tensor = inputs if is_torch(inputs) else torch.from_numpy(np.ascontiguousarray(inputs))
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    if tower.takes == "image":
        shape = (preset.channels, preset.image_size, preset.image_size)
        if tensor.ndim != 4 or tuple(tensor.shape[1:]) != shape or len(tensor) == 0:
            raise InputValueError(
                f"A {tower.kind} tower takes images of shape (n, {', '.join(map(str, shape))}), "
                f"got {tuple(tensor.shape)}."
            )
        if whole:
            raise InputTypeError(
                f"A {tower.kind} tower takes images of floats, got {tensor.dtype}. "
                "Scale the pixels to numbers around 0."
            )
        tensor = tensor.float()
    else:
        if tensor.ndim != 2 or not 0 < tensor.shape[1] <= preset.context_length or len(tensor) == 0:
            raise InputValueError(
                f"A text tower takes captions of shape (n, at most {preset.context_length}), "
                f"got {tuple(tensor.shape)}."
            )
        if not whole:
            raise InputTypeError(f"A text tower takes token ids, got {tensor.dtype}.")
        low, high = int(tensor.min()), int(tensor.max())
        if low < 0 or high >= preset.vocab_size:
            raise InputValueError(
                f"Token ids must be from 0 to {preset.vocab_size - 1}, got {low} to {high}."
            )
        tensor = tensor.long()
    device = next(iter(tower.model.parameters())).device
    return tensor.to(device)
