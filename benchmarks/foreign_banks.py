"""How often a foreign bank is noticed, and a proper one taken for foreign; see hubs.md.

    python benchmarks/foreign_banks.py DATA_FOLDER [--splits 15]

Half of the groups are the data: documents, and rows that ask. The bank comes from the other half,
of the same kind of queries, or from elsewhere. No label is used but for the change of recall@1, at
k = 10 and α = ½.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from case import unit
from hubs import BANK_SIZES, Half, by_correction, calibration, recall, with_bank
from mixups import real_sets
from modgap.corrections import recognise
from modgap.corrections.bank import FOREIGN_BANK, shortfall
from modgap.io import Modalities

UNSPLASH, IMAGENET, WORDING = "CLIP B/32, Unsplash", "CLIP B/32, ImageNet", "other wording"
KINDS = {
    "proper": "the same kind of queries",
    "wording": "ImageNet's classes in another wording",
    "topic": "one topic: the nearest to one of them",
    "set": "queries of another set",
    "documents": "documents",
    "random": "random vectors",
}


def load(folder: Path) -> dict[str, Half]:
    """All sets, and ImageNet with its other class texts."""
    sets = {found.title: Half.of(found) for found in real_sets(folder)}
    images, (gx, gy) = sets[IMAGENET].rows[0], sets[IMAGENET].groups
    held = load_file(folder / "published" / "imagenet-clip-b32.safetensors")
    texts = unit(held["class_text_other_wording"].astype(np.float32))
    return sets | {WORDING: Half((images, texts), (gx, gy))}


def halves(data: Half, asking: int, rng: np.random.Generator) -> tuple[Half, Half]:
    """Half of the groups and the others; where class texts are searched, all of them in both."""
    n, n_texts = (len(rows) for rows in data.rows)
    if asking == 1 or n_texts >= n:
        return data.parts(rng)
    first = np.isin(np.arange(n), rng.permutation(n)[::2])
    every = np.ones(n_texts, dtype=bool)
    return data.take([first, every]), data.take([~first, every])


def sources(
    sets: dict[str, Half], title: str, asking: int, other: Half, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Kinds of banks, each with all rows that there are."""
    rows = other.rows[asking]
    yield "proper", rows
    yield "documents", other.rows[1 - asking]
    yield "random", unit(rng.normal(size=(max(BANK_SIZES), rows.shape[1]))).astype(np.float32)
    if title == UNSPLASH:
        yield "set", sets[IMAGENET].rows[asking]
        if asking == 1:
            yield "set", sets[WORDING].rows[1]
    elif title in (IMAGENET, WORDING):
        yield "set", sets[UNSPLASH].rows[asking]
        if asking == 1:
            yield "wording", sets[WORDING if title == IMAGENET else IMAGENET].rows[1]


def banks(
    sets: dict[str, Half], title: str, asking: int, other: Half, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Banks of every size, drawn."""
    for kind, rows in sources(sets, title, asking, other, rng):
        for size in BANK_SIZES:
            if size <= len(rows):
                yield kind, rows[rng.permutation(len(rows))[:size]]
            if kind == "proper" and 2 * size <= len(rows):
                centre = rows[rng.integers(len(rows))]
                yield "topic", rows[np.argsort(-rows @ centre)[:size]]


def run(sets: dict[str, Half], splits: int) -> dict[tuple[str, int], list[tuple]]:
    """Shortfall, whether the rows were recognised, and the change of recall, of each bank."""
    found: dict[tuple[str, int], list[tuple]] = {}
    for title, whole in sets.items():
        for asking in (1, 0):
            for seed in range(splits):
                rng = np.random.default_rng(seed)
                data, other = halves(whole, asking, rng)
                correction = calibration(data, asking)
                rows = Modalities.of(*data.rows, correction.names, paired=False)
                before = recall(by_correction(correction), data, asking)
                for kind, bank in banks(sets, title, asking, other, rng):
                    hubs = by_correction(with_bank(correction, bank, 0.5, 10))
                    seen = recognise(correction, bank, correction.queries[0], "query")
                    found.setdefault((kind, len(bank)), []).append(
                        (
                            shortfall(correction, bank, rows),
                            seen.finding not in ("fits", "not judged"),
                            recall(hubs, data, asking) - before,
                        )
                    )
        print(title, flush=True)
    return found


def table(found: dict[tuple[str, int], list[tuple]]) -> str:
    """Shares of banks that are noticed, and their mean change of recall."""
    lines = [
        "| bank | rows | banks | shortfall, 5 to 95 % | shortfall above "
        f"{FOREIGN_BANK} | not recognised | either | recall@1 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for kind, words in KINDS.items():
        for size in BANK_SIZES:
            if (kind, size) not in found:
                continue
            short, seen, change = np.array(found[kind, size], dtype=float).T
            low, high = np.nanquantile(short, [0.05, 0.95])
            above = short > FOREIGN_BANK
            shares = (np.mean(above), np.mean(seen), np.mean(above | (seen > 0)))
            cells = " | ".join(f"{share:.1%}" for share in shares)
            lines.append(
                f"| {words} | {size} | {len(short)} | {low:+.2f} to {high:+.2f} | {cells} | "
                f"{np.mean(change):+.3f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=15)
    options = parser.parse_args()
    print(f"\n{table(run(load(options.folder), options.splits))}")


if __name__ == "__main__":
    main()
