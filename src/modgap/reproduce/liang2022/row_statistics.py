"""Which rows a claim is judged on, and numbers of them with the interval of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from modgap.arrays import unit
from modgap.evaluation.significance import GroupBootstrap, Interval
from modgap.reproduce.setting import YOUR_ROWS, Setting
from modgap.reproduce.sources import DIGITS, Pairs, judged, pairs

RESAMPLES = 200
# Bins of the cosines of fig. 2a.
COSINE_EDGES = np.linspace(-0.4, 1, 71)
# A number of rows that are counted so often each: (draws, n) to (draws,).
Statistic = Callable[[np.ndarray], np.ndarray]


def clip_pairs(setting: Setting) -> Pairs:
    """The authors' CLIP rows, or your own, or the digits."""
    return judged(pairs(setting), ("CLIP",))[0]


def on_words(source: Pairs, published: str) -> str:
    """Whose rows they are: in words of one's own where they are the authors'."""
    if source.name == DIGITS:
        return (
            f"the embedded digits, whose towers ended at a temperature of {source.temperature:g}; "
            "--embeddings takes the authors' files"
        )
    return source.name if source.name == YOUR_ROWS else published


def row_interval(n: int, statistic: Statistic, seed: int) -> Interval:
    """A number of n rows, or pairs, with its bootstrap interval over them."""
    bootstrap = GroupBootstrap(np.arange(n), RESAMPLES, seed)
    value = float(statistic(np.ones((1, n)))[0])
    return bootstrap.interval(value, statistic(bootstrap.counts.astype(np.float64)))


def mean_cosine(X: np.ndarray) -> Statistic:
    """The mean cosine of two different rows; a row that is drawn twice is no pair with itself."""
    rows = unit(X.astype(np.float64))

    def statistic(counts: np.ndarray) -> np.ndarray:
        alone = np.sum(counts**2, axis=1)
        together = np.sum((counts @ rows) ** 2, axis=1)
        return (together - alone) / (counts.sum(axis=1) ** 2 - alone)

    return statistic


def gap_over_radius(X: np.ndarray, Y: np.ndarray) -> Statistic:
    """The gap over the larger radius of the two modalities, both of rows as given."""
    sides = [A.astype(np.float64) for A in (X, Y)]
    squares = [np.sum(A**2, axis=1) for A in sides]

    def statistic(counts: np.ndarray) -> np.ndarray:
        share = counts / counts.sum(axis=1, keepdims=True)
        x, y = (share @ A for A in sides)
        radii = [
            np.sqrt(np.maximum(share @ square - np.sum(centre**2, axis=1), 0))
            for square, centre in zip(squares, (x, y), strict=True)
        ]
        return np.linalg.norm(x - y, axis=1) / np.maximum(*radii)

    return statistic


def cosines(X: np.ndarray) -> np.ndarray:
    """The cosines of all pairs of different rows, each pair once."""
    rows = unit(X.astype(np.float64))
    return (rows @ rows.T)[np.triu_indices(len(rows), k=1)]


def random_cosine(shape: tuple[int, ...], seed: int, *, relu: bool = False) -> float:
    """The mean cosine of as many random directions: what rows without a cone have.

    With ``relu`` their negative coordinates are 0; the mean is then near 1/π.
    """
    rows = np.random.default_rng([seed, 1]).standard_normal(shape)
    rows = np.maximum(rows, 0) if relu else rows
    return float(mean_cosine(rows)(np.ones((1, shape[0])))[0])
