"""Tiny images with captions, and configs that train on them in a second."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from modgap.train.config import Config, make_config

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (40, 50, 210), "grey": (128,) * 3}
PLACES = {"left": slice(0, 20), "middle": slice(20, 40), "right": slice(40, 60)}


def write_captions(folder: Path, n_train: int = 40, n_test: int = 12) -> Path:
    """A Parquet file of coloured bars, two captions each, split into train and test."""
    from PIL import Image

    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for number in range(n_train + n_test):
        colour, place = (list(names)[rng.integers(len(names))] for names in (COLOURS, PLACES))
        pixels = rng.integers(200, 256, (60, 60, 3), dtype=np.uint8)
        pixels[:, PLACES[place]] = COLOURS[colour]
        stored = io.BytesIO()
        Image.fromarray(pixels).save(stored, "PNG")
        rows.append(
            {
                "name": f"{number}.png",
                "split": "train" if number < n_train else "test",
                "image": stored.getvalue(),
                "captions": [f"a {colour} bar on the {place}", f"{place}: {colour}, no {number}"],
            }
        )
    path = folder / "bars.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def bars_config(path: Path, **sections: dict[str, Any]) -> Config:
    """A small CLIP on the bars: 5 steps an epoch, float32 on one CPU thread."""
    base: dict[str, dict[str, Any]] = {
        "data": {"path": str(path), "image_size": 32, "context_length": 16, "vocab_size": 320},
        "model": {"name": "clip-tiny"},
        "temperature": {"name": "baseline"},
        "train": {
            "epochs": 3, "batch_size": 8, "learning_rate": 1e-3, "device": "cpu", "threads": 1,
            "loggers": [], "log_every": 1, "checkpoint_every": 4,
        },
        "evaluate": {"pairs": 8},
    }  # fmt: skip
    for name, values in sections.items():
        base[name] = {**base.get(name, {}), **values}
    return make_config(base)


def digits_config(**sections: dict[str, Any]) -> Config:
    """The towers of the digits for four steps."""
    base: dict[str, dict[str, Any]] = {
        "data": {"path": "digits", "image_size": 8},
        "model": {"name": "digits"},
        "temperature": {"name": "fixed", "value": 0.05},
        "train": {
            "steps": 4, "batch_size": 64, "learning_rate": 1e-3, "device": "cpu", "threads": 1,
            "loggers": [], "log_every": 1, "checkpoint_every": 2,
        },
        "evaluate": {"save_embeddings": False},
    }  # fmt: skip
    for name, values in sections.items():
        base[name] = {**base.get(name, {}), **values}
    return make_config(base)


def few_digits(n_train: int = 160, n_test: int = 40) -> Any:
    """Some of the digits, which are soon evaluated."""
    from modgap.train.data import Split
    from modgap.train.digits import digits_data

    def some(split: Split, n: int) -> Split:
        tokens = split.tokens[: split.first[n]]
        return Split(split.pixels[:n], tokens, split.first[:n], split.count[:n])

    data = digits_data(0)
    return replace(data, train=some(data.train, n_train), test=some(data.test, n_test), hooks=())


def same_weights(one: Any, other: Any) -> bool:
    """Whether two folders hold the same weights, bit for bit."""
    return (Path(one) / "model.safetensors").read_bytes() == (
        Path(other) / "model.safetensors"
    ).read_bytes()
