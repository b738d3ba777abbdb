"""Histograms of many columns over shared bins, with weights on the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from modgap.measures.ellipsoid import BIN_FLOOR


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

    def pairs(self, wx: np.ndarray, wy: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Counts of both sides, column by column."""
        for x, y in zip(self.x, self.y, strict=True):
            yield _counts(x, wx, self.bins), _counts(y, wy, self.bins)


def divergences(binned: Binned, wx: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """KL(x‖y) of every column for every draw of the rows (draws, columns).

    ``wx`` and ``wy`` (draws, n) say how much of a draw each row is. The floor is that of
    ``modgap.measures``, which adds it to counts of rows.
    """
    found = []
    for px, py in binned.pairs(wx * wx.shape[1], wy * wy.shape[1]):
        p, q = (counts + BIN_FLOOR for counts in (px, py))
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        found.append(np.sum(p * np.log(p / q), axis=1))
    return np.stack(found, axis=1)


def _counts(places: np.ndarray, weights: np.ndarray, bins: int) -> np.ndarray:
    return weights @ (places[:, None] == np.arange(bins)).astype(float)
