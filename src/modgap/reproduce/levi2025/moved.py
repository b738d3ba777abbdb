"""The loss of every pair, and the conformity of every row, as the ellipsoids move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.reproduce.levi2025.histograms import Binned, divergences
from modgap.reproduce.levi2025.resampled import all_and_drawn
from modgap.reproduce.levi2025.rows import BINS

Move = Literal["x", "y", "both"]


@dataclass(frozen=True, eq=False)
class Curves:
    """Means over the pairs by α: of the whole set in the first row, then of pairs drawn anew.

    What a pair is compared with stays all other pairs, as they are.
    """

    alphas: np.ndarray
    loss: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray
    matched: np.ndarray
    mismatched: np.ndarray
    divergence: np.ndarray


def moved_curves(
    X: np.ndarray, Y: np.ndarray, alphas: Sequence[float], move: Move, temperature: float
) -> Curves:
    """What ``modgap.measures.origin_landscape`` measures, with draws of the pairs beside it.

    Parameters
    ----------
    X, Y
        Pairs, row by row.
    alphas
        How much of its mean is taken off each row.
    move
        Which side moves.
    temperature
        Of the loss.
    """
    means = X.mean(axis=0), Y.mean(axis=0)
    products = X @ Y.T
    along = X @ means[1], Y @ means[0]
    per_pair: dict[str, list[np.ndarray]] = {}
    for alpha in alphas:
        ax, ay = alpha * (move != "y"), alpha * (move != "x")
        sides = X - ax * means[0], Y - ay * means[1]
        norms = [np.linalg.norm(side, axis=1) for side in sides]
        S = products - ay * along[0][:, None] - ax * along[1] + ax * ay * (means[0] @ means[1])
        found = _of_pairs(S / norms[0][:, None] / norms[1] / temperature)
        for name, side, norm in zip(("x", "y"), sides, norms, strict=True):
            unit = side / norm[:, None]
            found[f"conformity {name}"] = (unit @ unit.sum(axis=0) - 1) / (len(unit) - 1)
        for name, values in found.items():
            per_pair.setdefault(name, []).append(values)
    return _curves(np.array(alphas), {name: np.stack(rows) for name, rows in per_pair.items()})


def _of_pairs(logits: np.ndarray) -> dict[str, np.ndarray]:
    """Own logit, and cross-entropy and hit in each direction, of every pair."""
    own, largest = np.diag(logits).copy(), logits.max()
    found = {"own": own}
    tops = {"x": logits.max(axis=1), "y": logits.max(axis=0)}
    # One shift for all: cosines differ by 2 at most, and no temperature in use is that low.
    logits -= largest
    shares = np.exp(logits, out=logits)
    for axis, (side, top) in enumerate(tops.items()):
        found[f"loss {side}"] = largest + np.log(shares.sum(axis=1 - axis)) - own
        found[f"hit {side}"] = (own >= top).astype(float)
    return found


def _curves(alphas: np.ndarray, found: dict[str, np.ndarray]) -> Curves:
    n = found["own"].shape[1]
    weights = all_and_drawn(n)

    def mean(values: np.ndarray) -> np.ndarray:
        return weights @ values.T

    losses = {side: found[f"loss {side}"] for side in "xy"}
    hits = {side: found[f"hit {side}"] for side in "xy"}
    loss, own = mean(losses["x"] + losses["y"]) / 2, mean(found["own"])
    with np.errstate(invalid="ignore", divide="ignore"):  # none matched, or all of them
        matched, mismatched = (
            mean(sum(losses[side] * hit[side] for side in "xy")) / mean(hit["x"] + hit["y"])
            for hit in (hits, {side: 1 - hits[side] for side in "xy"})
        )
    binned = Binned.of(found["conformity x"], found["conformity y"], BINS)
    return Curves(
        alphas, loss, -own, loss + own, matched, mismatched, divergences(binned, weights, weights)
    )
