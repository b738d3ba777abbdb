"""What common and unusual pictures of your own look like (figs 8, 19, 20), by your model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modgap.arrays import unit
from modgap.io import Items
from modgap.io.images import square_pixels, unpack_image
from modgap.measures import conformity
from modgap.reproduce.entry import Outcome
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.ellipsoids import sketch
from modgap.reproduce.levi2025.row_sets import joined, row_sets
from modgap.reproduce.levi2025.scans import against_entropy, against_likeness, against_variation
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.search import search

# Pixels of a side, and pictures that are looked at in the fast setting.
SIDE, COUNT = 48, 2_000
# Levels of grey, as many as scans of digits have.
_DARKEST = 16
_FEWEST = 8


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
def fig1(setting: Setting) -> Outcome:
    """What the sketch says, measured on your pairs and the pictures behind them."""
    (own,) = row_sets(setting)
    shown = pictures(setting)
    rare = 1 - conformity(shown.dark.reshape(len(shown.X), -1))
    return sketch(setting, own, rare, {"image": shown.X}, "picture")


@PAPER.run_on_model("fig8")
def fig8(setting: Setting) -> Outcome:
    """Conformity of pictures against how common they are by their pixels."""
    shown = pictures(setting)
    found = against_likeness("pictures", conformity(shown.X), shown.dark, shown.colour)
    return joined([Outcome({"pictures": len(shown.X)}, []), found])


@PAPER.run_on_model("fig19")
def fig19(setting: Setting) -> Outcome:
    """Conformity of pictures against how much goes on in them."""
    shown = pictures(setting)
    found = against_variation("pictures", conformity(shown.X), shown.dark, shown.colour)
    return joined([Outcome({"pictures": len(shown.X)}, []), found])


@PAPER.run_on_model("fig20")
def fig20(setting: Setting) -> Outcome:
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
