"""Tasks with data sets of their own, on published rows that can stand in for them.

``python benchmarks/task_sets.py DATA``, where DATA holds imagenet-clip-b32.safetensors and
unsplash-clip-b32.safetensors, both of CLIP ViT-B/32. Multiple choice: each image of ImageNet has
its class and three others to choose from, in one wording and then in another. Conformity: texts
that a template makes of ImageNet's classes, against captions that people wrote for Unsplash.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from modgap.core.results import text_table
from modgap.tasks import (
    conformity_test,
    multiple_choice_task,
    rephrased_choice,
    rephrased_choice_task,
)

CHOICES, WRONG, DRAWS = 4, 30, 500


def four_classes(folder: Path, seed: int = 0) -> None:
    """Accuracy among four classes, in one wording and in another, as the gap closes."""
    held = load_file(folder / "imagenet-clip-b32.safetensors")
    labels, texts = held["labels"], held["class_text"]
    n, classes = len(labels), len(texts)
    rng = np.random.default_rng(seed)
    drawn = np.argsort(rng.random((n, classes - 1)), axis=1)[:, : CHOICES - 1 + WRONG]
    others = drawn + (drawn >= labels[:, None])
    four = np.column_stack([labels, others[:, : CHOICES - 1]])
    reworded = held["class_text_other_wording"]
    first, correct = texts[four], np.zeros(n, int)
    right, wrong = reworded[labels][:, None], reworded[others[:, CHOICES - 1 :]]
    clean = multiple_choice_task(held["image"], first, correct).score()
    found = rephrased_choice(
        rephrased_choice_task(held["image"], first, correct, right, wrong, draws=DRAWS, seed=seed)
    )
    assert np.all(found.clean == clean.mean)
    rows = [
        (f"{amount:g}", f"{found.clean[k]:.4f}", f"{found.rephrased[k]:.4f}")
        for k, amount in enumerate(found.amounts)
    ]
    print(text_table(("amount", "accuracy", "in other words"), rows))
    change = found.gain(seed=seed)
    gain = change.difference
    print(
        f"closing: {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}], p = {change.p_value:.2g};"
        f" {found.closed:.3f} of the gap is closed\n"
    )


def templates_and_captions(folder: Path, seed: int = 0) -> None:
    """Are texts from a template more common than captions, among captions?"""
    made = load_file(folder / "imagenet-clip-b32.safetensors")["class_text"]
    real = load_file(folder / "unsplash-clip-b32.safetensors")["text"]
    print(conformity_test(made, real, seed=seed).sentence)
    halves = np.array_split(np.random.default_rng(seed).permutation(len(real)), 2)
    print("captions against captions:", conformity_test(*(real[h] for h in halves)).sentence)


if __name__ == "__main__":
    four_classes(Path(sys.argv[1]))
    templates_and_captions(Path(sys.argv[1]))
