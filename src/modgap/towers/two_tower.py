"""Two towers, one for images and one for captions, whose rows share one space."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from modgap._tensors import read_tensors, write_tensors
from modgap._validate import InputTypeError, InputValueError, check_count, require
from modgap.towers.tokenizer import SPECIAL
from modgap.towers.two_tower_presets import TwoTowerConfig, find_config

KIND = "two-tower model"
# The number of the token that ends a caption, in the vocabularies that modgap learns.
END = SPECIAL.index("<end>")


class TwoTower(nn.Module):
    """An image tower and a text tower; rows are not normalised.

    Calling the model gives the rows of both, so that it can be wrapped for several processes.
    It has no temperature: that belongs to the loss.
    """

    def __init__(self, config: TwoTowerConfig, vocab_size: int, eos_token_id: int = END) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        self.eos_token_id = eos_token_id
        self.image, self.text = _towers(config, vocab_size, eos_token_id)

    def encode_image(self, pixels: Tensor) -> Tensor:
        """Rows (n, dimension) of images, floats (n, channels, size, size)."""
        config = self.config
        shape = (config.channels, config.image_size, config.image_size)
        if pixels.ndim != 4 or tuple(pixels.shape[1:]) != shape:
            raise InputValueError(
                f"The image tower takes images of shape (n, {', '.join(map(str, shape))}), got "
                f"{tuple(pixels.shape)}."
            )
        if not pixels.is_floating_point():
            raise InputTypeError(
                f"The image tower takes images of floats, got {pixels.dtype}. Normalise them."
            )
        return self.image(pixels)

    def encode_text(self, tokens: Tensor) -> Tensor:
        """Rows (n, dimension) of captions, token ids (n, at most ``config.context_length``)."""
        most = self.config.context_length
        if tokens.ndim != 2 or not 0 < tokens.shape[1] <= most:
            raise InputValueError(
                f"The text tower takes captions of shape (n, at most {most}), got "
                f"{tuple(tokens.shape)}."
            )
        if tokens.is_floating_point():
            raise InputTypeError(f"The text tower takes token ids, got {tokens.dtype}.")
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
        header = {
            "config": self.config.to_dict(),
            "vocab_size": self.vocab_size,
            "eos_token_id": self.eos_token_id,
        }
        write_tensors(path, KIND, arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TwoTower:
        """A model as it was saved, on the CPU; nothing in the file is ever executed."""
        header, arrays = read_tensors(path, KIND)
        try:
            config, vocab_size, eos_token_id = (
                header["config"],
                header["vocab_size"],
                header["eos_token_id"],
            )
        except KeyError as error:
            raise InputValueError(f"{path} does not say its {error}. Save it again.") from error
        if not isinstance(config, dict):
            raise InputValueError(f"The config of {path} must be settings, got {config!r}.")
        model = make_two_tower(config, vocab_size, eos_token_id=eos_token_id)
        wanted = model.state_dict()
        _check_weights({k: v.shape for k, v in arrays.items()}, wanted, path)
        # A number without dimensions is stored as a list of one.
        weights = {k: torch.from_numpy(v).reshape(wanted[k].shape) for k, v in arrays.items()}
        model.load_state_dict(weights)
        return model


def make_two_tower(
    name_or_config: str | Mapping[str, Any] | TwoTowerConfig,
    vocab_size: int,
    seed: int = 0,
    *,
    eos_token_id: int = END,
) -> TwoTower:
    """Two towers with random weights; the same seed gives the same weights.

    A preset ("clip-tiny", "clip-small", "resnet-tiny", "resnet18", "resnet50", "digits"), or one
    with changes, {"name": "resnet18", "image_size": 112}. ``vocab_size`` is the number of tokens,
    ``eos_token_id`` the token that ends a caption, at which a text transformer reads out its row.

    "clip-…" are transformers' ``CLIPModel``; "resnet…" its ``ResNetModel`` with CLIP's text
    transformer and a linear projection each. "digits" is two perceptrons.
    """
    config = find_config(name_or_config)
    vocab_size = check_count(vocab_size, "vocab_size")
    seed = check_count(seed, "seed", at_least=0)
    if config.text == "transformer":
        eos_token_id = check_count(eos_token_id, "eos_token_id", at_least=0, at_most=vocab_size - 1)
        if eos_token_id == 2:
            # transformers' CLIP takes 2 for an old mistake and reads at the largest token instead.
            raise InputValueError(
                "eos_token_id must not be 2: transformers then ends captions elsewhere."
            )
    # The weights are drawn from torch's global generator; the caller's is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TwoTower(config, vocab_size, eos_token_id)


class Projected(nn.Module):
    """A transformers model, the row it pools, and the projection into the common space."""

    def __init__(self, body: nn.Module, projection: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.projection = projection

    def forward(self, inputs: Tensor) -> Tensor:
        """Rows (n, dimension)."""
        return self.projection(self.body(inputs).pooler_output.flatten(1))


def _towers(
    config: TwoTowerConfig, vocab_size: int, eos_token_id: int
) -> tuple[nn.Module, nn.Module]:
    if config.image == "vit" and config.text == "transformer":
        return _clip(config, vocab_size, eos_token_id)
    image = {"vit": _vit, "resnet": _resnet, "mlp": _image_mlp}[config.image](config)
    text = (
        _words(config, vocab_size)
        if config.text == "words"
        else _text(config, vocab_size, eos_token_id)
    )
    return image, text


def _clip(
    config: TwoTowerConfig, vocab_size: int, eos_token_id: int
) -> tuple[nn.Module, nn.Module]:
    """The parts of a CLIPModel; its own temperature is left behind."""
    transformers = require("transformers", "train", "A CLIP model")
    model = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config=_text_config(config, vocab_size, eos_token_id),
            vision_config=_vision_config(config),
            projection_dim=config.dimension,
        )
    )
    return (
        Projected(model.vision_model, model.visual_projection),
        Projected(model.text_model, model.text_projection),
    )


def _vit(config: TwoTowerConfig) -> nn.Module:
    transformers = require("transformers", "train", "A vision transformer")
    model = transformers.CLIPVisionModelWithProjection(
        transformers.CLIPVisionConfig(**_vision_config(config))
    )
    return Projected(model.vision_model, model.visual_projection)


def _text(config: TwoTowerConfig, vocab_size: int, eos_token_id: int) -> nn.Module:
    transformers = require("transformers", "train", "A text transformer")
    model = transformers.CLIPTextModelWithProjection(
        transformers.CLIPTextConfig(**_text_config(config, vocab_size, eos_token_id))
    )
    return Projected(model.text_model, model.text_projection)


def _resnet(config: TwoTowerConfig) -> nn.Module:
    transformers = require("transformers", "train", "A residual network")
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
    projection = nn.Linear(config.stages[-1], config.dimension, bias=False)
    nn.init.normal_(projection.weight, std=config.stages[-1] ** -0.5)  # as CLIP's projections
    return Projected(body, projection)


def _image_mlp(config: TwoTowerConfig) -> nn.Module:
    n_pixels = config.channels * config.image_size**2
    return nn.Sequential(
        nn.Flatten(), _mlp(n_pixels, config.image_width, config.image_layers, config)
    )


def _words(config: TwoTowerConfig, vocab_size: int) -> nn.Module:
    """Token 0 pads a caption and is left out of the mean."""
    words = nn.EmbeddingBag(vocab_size, config.word_width, mode="mean", padding_idx=0)
    body = _mlp(config.word_width, config.text_width, config.text_layers, config)
    return nn.Sequential(words, body)


def _mlp(n_in: int, hidden: int, n_layers: int, config: TwoTowerConfig) -> nn.Module:
    """Hidden ReLU layers with dropout, and a projection."""
    layers: list[nn.Module] = []
    for width in (n_in, *[hidden] * (n_layers - 1)):
        layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(config.dropout)]
    return nn.Sequential(*layers, nn.Linear(hidden, config.dimension))


def _vision_config(config: TwoTowerConfig) -> dict[str, Any]:
    return {
        "hidden_size": config.image_width,
        "intermediate_size": 4 * config.image_width,
        "num_hidden_layers": config.image_layers,
        "num_attention_heads": config.image_heads,
        "num_channels": config.channels,
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "projection_dim": config.dimension,
        "attention_dropout": config.dropout,
    }


def _text_config(config: TwoTowerConfig, vocab_size: int, eos_token_id: int) -> dict[str, Any]:
    return {
        "vocab_size": vocab_size,
        "hidden_size": config.text_width,
        "intermediate_size": 4 * config.text_width,
        "num_hidden_layers": config.text_layers,
        "num_attention_heads": config.text_heads,
        "max_position_embeddings": config.context_length,
        "projection_dim": config.dimension,
        "attention_dropout": config.dropout,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": eos_token_id,
    }


def _check_weights(
    shapes: Mapping[str, tuple[int, ...]],
    wanted: Mapping[str, Tensor],
    path: str | os.PathLike[str],
) -> None:
    """Every weight of the model, and no other, in its shape."""
    missing, unknown = sorted(wanted.keys() - shapes.keys()), sorted(shapes.keys() - wanted.keys())
    wrong = [k for k in wanted if k in shapes and tuple(wanted[k].shape) not in (shapes[k], ())]
    for names, what in ((missing, "lacks"), (unknown, "has besides"), (wrong, "misshapes")):
        if names:
            raise InputValueError(
                f"The weights of {path} must be those of its config, but it {what} {names[0]!r}"
                + (f" and {len(names) - 1} more." if len(names) > 1 else ".")
            )
