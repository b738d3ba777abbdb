"""Split the data by group into three parts: to fit on, to choose on, to confirm on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import like
from modgap._validate import Array, first_matches
from modgap.io import Embeddings

# Groups used at most: fitting needs moments only, judging is quadratic.
MAX_FIT, MAX_JUDGE = 50_000, 1_000
SHARES = (0.5, 0.25, 0.25)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of both modalities and their groups."""

    X: Array
    Y: Array
    gx: np.ndarray
    gy: np.ndarray

    @property
    def n_groups(self) -> int:
        """Groups with rows on both sides."""
        return len(np.intersect1d(self.gx, self.gy))

    def pairs(self) -> tuple[Array, Array, np.ndarray]:
        """One pair per group: the first row of each side; and the groups."""
        ix, iy = first_matches((self.gx, self.gy), len(self.gx), len(self.gy))
        return self.X[like(ix, self.X)], self.Y[like(iy, self.Y)], self.gx[ix]


def split(
    X: Array | Embeddings, Y: Array | Embeddings, groups: Any, seed: int
) -> tuple[Part, Part, Part]:
    """Fit, choose and confirm parts. Rows without a match help fitting and nothing else."""
    gx, gy = groups
    rng = np.random.default_rng(seed)
    both = rng.permutation(np.intersect1d(gx, gy))
    ends = np.round(np.cumsum(SHARES) * len(both)).astype(int)
    single = np.setxor1d(gx, gy)
    parts = [
        np.concatenate([both[: ends[0]][:MAX_FIT], rng.permutation(single)[:MAX_FIT]]),
        both[ends[0] : ends[1]][:MAX_JUDGE],
        both[ends[1] : ends[2]][:MAX_JUDGE],
    ]
    return tuple(take_groups(X, Y, gx, gy, chosen) for chosen in parts)  # type: ignore[return-value]


def split_unpaired(X: Array | Embeddings, Y: Array | Embeddings, seed: int) -> tuple[Part, Part]:
    """Fit and judge parts of rows that are not known to match; each row is a group of its own."""
    rng = np.random.default_rng(seed)
    n, m = X.shape[0], Y.shape[0]
    rows_x, rows_y = rng.permutation(n), rng.permutation(m)
    # The judged index holds as many rows of each modality, so that a fair share is one half.
    judged = min(MAX_JUDGE, n // 2, m // 2)
    fit = _take(X, rows_x[judged:][:MAX_FIT]), _take(Y, rows_y[judged:][:MAX_FIT])
    judge = _take(X, rows_x[:judged]), _take(Y, rows_y[:judged])
    return (
        Part(*fit, np.arange(len(fit[0])), len(fit[0]) + np.arange(len(fit[1]))),
        Part(*judge, np.arange(judged), judged + np.arange(judged)),
    )


def take_groups(
    X: Array | Embeddings, Y: Array | Embeddings, gx: np.ndarray, gy: np.ndarray, chosen: np.ndarray
) -> Part:
    """The rows of the chosen groups."""
    ix, iy = np.flatnonzero(np.isin(gx, chosen)), np.flatnonzero(np.isin(gy, chosen))
    return Part(_take(X, ix), _take(Y, iy), gx[ix], gy[iy])


def _take(rows: Array | Embeddings, index: np.ndarray) -> Array:
    if isinstance(rows, Embeddings):
        return rows.take(index)
    return rows[like(index, rows)]
