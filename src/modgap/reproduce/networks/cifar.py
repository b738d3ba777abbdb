"""ResNet-18 trained on CIFAR-10 from different starts (Liang et al. 2022, fig. 13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from modgap.reproduce.flickr8k.transfer import cifar_images
from modgap.train.towers.build import Tower, make_tower, seeded
from modgap.train.towers.config import TowerConfig

RESNET = TowerConfig("resnet", image_size=32, depths=(2, 2, 2, 2), stages=(64, 128, 256, 512))
MODELS, EPOCHS, BATCH, RATE = 11, 15, 512, 0.4
_BATCHES = [f"data_batch_{number}.png" for number in range(1, 6)]
_TEST = ["test_batch.png"]


def read_cifar(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images (n, 3, 32, 32) as uint8 with labels, then test images with labels."""
    found: list[Tensor] = []
    for batches, labels in ((_BATCHES, "train_lables.json"), (_TEST, "test_lables.json")):
        found += [torch.tensor(part) for part in cifar_images(folder, batches, labels)]
    images, labels_of_images, held_out, truth = found
    return images, labels_of_images, held_out, truth


def network(seed: int) -> Tower:
    """ResNet-18 as for CIFAR-10: the first layer keeps the size of the image."""
    tower = make_tower(RESNET, seed=seed)
    stem: Any = tower.body.embedder
    with seeded(seed):
        convolution = nn.Conv2d(3, RESNET.stages[0], 3, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    stem.embedder.convolution, stem.pooler = convolution, nn.Identity()
    return tower


def train_network(
    data: tuple[Tensor, Tensor, Tensor, Tensor], seed: int, device: str, epochs: int = EPOCHS,
    shown: int = 1_000,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Rows of the first test images under a trained network, and its accuracy on all of them.

    All networks see the same batches, flips and crops; only their first weights differ.
    """
    pixels, labels, held_out, truth = (part.to(device) for part in data)
    mean = pixels.float().mean((0, 2, 3), keepdim=True)
    deviation = pixels.float().std((0, 2, 3), keepdim=True)
    tower = network(seed).to(device, memory_format=torch.channels_last)
    with seeded(seed):
        head = nn.Linear(RESNET.features, int(labels.max()) + 1).to(device)
    model = nn.Sequential(tower, head)
    steps = epochs * (len(pixels) // BATCH or 1)
    optimiser = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    half = torch.autocast(device.partition(":")[0], torch.bfloat16)
    for _ in range(epochs):
        order = torch.randperm(len(pixels), generator=generator)
        for rows in order[: BATCH * (len(order) // BATCH) or None].split(BATCH):
            batch = augmented(pixels[rows.to(device)], generator)
            with half:
                scores = model(((batch - mean) / deviation).contiguous(
                    memory_format=torch.channels_last))  # fmt: skip
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(scores.float(), labels[rows.to(device)], label_smoothing=0.1).backward()
            optimiser.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        parts = [tower((part - mean) / deviation) for part in held_out.float().split(1_000)]
        right = [head(rows).argmax(1) for rows in parts]
    accuracy = float((torch.cat(right) == truth).float().mean())
    return torch.cat(parts)[:shown].double().cpu().numpy(), accuracy


def augmented(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """A batch as floats, mirrored for one half of it, and moved by up to four pixels."""
    flip = torch.rand(len(pixels), generator=generator).to(pixels.device) < 0.5
    across, down = torch.randint(-4, 5, (2,), generator=generator).tolist()
    moved = torch.roll(F.pad(pixels.float(), (4, 4, 4, 4)), (down, across), (2, 3))
    moved = moved[:, :, 4:-4, 4:-4]
    return torch.where(flip[:, None, None, None], moved.flip(3), moved)
