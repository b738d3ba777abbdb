"""Train two small towers on scans and captions, and save what they embed.

    python examples/make_digits.py --output digits.safetensors

This made `modgap/datasets/digits.safetensors`. An image tower and a text tower, each starting from
its own random weights, learn from 797 scans to give a scan and its caption similar directions.
As in CLIP, each tower starts in a narrow cone of its own, and a low temperature lets the
contrastive loss fall long before the cones have met: a modality gap.
About half a minute on one CPU core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

from modgap.datasets.digits import WORDINGS, describe, load_scans

N_TRAIN = 797
DIMENSIONS = 64
HIDDEN = 256
TEMPERATURE = 0.005  # at CLIP's 0.01 the gap of towers this small ends at 0.27, not 0.56
BATCH = 200
LEARNING_RATE = 2e-3


def mlp(n_in: int) -> nn.Sequential:
    """Three hidden ReLU layers and a projection: the body of both towers."""
    layers: list[nn.Module] = []
    for width in (n_in, HIDDEN, HIDDEN):
        layers += [nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, DIMENSIONS))


def image_tower() -> nn.Module:
    """From (n, 8, 8) ink to (n, 64) rows."""
    return nn.Sequential(nn.Flatten(), mlp(8 * 8))


def text_tower(n_words: int) -> nn.Module:
    """From (n, length) word numbers, 0 where a caption has ended, to (n, 64) rows."""
    return nn.Sequential(nn.EmbeddingBag(n_words, 128, mode="mean", padding_idx=0), mlp(128))


def tokenise(captions: list[str]) -> Tensor:
    """Captions as rows of word numbers; 0 pads them to one length."""
    words = [re.findall(r"[a-z-]+", caption.lower()) for caption in captions]
    vocabulary = sorted({word for caption in words for word in caption})
    number = {word: i for i, word in enumerate(vocabulary, start=1)}
    rows = [torch.tensor([number[word] for word in caption]) for caption in words]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def contrastive_loss(X: Tensor, Y: Tensor, tokens: Tensor) -> Tensor:
    """CLIP's symmetric cross-entropy at a fixed temperature; row i of X belongs to row i of Y."""
    logits = F.normalize(X, dim=1) @ F.normalize(Y, dim=1).T / TEMPERATURE
    target = torch.arange(len(logits))
    # Two scans may share a caption, word for word: neither is then a negative of the other.
    same_caption = (tokens[:, None] == tokens).all(2) & (target[:, None] != target)
    logits = logits.masked_fill(same_caption, -torch.inf)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def train(images: Tensor, tokens: Tensor, towers: tuple[nn.Module, nn.Module], epochs: int) -> None:
    """Fit both towers to scans (n, 8, 8) and their captions' words (n, wordings, length)."""
    image, text = towers
    parameters = [*image.parameters(), *text.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.05)
    n_batches = -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=LEARNING_RATE, total_steps=epochs * n_batches
    )
    for epoch in range(1, epochs + 1):
        for scans in torch.randperm(len(images)).chunk(n_batches):
            captions = tokens[scans, torch.randint(tokens.shape[1], (len(scans),))]
            loss = contrastive_loss(image(images[scans]), text(captions), captions)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        if epoch % 50 == 0 or epoch == epochs:
            print(f"epoch {epoch:4d}  loss {loss.item():.3f}", flush=True)


@torch.no_grad()
def embed(tower: nn.Module, inputs: Tensor) -> np.ndarray:
    """Rows before normalisation, in the precision they are saved in."""
    return tower.eval()(inputs).numpy().astype(np.float16)


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows divided by their norms, in single precision."""
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def figures(image: np.ndarray, text: np.ndarray) -> dict[str, float]:
    """What unit rows reach: image (n, d), text (n, wordings, d)."""
    X, Y = unit(image), unit(text)
    scores = np.einsum("id,jwd->wij", X, Y)
    own = np.einsum("wii->wi", scores)
    return {
        "gap_distance": float(np.linalg.norm(X.mean(0) - Y.mean((0, 1)))),
        "image_to_text_recall@1": float((own >= scores.max(2)).mean()),
        "text_to_image_recall@1": float((own >= scores.max(1)).mean()),
        "linear_separability": linear_separability(X, Y[:, 0]),
    }


def linear_separability(X: np.ndarray, Y: np.ndarray) -> float:
    """Accuracy of telling the modalities apart with a linear classifier, on the other half."""
    half = len(X) // 2
    side = np.repeat([0, 1], [half, half])
    classifier = LogisticRegression().fit(np.concatenate([X[:half], Y[:half]]), side)
    return float(classifier.score(np.concatenate([X[-half:], Y[-half:]]), side))


def write(output: Path, tensors: dict[str, np.ndarray], recipe: dict[str, object]) -> None:
    """Write one safetensors file, renamed into place when it is complete."""
    unfinished = output.with_name(output.name + ".part")
    unfinished.write_bytes(save(tensors, metadata={"recipe": json.dumps(recipe)}))
    unfinished.replace(output)


def main(argv: list[str] | None = None) -> None:
    """Train, embed every scan and caption, save, and print the figures reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("digits.safetensors"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=350)
    options = parser.parse_args(argv)

    scans, labels = load_scans()
    images = torch.tensor(scans / 16, dtype=torch.float32)
    captions = list(chain.from_iterable(describe(scans, labels)))
    tokens = tokenise(captions)
    tokens = tokens.reshape(len(images), len(WORDINGS), -1)
    seen, held_out = train_test_split(
        np.arange(len(images)), train_size=N_TRAIN, stratify=labels, random_state=options.seed
    )

    torch.manual_seed(options.seed)
    image, text = towers = image_tower(), text_tower(n_words=int(tokens.max()) + 1)
    train(images[seen], tokens[seen], towers, options.epochs)
    X = embed(image, images)
    Y = embed(text, tokens.flatten(0, 1)).reshape(*tokens.shape[:2], -1)

    recipe = {
        "version": 1,
        "seed": options.seed,
        "epochs": options.epochs,
        "temperature": TEMPERATURE,
        "captions_sha256": hashlib.sha256("\n".join(captions).encode()).hexdigest(),
        "train": figures(X[seen], Y[seen]),
        "test": figures(X[held_out], Y[held_out]),
    }
    is_train = np.isin(np.arange(len(images)), seen)
    write(options.output, {"image": X, "text": Y, "is_train": is_train}, recipe)
    for split in ("train", "test"):
        print(split, *(f"{name} {value:.3f}" for name, value in recipe[split].items()), sep="  ")


if __name__ == "__main__":
    torch.set_num_threads(1)  # faster on matrices this small, and sums in a fixed order
    main()
