"""Documents of image and text together: raw, three means, calibrated, by E.

    python benchmarks/fused.py [--splits 20] [--write]

A third of the documents are images, a third texts, a third both (fused), in turn for each group;
the query is another caption of it. Corrections are fitted on half of the groups, without pairs, and
measured on the other half. The sets are the digits and the held-out rows of the Flickr8k model with
pretrained towers, which ship with the repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mixed import FLICKR8K, write_into
from modgap import Modalities, fuse, load_digits
from modgap.corrections import Calibrate, Center, Corrector, ExpectedWrong
from modgap.evaluation import GroupBootstrap, mixed_retrieval

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "mixed-search.md"
WEIGHTS = (0.25, 0.5, 0.75)
METHODS: dict[str, Corrector | None] = {
    "as it is": None,
    "three means subtracted, and that of the queries (GR-CLIP)": Center(),
    "calibrated, `Calibrate()`": Calibrate(),
    "by expected wrong results, `ExpectedWrong()`": ExpectedWrong(),
}


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scans, one caption of each as a document, and another as the query."""
    held = load_digits()
    return held.X, held.Y[held.wording == 0], held.Y[held.wording == 1]


def flickr8k() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for photos: the first caption is the document, the second asks."""
    held = load_file(FLICKR8K)
    captions = held["text"].astype(np.float32).reshape(len(held["image"]), 5, -1)
    return held["image"].astype(np.float32), captions[:, 0], captions[:, 1]


def documents(
    images: np.ndarray, texts: np.ndarray, queries: np.ndarray, weight: float = 0.5
) -> Modalities:
    """Every item as image, text and both, asked by captions of their own."""
    data = Modalities.of({"image": images, "text": texts, "fused": fuse(images, texts, weight)})
    return data.with_queries({"text": queries}, {"text": np.arange(len(queries))})


def measured(data: Modalities, corrector: Corrector | None, splits: int) -> dict[str, np.ndarray]:
    """NDCG@10 and what the excess is made of for every query of every split, with its group."""
    parts: dict[str, list[np.ndarray]] = {"ndcg": [], "own": [], "wrong": [], "group": []}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(data.matched_groups)
        fit, held = (data.take_groups(half) for half in np.array_split(order, 2))
        correction = None
        if corrector is not None:
            correction = corrector.fit(fit, queries="text" if corrector.serves_one else None)
            correction = correction.correction_
        found = mixed_retrieval(held, correction=correction, queries="text", seed=seed)
        (asked,) = found.queries
        parts["ndcg"].append(asked.ndcg)
        parts["own"].append(asked.own_excess(held.names))
        parts["wrong"].append(asked.non_relevant)
        parts["group"].append(held.group_keys[asked.group])
    return {name: np.concatenate(values) for name, values in parts.items()}


def table(runs: dict[str, dict[str, np.ndarray]]) -> str:
    """NDCG@10 of each method, its gain over the one before with an interval, and the excess."""
    lines = [
        "| | NDCG@10 | gain over the line above | own-modality excess@10 |",
        "|---|--:|--:|--:|",
    ]
    before = None
    for title, run in runs.items():
        bootstrap = GroupBootstrap(run["group"], seed=0)
        value, _ = bootstrap.ratios(run["ndcg"], run["group"])
        excess, _ = bootstrap.ratios(run["own"], run["group"], run["wrong"])
        gain = ""
        if before is not None:
            change = bootstrap.interval(
                *bootstrap.ratios(run["ndcg"] - before["ndcg"], run["group"])
            )
            gain = f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
        lines.append(f"| {title} | {value:.3f} | {gain} | {excess:+.3f} |")
        before = run
    return "\n".join(lines)


def sweep(parts: tuple[np.ndarray, ...], splits: int) -> str:
    """NDCG@10 of the calibrated index by the weight of the image in fused documents."""
    found = {
        weight: float(np.mean(measured(documents(*parts, weight), Calibrate(), splits)["ndcg"]))
        for weight in WEIGHTS
    }
    return ", ".join(f"{value:.3f} at {weight:g}" for weight, value in found.items())


def main() -> None:
    """Print the tables, and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for name, load in {"digits": digits, "flickr8k": flickr8k}.items():
        parts = load()
        data = documents(*parts)
        runs = {title: measured(data, one, given.splits) for title, one in METHODS.items()}
        text = (
            f"{table(runs)}\n\nBy the weight of the image in fused documents, `Calibrate()`: "
            f"{sweep(parts, given.splits)}."
        )
        print(f"{name}\n{text}\n", flush=True)
        if given.write:
            write_into(PAGE, f"fused-{name}", text)


if __name__ == "__main__":
    main()
