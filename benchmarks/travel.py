"""Do corrections travel? Fitted on one set of rows of a model, how well do they serve another?

    python benchmarks/travel.py DATA_FOLDER [--save]

Makes the tables of docs/evidence/travel.md. ``Calibrate()`` is fitted on rows of another topic of
the same set, on rows with another kind of text, or on a few rows of its own, and judged beside a
fit on the other half of the set that is searched. Half of a set is in the index: each item as image
or as text, asked for in the other modality; or, where it has texts in other words, as both. The two
topics are halves by the k-means clusters of the images, drawn anew for each split.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from expected_wrong import (
    COCO,
    IMAGENET,
    UNSPLASH,
    Rows,
    by_rival,
    foreign_rows,
    load,
    of_both_kinds,
    of_one_kind,
    rounded,
    scored,
    write,
)  # fmt: skip
from hubs import interval
from list_rivals import RIVALS, Asked, Rival, Scores, corrected, fixed_scores
from mixed import write_into
from modgap.corrections import Calibrate
from modgap.io import Modalities
from results import FOLDER, Record
from results import load as load_record

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "travel.md"
FEW = (2, 3, 5, 10, 20)  # items fitted on
SPLITS = 10
# What is fitted on, what is searched, and the other documents of the index.
ACROSS = (
    (UNSPLASH, IMAGENET, UNSPLASH, (500, 500)),
    (IMAGENET, UNSPLASH, IMAGENET, (4000, 1000)),
)
KINDS_OF_TEXT = {UNSPLASH: "captions", COCO: "captions", IMAGENET: "class names"}


def topics(data: Rows, seed: int) -> tuple[Rows, Rows]:
    """The groups of a set in two halves, by which of two clusters their images are nearer to."""
    groups, first = np.unique(data.groups[0], return_index=True)
    distances = KMeans(2, n_init=1, random_state=seed).fit_transform(data.rows[0][first])
    nearer = distances[:, 0] - distances[:, 1]
    first_half = nearer < np.median(nearer)
    both = [data.take(groups[half]) for half in (first_half, ~first_half)]
    return tuple(both if seed % 2 else both[::-1])


def travelled(fitted: Rows) -> Rival:
    """``Calibrate()`` of other rows than those that are searched."""

    def scores(asked: Asked) -> Scores:
        rows = dict(zip(("image", "text"), fitted.rows, strict=True))
        asking = fitted.wordings if asked.kind == "text" and fitted.wordings else None
        queries = rows[asked.kind] if asking is None else asking[0]
        data = Modalities.of(rows, paired=False)
        fit = Calibrate().fit(data, queries=asked.kind, query_rows={asked.kind: queries})
        return fixed_scores(asked, fit.correction_)

    return scores


def few(n: int) -> Rival:
    """``Calibrate()`` of the first rows of the half that is not searched, n of each modality."""

    def scores(asked: Asked) -> Scores:
        data = Modalities.of({name: rows[:n] for name, rows in asked.fit.items()}, paired=False)
        asking = {asked.kind: asked.bank[:n]}
        fit = Calibrate().fit(data, queries=asked.kind, query_rows=asking)
        return fixed_scores(asked, fit.correction_)

    return scores


def cases(sets: dict[str, Rows]) -> Iterator[tuple[str, list[dict]]]:
    """Each case with what every way got in each split."""

    def judged(fitted: Rows, data: Rows, kind: str, rng, others=(None, None)) -> dict:
        if kind == "both kinds":
            asked = of_both_kinds(data, 0.5, rng, others)
        else:
            asked = of_one_kind(data, int(kind == "text queries"), 0.5, rng, others)
        ways = {"raw": RIVALS["raw"], "own fit": corrected(Calibrate()),
                "travelled": travelled(fitted)} | {f"{n} own": few(n) for n in FEW}  # fmt: skip
        return scored(asked, rng, ways)

    def within(title: str, kind: str, seed: int) -> dict:
        rng = np.random.default_rng(seed)
        return judged(*topics(sets[title], seed), kind, rng)

    def across(source: str, title: str, beside: str, amount, kind: str, seed: int) -> dict:
        rng = np.random.default_rng(seed)
        others = foreign_rows(sets, beside, amount, rng)
        return judged(sets[source], sets[title], kind, rng, others)

    for title, text in KINDS_OF_TEXT.items():
        for kind in kinds(sets[title]):
            label = f"{text}, another topic → {title}; {kind}"
            yield label, list(map(partial(within, title, kind), range(SPLITS)))
    for source, title, beside, amount in ACROSS:
        for kind in kinds(sets[title]):
            label = f"{KINDS_OF_TEXT[source]} → {KINDS_OF_TEXT[title]}, {title}; {kind}"
            for documents, many in (("", (0, 0)), (", foreign documents", amount)):
                one = partial(across, source, title, beside, many, kind)
                yield label + documents, list(map(one, range(SPLITS)))


def kinds(data: Rows) -> tuple[str, ...]:
    """Who asks; both answers where there are texts in other words."""
    return ("text queries", "image queries", "both kinds")[: 2 if data.wordings is None else 3]


def make_page(found: dict[str, dict]) -> None:
    """The tables, from what was measured."""
    for name, head, ways in (
        ("travel", ["raw", "own fit", "travelled"], ["travelled"]),
        ("few", [f"{n} own" for n in FEW], [f"{n} own" for n in (5, 10)]),
    ):
        shown = [*head, *(f"{way} less own fit" for way in ways)]
        lines = [f"| case | {' | '.join(shown)} |", "|---|" + "--:|" * len(shown)]
        for case, figures in found.items():
            values = {way: np.array(runs)[:, 0] for way, runs in figures.items()}
            means = {way: np.mean(runs) for way, runs in values.items()}
            cells = [f"{means[way]:.3f}".replace("0.", ".", 1) for way in head]
            if name == "travel":
                cells[-1] += f" ({means['travelled'] / means['own fit']:.2f})"
            cells += [interval(values[way] - values["own fit"]) for way in ways]
            lines.append(f"| {case} | {' | '.join(cells)} |")
        write_into(PAGE, name, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--save", action="store_true", help="keep the figures, fill the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets, found = load(options.folder), {}
    for case, runs in cases(sets):
        found[case] = by_rival(runs)
        means = {way: round(float(np.mean(one, axis=0)[0]), 3) for way, one in found[case].items()}
        print(case, means, flush=True)
    if options.save:
        record = Record("python benchmarks/travel.py DATA_FOLDER --save").contents
        rows = {case: rounded(figures) for case, figures in found.items()}
        write(FOLDER / "travel.json", {**record, "rows": rows})
        make_page((load_record("travel") or {})["rows"])


if __name__ == "__main__":
    main()
