"""Photos with captions in a folder, and a model that embeds them with a few sums."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from PIL import Image

from modgap.embed import CallableModel

SIDE = 6


def image_rows(images):
    """The mean of each third of the pixels, by channel: enough to tell random images apart."""
    pixels = np.stack([np.asarray(image.resize((SIDE, SIDE)), float) for image in images])
    return pixels.reshape(len(images), 3, -1).mean(axis=2) / 255 + 0.1


def text_rows(texts):
    return np.array([[len(t), t.count("a") + 1, sum(map(ord, t)) % 97] for t in texts], float)


def make_model(name="functions", shift=0.0):
    return CallableModel(image_rows, lambda texts: text_rows(texts) + shift, name=name)


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def make_photos(folder: Path, n: int, captions: int = 1, broken: tuple[int, ...] = ()) -> Path:
    folder.mkdir()
    with (folder / "captions.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "caption"])
        for k in range(n):
            name = f"{k}.png"
            (folder / name).write_bytes(b"no image" if k in broken else picture(k))
            table.writerows([name, f"a photo {k}, {c}"] for c in range(captions))
    return folder
