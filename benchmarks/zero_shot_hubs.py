"""Zero-shot with hubs, and what a skewed bank costs; the last table of docs/evidence/hubs.md.

    python benchmarks/zero_shot_hubs.py DATA_FOLDER [--splits 20] [--write]

DATA_FOLDER/published holds ``imagenet-clip-b32.safetensors`` and ``esc50-clap.safetensors``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from hubs import PAGE, interval
from mixed import write_into
from modgap.corrections import Calibrate
from modgap.io import Modalities
from modgap.tasks import zero_shot_hubs, zero_shot_task

# Rows of the skewed banks, of half of the rows: 2,000 images and 1,000 clips.
SKEWED = {"ImageNet": 500, "ImageNet, other wording": 500, "ESC-50": 250}


def tasks(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Title, items, class texts and labels."""
    held = load_file(folder / "published" / "imagenet-clip-b32.safetensors")
    for title, key in (("ImageNet", ""), ("ImageNet, other wording", "_other_wording")):
        texts = held[f"class_text{key}"].astype(np.float32)
        yield title, held["image"].astype(np.float32), texts, held["labels"]
    held = load_file(folder / "published" / "esc50-clap.safetensors")
    yield "ESC-50", held["audio"].astype(np.float32), held["class_text"], held["labels"]


def gains(folder: Path, splits: int) -> str:
    """α and k chosen on one half, measured on the other; each half is the other's bank."""
    lines = [
        "| | raw | with hubs | gain | least gain of a split | interval above 0 | k and α chosen |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for title, X, texts, labels in tasks(folder):
        found = [zero_shot_hubs(X, texts, labels, seed=seed) for seed in range(splits)]
        gain = np.array([one.gain.difference.value for one in found])
        above = sum(one.gain.difference.low > 0 for one in found)
        picked = Counter((one.neighbours, one.weight) for one in found).most_common(3)
        choices = ", ".join(f"{k} and {weight} ({n}×)" for (k, weight), n in picked)
        means = [np.mean([getattr(one, n).mean for one in found]) for n in ("raw", "corrected")]
        lines.append(
            f"| {title} | {means[0]:.3f} | {means[1]:.3f} | {interval(gain)} | {gain.min():+.3f} | "
            f"{above} of {splits} | {choices} |"
        )
    return "\n".join(lines)


def banks(X: np.ndarray, labels: np.ndarray, size: int, rng: np.random.Generator) -> dict:
    """Banks of unlabelled rows: all, fewer, with class shares as 1/rank, half of the classes."""
    rank = rng.permutation(labels.max() + 1)[labels]
    shares = 1.0 / (1 + rank)
    some = rng.permutation(len(X))[:size]
    skewed = rng.choice(len(X), size, replace=False, p=shares / shares.sum())
    half = rng.permutation(np.flatnonzero(rank % 2 == 0))
    return {
        "all classes alike, all rows": X,
        "all classes alike": X[some],
        "class shares as 1/rank": X[skewed],
        "half of the classes": X[half[:size]],
    }


def fixed_gain(X: np.ndarray, texts: np.ndarray, labels: np.ndarray, bank: np.ndarray) -> float:
    """The change of accuracy at k = 20 and α = ½, whether it is one for the better or not."""
    data = Modalities.of(X, texts, paired=False)
    correction = (
        Calibrate(hubs=0.5, neighbours=20).fit(data, queries="image", bank=bank).correction_
    )
    task = zero_shot_task(X, texts, labels)
    return task.score(correction).mean - task.score().mean


def skewed(folder: Path, splits: int) -> str:
    """Half of the rows give the bank; of the others, half choose and half measure."""
    lines = [
        "| | bank | rows | gain, chosen | left alone | gain, always k = 20, α = ½ |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for title, X, texts, labels in tasks(folder):
        found: dict[str, list[tuple]] = {}
        for seed in range(splits):
            rng = np.random.default_rng(seed)
            bank, rest = np.array_split(rng.permutation(len(X)), 2)
            task = X[rest], texts, labels[rest]
            for name, rows in banks(X[bank], labels[bank], SKEWED[title], rng).items():
                chosen = zero_shot_hubs(*task, rows, seed=seed)
                found.setdefault(name, []).append((chosen, fixed_gain(*task, rows)))
        for name, runs in found.items():
            gain = np.array([chosen.gain.difference.value for chosen, _ in runs])
            alone = sum(chosen.weight == 0 for chosen, _ in runs)
            fixed = interval(np.array([change for _, change in runs]))
            lines.append(
                f"| {title} | {name} | {runs[0][0].n_bank:,} | {interval(gain)} | {alone} of "
                f"{splits} | {fixed} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="put the first table into the page")
    options = parser.parse_args()
    for name, table in (("zero-shot", gains), ("skewed", skewed)):
        content = table(options.folder, options.splits)
        print(f"\n{name}\n\n{content}", flush=True)
        if options.write and name == "zero-shot":
            write_into(PAGE, name, content)


if __name__ == "__main__":
    main()
