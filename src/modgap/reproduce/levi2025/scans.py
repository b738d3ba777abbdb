"""What common, unusual and long pictures look like: scans, or your own (figs 1, 8, 14, 19, 20)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from modgap.arrays import unit
from modgap.io import Items
from modgap.io.images import square_pixels, unpack_image
from modgap.measures import conformity, norms
from modgap.measures.cone import cone
from modgap.reproduce.checks import read_as, resting_on
from modgap.reproduce.drawing import bin_counts, some
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.ellipsoids import sketch, themes
from modgap.reproduce.levi2025.resampled import drawn_rows
from modgap.reproduce.levi2025.row_sets import (
    RAW_TEXTS,
    RowSet,
    digits,
    extremeness,
    joined,
    of_each,
    row_sets,
)
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.statistics import by_chance, rank_correlation
from modgap.search import search

# Captions of MS-COCO have a mean cosine of 0.51 (Liang et al. 2022, fig. 6); texts of one template
# have more.
UNLIKE = 0.56
# Kinds of things that drawings show: half as many as ImageNet-R has.
KINDS = 100
# Lengths that differ by less are those of unit rows.
SAME = 1e-6
# Pixels of a side, and pictures that are looked at in the fast setting.
SIDE, COUNT = 48, 2_000
# Levels of grey, as many as scans of digits have.
_DARKEST = 16
_FEWEST = 8


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """Conformity of the scans' rows against how common the scans are by their pixels."""
    scans = digits(setting)
    values = conformity(scans.X)
    rare = drawn_rows(rank_correlation, values, extremeness(scans.images))
    unusual = Outcome(
        {"rank correlation with how unusual the scan is": rare.value},
        [PAPER.below("rare_scans_unusual", rare)],
    )
    alike = against_likeness("scans", values, scans.images, scans.images)
    return joined([alike, unusual, themes(setting, "photos")])


def against_likeness(
    what: str, values: np.ndarray, pixels: np.ndarray, shown: np.ndarray
) -> Outcome:
    """Conformity of pictures against how common they are by their pixels; ``shown`` is drawn."""
    alike = drawn_rows(rank_correlation, values, conformity(pixels.reshape(len(values), -1)))
    return Outcome(
        {
            "rank correlation with the likeness of the pixels to all others": alike.value,
            "highest conformity": float(values.max()),
            "lowest conformity": float(values.min()),
        },
        [PAPER.above("common_are_alike", alike, What=what.capitalize(), what=what)],
        extremes(values, shown),
    )


@PAPER.run("fig14")
def fig14(setting: Setting) -> Outcome:
    """Norms of rows before normalisation, and of the scans behind the digits."""
    sets = row_sets(setting, (RAW_TEXTS,))
    if any(np.ptp(norms(A).values) < SAME for rows in sets for A in rows.sides.values()):
        raise NotAtHand("These rows are all of one length; norms tell of rows before they are.")
    found = of_each(sets, _longest)
    if setting.rows is not None:
        data = {**found.data, "scans": {}, "grids": {}}
        return Outcome(found.measured, found.checks, data, found.on)
    scans = digits(setting)
    rare = extremeness(scans.images)
    values = {"image": norms(scans.X).values, "text": norms(scans.Y).values}
    names = "digits: rows of longest norm", "digits: rows of shortest norm"
    longest = scans.captions[int(np.argmax(values["text"]))]
    seen = joined([found, *(_unusual(side, values[side], rare) for side in values)], found.on)
    return Outcome(
        seen.measured,
        seen.checks,
        {
            **seen.data,
            "scans": {"digits": {"points": some(np.column_stack([rare, values["image"]]))}},
            "grids": extremes(values["image"], scans.images, names, 10, 2),
        },
        f"{found.on}; and, for their scans, {PAPER.sentences['digits']}",
        f"The digits' caption of largest norm: “{longest}”",
    )


def _longest(rows: RowSet) -> Outcome:
    """How common the longest rows of each side are."""
    measured: dict[str, float] = {}
    checks, values = [], {}
    for side, A in rows.sides.items():
        values[side], common = norms(A).values, conformity(A)
        rarer = drawn_rows(_commoner_when_long, values[side], common)
        measured |= {
            f"mean norm, {side}": float(values[side].mean()),
            f"largest norm, {side}": float(values[side].max()),
            f"rank correlation of norm and conformity, {side}": rank_correlation(
                values[side], common
            ),
            f"conformity of the longest 5 % less that of all, {side}": rarer.value,
        }
        check = PAPER.below("longest_less_common", rarer, side=side, name=rows.name)
        if side == "text":
            alike = PAPER.below("texts_unlike", cone(A).mean, UNLIKE, name=rows.name)
            checks += resting_on(alike, [check])
        else:
            checks.append(check)
    return Outcome(measured, checks, {"norms": bin_counts(values)})


def _commoner_when_long(lengths: np.ndarray, common: np.ndarray) -> float:
    long = lengths >= np.quantile(lengths, 0.95)
    return float(common[long].mean() - common.mean())


def _unusual(side: str, values: np.ndarray, rare: np.ndarray) -> Outcome:
    """Whether the norms of the digits go with how unusual the scan is."""
    rank = drawn_rows(rank_correlation, values, rare)
    name = f"rank correlation of norm and how unusual the scan is, {side}, digits"
    return Outcome(
        {name: rank.value},
        [PAPER.above("unusual_are_long", rank, side=side)],
    )


@PAPER.run("fig19")
def fig19(setting: Setting) -> Outcome:
    """Conformity of the scans against how much goes on in them."""
    scans = digits(setting)
    values, ink = conformity(scans.X), scans.images.sum(axis=(1, 2))
    per_ink = total_variation(scans.images) / ink
    beside: dict[str, Number] = {
        "rank correlation with the variation per ink": rank_correlation(values, per_ink),
        "rank correlation with the ink": rank_correlation(values, ink),
    }
    found = against_variation("scans", values, scans.images, scans.images)
    kinds = PAPER.above("drawings_of_many_things", len(np.unique(scans.labels)), KINDS - 1)
    resting = replace(found, checks=resting_on(kinds, found.checks))
    return joined([resting, Outcome(beside, [])])


def against_variation(
    what: str, values: np.ndarray, pixels: np.ndarray, shown: np.ndarray
) -> Outcome:
    """Conformity of pictures against how much goes on in them; ``shown`` is drawn."""
    variation = total_variation(pixels)
    rank = drawn_rows(rank_correlation, values, variation)
    return Outcome(
        {"rank correlation with the total variation": rank.value},
        [PAPER.below("common_are_simple", rank, What=what.capitalize(), what=what)],
        extremes(values, shown) | {"points": some(np.column_stack([variation, values]))},
    )


def total_variation(images: np.ndarray) -> np.ndarray:
    """How much neighbouring pixels differ, summed over each scan."""
    steps = [np.abs(np.diff(images, axis=axis)).sum(axis=(1, 2)) for axis in (1, 2)]
    return steps[0] + steps[1]


@PAPER.run("fig20")
def fig20(setting: Setting) -> Outcome:
    """Conformity of the scans that miss their caption against the entropy of their pixels."""
    scans = digits(setting)
    found, _ = search(scans.X, scans.Y, 1)
    hard = found[:, 0] != np.arange(len(found))
    values, images = conformity(scans.X)[hard], scans.images[hard]
    return against_entropy("hard scans", values, images, images)


def against_entropy(
    what: str, values: np.ndarray, pixels: np.ndarray, shown: np.ndarray
) -> Outcome:
    """Conformity of hard pictures against the entropy of their pixels; ``shown`` is drawn."""
    entropy = pixel_entropy(pixels)
    rank, chance = drawn_rows(rank_correlation, values, entropy), by_chance(len(values))
    return Outcome(
        {
            what: len(values),
            "rank correlation with the entropy of the pixels": rank.value,
            "holds less information": "low conformity" if rank.value > 0 else "high conformity",
        },
        [
            *read_as("as the caption has it", [PAPER.above("rises_with_entropy", rank, chance)]),
            *read_as("as C.2 has it", [PAPER.below("falls_with_entropy", rank, -chance)]),
        ],
        extremes(values, shown) | {"points": some(np.column_stack([entropy, values]))},
    )


def pixel_entropy(images: np.ndarray) -> np.ndarray:
    """Entropy of each scan's 17 levels of ink, in bits."""
    levels = images.reshape(len(images), -1).round().astype(np.int64)
    shares = np.stack([(levels == level).mean(axis=1) for level in range(17)], axis=1)
    logarithms = np.log2(shares, where=shares > 0, out=np.zeros_like(shares))
    return -(shares * logarithms).sum(axis=1)


def extremes(
    values: np.ndarray,
    images: np.ndarray,
    names: tuple[str, str] = ("high", "low"),
    count: int = 12,
    decimals: int = 3,
) -> dict[str, Any]:
    """The scans of the largest and of the smallest values, with the value under each."""
    order = np.argsort(-values, kind="stable")
    return {
        name: {"images": images[chosen], "captions": [f"{values[k]:.{decimals}f}" for k in chosen]}
        for name, chosen in zip(names, (order[:count], order[::-1][:count]), strict=True)
    }


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures with their rows: small squares in colour, and their darkness from 0 to 16."""

    items: Items
    which: np.ndarray
    X: np.ndarray
    colour: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        """The class of each; the same for all where they have none."""
        labels = self.items.labels
        return np.array(["" if labels is None else labels[k] for k in self.which.tolist()])

    @property
    def dark(self) -> np.ndarray:
        """How dark each pixel is, (n, side, side)."""
        return _DARKEST * (1 - self.colour.mean(axis=3) / 255)


@PAPER.run_on_model("fig1")
def fig1_of_model(setting: Setting) -> Outcome:
    """What the sketch says, measured on your pairs and the pictures behind them."""
    (own,) = row_sets(setting)
    shown = pictures(setting)
    rare = 1 - conformity(shown.dark.reshape(len(shown.X), -1))
    return sketch(setting, own, rare, {"image": shown.X}, "picture")


@PAPER.run_on_model("fig8")
def fig8_of_model(setting: Setting) -> Outcome:
    """Conformity of pictures against how common they are by their pixels."""
    shown = pictures(setting)
    found = against_likeness("pictures", conformity(shown.X), shown.dark, shown.colour)
    return joined([Outcome({"pictures": len(shown.X)}, []), found])


@PAPER.run_on_model("fig19")
def fig19_of_model(setting: Setting) -> Outcome:
    """Conformity of pictures against how much goes on in them."""
    shown = pictures(setting)
    found = against_variation("pictures", conformity(shown.X), shown.dark, shown.colour)
    return joined([Outcome({"pictures": len(shown.X)}, []), found])


@PAPER.run_on_model("fig20")
def fig20_of_model(setting: Setting) -> Outcome:
    """Conformity of pictures that the model gets wrong against the entropy of their pixels."""
    shown = pictures(setting)
    hard = ~_right(setting, shown)
    if hard.sum() < _FEWEST:
        raise NotAtHand(
            f"The model gets only {hard.sum()} of {len(hard)} pictures wrong, too few to compare. "
            "The paper takes ImageNet-A: give it, or more pictures, with --data."
        )
    values = conformity(shown.X)[hard]
    return against_entropy("hard pictures", values, shown.dark[hard], shown.colour[hard])


def pictures(setting: Setting) -> Pictures:
    """The pictures of the first data set that has some, the first of them in the fast setting."""
    model = setting.model
    assert model is not None
    items = next((each for each in model.items if each.kind == "image"), None)
    if items is None:
        raise NotAtHand("It compares rows with the pictures behind them: give images with --data.")
    X, which = model.rows(items)
    kept = slice(None if setting.full else COUNT)
    X, which = X[kept], which[kept]
    squares = []
    for done, k in enumerate(which.tolist()):
        setting.say("pictures", done, len(which))
        image = unpack_image(items.stored(k), SIDE)
        squares.append(square_pixels(image, SIDE).transpose(1, 2, 0))
    return Pictures(items, which, X, np.stack(squares))


def _right(setting: Setting, shown: Pictures) -> np.ndarray:
    """Which pictures find their class, or else their own caption."""
    model, own = setting.model, setting.rows
    assert model is not None
    assert own is not None
    X = unit(shown.X)
    classes = model.classes()
    if classes is not None and classes is shown.items and own.class_texts is not None:
        nearest, _ = search(X, own.class_texts, 1)
        labels, names = shown.labels, sorted({*(classes.labels or ())} - {""})
        return np.asarray((np.array(names)[nearest[:, 0]] == labels) | (labels == ""))
    captions = [shown.items.captions(k)[:1] for k in shown.which.tolist()]
    if not all(captions):
        raise NotAtHand("It needs pictures with classes or captions: give some with --data.")
    nearest, _ = search(X, model.texts([caption for (caption,) in captions]), 1)
    return np.asarray(nearest[:, 0] == np.arange(len(X)))
