"""Hubs against raw, calibrated and what others do; the tables of docs/hubs.md.

    python benchmarks/hubs.py DATA_FOLDER [--splits 20] [--only Unsplash] [--write]

DATA_FOLDER holds ``liang2022`` and ``published``; sets that are absent are left out. Half of the
groups are the bank and what is fitted, the others are documents and queries; each side asks. No
document or query of the second half has a row in the bank.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.stats import t as student

from hub_baselines import cosine, csls, dbsn, nnn, qb_norm
from mixed import unit, write_into
from mixups import Set, real_sets
from modgap.corrections import Calibrate, Correction, Hubs
from modgap.corrections.hubs import MAX_BANK, MIN_BANK, NEIGHBOURS, WEIGHTS
from modgap.evaluation import ndcg

PAGE = Path(__file__).parents[1] / "docs" / "hubs.md"
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


def calibrated(fit: Half, asking: int, rng) -> Score:
    return by_correction(calibration(fit, asking))


def hubs_of(fit: Half, asking: int, weight: float, k: int) -> Score:
    correction = calibration(fit, asking)
    return by_correction(with_bank(correction, fit.bank(asking), weight, k))


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
    "CSLS": baseline(csls),
    "NNN, chosen": chosen(nnn_of),
    "DBSN": baseline(dbsn),
    "calibrated": calibrated,
    "with hubs, k = 10, α = ½": lambda fit, asking, rng: hubs_of(fit, asking, 0.5, 10),
    "with hubs, chosen": chosen(hubs_of),
}  # fmt: skip


def recall(score: Score, data: Half, asking: int) -> float:
    """Recall@1 of the asking side among the documents of the other."""
    other = 1 - asking
    best = score(data.rows[asking], (data.rows[other],), (other,)).argmax(axis=1)
    return float(np.mean(data.groups[other][best] == data.groups[asking]))


def mixed(score: Score, data: Half, asking: int, homes: np.ndarray) -> tuple[float, float]:
    """NDCG@10 and own-modality excess@10: half of the items are there as the first modality.

    Then the other half, so that every item is asked for in the modality that does not ask.
    """
    gains, own, wrong = [], 0.0, 0.0
    for first in (homes, np.setdiff1d(np.unique(data.groups[0]), homes)):
        as_first = [np.isin(g, first) for g in data.groups]
        held = (as_first[0], ~as_first[1])
        documents = tuple(r[m] for r, m in zip(data.rows, held, strict=True))
        groups = np.concatenate([g[m] for g, m in zip(data.groups, held, strict=True)])
        kinds = np.repeat([0, 1], [len(d) for d in documents])
        asks = ~as_first[0] if asking == 0 else as_first[1]
        g = data.groups[asking][asks]
        scores = score(data.rows[asking][asks], documents, (0, 1))
        best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        relevant = groups[best] == g[:, None]
        counts = np.bincount(groups, minlength=groups.max() + 1)
        gains.append(ndcg(relevant, counts[g]))
        own += np.sum(~relevant & (kinds[best] == asking)) - np.sum(~relevant) * np.mean(
            kinds == asking
        )
        wrong += np.sum(~relevant)
    excess = own / wrong if wrong else float("nan")
    return float(np.mean(np.concatenate(gains))), excess


def one_split(data: Half, seed: int) -> np.ndarray:
    """For each method and asking side: recall@1, NDCG@10 and excess."""
    rng = np.random.default_rng(seed)
    fit, rest = data.parts(rng)
    homes = rng.permutation(np.unique(rest.groups[0]))
    homes = homes[: len(homes) // 2]
    found = []
    for make in METHODS.values():
        for asking in (1, 0):
            score = make(fit, asking, np.random.default_rng(seed))
            found.append([recall(score, rest, asking), *mixed(score, rest, asking, homes)])
    return np.array(found).reshape(len(METHODS), 2, 3)


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


def methods_table(runs: dict[str, np.ndarray], column: int) -> str:
    """Means of one metric, queries of the second and of the first modality."""
    lines = [f"| {' | '.join(['', *METHODS])} |", "|---|" + "--:|" * len(METHODS)]
    lines += [
        _line(title, np.nanmean(found, axis=0)[:, :, column]) for title, found in runs.items()
    ]
    real = [
        np.nanmean(found, axis=0)[:, :, column] for title, found in runs.items() if title in REAL
    ]
    if len(real) > 1:
        lines.append(_line(f"mean of the {len(real)} image–text sets", np.mean(real, axis=0)))
    return "\n".join(lines)


def _line(title: str, values: np.ndarray) -> str:
    cells = (f"{a:.3f} / {b:.3f}".replace("0.", ".") for a, b in values)
    return f"| {title} | {' | '.join(cells)} |"


def changes_table(runs: dict[str, np.ndarray]) -> str:
    """With hubs (k = 10, α = ½) less raw, and for the mixed index less calibrated."""
    place = {name: i for i, name in enumerate(METHODS)}
    hub, raw, plain = place["with hubs, k = 10, α = ½"], place["raw"], place["calibrated"]
    lines = [
        "| | who asks | recall@1, less raw | NDCG@10, less raw | NDCG@10, less calibrated | "
        "distance of the excess from 0, less calibrated |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for title, found in runs.items():
        values = found.copy()
        values[:, :, :, 2] = np.abs(values[:, :, :, 2])
        for side, who in enumerate(("text", "the other")):
            pairs = ((raw, 0), (raw, 1), (plain, 1), (plain, 2))
            cells = [
                interval(values[:, hub, side, column] - values[:, other, side, column])
                for other, column in pairs
            ]
            lines.append(f"| {title} | {who} | {' | '.join(cells)} |")
    return "\n".join(lines)


def banks_table(sets: dict[str, Half], other_wording: np.ndarray, splits: int) -> str:
    """Recall@1 on Unsplash by the size of the bank, and with banks of another kind."""
    data, others = sets["CLIP B/32, Unsplash"], sets["CLIP B/32, ImageNet"]
    foreign = {
        "class names of ImageNet": {1: others.rows[1]},
        "class names, other wording": {1: other_wording},
        "images of ImageNet": {0: others.rows[0]},
    }
    found: dict[str, list[list[float]]] = {}
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        fit, rest = data.parts(rng)
        for asking in (1, 0):
            correction = calibration(fit, asking)
            drawn = fit.rows[asking][rng.permutation(len(fit.rows[asking]))]
            rows = {f"{n} rows of the same kind": drawn[:n] for n in BANK_SIZES}
            rows |= {name: bank[asking] for name, bank in foreign.items() if asking in bank}
            rows["the documents themselves"] = rest.rows[1 - asking]
            rows["random vectors"] = unit(rng.normal(size=fit.rows[0].shape)).astype(np.float32)
            scores = {"no hubs": by_correction(correction)}
            for name, bank in rows.items():
                some = bank[rng.permutation(len(bank))[: max(BANK_SIZES)]]
                scores[name] = by_correction(with_bank(correction, some, 0.5, 10))
            for name, score in scores.items():
                found.setdefault(name, [[], []])[1 - asking].append(recall(score, rest, asking))
    lines = ["| bank | text → image | change | image → text | change |", "|---|--:|--:|--:|--:|"]
    for name, both in found.items():
        cells = []
        for values, plain in zip(both, found["no hubs"], strict=True):
            change = interval(np.subtract(values, plain)) if values and name != "no hubs" else "–"
            cells += [f"{np.mean(values):.3f}" if values else "–", change]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(folder: Path, splits: int, only: str) -> Iterator[tuple[str, str]]:
    sets = {found.title: Half.of(found) for found in real_sets(folder)}
    runs = {}
    for title, data in sets.items():
        if only in title:
            runs[title] = np.array([one_split(data, seed) for seed in range(splits)])
            print(title, flush=True)
    yield "recall", methods_table(runs, 0)
    yield "mixed", methods_table(runs, 1)
    yield "excess", methods_table(runs, 2)
    yield "changes", changes_table(runs)
    path = folder / "published" / "imagenet-clip-b32.safetensors"
    if path.exists() and only in "CLIP B/32, Unsplash":
        other = unit(load_file(path)["class_text_other_wording"].astype(np.float32))
        yield "banks", banks_table(sets, other, splits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", default="", help="sets whose title has these words")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    for name, content in tables(options.folder, options.splits, options.only):
        print(f"\n{name}\n\n{content}", flush=True)
        if options.write:
            write_into(PAGE, name, content)


if __name__ == "__main__":
    main()
