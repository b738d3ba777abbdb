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
from modgap.evaluation import UniformQuantiser, robustness

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

    Both sides are quantised to even levels between ``low`` and ``high``. The candidates move by
    amount·g, g from their mean to the queries' (``"gap"``) or its part orthogonal to the leading
    directions of the candidates (``"orthogonal"``, see `OrthogonalShift`).
    Rounding does not keep means, so the least gap is not always at amount 1;
    reported is the robustness at 0 (open), at 1 (closed) and where the quantised gap is least.
    Amounts are compared by Euclidean distance, as in `robustness`.
    """
    queries, candidates = (
        to_numpy(as_float(rows))
        for rows in check_two(queries, candidates, names=("queries", "candidates"))
    )
    steps = check_numbers(amounts, "amounts")
    check_choice(direction, "direction", ("gap", "orthogonal"))
    explained_variance = 0.0 if direction == "gap" else explained_variance
    shift = OrthogonalShift(move="y", explained_variance=explained_variance).fit(
        queries, candidates, rows="given"
    )
    step = shift.correction_.map("text").offset
    assert step is not None
    step = step.astype(candidates.dtype)
    found = []
    for count in levels:
        quantiser = UniformQuantiser(count, low, high)
        goal = quantiser.queries(queries).mean(axis=0, dtype=np.float64)
        gaps = np.array(
            [
                np.linalg.norm(
                    quantiser.documents(candidates + step * candidates.dtype.type(amount)).mean(
                        axis=0, dtype=np.float64
                    )
                    - goal
                )
                for amount in steps
            ]
        )
        least = np.flatnonzero(gaps <= gaps.min() * (1 + 1e-9))
        amount = float(steps[least[np.argmin(np.abs(steps[least] - 1))]])
        kept = robustness(
            queries, candidates, quantiser, draws=1, amounts=[0.0, 1.0, amount], direction=step
        ).share
        found.append(QuantisedGap(count, steps, gaps, amount, *(float(share) for share in kept)))
    return tuple(found)
