"""The rows that stand in for the paper's, and how unusual a scan is by its pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from modgap.datasets import load_digits
from modgap.datasets.digits import DigitSplit, measure_scans
from modgap.reproduce.setting import Setting

# Histograms depend on their bins, and the paper does not print its number.
BINS = 50


@dataclass(frozen=True, eq=False)
class Digits:
    """Scans and one caption of each: embedded rows as the towers gave them, and the scans."""

    X: np.ndarray
    Y: np.ndarray
    images: np.ndarray
    labels: np.ndarray
    captions: tuple[str, ...]
    temperature: float


@cache
def digits(split: DigitSplit = "all") -> Digits:
    """The digits before normalisation, each scan with its caption in the first wording."""
    loaded = load_digits(split, unit=False)
    first = np.flatnonzero(loaded.wording == 0)
    return Digits(
        X=loaded.X.astype(np.float64),
        Y=loaded.Y[first].astype(np.float64),
        images=loaded.images,
        labels=loaded.labels,
        captions=tuple(loaded.captions[k] for k in first),
        temperature=float(loaded.recipe["temperature"]),
    )


def embeddings(setting: Setting, system: str) -> tuple[np.ndarray, np.ndarray]:
    """The authors' rows of one system in double precision."""
    X, Y = setting.arrays(system)
    return X.astype(np.float64), Y.astype(np.float64)


def extremeness(images: np.ndarray) -> np.ndarray:
    """How unusual each scan is by its own pixels: 0 in the middle of every property, ½ at an end.

    The mean, over everything that is measured in a scan, of how far its rank is from the middle.
    It knows nothing of any embedding.
    """
    from scipy.stats import rankdata

    ranks = rankdata(list(measure_scans(images).values()), axis=1)
    return np.abs((ranks - 0.5) / len(images) - 0.5).mean(axis=0)
