"""A case: ours, its yardstick, and how far apart they may be; and the rows that cases share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """Ours and its yardstick.

    ``limit`` bounds ours/yardstick, ``megabytes`` our peak memory. Where both do the same job,
    ``apart`` takes what the two return and says how far apart the numbers are, ``tolerance`` how
    far they may be; ``weighed`` asks for the yardstick's memory too, ``room`` says how many
    gigabytes must be free for it, and ``once`` runs it once only, without a warm-up.
    """

    what: str
    yardstick: str
    ours: Callable[[], Any]
    bare: Callable[[], Any]
    limit: float | None = None
    megabytes: float | None = None
    apart: Callable[[Any, Any], float] | None = None
    tolerance: float = 0.0
    weighed: bool = False
    room: float = 1.0
    once: bool = False


def rows(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def unit(given: np.ndarray) -> np.ndarray:
    return given / np.linalg.norm(given, axis=1, keepdims=True)


def pairs(n: int, d: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Made-up pairs that resemble CLIP's: two narrow cones with a gap, pairs nearer than others."""
    shared = rows(n, d, 0)
    gap = np.float32(0.4) * np.sign(rows(1, d, 1))
    sides = [
        np.float32(0.6) * (shared + np.float32(0.5)) + np.float32(0.6) * rows(n, d, seed) + side
        for seed, side in ((2, gap), (3, -gap))
    ]
    return unit(sides[0]), unit(sides[1])


def blocked_product(A: np.ndarray, B: np.ndarray, size: int = 2048) -> None:
    """A Bᵀ block by block, none of it kept."""
    out = np.empty((size, size), dtype=A.dtype)
    for i in range(0, len(A), size):
        for j in range(0, len(B), size):
            left, right = A[i : i + size], B[j : j + size]
            np.matmul(left, right.T, out=out[: len(left), : len(right)])


def largest(ours: Any, theirs: Any) -> float:
    """The largest difference of two arrays of numbers."""
    a, b = (np.asarray(numbers, dtype=np.float64) for numbers in (ours, theirs))
    return float(np.max(np.abs(a - b)))


def share_different(ours: Any, theirs: Any) -> float:
    """The share of entries that are not the same."""
    return float(np.mean(np.asarray(ours) != np.asarray(theirs)))
