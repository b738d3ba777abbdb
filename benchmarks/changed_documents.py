"""How expected wrong results hold when documents come and go after the background was fitted.

Images of ImageNet are documents. Names of classes that have no image among them are the bank, and
others are asked: all that these find is wrong. A cell is how many wrong results a query has at
E = 0.1, 1 and 10, divided by that, with the background of then.

    python benchmarks/changed_documents.py imagenet-clip-b32.safetensors
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from safetensors.numpy import load_file

from modgap.corrections import Background
from modgap.corrections.background import ForeignQueriesWarning

LEVELS = np.array([0.1, 1.0, 10.0])
BANK = 300


def wrong_results(background: Background, documents: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Wrong results a query at each level of E, divided by it."""
    rows = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    assert background.hubs is not None
    stored = np.column_stack([rows, background.hubs.column(rows)])
    scores = -np.sort(-(background.queries(asked) @ stored.T), axis=1)
    expected = background.judged(scores.astype(np.float64), "image")[0]
    return np.array([np.mean(np.sum(expected <= level, axis=1)) / level for level in LEVELS])


def changes(
    images: np.ndarray, labels: np.ndarray, classes: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What changed, the documents then, and those now."""
    held = rng.permutation(np.flatnonzero(np.isin(labels, classes)))
    then = held[:1000]
    for size in (250, 500, 1000, 2000):
        yield f"{len(then):,} documents, then {size:,}", images[then], images[held[:size]]
    # ImageNet's first 398 classes are animals, the others things.
    animals, others = held[labels[held] < 398][:800], held[labels[held] >= 398][:800]
    for share in (0.25, 0.5, 1.0):
        n = round(share * len(animals))
        now = np.r_[animals[n:], others[:n]]
        yield f"animals, {share:.0%} replaced by things", images[animals], images[now]


def main() -> None:
    """Print a Markdown table of means over draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("embeddings", help="image, labels and class_text of ImageNet")
    parser.add_argument("--draws", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ForeignQueriesWarning)
    held = load_file(given.embeddings)
    images, texts = (held[name].astype(np.float32) for name in ("image", "class_text"))
    found: dict[str, list[np.ndarray]] = {}
    for seed in range(given.draws):
        rng = np.random.default_rng(seed)
        classes = rng.permutation(len(texts))
        bank, asked, documents = np.split(classes, [BANK, BANK + 150])
        for name, then, now in changes(images, held["labels"], documents, rng):
            background = Background.fit({"image": then}, texts[bank])
            found.setdefault(name, []).append(wrong_results(background, now, texts[asked]))
    print("| documents | E = 0.1 | E = 1 | E = 10 |\n|---|--:|--:|--:|")
    for name, ratios in found.items():
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in np.mean(ratios, axis=0))} |")


if __name__ == "__main__":
    main()
