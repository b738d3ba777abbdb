"""Do clusters of both modalities together follow what rows show? Before and after each correction.

    python benchmarks/joint_clustering.py DATA_FOLDER [--splits 5]

Makes the tables of docs/evidence/clustering.md. Corrections are fitted on half of the classes, and
100 of the other half are clustered.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mixed import FLICKR8K, write_into
from modgap.arrays import unit
from modgap.diagnosis import DEFAULT_CORRECTORS
from modgap.evaluation import retrieval
from modgap.io import Modalities
from modgap.measures import joint_clustering, relative_gap

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "clustering.md"
CLASSES = 100  # of ImageNet that are clustered; as many photos of Flickr8k


def sets(folder: Path) -> Iterator[tuple[str, Modalities]]:
    """Images and texts with what they show: a class of ImageNet, or a photo of Flickr8k."""
    held = load_file(folder / "published" / "imagenet-clip-b32.safetensors")
    texts = [held[key] for key in ("class_text", "class_text_other_wording")]
    labels = held["labels"], np.tile(np.arange(len(texts[0])), 2)
    yield "ImageNet", Modalities.of(held["image"], np.concatenate(texts), groups=labels)
    held = load_file(FLICKR8K)
    groups = held["image_group"], held["text_group"]
    yield "Flickr8k", Modalities.of(held["image"], held["text"], groups=groups)


def one_split(data: Modalities, seed: int) -> dict[str, list[float]]:
    """V-measure, adjusted Rand index, relative gap and image recall@1, raw and by correction."""
    order = np.random.default_rng(seed).permutation(data.matched_groups)
    fit, judged = (
        data.take_groups(np.sort(part)).at_unit_length()
        for part in (order[: len(order) // 2], order[-CLASSES:])
    )
    found = {"raw": scores(judged.X, judged.Y, judged.groups, seed)}
    for corrector in DEFAULT_CORRECTORS:
        correction = corrector.fit(fit).correction_
        X, Y = (correction.apply(side.rows(), name) for name, side in judged.sides.items())
        found[corrector.label] = scores(X, Y, judged.groups, seed)
    return found


def scores(X: np.ndarray, Y: np.ndarray, groups: tuple[np.ndarray, ...], seed: int) -> list[float]:
    """The four numbers of corrected rows, at unit length as the clusters are."""
    X, Y = unit(X), unit(Y)
    clusters = joint_clustering(X, Y, labels=groups, starts=3, seed=seed)
    recall = retrieval(X, Y, k=1, groups=groups).recall()["image_retrieval_recall@1"]
    gap = relative_gap(X, Y, groups=groups)
    return [clusters.v_measure, clusters.adjusted_rand, gap, recall]


def main() -> None:
    """Measure and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of corrections that move nothing, which the table shows
    for name, data in sets(options.folder):
        runs = [one_split(data, seed) for seed in range(options.splits)]
        lines = [
            "| correction | V-measure | adjusted Rand | relative gap | image recall@1 |",
            "|---|--:|--:|--:|--:|",
        ]
        for label in runs[0]:
            values = np.array([run[label] for run in runs])
            spread = values.std(axis=0, ddof=1)
            cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(values.mean(axis=0), spread, strict=True)]
            lines.append(f"| {label} | {' | '.join(cells)} |")
        table = "\n".join(lines)
        print(name, table, sep="\n", flush=True)
        write_into(PAGE, name.lower(), table)


if __name__ == "__main__":
    main()
