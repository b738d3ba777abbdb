"""One tower from its configuration: a network, and a projection of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from modgap._validate import InputTypeError, InputValueError, check_count, require
from modgap.train.towers.config import TowerConfig
from modgap.train.towers.encoders import load_source, resolve_source
from modgap.train.towers.image_encoders import image_network, vision_network
from modgap.train.towers.text_encoders import text_network

Layers = tuple[nn.Module, nn.Module]


class Tower(nn.Module):
    """A network (``body``), the row it pools, and a ``projection`` of it; rows are not normalised.

    Of a transformer the row is that of the class token or of the token that ends the caption, of
    a residual network the average over the image. A locked body is never in training mode and its
    weights take no gradients; the projection is trained all the same.
    """

    def __init__(self, config: TowerConfig, body: nn.Module, projection: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.body = body
        self.projection = projection
        if config.locked:
            body.requires_grad_(False)
            body.eval()

    def train(self, mode: bool = True) -> Tower:
        """Training or evaluation mode; a locked body stays in evaluation mode."""
        super().train(mode)
        if self.config.locked:
            self.body.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Rows of images, floats (n, channels, size, size), or of token ids (n, at most length)."""
        self.check(inputs)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.locked):
            rows = self.body(inputs)
        return self.projection(getattr(rows, "pooler_output", rows).flatten(1))

    def check(self, inputs: Tensor) -> None:
        """Refuse what the tower cannot take."""
        if self.config.takes_images:
            self._check_images(inputs)
        else:
            self._check_tokens(inputs)

    def _check_images(self, pixels: Tensor) -> None:
        shape = (self.config.channels, self.config.image_size, self.config.image_size)
        if pixels.ndim != 4 or tuple(pixels.shape[1:]) != shape:
            raise InputValueError(
                f"The image tower takes images of shape (n, {', '.join(map(str, shape))}), got "
                f"{tuple(pixels.shape)}."
            )
        if not pixels.is_floating_point():
            raise InputTypeError(
                f"The image tower takes images of floats, got {pixels.dtype}. Normalise them."
            )

    def _check_tokens(self, tokens: Tensor) -> None:
        most = self.config.context_length
        if tokens.ndim != 2 or not 0 < tokens.shape[1] <= most:
            raise InputValueError(
                f"The text tower takes captions of shape (n, at most {most}), got "
                f"{tuple(tokens.shape)}."
            )
        if tokens.is_floating_point():
            raise InputTypeError(f"The text tower takes token ids, got {tokens.dtype}.")


def make_tower(config: TowerConfig, dimension: int | None = None, seed: int = 0) -> Tower:
    """A tower with random weights, or those of its source; the same seed gives the same weights.

    Parameters
    ----------
    config : TowerConfig
        The network and its size.
    dimension : int, optional
        Project the rows into so many dimensions. Without it they stay as the network pools them.
    seed : int, default 0
        Of the weights. torch's global generator is left as it was.
    """
    config = resolve_source(config)
    with seeded(seed):
        tower = build_tower(config, dimension)
    load_source(tower.body, config)
    return tower


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from torch's global generator with a seed, and leave the caller's as it was."""
    seed = check_count(seed, "seed", at_least=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def build_tower(config: TowerConfig, dimension: int | None) -> Tower:
    """A tower whose weights are drawn from torch's global generator."""
    return Tower(config, *_LAYERS[config.kind](config, dimension))


def _vit(config: TowerConfig, dimension: int | None) -> Layers:
    transformers = require("transformers", "towers", "A vision transformer")
    settings = transformers.CLIPVisionConfig(**clip_settings(config, dimension))
    if dimension is None:
        return transformers.CLIPVisionModel(settings), nn.Identity()
    model = transformers.CLIPVisionModelWithProjection(settings)
    return model.vision_model, model.visual_projection


def _transformer(config: TowerConfig, dimension: int | None) -> Layers:
    transformers = require("transformers", "towers", "A text transformer")
    settings = transformers.CLIPTextConfig(**clip_settings(config, dimension))
    if dimension is None:
        return transformers.CLIPTextModel(settings), nn.Identity()
    model = transformers.CLIPTextModelWithProjection(settings)
    return model.text_model, model.text_projection


def clip_settings(config: TowerConfig, dimension: int | None) -> dict[str, Any]:
    """The settings of transformers' ``CLIPVisionConfig`` or ``CLIPTextConfig``."""
    shared = {
        "projection_dim": dimension or config.width,
        "hidden_size": config.width,
        "intermediate_size": 4 * config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "attention_dropout": config.dropout,
    }
    if config.takes_images:
        return shared | {
            "num_channels": config.channels,
            "image_size": config.image_size,
            "patch_size": config.patch_size,
        }
    return shared | {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": config.eos_token_id,
    }


def _resnet(config: TowerConfig, dimension: int | None) -> Layers:
    transformers = require("transformers", "towers", "A residual network")
    body = transformers.ResNetModel(
        transformers.ResNetConfig(
            num_channels=config.channels,
            # The stem has the width of the first stage before any bottleneck widens it.
            embedding_size=config.stages[0] // (4 if config.block == "bottleneck" else 1),
            hidden_sizes=list(config.stages),
            depths=list(config.depths),
            layer_type=config.block,
        )
    )
    return body, _projection(config, dimension)


def _efficientnet(config: TowerConfig, dimension: int | None) -> Layers:
    return image_network(config), _projection(config, dimension)


def _vision(config: TowerConfig, dimension: int | None) -> Layers:
    return vision_network(config), _projection(config, dimension)


def _encoder(config: TowerConfig, dimension: int | None) -> Layers:
    return text_network(config), _projection(config, dimension)


def _projection(config: TowerConfig, dimension: int | None) -> nn.Module:
    if dimension is None:
        return nn.Identity()
    projection = nn.Linear(config.features, dimension, bias=False)
    nn.init.normal_(projection.weight, std=config.features**-0.5)  # as CLIP's projections
    return projection


def _mlp(config: TowerConfig, dimension: int | None) -> Layers:
    n_pixels = config.channels * config.image_size**2
    return _perceptron(nn.Flatten(), n_pixels, config, dimension)


def _words(config: TowerConfig, dimension: int | None) -> Layers:
    # Token 0 pads a caption and is left out of the mean.
    words = nn.EmbeddingBag(config.vocab_size, config.word_width, mode="mean", padding_idx=0)
    return _perceptron(words, config.word_width, config, dimension)


def _perceptron(first: nn.Module, n_in: int, config: TowerConfig, dimension: int | None) -> Layers:
    """Hidden ReLU layers with dropout, and a projection."""
    layers = [first]
    for n in (n_in, *[config.width] * (config.layers - 1)):
        linear = nn.Linear(n, config.width)
        if config.gaussian:
            for parameter in (linear.weight, linear.bias):
                nn.init.normal_(parameter, std=config.width**-0.5)
        layers += [linear, nn.ReLU(), nn.Dropout(config.dropout)]
    projection = nn.Identity() if dimension is None else nn.Linear(config.width, dimension)
    return nn.Sequential(*layers), projection


_LAYERS: dict[str, Callable[[TowerConfig, int | None], Layers]] = {
    "vit": _vit,
    "resnet": _resnet,
    "mlp": _mlp,
    "transformer": _transformer,
    "words": _words,
    "efficientnet": _efficientnet,
    "vision": _vision,
    "encoder": _encoder,
}
