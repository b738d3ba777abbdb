"""Two towers, one for images and one for captions, whose rows share one space."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from modgap._tensors import read_tensors, write_tensors
from modgap._validate import InputValueError, require
from modgap.train.towers.build import Tower, build_tower, clip_settings, seeded
from modgap.train.towers.config import MODEL_FILE, TwoTowerConfig, find_config
from modgap.train.towers.encoders import check_weights, load_source, resolve_source


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
        wanted = model.state_dict()
        check_weights({k: v.shape for k, v in arrays.items()}, wanted, path)
        # A number without dimensions is stored as a list of one.
        weights = {k: torch.from_numpy(v).reshape(wanted[k].shape) for k, v in arrays.items()}
        model.load_state_dict(weights)
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
    config = find_config(name_or_config)
    config = dataclasses.replace(
        config, image=resolve_source(config.image), text=resolve_source(config.text)
    )
    with seeded(seed):
        model = TwoTower(config)
    for tower in (model.image, model.text):
        load_source(tower.body, tower.config)
    return model


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
