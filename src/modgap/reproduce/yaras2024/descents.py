"""Free embeddings on the sphere trained with the methods of Yaras et al. 2024, sec. 4 and D."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modgap.reproduce.entry import Setting

Pair = tuple[np.ndarray, np.ndarray]
RATE = 0.05
# CLIP's first temperature, and how fast ν is learned beside the embeddings.
FIRST, TEMPERATURE_RATE = 0.07, 0.3
SEGMENTS = 20
ON_DESCENTS = (
    "free embeddings on the sphere, each its own parameter, from two clusters with a gap, where "
    "the paper trains CLIP on MS-COCO"
)
FAST = "50 pairs in 32 dimensions, 3,000 steps"
FULL = "100 pairs in 64 dimensions, 20,000 steps"


def start(setting: Setting) -> tuple[Pair, int]:
    """Two clusters with a gap as wide as a random start gives, and the number of steps."""
    from modgap.simulate.dynamics_start import make_clusters

    n, dim, steps = (100, 64, 20_000) if setting.full else (50, 32, 3_000)
    return make_clusters(n, dim, gap=2.0, spread=0.1, sphere=True, seed=setting.seed), steps


def descend_at(pair: Pair, temperatures: Sequence[float], steps: int) -> np.ndarray:
    """The gap at the end of each stretch of a descent whose temperature is set, in CLIP's scale."""
    from modgap.simulate.dynamics import descend

    (X, Y), gaps = pair, []
    for temperature in temperatures:
        # On unit rows −‖x − y‖²/τ is 2 cos/τ: CLIP's temperature is half of descend's.
        each = steps // len(temperatures)
        run = descend(X, Y, 2 * temperature, each, RATE, sphere=True, records=2)
        X, Y = run.X, run.Y
        gaps.append(float(run.gap_distance[-1]))
    return np.array(gaps)


def descend_learned(pair: Pair, rate: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Gap and temperature at the end of each stretch when the temperature is learned."""
    from modgap.simulate.dynamics import descend

    marks = [steps * (k + 1) // SEGMENTS for k in range(SEGMENTS)]
    run = descend(
        *pair, 2 * FIRST, steps, RATE, sphere=True, records=marks, temperature_rate=rate
    )  # fmt: skip
    return run.gap_distance[-SEGMENTS:], run.temperature[-SEGMENTS:] / 2


def ramp(end: float) -> np.ndarray:
    """Temperatures that rise from 0.01 in a straight line (S0 to S3)."""
    return np.linspace(0.01, end, SEGMENTS)


def alternation(end: float) -> np.ndarray:
    """Temperatures between 0.01 and another along a cosine, four times (A0, A1)."""
    turn = 2 * np.pi * np.arange(2 * SEGMENTS) / (SEGMENTS / 2)
    return 0.01 + (end - 0.01) * (1 - np.cos(turn)) / 2


def hard_swap(X: np.ndarray, Y: np.ndarray, mask: np.ndarray) -> Pair:
    """Exchange the masked entries of the two sides (appendix D.2); twice is as before."""
    return np.where(mask, Y, X), np.where(mask, X, Y)


def soft_swap(X: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> Pair:
    """Mix the entries of the two sides, each by its own weight (appendix D.2)."""
    return weight * X + (1 - weight) * Y, weight * Y + (1 - weight) * X


def descend_swapped(pair: Pair, temperature: float, share: float, steps: int, seed: int) -> float:
    """The gap after a descent in which a share of the steps sees hard-swapped rows."""
    from modgap.measure import gap_distance
    from modgap.simulate.dynamics_loss import forces

    X, Y = (rows.copy() for rows in pair)
    rng = np.random.default_rng(seed)
    A = np.empty((len(X), len(X)))
    for _ in range(steps):
        swap = rng.random() < share
        mask = rng.random(X.shape) < 0.5 if swap else np.zeros(X.shape, dtype=bool)
        P, Q = hard_swap(X, Y, mask)
        forces(P @ Q.T / temperature, out=A)
        pulls = hard_swap(A @ Q, A.T @ P, mask)
        for rows, pull in zip((X, Y), pulls, strict=True):
            along = np.einsum("ij,ij->i", pull, rows)[:, None]
            rows -= RATE / (len(X) * temperature) * (pull - along * rows)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return gap_distance(X, Y)
