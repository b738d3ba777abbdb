"""The dimensions that drive the gap, and what is left without them (Schrodi et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap.arrays import match_ranks, to_numpy, unit, widen
from modgap.core.checks import check_choice
from modgap.core.results import Result
from modgap.io import Modalities
from modgap.moments.pair import pair_moments_of

By = Literal["separability", "difference"]


@dataclass(frozen=True)
class DrivingDimensions(Result):
    """Gap and recall@1 without the dimensions that drive the gap.

    ``order`` (d,) are the dimensions, those that drive the gap most first. ``removed`` says how
    many of them are left out, ``gap`` is the distance of the means then, ``recall`` the recall@1
    both ways by name.
    """

    by: str
    order: np.ndarray
    removed: tuple[int, ...]
    gap: tuple[float, ...]
    recall: dict[str, tuple[float, ...]]

    def _brief(self) -> str:
        return f"gap {self.gap[0]:.3f}, without {self.removed[-1]} dimensions {self.gap[-1]:.3f}"


def driving_dimensions(
    X: Any, Y: Any = None, *, by: By = "separability", groups: Any = None
) -> DrivingDimensions:
    """Leave out the dimensions that drive the gap: 1, 2, 4, … up to half of them.

    Rows are brought to unit length, before and after dimensions are left out. So one sees how much
    of the gap a few dimensions carry, and whether retrieval gains without them.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, paths or tables
        Rows of two modalities, pairs row by row or by ``groups``.
    by : {"separability", "difference"}
        What puts dimensions in order: the difference of means beside the spread, or alone.
    groups : pair of labels, optional
        Which rows match.
    """
    check_choice(by, "by", ("separability", "difference"))
    data = Modalities.of(X, Y, groups=groups)
    rows = [unit(widen(side.rows())) for side in data.sides.values()]
    moments = pair_moments_of(*rows, detail="variance")
    drive = moments.separability() if by == "separability" else abs(moments.gap_vector())
    order = np.argsort(-to_numpy(drive), kind="stable")
    d = len(order)
    removed = (0, *(2**k for k in range(d.bit_length()) if 2**k <= d // 2))
    gaps: list[float] = []
    recall: dict[str, list[float]] = {f"{name}_retrieval_recall@1": [] for name in data.names}
    for n in removed:
        kept = np.sort(order[n:])
        left = [unit(side[:, kept]) for side in rows]
        gaps.append(pair_moments_of(*left, detail="mean").gap_distance())
        # Rows of X ask for rows of Y, the second name, and the other way round.
        ranks = match_ranks(left[0], left[1], data.group_codes)
        for name, own in zip(reversed(data.names), ranks, strict=True):
            recall[f"{name}_retrieval_recall@1"].append(float(np.mean(own == 0)))
    found = {name: tuple(values) for name, values in recall.items()}
    return DrivingDimensions(by, order, removed, tuple(gaps), found)
