"""What expected wrong results do: the figures of docs/evidence/expected-wrong.md.

    python benchmarks/expected_wrong.py DATA_FOLDER [EXPERIMENT …] [--save]

Half of the groups of a set are asked for and in the index; of the others come the bank and what
rivals are fitted on. The experiments: ``foreign`` documents in the index, sets ``alone``, wrong
results ``asked`` for and got, is there a ``match``, the ``bank``, the rule for ``hubs``, and what
``diagnose`` has ``recommended`` among foreign documents.
``--save`` keeps every split in results/; make_expected_wrong.py makes the tables.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from asked_and_got import run_asked, run_bank, run_match
from case import unit
from hub_rule import run_hubs
from list_rivals import RIVALS, Asked, Rival, best_columns, recommended
from mixups import real_sets
from modgap.evaluation import ndcg
from results import FOLDER, Record

COCO, VIDEO, UNSPLASH = "CLIP B/16, COCO", "VideoCLIP", "CLIP B/32, Unsplash"
IMAGENET, ESC50, DIGITS, FLICKR8K = "CLIP B/32, ImageNet", "CLAP, ESC-50", "digits", "Flickr8k"
# Other items and texts beside one: images to one text.
RATIOS = {"1:1": 0.5, "10:1": 10 / 11, "1:10": 1 / 11}
LEAST_LIST = 6
# Other documents of the index, images and texts.
BESIDE_IMAGENET = {
    "none": (0, 0), "500 images": (500, 0), "500 texts": (0, 500), "500 + 500": (500, 500)
}  # fmt: skip
BESIDE_UNSPLASH = {
    "none": (0, 0), "4,000 images": (4000, 0), "1,000 texts": (0, 1000),
    "4,000 + 1,000": (4000, 1000),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Rows:
    """Unit rows of two modalities with their groups; ``wordings`` are other texts of the groups."""

    rows: tuple[np.ndarray, np.ndarray]
    groups: tuple[np.ndarray, np.ndarray]
    wordings: tuple[np.ndarray, np.ndarray] | None = None

    def take(self, kept: np.ndarray) -> Rows:
        """The rows of some groups."""
        masks = [np.isin(g, kept) for g in self.groups]
        held = (tuple(one[m] for one, m in zip(part, masks, strict=True))
                for part in (self.rows, self.groups))  # fmt: skip
        other = self.wordings
        if other is not None:
            inside = np.isin(other[1], kept)
            other = other[0][inside], other[1][inside]
        return Rows(*held, other)

    def with_images(self, each: int, rng: np.random.Generator) -> Rows:
        """At most so many images of each group."""
        order = rng.permutation(len(self.groups[0]))
        kept = np.sort(order[number_within(self.groups[0][order]) < each])
        images, groups = self.rows[0][kept], self.groups[0][kept]
        return Rows((images, self.rows[1]), (groups, self.groups[1]), self.wordings)

    def halves(self, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """What is learned on, and what is asked for."""
        order = rng.permutation(np.unique(self.groups[0]))
        return self.take(order[: len(order) // 2]), self.take(order[len(order) // 2 :])


def load(folder: Path) -> dict[str, Rows]:
    """All sets; of several texts of a group the first is a document and the second asks."""
    found = {}
    for one in real_sets(folder):
        X, Y = (unit(side.astype(np.float32)) for side in one.rows())
        gx, gy = one.data.groups
        wordings = None
        if one.title in (DIGITS, FLICKR8K):
            place = number_within(gy)
            wordings = Y[place == 1], gy[place == 1]
            Y, gy = Y[place == 0], gy[place == 0]
        if one.title == IMAGENET:
            held = load_file(folder / "published" / "imagenet-clip-b32.safetensors")
            wordings = unit(held["class_text_other_wording"].astype(np.float32)), gy
        found[one.title] = Rows((X, Y), (gx, gy), wordings)
    return found


def number_within(groups: np.ndarray) -> np.ndarray:
    """0 for the first row of its group, 1 for the second, …"""
    order = np.argsort(groups, kind="stable")
    _, sizes = np.unique(groups, return_counts=True)
    number = np.empty(len(groups), dtype=int)
    number[order] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return number


NONE: tuple[None, None] = (None, None)


def asked_of(
    fit: Rows, index: Rows, kept: tuple[np.ndarray, np.ndarray], queries: np.ndarray,
    groups: np.ndarray, bank: tuple[np.ndarray, np.ndarray], kind: str, foreign: tuple = NONE,
) -> Asked:  # fmt: skip
    """Queries of an index of these documents, with others that nobody asks for."""
    lists, owners = {}, {}
    for place, name in enumerate(("image", "text")):
        rows, own = index.rows[place][kept[place]], index.groups[place][kept[place]]
        if foreign[place] is not None:
            rows = np.vstack([rows, foreign[place]])
            own = np.concatenate([own, np.full(len(foreign[place]), -1)])
        lists[name], owners[name] = rows, own
    fitted, of_fit = (dict(zip(lists, part, strict=True)) for part in (fit.rows, fit.groups))
    return Asked(queries, groups, lists, owners, fitted, of_fit, *bank, kind)


def of_one_kind(
    data: Rows, asking: int, share: float, rng: np.random.Generator, foreign: tuple = NONE
) -> Asked:
    """Every item is there as image or as text, and asked for in the other modality."""
    fit, index = data.halves(rng)
    order = rng.permutation(np.unique(index.groups[0]))
    as_image = order[: round(share * len(order))]
    kept = np.isin(index.groups[0], as_image), ~np.isin(index.groups[1], as_image)
    asks = ~kept[asking]
    return asked_of(
        fit, index, kept, index.rows[asking][asks], index.groups[asking][asks],
        (fit.rows[asking], fit.groups[asking]), ("image", "text")[asking], foreign,
    )  # fmt: skip


def of_both_kinds(
    data: Rows, share: float, rng: np.random.Generator, foreign: tuple = NONE
) -> Asked:
    """Another wording asks for image and text; at 10:1 a tenth of the texts is there."""
    fit, index = data.halves(rng)
    assert fit.wordings is not None
    assert index.wordings is not None
    kept = []
    for place, most in ((0, share >= 0.5), (1, share <= 0.5)):
        groups = rng.permutation(np.unique(index.groups[place]))
        some = groups if most else groups[: max(len(groups) // 10, LEAST_LIST)]
        kept.append(np.isin(index.groups[place], some))
    queries, groups = index.wordings
    found = np.isin(groups, np.concatenate([g[k] for g, k in zip(index.groups, kept, strict=True)]))
    return asked_of(fit, index, tuple(kept), queries[found], groups[found], fit.wordings, "text",
                    foreign)  # fmt: skip


def scored(
    asked: Asked, rng: np.random.Generator, rivals: dict[str, Rival] = RIVALS
) -> dict[str, list[float]]:
    """NDCG@10 and own-modality excess of each rival; equal scores come by chance."""
    groups = np.concatenate(list(asked.list_groups.values()))
    kinds = np.repeat(list(asked.lists), [len(rows) for rows in asked.lists.values()])
    counts = np.array([np.sum(groups == g) for g in asked.groups])
    own = kinds == asked.kind
    shuffled, found = rng.permutation(len(groups)), {}
    for name, rival in rivals.items():
        scores = np.hstack(rival(asked))[:, shuffled]
        best = shuffled[best_columns(scores, 10)]
        right = groups[best] == asked.groups[:, None]
        wrong = ~right
        excess = own[best][wrong].mean() - own.mean() if wrong.any() else np.nan
        found[name] = [float(np.mean(ndcg(right, counts))), float(excess)]
    return found


def foreign_rows(sets: dict[str, Rows], title: str, amount: tuple, rng) -> tuple:
    """So many images and texts of another set of the same model."""
    other = sets[title].rows
    return tuple(
        None if not n else rows[rng.permutation(len(rows))[:n]]
        for rows, n in zip(other, amount, strict=True)
    )


def run_foreign(sets: dict[str, Rows], splits: int) -> Iterator[tuple[str, dict]]:
    """Indexes as they are: documents of another set beside those that are asked for."""

    def both(seed: int, images_each: int, amount: tuple) -> dict:
        rng = np.random.default_rng(seed)
        data = sets[IMAGENET].with_images(images_each, rng)
        return scored(of_both_kinds(data, 0.5, rng, foreign_rows(sets, UNSPLASH, amount, rng)), rng)

    def one(seed: int, asking: int, amount: tuple) -> dict:
        rng = np.random.default_rng(seed)
        others = foreign_rows(sets, IMAGENET, amount, rng)
        return scored(of_one_kind(sets[UNSPLASH], asking, 0.5, rng, others), rng)

    for each in (1, 4):
        for label, amount in BESIDE_IMAGENET.items():
            runs = [both(seed, each, amount) for seed in range(splits)]
            yield f"both kinds, {each} an item: {label}", by_rival(runs)
    for asking, who in ((1, "text"), (0, "image")):
        for label, amount in BESIDE_UNSPLASH.items():
            runs = [one(seed, asking, amount) for seed in range(splits)]
            yield f"one kind, {who} queries: {label}", by_rival(runs)


def run_recommended(sets: dict[str, Rows], splits: int) -> Iterator[tuple[str, dict]]:
    """What ``diagnose`` recommends, given the other documents; the draws of ``foreign``."""
    for each in (1, 4):
        for label, amount in BESIDE_IMAGENET.items():
            runs, methods = [], []
            for seed in range(splits):
                rng = np.random.default_rng(seed)
                data = sets[IMAGENET].with_images(each, rng)
                others = foreign_rows(sets, UNSPLASH, amount, rng)
                asked = of_both_kinds(data, 0.5, rng, others)
                method, scores = recommended(asked)
                runs.append(scored(asked, rng, {"recommended": lambda _, held=scores: held}))
                methods.append(method)
            yield f"both kinds, {each} an item: {label}", {**by_rival(runs), "methods": methods}


def run_alone(sets: dict[str, Rows], splits: int) -> Iterator[tuple[str, dict]]:
    """The sets at hand without foreign documents, at three ratios of images to texts."""

    def drawn(data: Rows, kind: str, share: float, seed: int) -> dict | None:
        rng = np.random.default_rng(seed)
        if kind == "both kinds":
            asked = of_both_kinds(data, share, rng)
        else:
            asked = of_one_kind(data, int(kind == "text"), share, rng)
        short = min(map(len, asked.lists.values())) < LEAST_LIST
        return None if short else scored(asked, rng)

    for ratio, share in RATIOS.items():
        for title, data in sets.items():
            kinds = ("text", "image", "both kinds")[: 2 if data.wordings is None else 3]
            for kind in kinds:
                runs = [drawn(data, kind, share, seed) for seed in range(splits)]
                if runs := [run for run in runs if run is not None]:
                    yield f"{ratio}, {title}, {kind}", by_rival(runs)


def run_hub_rule(sets: dict[str, Rows], splits: int) -> Iterator[tuple[str, dict]]:
    """The rule for hubs, with and without other documents."""
    beside = [(UNSPLASH, IMAGENET, (4000, 0)), (UNSPLASH, IMAGENET, (4000, 1000)),
              (IMAGENET, UNSPLASH, (500, 0)), (IMAGENET, UNSPLASH, (500, 500))]  # fmt: skip
    yield from run_hubs(sets, splits, foreign_rows, of_one_kind, beside)


def by_rival(runs: list[dict]) -> dict:
    """NDCG@10 and excess of each split, (splits, 2), by rival."""
    return {name: [run[name] for run in runs] for name in runs[0]}


EXPERIMENTS = {
    "foreign": (run_foreign, 10),
    "recommended": (run_recommended, 10),
    "alone": (run_alone, 5),
    "asked": (partial(run_asked, imagenet=IMAGENET, unsplash=UNSPLASH), 5),
    "match": (partial(run_match, imagenet=IMAGENET, unsplash=UNSPLASH), 5),
    "hubs": (run_hub_rule, 8),
    "bank": (partial(run_bank, imagenet=IMAGENET, unsplash=UNSPLASH), 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("experiments", nargs="*", default=list(EXPERIMENTS))
    parser.add_argument("--splits", type=int, help="5 or 10 by default")
    parser.add_argument("--save", action="store_true", help="keep the figures in results/")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = load(options.folder)
    for name in options.experiments:
        found = {}
        run, splits = EXPERIMENTS[name]
        for label, figures in run(sets, options.splits or splits):
            found[label] = figures
            means = {
                k: np.round(np.nanmean(np.atleast_1d(v), axis=0), 3).tolist()
                for k, v in figures.items()
                if k != "methods"
            }
            print(label, means, flush=True)
        if options.save:
            command = f"python benchmarks/expected_wrong.py DATA_FOLDER {name} --save"
            record = Record(command).contents
            rows = {label: rounded(figures) for label, figures in found.items()}
            write(FOLDER / f"expected-wrong-{name}.json", {**record, "rows": rows})


def write(file: Path, record: dict) -> None:
    """A line a row."""
    said = [json.dumps(key) + ": " + json.dumps(record[key]) for key in record if key != "rows"]
    rows = (f"  {json.dumps(label)}: {json.dumps(one)}" for label, one in record["rows"].items())
    text = ",\n ".join([*said, '"rows": {\n' + ",\n".join(rows) + "\n }"])
    file.write_text("{\n " + text + "\n}\n", encoding="utf-8")


def rounded(value):
    """Five decimals are enough for a table."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list) and isinstance(value[0], str):
        return value
    return np.round(value, 5).tolist()


if __name__ == "__main__":
    main()
