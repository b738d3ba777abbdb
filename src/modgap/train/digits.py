"""The embedded default as training data, and a file like the one that ships, made from a run."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from modgap.arrays import unit
from modgap.core.files import atomic_path
from modgap.datasets.digits import WORDINGS, describe, load_scans
from modgap.measures import gap_distance, linear_separability
from modgap.train.checkpoint import DIGITS
from modgap.train.data import Data, Split, make_split
from modgap.train.hooks import TrainState, at_end
from modgap.train.towers.tokenizer import train_tokenizer

N_TRAIN = 797
SIZE = 8
INK = 16
CONTEXT_LENGTH = 32


def digits_data(split_seed: int = 0, context_length: int = CONTEXT_LENGTH) -> Data:
    """797 scans to train on and 1,000 held out, digits in equal shares, five captions each.

    The vocabulary covers all captions, which are made from a few dozen words.
    """
    scans, labels = load_scans()
    captions = describe(scans, labels)
    words = train_tokenizer(list(chain.from_iterable(captions)), kind="words")

    def split_of(rows: np.ndarray) -> Split:
        return make_split(
            torch.tensor(scans[rows], dtype=torch.uint8)[:, None],
            [captions[row] for row in rows],
            partial(words, context_length=context_length),
        )

    seen, held_out = split_scans(labels, split_seed)
    return Data(
        train=split_of(seen),
        test=split_of(held_out),
        vocab_size=words.vocab_size,
        tokenizer=words,
        augment=as_ink,
        prepare=as_ink,
        hooks=(at_end(save_digits),),
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


def save_digits(state: TrainState) -> None:
    """Write the rows of every scan and caption as `load_digits` reads them, with their recipe.

    The rows are those before normalisation, in float16, in scikit-learn's order.
    """
    if not state.config.evaluate.save_embeddings:
        return
    from safetensors.numpy import save

    scans, labels = load_scans()
    seen, held_out = split_scans(labels, state.config.data.split_seed)
    splits = {"train": (seen, state.embed(state.data.train)), "test": (held_out, state.held_out)}
    dimension = state.held_out[0].shape[1]
    image = np.zeros((len(labels), dimension), np.float16)
    text = np.zeros((len(labels), len(WORDINGS), dimension), np.float16)
    for rows, (X, Y, _) in splits.values():
        image[rows] = X.cpu().numpy()
        text[rows] = Y.cpu().numpy().reshape(len(rows), len(WORDINGS), -1)
    captions = "\n".join(chain.from_iterable(describe(scans, labels)))
    recipe = {
        "version": 1,
        "seed": state.config.train.seed,
        "epochs": int(state.epochs) if state.epochs.is_integer() else state.epochs,
        "temperature": state.temperature_value,
        "captions_sha256": hashlib.sha256(captions.encode()).hexdigest(),
        **{name: digits_metrics(image[rows], text[rows]) for name, (rows, _) in splits.items()},
    }
    is_train = np.isin(np.arange(len(labels)), seen)
    tensors = {"image": image, "text": text, "is_train": is_train}
    with atomic_path(state.output / DIGITS) as temporary:
        temporary.write_bytes(save(tensors, metadata={"recipe": json.dumps(recipe)}))


def digits_metrics(image: np.ndarray, text: np.ndarray) -> dict[str, float]:
    """Metrics of unit rows: image (n, d), text (n, wordings, d); recalls wording by wording."""
    X, Y = unit(image), unit(text.reshape(-1, text.shape[2])).reshape(text.shape)
    scores = np.einsum("id,jwd->wij", X, Y)
    own = np.einsum("wii->wi", scores)
    return {
        "gap_distance": gap_distance(X, Y.reshape(-1, Y.shape[2])),
        # Equal scores count as found: two scans may share a caption, word for word.
        "image_to_text_recall@1": float((own >= scores.max(2)).mean()),
        "text_to_image_recall@1": float((own >= scores.max(1)).mean()),
        "linear_separability": linear_separability(X, Y[:, 0]).all_features,
    }
