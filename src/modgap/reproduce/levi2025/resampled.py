"""Intervals from the rows themselves: what is measured, on rows drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from modgap.measures.ellipsoid import BIN_FLOOR
from modgap.reproduce.statistics import Interval, around

DRAWS = 300
# Of the rows drawn anew, not of anything that is judged: the same rows give the same interval.
SEED = 0


def row_weights(n: int, draws: int = DRAWS, seed: int = SEED) -> np.ndarray:
    """How often each of n rows is in each draw of as many, over n: (draws, n)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1 / n), size=draws) / n


def all_and_drawn(n: int) -> np.ndarray:
    """The same below a first row that has every row once."""
    return np.concatenate([np.full((1, n), 1 / n), row_weights(n)])


def of_features(
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray], rows: np.ndarray
) -> Interval:
    """A statistic of the means and variances (…, d) of the features, over rows drawn anew."""
    value = statistic(rows.mean(axis=0)[None], rows.var(axis=0)[None])
    return around(float(value[0]), statistic(*drawn_moments(rows)))


def drawn_moments(rows: np.ndarray, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the features over rows drawn anew, (draws, d) each."""
    weights, centre = row_weights(len(rows), seed=seed), rows.mean(axis=0)
    centred = rows - centre
    means = weights @ centred
    return means + centre, weights @ centred**2 - means**2


def drawn_rows(
    statistic: Callable[..., float], *columns: np.ndarray, draws: int = DRAWS
) -> Interval:
    """A statistic of some columns of numbers, their rows drawn anew together."""
    rng, n = np.random.default_rng(SEED), len(columns[0])
    drawn = [
        statistic(*(column[chosen] for column in columns))
        for chosen in rng.integers(n, size=(draws, n))
    ]
    return around(statistic(*columns), np.array(drawn))


def share_interval(hits: np.ndarray) -> Interval:
    """A share with Wilson's interval, which is right for shares of 0 and 1 too."""
    n, share, z = len(hits), float(np.mean(hits)), 1.96
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (share * (1 - share) / n + z**2 / (4 * n**2)) ** 0.5
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


@dataclass(frozen=True, eq=False)
class Binned:
    """The bin of every value of some columns on two sides."""

    x: np.ndarray
    y: np.ndarray
    bins: int

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, bins: int) -> Binned:
        """Columns (k, n) and (k, m) over ``bins`` bins from the least to the largest of both."""
        low = np.minimum(x.min(axis=1), y.min(axis=1))
        high = np.maximum(x.max(axis=1), y.max(axis=1))
        sides = [
            np.clip((side - low[:, None]) / (high - low)[:, None] * bins, 0, bins - 1)
            for side in (x, y)
        ]
        return cls(sides[0].astype(np.int64), sides[1].astype(np.int64), bins)


def divergences(binned: Binned, wx: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """KL(x‖y) of every column for every draw of the rows (draws, columns).

    ``wx`` and ``wy`` (draws, n) say how much of a draw each row is. The floor is that of
    ``modgap.measures``, which adds it to counts of rows.
    """
    found = []
    for places in zip(binned.x, binned.y, strict=True):
        counts = (
            (weights * weights.shape[1]) @ (bins[:, None] == np.arange(binned.bins)).astype(float)
            for bins, weights in zip(places, (wx, wy), strict=True)
        )
        p, q = (each + BIN_FLOOR for each in counts)
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        found.append(np.sum(p * np.log(p / q), axis=1))
    return np.stack(found, axis=1)
