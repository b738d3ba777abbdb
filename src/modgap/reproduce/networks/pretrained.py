"""EfficientNet-Lite2 trained on ImageNet, for the ResNet-18 of Liang et al. 2022 (figs 2, 6, 14).

Rows are means over space, as a ResNet's are. They are taken before the last ReLU and after it:
footnote 4 of the paper says that its network has none there, and torchvision's ResNet-18 has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from modgap.arrays import unit
from modgap.measures.cone import cone
from modgap.reproduce.liang2022.row_statistics import (
    COSINE_EDGES,
    cosines,
    mean_cosine,
    random_cosine,
    row_interval,
)
from modgap.reproduce.networks import PLACES
from modgap.reproduce.networks.full_size import compared, unit_rows
from modgap.train.towers.build import Tower, make_tower
from modgap.train.towers.config import TowerConfig
from modgap.train.towers.encoders import resolve_source
from modgap.train.towers.normalisation import pixel_scale

PRETRAINED = TowerConfig("efficientnet", image_size=224, source="efficientnet-lite2")


def enlarged(images: Tensor) -> Tensor:
    """Images (n, 3, size, size), bytes, in the size and with the pixels that the network takes."""
    size = PRETRAINED.image_size
    factor, shift = pixel_scale()
    return F.interpolate(images.float(), size=(size, size), mode="bilinear") * factor + shift


def pretrained_cones(given: Tensor, device: str) -> dict[str, Any]:
    """The cosines of images under the trained network."""
    rows = relu_rows(make_tower(PRETRAINED), given, device)
    found = {
        place: cosine_statistics(X, relu=place == "after")
        for place, X in zip(PLACES, rows, strict=True)
    }
    return {"inputs": len(given), **found}


def random_cones(given: Tensor, seeds: Sequence[int], device: str) -> dict[str, Any]:
    """The cones of images under networks of the same architecture with random weights."""
    config = replace(resolve_source(PRETRAINED), source="")
    rows = [relu_rows(make_tower(config, seed=seed), given, device) for seed in seeds]
    return {
        place: compared(groups)
        for place, groups in zip(PLACES, zip(*rows, strict=True), strict=True)
    }


def relu_rows(tower: Tower, given: Tensor, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows (n, 1280) of images before the last ReLU of EfficientNet-Lite, and after it."""
    before: list[Tensor] = []
    network: Any = tower.body.network
    hook = network._bn1.register_forward_hook(
        lambda _module, _inputs, output: before.append(output.mean((2, 3)))
    )
    after = unit_rows(tower, given, device)
    hook.remove()
    return unit(torch.cat(before).double().cpu().numpy()), after


def cosine_statistics(X: np.ndarray, *, relu: bool) -> dict[str, Any]:
    """The cosines of rows, the interval of their mean, and the mean of random directions."""
    mean = row_interval(len(X), mean_cosine(X), seed=0)
    return {
        **asdict(cone(X)),
        "low": mean.low,
        "high": mean.high,
        "by_chance": random_cosine(X.shape, 0, relu=relu),
        "counts": np.histogram(cosines(X), COSINE_EDGES)[0].tolist(),
    }
