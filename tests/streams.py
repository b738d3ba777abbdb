"""What the tests of drift and of the monitor share: streams with sessions, and planted changes."""

from __future__ import annotations

import numpy as np

DIM = 12
SPREADS = np.exp(-np.arange(DIM) / 6.0)


def stream(
    rng: np.random.Generator, n: int, *, session: int = 1, mean: float | np.ndarray = 1.0
) -> np.ndarray:
    """Rows that vary more in some columns than in others; those of a session share a topic."""
    own = rng.normal(size=(n, DIM))
    if session > 1:
        topics = np.repeat(rng.normal(size=(-(-n // session), DIM)), session, axis=0)[:n]
        own = 0.8 * topics + 0.6 * own
    return own * SPREADS + mean


def turned(rows: np.ndarray) -> np.ndarray:
    """The rows turned about their mean: the most spread column becomes the least spread one."""
    mean = rows.mean(axis=0)
    return (rows - mean)[:, ::-1] + mean


class Clock:
    """A clock that is set by hand."""

    now = 1e9

    def __call__(self) -> float:
        return self.now
