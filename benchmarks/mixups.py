"""How often mix-ups are noticed, and how often honest rows raise an alarm: the tables of
docs/evidence/mix-ups.md.

    python benchmarks/mixups.py DATA_FOLDER

The folder holds ``liang2022`` and ``published``; sets that are absent are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mixed import FLICKR8K
from modgap import load_digits
from modgap.corrections import Calibrate, Correction
from modgap.corrections.recognition import recognise
from modgap.io import Modalities, open_pair
from modgap.measures.pairing import pairing_signal, signal_of_rows

SMALLEST, LARGEST = 20, 500
# Drawn once for each width and reused, as are splits: they take longer than what is measured.
ROTATIONS = 50
RUNS_PER_SPLIT = 5


@dataclass(frozen=True)
class Set:
    """A real set of two modalities; ``model`` made it."""

    title: str
    model: str
    data: Modalities

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.data.X), np.asarray(self.data.Y)


def real_sets(folder: Path) -> Iterator[Set]:
    """The sets that are there."""
    for title, name in (("CLIP B/16, COCO", "clip"), ("VideoCLIP", "videoclip")):
        path = folder / "liang2022" / f"features_{name}.npy"
        if path.exists():
            yield Set(title, name, open_pair(path))
    path = folder / "published" / "unsplash-clip-b32.safetensors"
    if path.exists():
        yield Set("CLIP B/32, Unsplash", "b32", open_pair(path))
    path = folder / "published" / "imagenet-clip-b32.safetensors"
    if path.exists():
        held = load_file(path)
        groups = (held["labels"], np.arange(1000))
        yield Set(
            "CLIP B/32, ImageNet",
            "b32",
            Modalities.of(held["image"], held["class_text"], groups=groups),
        )
    path = folder / "published" / "esc50-clap.safetensors"
    if path.exists():
        held = load_file(path)
        groups = (held["labels"], np.arange(50))
        data = Modalities.of(held["audio"], held["class_text"], ("audio", "text"), groups=groups)
        yield Set("CLAP, ESC-50", "clap", data)
    digits = load_digits()
    yield Set("digits", "digits", Modalities.of(digits.X, digits.Y, groups=digits.groups))
    if FLICKR8K.exists():
        pair = open_pair(FLICKR8K)
        X, Y = (rows.astype(np.float32) for rows in (pair.X, pair.Y))
        yield Set("Flickr8k", "flickr8k", Modalities.of(X, Y, groups=pair.groups))


@cache
def rotations(dim: int) -> list[np.ndarray]:
    """Random rotations: other models that saw the same."""
    rng, drawn = np.random.default_rng(dim), []
    for _ in range(ROTATIONS):
        Q, R = np.linalg.qr(rng.normal(size=(dim, dim)))
        drawn.append(Q * np.sign(np.diagonal(R)))
    return drawn


def rotation(rng: np.random.Generator, dim: int) -> np.ndarray:
    return rotations(dim)[rng.integers(ROTATIONS)]


def subset(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """A random batch."""
    most = min(LARGEST, len(rows))
    n = int(rng.integers(min(SMALLEST, most), most + 1))
    return rows[rng.choice(len(rows), n, replace=False)]


def topic(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """The rows nearest to one of them."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    n = int(rng.integers(SMALLEST, max(SMALLEST, min(100, len(rows) // 5)) + 1))
    return rows[np.argsort(-(unit @ unit[rng.integers(len(rows))]))[:n]]


def halves(rng: np.random.Generator, data: Modalities) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows of each side to fit on, and the others; no group is in both."""
    groups = rng.permutation(data.matched_groups)
    first = groups[: len(groups) // 2]
    inside = [np.isin(codes, first) for codes in data.groups]
    sides = [np.asarray(data.X), np.asarray(data.Y)]
    fit = [rows[held] for rows, held in zip(sides, inside, strict=True)]
    return fit, [rows[~held] for rows, held in zip(sides, inside, strict=True)]


def fitted(fit: list[np.ndarray], names: tuple[str, ...]) -> Correction:
    return Calibrate().fit(fit[0], fit[1], names=names, queries="text").correction_


class Rates:
    """How often each thing was refused, and how often it was at least warned of."""

    def __init__(self) -> None:
        self.counts: dict[str, list[tuple[bool, bool]]] = {}

    def add(self, what: str, refused: bool, warned: bool) -> None:
        self.counts.setdefault(what, []).append((refused, refused or warned))

    def cell(self, what: str) -> str:
        if what not in self.counts:
            return "–"
        refused, said = np.mean(self.counts[what], axis=0)
        if refused == said:
            return f"{100 * refused:.1f} %"
        return f"{100 * refused:.1f} % ({100 * said:.1f} %)"


def run_rows(sets: list[Set], runs: int, seed: int, only: str | None = None) -> dict[str, Rates]:
    """Batches of the half that a correction was not fitted on, and of elsewhere."""
    tables = {}
    for one in (one for one in sets if only in (None, one.title)):
        rng = np.random.default_rng(seed)
        rates, names = Rates(), one.data.names
        same = [s for s in sets if s.model == one.model and s is not one]
        others = [s for s in sets if s.model != one.model and s.data.dim == one.data.dim]
        for run in range(runs):
            if run % RUNS_PER_SPLIT == 0:
                fit, rest = halves(rng, one.data)
                correction = fitted(fit, names)
            turn = rotation(rng, one.data.dim)
            for side, name in enumerate(names):
                own, other = rest[side], rest[1 - side]

                def look(what: str, rows: np.ndarray, name: str = name) -> None:
                    found = recognise(correction, rows, name)  # noqa: B023
                    warned = found.finding not in ("fits", "not judged")
                    rates.add(what, found.refused, warned)  # noqa: B023

                if len(own) < SMALLEST or len(other) < SMALLEST:
                    continue
                look("random batch", subset(rng, own))
                look("one topic", topic(rng, own))
                look("swapped", subset(rng, other))
                look("rotated", subset(rng, own) @ turn)
                if same:
                    look("other data", subset(rng, same[rng.integers(len(same))].rows()[side]))
                if others:
                    rows = others[rng.integers(len(others))].rows()[rng.integers(2)]
                    look("other model", subset(rng, rows))
        tables[one.title] = rates
    return tables


def run_pairs(sets: list[Set], runs: int, seed: int, only: str | None = None) -> dict[str, Rates]:
    """Random subsets of pairs as they are, shuffled, and with one side of another encoder."""
    tables = {}
    for one in (one for one in sets if only in (None, one.title)):
        rng, rates = np.random.default_rng(seed), Rates()
        X, Y = one.rows()
        members = [
            {int(g): np.flatnonzero(codes == g) for g in one.data.matched_groups}
            for codes in one.data.groups
        ]

        def look(what: str, X: np.ndarray, Y: np.ndarray) -> None:
            alarm = signal_of_rows(X, Y).looks_paired is False
            rates.add(what, alarm, alarm)  # noqa: B023

        for _ in range(runs):
            chosen = subset(rng, one.data.matched_groups)
            picks = [np.array([rng.choice(held[int(g)]) for g in chosen]) for held in members]
            x, y = X[picks[0]], Y[picks[1]]
            look("honest pairs", x, y)
            if len(x) >= 30:
                look("shuffled", x, rng.permutation(y))
                look("text-only", x, y @ rotation(rng, x.shape[1]))
        whole = pairing_signal(one.data)
        assert whole is not None
        assert whole.looks_paired
        tables[one.title] = rates
    return tables


def show(title: str, tables: dict[str, Rates], heads: dict[str, str]) -> None:
    print(f"\n{title}\n")
    print(f"| set | {' | '.join(heads.values())} |")
    print("|---|" + "---:|" * len(heads))
    for name, rates in tables.items():
        print(f"| {name} | {' | '.join(rates.cell(what) for what in heads)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="SET", help="one set, by the title of its line")
    args = parser.parse_args()
    sets = list(real_sets(args.folder))
    show(
        "Pairs: how often they are said to look unpaired",
        run_pairs(sets, args.runs, args.seed, args.only),
        {"honest pairs": "honest", "shuffled": "shuffled", "text-only": "another text encoder"},
    )
    show(
        "Rows: how often they are refused (and how often refused or warned of)",
        run_rows(sets, args.runs, args.seed, args.only),
        {
            "random batch": "honest, at random",
            "one topic": "honest, one topic",
            "other data": "same model, other data",
            "swapped": "swapped",
            "other model": "another model",
            "rotated": "rotated",
        },
    )


if __name__ == "__main__":
    main()
