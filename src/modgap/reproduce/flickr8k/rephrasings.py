"""What trained towers make of captions in other words, and of removed normalisation layers.

Each photo has several captions by different people, which are rephrasings of each other (Chowers
et al. 2026, figs 10 and 15). Without their normalisation trained towers are those of fig. 15 of
Liang et al. 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor

from modgap.arrays import unit
from modgap.evaluation.robustness import noise_correlation
from modgap.reproduce.statistics import gap_beside_chance, share_along
from modgap.tasks import rephrased_choice, rephrased_choice_task
from modgap.train.data import Data
from modgap.train.hooks import embed_split
from modgap.train.towers.normalisation import pixel_scale, without_normalisation

# As in fig. 10 the right text and three wrong ones; wrong ones are drawn from so many.
WRONG, BANK, DRAWS = 3, 50, 50
# The gap doubled, as trained, and closed.
AMOUNTS = {"widened": -1.0, "as_trained": 0.0, "closed": 1.0}
_BATCH = 500


def rephrasings(model: Any, data: Data) -> dict[str, float]:
    """How held-out photos choose among captions, and how captions of one photo differ."""
    X, Y = _rows(model, data, data.prepare)
    return {**_choices(X, Y), **_changes(X, Y)}


def gap_without_normalisation(model: Any, data: Data) -> dict[str, float]:
    """The gap of held-out pairs with all normalisation, and without any, beside that by chance."""
    bare, pixels = without_normalisation(model), partial(_unscaled, data.prepare)
    found: dict[str, float] = {}
    for name, towers, prepare in (
        ("normalised", model, data.prepare), ("unnormalised", bare, pixels)
    ):  # fmt: skip
        X, Y = _rows(towers, data, prepare)
        beside = gap_beside_chance(X, Y[:, 0], np.random.default_rng(0))
        found |= {f"{name}_{metric}": value for metric, value in beside.items()}
    return found


def _rows(
    model: Any, data: Data, prepare: Callable[[Tensor], Tensor]
) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of the photos (n, d), and of as many captions of each as all have (n, k, d)."""
    X, Y, _ = embed_split(model, data.test, prepare, _BATCH)
    each = int(data.test.count.min())
    X, Y = (unit(rows.double().cpu().numpy()) for rows in (X, Y))
    return X, Y[data.test.first.cpu().numpy()[:, None] + np.arange(each)]


def _unscaled(prepare: Callable[[Tensor], Tensor], pixels: Tensor) -> Tensor:
    """Pixels from 0 to 1."""
    found = prepare(pixels)
    factor, shift = (each.to(found.device) for each in pixel_scale())
    return (found - shift) / (255 * factor)


def _choices(X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Accuracy among four captions, the right one in the first wording or in another (fig. 10)."""
    n, k, _ = Y.shape
    rng = np.random.default_rng(0)
    # Other photos in an order of its own for each photo.
    jumps = rng.permuted(np.tile(np.arange(1, n), (n, 1)), axis=1)[:, :BANK]
    others = (np.arange(n)[:, None] + jumps) % n
    first = Y[:, 0][np.column_stack([np.arange(n), others[:, :WRONG]])]
    wrong = Y[others, rng.integers(k, size=others.shape)]
    right = np.zeros(n, dtype=np.int64)
    task = rephrased_choice_task(X, first, right, Y[:, 1:], wrong, draws=DRAWS)
    found = rephrased_choice(task, amounts=[*AMOUNTS.values()])
    accuracy = dict(zip(AMOUNTS, found.rephrased.tolist(), strict=True))
    return {
        "rephrasing_clean": float(found.clean.max()),
        "rephrasing_clean_changed": float(np.ptp(found.clean)),
        **{f"rephrasing_{name}": value for name, value in accuracy.items()},
        "rephrasing_gap_closed": found.closed,
    }


def _changes(X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """d(C) of the least correlated change from one caption to another (fig. 15), and by chance."""
    changes = [Y[:, b] - Y[:, a] for a, b in combinations(range(Y.shape[1]), 2)]
    correlations = [noise_correlation(change) for change in changes]
    least = changes[int(np.argmin(correlations))]
    gap = X.mean(axis=0) - Y.mean(axis=(0, 1))
    shuffled = np.random.default_rng(0).permuted(least, axis=0)
    return {
        "rewording_correlation": min(correlations),
        "rewording_correlation_by_chance": noise_correlation(shuffled),
        "rewording_along_gap": float(np.mean([share_along(change, gap) for change in changes])),
    }
