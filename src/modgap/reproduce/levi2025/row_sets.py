"""The rows that stand in for the paper's, and how unusual a scan is by its pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from modgap.datasets import load_digits
from modgap.datasets.digits import DigitSplit, measure_scans
from modgap.reproduce import sources
from modgap.reproduce.checks import Check, resting_on
from modgap.reproduce.entry import Outcome
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.setting import YOUR_ROWS, NotAtHand, Setting

# Histograms depend on their bins, and the paper does not print its number.
BINS = 50
# Sets of pairs that CLIP embedded, whose loss is a cosine's at a temperature of 0.01.
CLIP = ("CLIP", "Unsplash")
# The same, and images with the texts of their classes: pairs enough for what is no loss.
EVERY = (*CLIP, "ImageNet")
RAW_TEXTS = "raw texts"


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows of one model, by their side, image and text, or one of them.

    The claim is judged on the ``judged`` ones; others are measured beside them. ``kind`` and
    ``name`` say what they are, in the sentences of the paper's file. ``seed`` is of what is drawn.
    """

    name: str
    sides: dict[str, np.ndarray]
    temperature: float = sources.CLIP_TEMPERATURE
    judged: bool = True
    labels: np.ndarray | None = None
    kind: str = "rows"
    seed: int = 0

    @property
    def X(self) -> np.ndarray:
        """The images."""
        return self.sides["image"]

    @property
    def Y(self) -> np.ndarray:
        """The texts."""
        return self.sides["text"]


def row_sets(setting: Setting, names: Sequence[str] = EVERY) -> list[RowSet]:
    """The named sets that are at hand, and the digits before normalisation, or your rows alone.

    The digits are judged where nothing else is at hand.
    """
    found = []
    if setting.rows is None:
        found = [_of_pairs(p) for p in sources.pairs(setting) if p.name in names]
        wanted = {"ImageNet", RAW_TEXTS}.intersection(names)
        for task in sources.zero_shots(setting) if wanted else ():
            if task.name == "ImageNet" and "ImageNet" in names:
                # The first image of each class with the text of the class, unit rows.
                labels, first = np.unique(task.labels, return_index=True)
                sides = _wide(image=task.X[first], text=task.texts[labels])
                units = {k: A / np.linalg.norm(A, axis=1, keepdims=True) for k, A in sides.items()}
                found.append(RowSet(task.name, units))
            if task.name == "ImageNet" and RAW_TEXTS in names and task.other_texts is not None:
                # The class texts in both wordings are not at unit length.
                wordings = {"one wording": task.texts, "another wording": task.other_texts}
                found += [RowSet(f"ImageNet, {k}", _wide(text=A)) for k, A in wordings.items()]
    last = _of_pairs(sources.pairs(setting, raw=True)[-1], judged=not found)
    return [_read(setting, each) for each in (*found, last)]


def _read(setting: Setting, found: RowSet) -> RowSet:
    return setting.read("rows", dataclasses.replace(found, seed=setting.seed))


def labelled_sets(setting: Setting) -> list[RowSet]:
    """Images with their classes: ImageNet's, if at hand, and the digits; or your own."""
    own = setting.rows
    if own is not None and own.labels is None:
        raise setting.lacking("Give what each image shows: --labels.", sources.NO_CLASSES)
    shown = [task for task in sources.zero_shots(setting) if task.name in ("ImageNet", YOUR_ROWS)]
    found = [
        RowSet(task.name, _wide(image=task.X), labels=task.labels, kind="images") for task in shown
    ]
    if own is None:
        raw = digits(setting)
        found.append(
            RowSet(
                sources.DIGITS, {"image": raw.X}, judged=not found, labels=raw.labels, kind="images"
            )
        )
    return [_read(setting, each) for each in found]


def row_sets_words(sets: Sequence[RowSet]) -> str:
    """What was used, in words."""
    said = [PAPER.sentences[f"{each.kind} of {each.name}"] for each in sets]
    beside = " (measured beside, not judged)" if not sets[-1].judged else ""
    return "; ".join(said) + beside


def _of_pairs(pairs: sources.Pairs, judged: bool = True) -> RowSet:
    return RowSet(pairs.name, _wide(image=pairs.X, text=pairs.Y), pairs.temperature, judged)


def _wide(**sides: np.ndarray) -> dict[str, np.ndarray]:
    """Rows in double precision."""
    return {side: np.asarray(rows, dtype=np.float64) for side, rows in sides.items()}


@dataclass(frozen=True, eq=False)
class Digits:
    """Scans and one caption of each: embedded rows as the towers gave them, and the scans."""

    X: np.ndarray
    Y: np.ndarray
    images: np.ndarray
    labels: np.ndarray
    captions: tuple[str, ...]


def digits(setting: Setting, split: DigitSplit = "all") -> Digits:
    """The digits before normalisation, each scan with its caption in the first wording."""
    if setting.rows is not None:
        raise NotAtHand(
            "This entry compares rows with the pictures behind them: it needs both. Give the "
            "pictures with --data, and with --model what embeds them."
        )
    return setting.read("scans", _digits(split))


@cache
def _digits(split: DigitSplit) -> Digits:
    loaded = load_digits(split, unit=False)
    first = np.flatnonzero(loaded.wording == 0)
    return Digits(
        X=loaded.X.astype(np.float64),
        Y=loaded.Y[first].astype(np.float64),
        images=loaded.images,
        labels=loaded.labels,
        captions=tuple(loaded.captions[k] for k in first),
    )


def extremeness(images: np.ndarray) -> np.ndarray:
    """How unusual each scan is by its own pixels: 0 in the middle of every property, ½ at an end.

    The mean, over everything that is measured in a scan, of how far its rank is from the middle.
    It knows nothing of any embedding.
    """
    from scipy.stats import rankdata

    ranks = rankdata(list(measure_scans(images).values()), axis=1)
    return np.abs((ranks - 0.5) / len(images) - 0.5).mean(axis=0)


# What is measured and checked on one set of rows.
View = Callable[[RowSet], Outcome]


def joined(outcomes: Iterable[Outcome], on: str = "") -> Outcome:
    """Values, checks and data of several outcomes, one after the other."""
    found = list(outcomes)
    return Outcome(
        {name: value for each in found for name, value in each.measured.items()},
        [check for each in found for check in each.checks],
        {name: value for each in found for name, value in each.data.items()},
        on,
    )


def given(premise: Callable[[RowSet], Check], *views: View) -> View:
    """Views whose claims rest on a premise about the rows."""

    def view(rows: RowSet) -> Outcome:
        seen = joined(each(rows) for each in views)
        return dataclasses.replace(seen, checks=resting_on(premise(rows), seen.checks))

    return view


def of_each(sets: Sequence[RowSet], *views: View) -> Outcome:
    """Every view of every set: checks of the judged ones, pictures of the first.

    Names of values are plain for the first set and end with the name of the others.
    """
    found = []
    for place, rows in enumerate(sets):
        seen, after = joined(view(rows) for view in views), f", {rows.name}" if place else ""
        found.append(
            Outcome(
                {f"{name}{after}": value for name, value in seen.measured.items()},
                seen.checks if rows.judged else (),
                {} if place else seen.data,
            )
        )
    return joined(found, row_sets_words(sets))
