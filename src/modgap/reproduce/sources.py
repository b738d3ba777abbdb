"""Rows that the papers' claims are put to: your own, those that others published, the digits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from modgap.arrays import unit
from modgap.datasets.digits import WORDINGS, load_digits
from modgap.reproduce.setting import NO_PAIRS, YOUR_CLASSES, YOUR_ROWS, NotAtHand, Setting

CLIP_TEMPERATURE = 0.01
# Of the digits that come with modgap; nothing else is there without a download.
DIGITS = "digits"
# The authors' systems by the names of their files, those of pictures with captions first.
_SYSTEMS = {"CLIP": "clip", "VideoCLIP": "videoclip"}
_EVERY_SYSTEM = _SYSTEMS | {"ConVIRT": "convirt", "CLASP": "clasp"}
_RANDOM = "{}, random weights"
NO_CLASSES = (
    "Zero-shot classification needs classes: give images in a folder for each class, or a table "
    "with a column label, with --data."
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs row by row. ``raw`` rows are as the towers gave them, others at unit length."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    temperature: float = CLIP_TEMPERATURE
    raw: bool = False


@dataclass(frozen=True, eq=False)
class ClassedRows:
    """Images, or sounds, with their classes, and a text a class, maybe in a second wording.

    X is at unit length; texts are as the tower gave them.
    """

    name: str
    X: np.ndarray
    labels: np.ndarray
    texts: np.ndarray
    other_texts: np.ndarray | None = None


Source = TypeVar("Source", Pairs, ClassedRows)


def pairs(setting: Setting, *, raw: bool = False) -> tuple[Pairs, ...]:
    """Every set of pairs at hand, the digits last: your own rows, or CLIP, Unsplash, VideoCLIP.

    With ``raw``, only rows as the towers gave them: your own, and the digits.
    """
    own = setting.rows
    if own is not None:
        if own.X is None or own.Y is None:
            raise setting.lacking(NO_PAIRS, NO_PAIRS)
        X, Y = setting.read(YOUR_ROWS, (own.X, own.Y))
        if not raw:
            X, Y = unit(X), unit(Y)
        return (Pairs(YOUR_ROWS, X, Y, own.temperature or CLIP_TEMPERATURE, raw),)
    known = [] if raw else [_published(setting, name) for name in (*_SYSTEMS, "Unsplash")]
    return (*(each for each in known if each is not None), digit_pairs(setting, raw=raw))


def systems(setting: Setting) -> tuple[Pairs, ...]:
    """The authors' four systems at hand, trained, then the same with random weights."""
    names = {name: name for name in _EVERY_SYSTEM}
    names |= {_RANDOM.format(name): name for name in _EVERY_SYSTEM}
    found = [_published(setting, shown) for shown in names]
    return tuple(each for each in found if each is not None)


def judged(found: Sequence[Source], names: Collection[str] | None = None) -> list[Source]:
    """Your own rows, or those of the names, all but the digits by default, or else the digits."""
    if names is None:
        names = [each.name for each in found if each.name != DIGITS]
    real = [each for each in found if each.name == YOUR_ROWS or each.name in names]
    return real or [each for each in found if each.name == DIGITS]


def digit_pairs(setting: Setting, *, raw: bool = False) -> Pairs:
    """Unseen scans, each with its caption in the first wording."""
    digits = load_digits("test", unit=not raw)
    X, Y = setting.read(DIGITS, (digits.X, digits.Y[digits.wording == 0]))
    return Pairs(DIGITS, X, Y, float(digits.recipe["temperature"]), raw)


def zero_shots(setting: Setting) -> tuple[ClassedRows, ...]:
    """Every zero-shot task at hand, the digits last: your own, or ImageNet and ESC-50."""
    own = setting.rows
    if own is not None:
        X = own.X if own.classed is None else own.classed
        if X is None or own.labels is None or own.class_texts is None:
            raise setting.lacking(
                "Zero-shot classification needs --labels and --class-text, too.", NO_CLASSES
            )
        texts = own.class_texts, own.other_class_texts
        return (setting.read(YOUR_CLASSES, ClassedRows(YOUR_ROWS, unit(X), own.labels, *texts)),)
    found = []
    if (held := setting.tensors("imagenet-clip-b32")) is not None:
        texts = held["class_text"], held["class_text_other_wording"]
        found.append(ClassedRows("ImageNet", held["image"], held["labels"], *texts))
    if (held := setting.tensors("esc50-clap")) is not None:
        found.append(ClassedRows("ESC-50", held["audio"], held["labels"], held["class_text"]))
    return (*found, digit_zero_shot(setting))


def digit_zero_shot(setting: Setting) -> ClassedRows:
    """Unseen scans, with the means of training captions in the first and in the second wording."""
    train, test = load_digits("train"), load_digits("test")
    of_caption = np.repeat(train.labels, len(WORDINGS))
    first, second = (
        np.stack([train.Y[(of_caption == k) & (train.wording == w)].mean(0) for k in range(10)])
        for w in (0, 1)
    )
    return setting.read("digit classes", ClassedRows(DIGITS, test.X, test.labels, first, second))


def _published(setting: Setting, name: str) -> Pairs | None:
    """A set of published pairs, if it is at hand."""
    if name == "Unsplash":
        held = setting.tensors("unsplash-clip-b32")
        return None if held is None else Pairs(name, held["image"], held["text"])
    system, _, untrained = name.partition(",")
    file = _EVERY_SYSTEM[system] + ("_random" if untrained else "")
    try:
        return Pairs(name, *setting.arrays(file))
    except NotAtHand:
        return None
