"""Towers from their configurations: a network and a projection each, alone or in pairs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from modgap.core.checks import InputTypeError, InputValueError, check_count, require
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.train.towers.config import MODEL_FILE, TowerConfig, TwoTowerConfig, find_config
from modgap.train.towers.encoders import load_source, load_weights, resolve_source
from modgap.train.towers.image_encoders import EfficientNetLite, VisionEncoder
from modgap.train.towers.text_encoders import TextEncoder


class Tower(nn.Module):
    """A network (``body``), the row it pools, and a ``projection`` of it; rows are not normalised.

    A transformer's row is its class token or the token that ends the caption; a residual network's
    is the average over the image. A locked body is never in training mode and its
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
        shape, config = tuple(inputs.shape), self.config
        if config.takes_images:
            wanted = (config.channels, config.image_size, config.image_size)
            if len(shape) != 4 or shape[1:] != wanted:
                raise InputValueError(
                    f"The image tower takes images of shape (n, {', '.join(map(str, wanted))}), "
                    f"got {shape}."
                )
            if not inputs.is_floating_point():
                raise InputTypeError(
                    f"The image tower takes images of floats, got {inputs.dtype}. Normalise them."
                )
        else:
            if len(shape) != 2 or not 0 < shape[1] <= config.context_length:
                raise InputValueError(
                    f"The text tower takes captions of shape (n, at most {config.context_length}), "
                    f"got {shape}."
                )
            if inputs.is_floating_point():
                raise InputTypeError(f"The text tower takes token ids, got {inputs.dtype}.")


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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is used up.

    torch says it in two ways: a class of its own on a GPU, words on a CPU.
    """
    known = isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError))
    return known or "can't allocate memory" in str(error)


def build_tower(config: TowerConfig, dimension: int | None) -> Tower:
    """A tower whose weights are drawn from torch's global generator."""
    if config.kind in ("vit", "transformer"):
        body, projection = _clip_tower(config, dimension)
    elif config.kind in ("mlp", "words"):
        body, projection = _perceptron(config, dimension)
    else:
        body, projection = _BODIES[config.kind](config), nn.Identity()
        if dimension is not None:
            projection = nn.Linear(config.features, dimension, bias=False)
            nn.init.normal_(projection.weight, std=config.features**-0.5)  # as CLIP's projections
    return Tower(config, body, projection)


def _clip_tower(config: TowerConfig, dimension: int | None) -> tuple[nn.Module, nn.Module]:
    """One of CLIP's transformers, with its own projection."""
    side = "vision" if config.takes_images else "text"
    transformers = require("transformers", "towers", f"A {side} transformer")
    kind = f"CLIP{side.capitalize()}"
    settings = getattr(transformers, f"{kind}Config")(**clip_settings(config, dimension))
    if dimension is None:
        return getattr(transformers, f"{kind}Model")(settings), nn.Identity()
    model = getattr(transformers, f"{kind}ModelWithProjection")(settings)
    return getattr(model, f"{side}_model"), (
        model.visual_projection if config.takes_images else model.text_projection
    )


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


def _resnet(config: TowerConfig) -> nn.Module:
    transformers = require("transformers", "towers", "A residual network")
    body: nn.Module = transformers.ResNetModel(
        transformers.ResNetConfig(
            num_channels=config.channels,
            # The stem has the width of the first stage before any bottleneck widens it.
            embedding_size=config.stages[0] // (4 if config.block == "bottleneck" else 1),
            hidden_sizes=list(config.stages),
            depths=list(config.depths),
            layer_type=config.block,
        )
    )
    return body


def _perceptron(config: TowerConfig, dimension: int | None) -> tuple[nn.Module, nn.Module]:
    """Hidden ReLU layers with dropout on pixels or on the mean of word vectors; a projection."""
    if config.takes_images:
        n_in, first = config.channels * config.image_size**2, nn.Flatten()
    else:
        # Token 0 pads a caption and is left out of the mean.
        n_in = config.word_width
        first = nn.EmbeddingBag(config.vocab_size, n_in, mode="mean", padding_idx=0)
    layers: list[nn.Module] = [first]
    for n in (n_in, *[config.width] * (config.layers - 1)):
        linear = nn.Linear(n, config.width)
        if config.gaussian:
            for parameter in (linear.weight, linear.bias):
                nn.init.normal_(parameter, std=config.width**-0.5)
        layers += [linear, nn.ReLU(), nn.Dropout(config.dropout)]
    projection = nn.Identity() if dimension is None else nn.Linear(config.width, dimension)
    return nn.Sequential(*layers), projection


# The networks that give rows of ``features`` numbers, which a linear layer projects.
_BODIES: dict[str, Callable[[TowerConfig], nn.Module]] = {
    "resnet": _resnet,
    "efficientnet": EfficientNetLite,
    "vision": VisionEncoder.from_config,
    "encoder": TextEncoder.from_config,
}


class TwoTower(nn.Module):
    """An image tower and a text tower; rows are not normalised.

    Calling the model gives the rows of both, so that it can be wrapped for several processes.
    It has no temperature: that belongs to the loss.
    """

    def __init__(self, config: TwoTowerConfig) -> None:
        super().__init__()
        self.config = config
        if (config.image.kind, config.text.kind) == ("vit", "transformer"):
            self.image, self.text = _clip(config)
        else:
            self.image = build_tower(config.image, config.dimension)
            self.text = build_tower(config.text, config.dimension)

    def encode_image(self, pixels: Tensor) -> Tensor:
        """Rows (n, dimension) of images, floats (n, channels, size, size)."""
        return self.image(pixels)

    def encode_text(self, tokens: Tensor) -> Tensor:
        """Rows (n, dimension) of captions, token ids (n, at most ``text.context_length``)."""
        return self.text(tokens)

    def forward(self, pixels: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of both sides."""
        return self.encode_image(pixels), self.encode_text(tokens)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights and configuration as one safetensors file with a JSON header."""
        weights = {k: v.detach().cpu() for k, v in self.state_dict().items()}
        arrays = {
            k: (v.float() if v.is_floating_point() else v).numpy() for k, v in weights.items()
        }
        write_tensors(path, MODEL_FILE, arrays, {"config": dataclasses.asdict(self.config)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TwoTower:
        """A model as it was saved, on the CPU; nothing in the file is ever executed."""
        header, arrays = read_tensors(path, MODEL_FILE)
        config = header.get("config")
        if not isinstance(config, dict):
            raise InputValueError(f"The config of {path} must be settings, got {config!r}.")
        with seeded(0):  # every weight is replaced, and so nothing is read from a source
            model = cls(find_config(config))
        load_weights(model, {k: torch.from_numpy(v) for k, v in arrays.items()}, path)
        return model


def make_two_tower(
    name_or_config: str | Mapping[str, Any] | TwoTowerConfig, seed: int = 0
) -> TwoTower:
    """Two towers with random weights, or those of their sources; a seed gives the same weights.

    A preset ("clip-tiny", "clip-small", "resnet-tiny", "resnet18", "resnet50", "digits"), or one
    with changes, {"name": "resnet18", "image": {"image_size": 112}, "text": {"vocab_size": 4096}}.
    "clip-…" are transformers' ``CLIPModel``; "resnet…" its ``ResNetModel`` with CLIP's text
    transformer and a linear projection each. "digits" is two perceptrons. "pretrained" has the
    networks of EfficientNet-Lite2 and MiniLM, which come from wheels, below random projections.
    """
    with seeded(seed):
        model = TwoTower(resolved_config(name_or_config))
    for tower in (model.image, model.text):
        load_source(tower.body, tower.config)
    return model


def resolved_config(name_or_config: str | Mapping[str, Any] | TwoTowerConfig) -> TwoTowerConfig:
    """The configuration with the architectures of its sources filled in."""
    config = find_config(name_or_config)
    return dataclasses.replace(
        config, image=resolve_source(config.image), text=resolve_source(config.text)
    )


def _clip(config: TwoTowerConfig) -> tuple[Tower, Tower]:
    """The parts of a CLIPModel; its own temperature is left behind."""
    transformers = require("transformers", "towers", "A CLIP model")
    model = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config=clip_settings(config.text, config.dimension),
            vision_config=clip_settings(config.image, config.dimension),
            projection_dim=config.dimension,
        )
    )
    return (
        Tower(config.image, model.vision_model, model.visual_projection),
        Tower(config.text, model.text_model, model.text_projection),
    )
