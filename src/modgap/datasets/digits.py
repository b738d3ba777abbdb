"""The embedded default: scikit-learn's digits, captioned from their own pixels.

A caption says only what is measured in the scan, besides its digit. Each property is cut at its
quartiles over all 1,797 scans, so "narrow" means among the narrowest quarter of them.

`modgap train digits` trains the two towers and writes a file like `digits.safetensors`, not the
same one. The rows that ship were made before it, by a script of the same recipe: the same scans,
captions, initial weights, optimiser and schedule, with other draws of batches, captions and
dropout, and batches of 200, 200, 200 and 197 scans where it has 200, 199, 199 and 199. On the
held-out scans they have a gap of 0.560, and those of `modgap train digits` one of 0.564.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from modgap.arrays import unit as to_unit
from modgap.core.checks import check_choice
from modgap.core.results import Brief

EMBEDDINGS = Path(__file__).with_name("digits.safetensors")

_TEXTS = tomllib.loads(Path(__file__).with_name("digits.toml").read_text(encoding="utf-8"))
DIGITS = tuple(_TEXTS["digits"])
WORDINGS = tuple(_TEXTS["wordings"])

DigitSplit = Literal["test", "train", "all"]


@dataclass(frozen=True, eq=False)
class DigitPairs(Brief):
    """Scans and their captions, embedded: X holds n scans, Y their m captions, d columns each.

    Row i of X and row j of Y match when `groups[0][i] == groups[1][j]`; a group is the scan's
    index in scikit-learn's digits. Caption rows run scan by scan, one row per wording. `recipe`
    says how the rows were made and what they reach.
    """

    X: NDArray[np.float32]
    Y: NDArray[np.float32]
    groups: tuple[NDArray[np.int64], NDArray[np.int64]]
    captions: tuple[str, ...]
    wording: NDArray[np.int64]
    images: NDArray[np.float64]
    labels: NDArray[np.int64]
    recipe: Mapping[str, Any]

    def _brief(self) -> str:
        n, columns = self.X.shape
        return f"{n:,} scans, {len(self.Y):,} captions, {columns} columns"


def load_digits(split: DigitSplit = "test", unit: bool = True) -> DigitPairs:
    """Handwritten digits and their captions, embedded by a two-tower model with a modality gap.

    `split` is "test" (the scans the model never saw), "train" or "all"; `unit=False` gives the
    rows before normalisation. Every scan has five captions, each in its own wording.

    >>> digits = load_digits()
    >>> digits.X.shape, digits.Y.shape
    ((1000, 64), (5000, 64))
    >>> float(np.linalg.norm(digits.X.mean(0) - digits.Y.mean(0))) > 0.5  # the modality gap
    True
    """
    from safetensors import safe_open

    check_choice(split, "split", get_args(DigitSplit))
    with safe_open(EMBEDDINGS, framework="numpy") as file:
        X, Y, is_train = (file.get_tensor(name) for name in ("image", "text", "is_train"))
        recipe = json.loads(file.metadata()["recipe"])

    images, labels = load_scans()
    scans = np.flatnonzero(np.isin(is_train, {"test": [0], "train": [1], "all": [0, 1]}[split]))
    captions = describe(images[scans], labels[scans])
    X, Y = X[scans].astype(np.float32), Y[scans].astype(np.float32).reshape(-1, X.shape[1])
    return DigitPairs(
        X=to_unit(X) if unit else X,
        Y=to_unit(Y) if unit else Y,
        groups=(scans, np.repeat(scans, len(WORDINGS))),
        captions=tuple(chain.from_iterable(captions)),
        wording=np.tile(np.arange(len(WORDINGS)), len(scans)),
        images=images[scans],
        labels=labels[scans],
        recipe=recipe,
    )


def load_scans() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The 1,797 scans (8×8, ink from 0 to 16) and their digits, as scikit-learn ships them."""
    from sklearn.datasets import load_digits as load_bunch

    bunch = load_bunch()
    return bunch.images, bunch.target


# -- measuring: each function takes ink (n, 8, 8) in [0, 1] and returns n numbers ---------------

# Coordinates run from −3.5 to 3.5: 0 is the middle of the frame, down and right are positive.
DOWN, ACROSS = np.mgrid[-3.5:4, -3.5:4]


def _mean(ink: NDArray, values: NDArray) -> NDArray:
    """Mean of `values` over the pixels of each scan, weighted by ink."""
    return (ink * values).sum((1, 2)) / ink.sum((1, 2))


def _covariance(ink: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """Covariance of `a` and `b` over the pixels of each scan, weighted by ink."""
    return _mean(ink, a * b) - _mean(ink, a) * _mean(ink, b)


def _spread(ink: NDArray, axis: NDArray) -> NDArray:
    """Standard deviation of the ink along `axis`."""
    return np.sqrt(np.maximum(_covariance(ink, axis, axis), 0))


def _slant(ink: NDArray) -> NDArray:
    """How far the strokes move to the right per pixel upwards."""
    return -_covariance(ink, DOWN, ACROSS) / _covariance(ink, DOWN, DOWN)


def _taper(ink: NDArray) -> NDArray:
    """Spread across of the lower half minus that of the upper half."""
    return _spread(ink * (DOWN > 0), ACROSS) - _spread(ink * (DOWN < 0), ACROSS)


def _mirror_likeness(ink: NDArray, axis: int) -> NDArray:
    """Share of the ink that the scan and its mirror image have in common."""
    return np.minimum(ink, np.flip(ink, axis)).sum((1, 2)) / ink.sum((1, 2))


def _core(ink: NDArray) -> NDArray:
    """Share of the ink in the middle, four pixels high and two wide."""
    return _mean(ink, (abs(DOWN) < 2) & (abs(ACROSS) < 1))


MEASURES: dict[str, Callable[[NDArray], NDArray]] = {
    "weight": lambda ink: ink.mean((1, 2)),
    "edge": lambda ink: _mean(ink, ink),
    "width": lambda ink: _spread(ink, ACROSS),
    "height": lambda ink: _spread(ink, DOWN),
    "slant": _slant,
    "across": lambda ink: _mean(ink, ACROSS),
    "down": lambda ink: _mean(ink, DOWN),
    "taper": _taper,
    "sides": lambda ink: _mirror_likeness(ink, axis=2),
    "halves": lambda ink: _mirror_likeness(ink, axis=1),
    "core": _core,
}


def measure_scans(images: NDArray) -> dict[str, NDArray[np.float64]]:
    """Every property of every scan, by name."""
    ink = np.asarray(images, dtype=np.float64) / 16
    # Rounded, so that the last bit of a sum never moves a scan across a quartile.
    return {name: measure(ink).round(6) for name, measure in MEASURES.items()}


@cache
def _quartiles() -> dict[str, NDArray[np.float64]]:
    images, _ = load_scans()
    return {k: np.quantile(v, (0.25, 0.5, 0.75)) for k, v in measure_scans(images).items()}


def describe(images: NDArray, labels: NDArray) -> list[tuple[str, ...]]:
    """The captions of each scan, one per wording.

    >>> images, labels = load_scans()
    >>> [captions] = describe(images[:1], labels[:1])
    >>> captions[1].split(", ")[:4]
    ['The digit zero: straight', 'fuzzy', 'thin', 'rightish']
    """
    quarters = {
        name: np.digitize(values, _quartiles()[name])
        for name, values in measure_scans(images).items()
    }
    return [
        _captions(DIGITS[label], {name: quarter[i] for name, quarter in quarters.items()})
        for i, label in enumerate(labels)
    ]


def _captions(digit: str, quarters: Mapping[str, int]) -> tuple[str, ...]:
    styles = [
        {name: words[quarters[name]] for name, words in _TEXTS[style].items()}
        for style in ("words", "synonyms")
    ]
    # Even wordings use the words, odd ones the synonyms.
    return tuple(wording.format(digit=digit, **styles[i % 2]) for i, wording in enumerate(WORDINGS))
