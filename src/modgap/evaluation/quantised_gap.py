"""Closing the gap before quantising, until it is least between the quantised rows (Chowers 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.arrays import as_float, to_numpy
from modgap.core.checks import Array, check_choice, check_numbers
from modgap.core.door import check_two
from modgap.core.results import Result
from modgap.corrections import OrthogonalShift
from modgap.evaluation.noise import Quantiser, UniformQuantiser
from modgap.evaluation.robustness import robustness

DEFAULT_AMOUNTS = tuple(np.linspace(-0.5, 2.0, 51).round(3).tolist())


@dataclass(frozen=True)
class QuantisedGap(Result):
    """For one number of levels: where the quantised gap is least, and the robustness there.

    ``gaps`` is ‖mean of quantised queries − mean of quantised candidates‖ at each of ``amounts``;
    ``amount`` is where it is least, the one nearest to 1 of several. Robustness is the share of
    queries whose nearest candidate, at the same amount, quantising does not change.
    """

    levels: int
    amounts: np.ndarray
    gaps: np.ndarray
    amount: float
    robustness_open: float
    robustness_closed: float
    robustness_least: float


def close_quantised_gap(
    queries: Array,
    candidates: Array,
    levels: Sequence[int] = (64, 128, 256, 512),
    *,
    amounts: Sequence[float] = DEFAULT_AMOUNTS,
    direction: Literal["gap", "orthogonal"] = "gap",
    explained_variance: float = 0.95,
    low: float = -3.0,
    high: float = 3.0,
) -> tuple[QuantisedGap, ...]:
    """Move the candidates along the gap until the gap is least in the quantised space.

    Both sides are quantised to even levels between ``low`` and ``high``; two levels keep the signs.
    Rounding does not keep means, so the least gap is not always at amount 1; reported is the
    robustness at 0 (open), at 1 (closed) and where the quantised gap is least. Amounts are compared
    by Euclidean distance, as in ``robustness``. ``modgap diagnose --goal quantised`` tries the
    amounts of two levels.

    Parameters
    ----------
    queries, candidates : (n, d) and (m, d) arrays
        Rows as they are searched.
    levels : sequence of int
        Numbers of levels to try.
    amounts : sequence of float
        Of the direction, to try.
    direction : {"gap", "orthogonal"}
        Candidates move by amount·g, g from their mean to the queries', or by its part orthogonal to
        the leading directions of the candidates (see ``OrthogonalShift``).
    explained_variance : float
        Share of the variance that the leading directions hold.
    low, high : float
        The range of the levels.
    """
    queries, candidates = (
        to_numpy(as_float(rows))
        for rows in check_two(queries, candidates, names=("queries", "candidates"))
    )
    steps = check_numbers(amounts, "amounts")
    check_choice(direction, "direction", ("gap", "orthogonal"))
    shift = OrthogonalShift("y", 0.0 if direction == "gap" else explained_variance)
    step = shift.fit(queries, candidates, rows="given").step_
    found = []
    for count in levels:
        quantiser = UniformQuantiser(count, low, high)
        gaps = quantised_gaps(queries, candidates, step, quantiser, steps)
        amount = least_amount(steps, gaps)
        kept = robustness(
            queries, candidates, quantiser, draws=1, amounts=[0.0, 1.0, amount],
            direction=step.astype(candidates.dtype),
        ).share  # fmt: skip
        found.append(QuantisedGap(count, steps, gaps, amount, *(float(share) for share in kept)))
    return tuple(found)


def quantised_gaps(
    queries: np.ndarray,
    candidates: np.ndarray,
    step: np.ndarray,
    quantiser: Quantiser,
    amounts: np.ndarray,
) -> np.ndarray:
    """The distance of the means of both sides' codes, by how far the candidates have moved."""
    goal = _mean(quantiser.queries(queries))
    moves = np.outer(amounts, step).astype(candidates.dtype)
    means = np.stack([_mean(quantiser.documents(candidates + move)) for move in moves])
    return np.asarray(np.linalg.norm(means - goal, axis=1))


def least_amount(amounts: np.ndarray, gaps: np.ndarray) -> float:
    """Where a gap is least; of several places the one nearest to 1, where the means meet."""
    least = amounts[gaps <= gaps.min() * (1 + 1e-9)]
    return float(least[np.argmin(np.abs(least - 1))])


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.mean(axis=0, dtype=np.float64))
