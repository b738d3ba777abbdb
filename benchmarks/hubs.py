"""Hubs against raw and what others do, searching one modality; the first table of hubs.md.

    python benchmarks/hubs.py DATA_FOLDER [--splits 20] [--only Unsplash] [--write]

DATA_FOLDER holds ``liang2022`` and ``published``; sets that are absent are left out. Half of the
groups are the bank and what is fitted, the others are documents and queries; each side asks. No
document or query of the second half has a row in the bank.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from case import unit
from hub_baselines import cosine, dbsn, nnn, qb_norm
from mixed import write_into
from mixups import Set, real_sets
from modgap.corrections import Calibrate, Correction, Hubs
from modgap.corrections.hubs import MAX_BANK, MIN_BANK, NEIGHBOURS, WEIGHTS

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "hubs.md"
BANK_SIZES = (20, 50, 100, 250)
REAL = ("CLIP B/16, COCO", "CLIP B/32, Unsplash", "CLIP B/32, ImageNet", "Flickr8k")


@dataclass(frozen=True, eq=False)
class Half:
    """Unit rows of two modalities and their groups."""

    rows: tuple[np.ndarray, np.ndarray]
    groups: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, found: Set) -> Half:
        sides = (unit(rows.astype(np.float32)) for rows in found.rows())
        return cls(tuple(sides), found.data.groups)

    def parts(self, rng: np.random.Generator, share: float = 0.5) -> tuple[Half, Half]:
        """Two sets of groups, drawn."""
        order = rng.permutation(np.unique(np.concatenate(self.groups)))
        kept = order[: round(share * len(order))]
        inside = [np.isin(g, kept) for g in self.groups]
        return self.take(inside), self.take([~one for one in inside])

    def take(self, masks) -> Half:
        return Half(
            tuple(r[m] for r, m in zip(self.rows, masks, strict=True)),
            tuple(g[m] for g, m in zip(self.groups, masks, strict=True)),
        )

    def bank(self, asking: int) -> np.ndarray:
        rows = self.rows[asking]
        return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_BANK)).round()
                              .astype(int))]  # fmt: skip


# Scores of queries of the asking side on documents, of one side or of both.
Score = Callable[[np.ndarray, tuple[np.ndarray, ...], tuple[int, ...]], np.ndarray]
Fit = Callable[[Half, int, np.random.Generator], Score]


def calibration(fit: Half, asking: int) -> Correction:
    """Calibrated for the queries of one side."""
    names = ("first", "second")
    return Calibrate().fit(*fit.rows, names=names, queries=names[asking]).correction_


def with_bank(correction: Correction, bank: np.ndarray, weight: float, k: int) -> Correction:
    """Hubs by any bank: ``fit`` refuses some that are measured here."""
    mapped = correction.affine(correction.queries[0], "query")(bank)
    return replace(correction, hubs=Hubs(weight, min(k, len(bank) // 2), mapped))


def by_correction(correction: Correction) -> Score:
    """The inner products of corrected rows."""

    def score(queries, documents, sides):
        stored = [
            correction.apply(rows, correction.names[side])
            for rows, side in zip(documents, sides, strict=True)
        ]
        return correction.apply(queries, correction.queries[0], "query") @ np.vstack(stored).T

    return score


def by_rows(fit: Half, asking: int, method) -> Score:
    """A baseline: it sees cosines, a bank, and the bank's documents of the sides searched."""

    def score(queries, documents, sides):
        matching = np.vstack([fit.rows[side] for side in sides])
        return method(queries, np.vstack(documents), fit.bank(asking), matching)

    return score


def baseline(method) -> Fit:
    return lambda fit, asking, rng: by_rows(fit, asking, method)


def chosen(make: Callable[[Half, int, float, int], Score]) -> Fit:
    """α and k of the highest recall@1 on a third of the first half, with the others as bank."""

    def fitted(fit: Half, asking: int, rng: np.random.Generator) -> Score:
        bank, choose = fit.parts(rng, 2 / 3)
        if len(bank.bank(asking)) < MIN_BANK:
            return make(fit, asking, 0.5, 10)
        grid = [(w, k) for k in NEIGHBOURS for w in WEIGHTS if 2 * k <= len(bank.bank(asking))]
        found = [recall(make(bank, asking, *one), choose, asking) for one in grid]
        return make(fit, asking, *grid[int(np.argmax(found))])

    return fitted


def nnn_of(fit: Half, asking: int, weight: float, k: int) -> Score:
    return by_rows(fit, asking, partial(nnn, weight=weight, k=k))


METHODS: dict[str, Fit] = {
    "raw": baseline(cosine),
    "QB-Norm": baseline(qb_norm),
    "NNN, chosen": chosen(nnn_of),
    "DBSN": baseline(dbsn),
    "hubs, α = ¼": baseline(partial(nnn, weight=0.25)),
    "hubs, α = ½ (CSLS)": baseline(partial(nnn, weight=0.5)),  # CSLS ranks alike
}


def recall(score: Score, data: Half, asking: int) -> float:
    """Recall@1 of the asking side among the documents of the other."""
    other = 1 - asking
    best = score(data.rows[asking], (data.rows[other],), (other,)).argmax(axis=1)
    return float(np.mean(data.groups[other][best] == data.groups[asking]))


def one_split(data: Half, seed: int) -> np.ndarray:
    """Recall@1 of each method and asking side."""
    rng = np.random.default_rng(seed)
    fit, rest = data.parts(rng)
    found = [
        [recall(make(fit, asking, np.random.default_rng(seed)), rest, asking) for asking in (1, 0)]
        for make in METHODS.values()
    ]
    return np.array(found)


def interval(values: np.ndarray) -> str:
    """Mean and 95 % interval over splits that share rows (Nadeau and Bengio 2003).

    Half of the groups are fitted on and half measured, which gives 1/J + 1.
    """
    values = values[np.isfinite(values)]  # where no result is wrong, there is no excess
    n = len(values)
    width = student.ppf(0.975, n - 1) * np.std(values, ddof=1) * np.sqrt(1 / n + 1)
    return (
        f"{np.mean(values):+.3f} [{np.mean(values) - width:+.3f}, {np.mean(values) + width:+.3f}]"
    )


def table(runs: dict[str, np.ndarray]) -> str:
    """Mean recall@1, queries of the second and of the first modality."""
    lines = [f"| {' | '.join(['', *METHODS])} |", "|---|" + "--:|" * len(METHODS)]
    means = {title: np.mean(found, axis=0) for title, found in runs.items()}
    lines += [_line(title, found) for title, found in means.items()]
    real = [found for title, found in means.items() if title in REAL]
    if len(real) > 1:
        lines.append(_line(f"mean of the {len(real)} image–text sets", np.mean(real, axis=0)))
    return "\n".join(lines)


def _line(title: str, values: np.ndarray) -> str:
    cells = (f"{a:.3f}/{b:.3f}".replace("0.", ".") for a, b in values)
    return f"| {title} | {' | '.join(cells)} |"


def run(folder: Path, splits: int, only: str) -> dict[str, np.ndarray]:
    """Every split of every set."""
    runs = {}
    for found in real_sets(folder):
        if only in found.title:
            data = Half.of(found)
            runs[found.title] = np.array([one_split(data, seed) for seed in range(splits)])
            print(found.title, flush=True)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", default="", help="sets whose title has these words")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    content = table(run(options.folder, options.splits, options.only))
    print(f"\n{content}")
    if options.write:
        write_into(PAGE, "recall", content)


if __name__ == "__main__":
    main()
