"""What the tests of tasks share: rows with a planted gap, and pictures that a model can tell."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from conftest import unit
from item_files import write
from modgap.embed import CallableModel

N, CLASSES, DIM = 240, 12, 24
COLOURS = {"red": (230, 20, 20), "light_green": (120, 230, 120), "blue": (20, 20, 230)}


def score(x, y, metric):
    """What ranks y for x, larger is nearer."""
    if metric == "cosine":
        return x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    return -np.sum((x - y) ** 2) if metric == "euclidean" else x @ y


def nearest(x, rows, metric):
    return int(np.argmax([score(x, y, metric) for y in rows]))


def planted(n=N, seed=0, gap=2.0):
    """Class texts of unequal strength beside a common offset: the weak ones are lost to it."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.normal(size=(CLASSES, DIM)))
    labels = rng.integers(0, CLASSES, n)
    offset = gap * unit(rng.normal(size=(1, DIM)))
    X = unit(centres[labels] + 0.12 * rng.normal(size=(n, DIM)) + offset)
    texts = unit(centres * rng.uniform(0.5, 2.0, (CLASSES, 1)) - offset)
    return X, texts, labels


def planted_questions(n=80, d=32, spread=0.5, seed=3):
    """Questions whose images lie off the texts along one axis, and wordings that vary along it.

    As long as there is a gap, a wording that lies nearer to the images along that axis wins.
    """
    rng = np.random.default_rng(seed)

    def off(content, along):
        rows = np.concatenate([np.broadcast_to(along, content.shape[:-1])[..., None], content], -1)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    content = rng.normal(size=(n, d)) / d**0.5
    images = off(content, 1.0)
    near = content[:, None] + rng.normal(size=(n, 5, d)) / d**0.5
    rivals = rng.normal(size=(n, 15, d)) / d**0.5
    correct = rng.integers(4, size=n)
    first = rivals[:, :4].copy()
    first[np.arange(n), correct] = near[:, 0]
    right = off(near, rng.normal(size=(n, 5)) * spread)
    wrong = off(rivals[:, 4:], rng.normal(size=(n, 11)) * spread)
    return images, off(first, 0.0), correct, right, wrong


def png(colour) -> bytes:
    stored = io.BytesIO()
    Image.new("RGB", (6, 6), tuple(int(c) for c in colour)).save(stored, "PNG")
    return stored.getvalue()


def write_photos(folder: Path) -> Path:
    """Ten pictures of each colour, a little off it, in a folder for each class."""
    rng = np.random.default_rng(20)
    for label, colour in COLOURS.items():
        for k in range(10):
            near = np.clip(np.array(colour) + rng.integers(-15, 16, 3), 0, 255)
            write(folder / label / f"{k}.png", png(near))
    return folder


def colour_model() -> CallableModel:
    """Rows are mean colours; a text has that of the colour it names, and its length."""
    return CallableModel(
        images=lambda images: np.array(
            [[*np.asarray(image).mean(axis=(0, 1)) / 255, 0.0] for image in images]
        ),
        texts=lambda texts: np.array([_row_of(text) for text in texts]),
        sounds=lambda sounds: np.array([[s.mean(), s.std(), 1, 0] for s in sounds]),
        sampling_rate=8000,
    )


def _row_of(text: str) -> list[float]:
    for label, colour in COLOURS.items():
        if label.replace("_", " ") in text:
            return [*(np.array(colour) / 255), 0.01 * len(text)]
    return [0.1, 0.1, 0.1, 0.01 * len(text)]
