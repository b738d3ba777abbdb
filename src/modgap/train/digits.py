"""The embedded default as training data, and a file like the one that ships, made from a run."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from modgap._files import atomic_path
from modgap._validate import InputValueError
from modgap.datasets.digits import WORDINGS, describe, load_scans
from modgap.measures import gap_distance, linear_separability
from modgap.towers.tokenizer import train_tokenizer
from modgap.train.config import Config
from modgap.train.data import Data, Split, make_split
from modgap.train.hooks import embed_split

N_TRAIN = 797
SIZE = 8
INK = 16
CONTEXT_LENGTH = 32


def digits_data(split_seed: int = 0, context_length: int = CONTEXT_LENGTH) -> Data:
    """797 scans to train on and 1,000 held out, digits in equal shares, five captions each.

    The vocabulary is that of all captions, which are made from a few dozen words.
    """
    scans, labels = load_scans()
    captions = describe(scans, labels)
    words = train_tokenizer(list(chain.from_iterable(captions)), kind="words")
    everything = make_split(
        torch.tensor(scans, dtype=torch.uint8)[:, None],
        captions,
        partial(words, context_length=context_length),
    )
    seen, held_out = split_scans(labels, split_seed)
    return Data(
        train=_take(everything, seen),
        test=_take(everything, held_out),
        vocab_size=words.vocab_size,
        tokenizer=words,
        augment=as_ink,
        prepare=as_ink,
    )


def split_scans(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which scans are trained on, and which are held out."""
    from sklearn.model_selection import train_test_split

    seen, held_out = train_test_split(
        np.arange(len(labels)), train_size=N_TRAIN, stratify=labels, random_state=seed
    )
    return seen, held_out


def as_ink(pixels: Tensor) -> Tensor:
    """Scans with ink from 0 to 1."""
    return pixels.float() / INK


def _take(split: Split, rows: np.ndarray) -> Split:
    n_captions = len(WORDINGS)
    captions = torch.as_tensor((rows[:, None] * n_captions + np.arange(n_captions)).ravel())
    count = torch.full((len(rows),), n_captions)
    return Split(split.pixels[rows], split.tokens[captions], count.cumsum(0) - count, count)


def write_digits(
    path: Path, model: Any, data: Data, config: Config, epochs: float, temperature: float
) -> dict[str, Any]:
    """Write rows of every scan and caption as `load_digits` reads them; returns the recipe.

    The rows are those before normalisation, in float16, in scikit-learn's order. ``epochs`` and
    ``temperature`` are those that the run has come to.
    """
    from safetensors.numpy import save

    if config.data.path != "digits":
        raise InputValueError("Only a run on the digits gives the file of the digits.")
    _, labels = load_scans()
    parts = {}
    for name, split, rows in zip(
        ("train", "test"),
        (data.train, data.test),
        split_scans(labels, config.data.split_seed),
        strict=True,
    ):
        X, Y, _ = embed_split(model, split, data.prepare, config.evaluate.batch_size)
        image = X.cpu().numpy().astype(np.float16)
        text = Y.cpu().numpy().astype(np.float16).reshape(len(image), len(WORDINGS), -1)
        parts[name] = (rows, image, text)
    X = np.zeros((len(labels), parts["train"][1].shape[1]), np.float16)
    Y = np.zeros((len(labels), len(WORDINGS), X.shape[1]), np.float16)
    for rows, image, text in parts.values():
        X[rows], Y[rows] = image, text
    captions = "\n".join(chain.from_iterable(describe(*load_scans())))
    recipe = {
        "version": 1,
        "seed": config.train.seed,
        "epochs": epochs,
        "temperature": temperature,
        "captions_sha256": hashlib.sha256(captions.encode()).hexdigest(),
        **{name: digits_figures(image, text) for name, (_, image, text) in parts.items()},
    }
    is_train = np.isin(np.arange(len(labels)), parts["train"][0])
    tensors = {"image": X, "text": Y, "is_train": is_train}
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(tensors, metadata={"recipe": json.dumps(recipe)}))
    return recipe


def digits_figures(image: np.ndarray, text: np.ndarray) -> dict[str, float]:
    """What unit rows reach: image (n, d), text (n, wordings, d); recalls wording by wording."""
    X, Y = (_unit(rows) for rows in (image, text))
    scores = np.einsum("id,jwd->wij", X, Y)
    own = np.einsum("wii->wi", scores)
    return {
        "gap_distance": gap_distance(X, Y.reshape(-1, Y.shape[2])),
        # Equal scores count as found: two scans may share a caption, word for word.
        "image_to_text_recall@1": float((own >= scores.max(2)).mean()),
        "text_to_image_recall@1": float((own >= scores.max(1)).mean()),
        "linear_separability": linear_separability(X, Y[:, 0]).all_features,
    }


def _unit(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float32)
    unit_rows: np.ndarray = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit_rows
