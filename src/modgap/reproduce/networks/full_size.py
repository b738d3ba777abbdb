"""Random networks as large as the papers': cones of 25 initialisations, gaps of 50 models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from modgap.arrays import unit
from modgap.measures.gap import gap_distance
from modgap.reproduce.liang2022.initialisations import unseen_cones
from modgap.simulate.cone_initialisations import compare_cones
from modgap.train.data import Data
from modgap.train.towers.build import Tower, make_tower
from modgap.train.towers.config import TowerConfig

# CLIP's ViT-B/32 and its text transformer; ResNets as for ImageNet.
VISION = TowerConfig("vit", image_size=224, patch_size=32, width=768, layers=12, heads=12)
TEXT = TowerConfig(
    "transformer", vocab_size=49408, context_length=77, width=512, layers=12, heads=8
)
NETWORKS = {
    "ResNet-18": TowerConfig(
        "resnet", image_size=224, depths=(2, 2, 2, 2), stages=(64, 128, 256, 512)
    ),
    "ResNet-50": TowerConfig(
        "resnet", image_size=224, depths=(3, 4, 6, 3), stages=(256, 512, 1024, 2048),
        block="bottleneck",
    ),
    "image transformer": VISION,
    "text transformer": TEXT,
}  # fmt: skip
INITIALISATIONS, GAPS, DIMENSION = 25, 50, 512
_BATCH = 50


def inputs(config: TowerConfig, data: Data, kind: str, n: int) -> Tensor:
    """The first ``n`` held-out photos or their first captions, or as much noise."""
    test, generator = data.test, torch.Generator().manual_seed(0)
    if config.takes_images:
        if kind == "noise":
            shape = (n, config.channels, config.image_size, config.image_size)
            return torch.randn(shape, generator=generator)
        return data.prepare(test.pixels[:n])
    if kind == "noise":
        low = config.eos_token_id + 1
        tokens = torch.randint(low, config.vocab_size, (n, config.context_length),
                               generator=generator)  # fmt: skip
        tokens[:, -1] = config.eos_token_id
        return tokens
    return test.tokens[test.first[:n]]


def unit_rows(tower: Tower, given: Tensor, device: str) -> np.ndarray:
    """Unit rows (n, dimension) of inputs under one network."""
    tower = tower.eval().to(device, memory_format=torch.channels_last)
    with torch.no_grad():
        parts = [tower(part.to(device)).float().cpu() for part in given.split(_BATCH)]
    return unit(torch.cat(parts).double().numpy())


def cones_of_seeds(
    config: TowerConfig, given: Tensor, seeds: Sequence[int], device: str
) -> dict[str, Any]:
    """The cones of the same inputs under networks that differ in their seed."""
    return compared([unit_rows(make_tower(config, seed=s), given, device) for s in seeds])


def compared(groups: Sequence[np.ndarray]) -> dict[str, Any]:
    """How apart the cones of several networks are, on inputs that all saw."""
    found = compare_cones(groups)
    told_apart, apart, within = unseen_cones(groups, seed=0)
    return {
        "initialisations": len(groups),
        "inputs": len(groups[0]),
        "mean_cosine": found.mean_cosine.tolist(),
        "min_cosine": found.min_cosine.tolist(),
        "separation": found.separation,
        "least_separation": found.least_separation,
        "told_apart": found.told_apart,
        "unseen_told_apart": told_apart,
        "centres_over_halves": apart / within,
        "neighbours": found.neighbours,
    }


def gaps(
    towers: tuple[TowerConfig, TowerConfig], given: Sequence[Tensor], seeds: Sequence[int],
    device: str, dimension: int = DIMENSION,
) -> dict[str, Any]:  # fmt: skip
    """The gap of photos and captions under random models, beside the spread of each side."""
    found: dict[str, list[float]] = {"gap": [], "image_to_mean": [], "text_to_mean": []}
    for seed in seeds:
        # Two towers with seeds of their own, as two parts of one model have.
        X, Y = (
            unit_rows(make_tower(replace(config), dimension, 2 * seed + side), rows, device)
            for side, (config, rows) in enumerate(zip(towers, given, strict=True))
        )
        found["gap"].append(gap_distance(X, Y))
        for name, rows in (("image_to_mean", X), ("text_to_mean", Y)):
            spread = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
            found[name].append(float(spread.mean()))
    return {"initialisations": len(seeds), "inputs": len(given[0]), **found}
