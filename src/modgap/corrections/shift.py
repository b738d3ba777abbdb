"""Corrections that move a modality as a whole: along the gap, or to the origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from modgap._validate import InputValueError, check_choice, check_finite
from modgap.corrections.affine import Affine
from modgap.corrections.base import Corrector, offset
from modgap.moments import PairMoments, RowMoments


class Shift(Corrector):
    """x − amount·Δ and y + amount·Δ, renormalised; Δ is the gap vector (Liang et al., sec. 4.2).

    0 leaves the rows where they are, 0.5 makes the means meet before renormalising, a negative
    amount widens the gap.
    """

    def __init__(self, amount: float = 0.5) -> None:
        self.amount = amount

    def _check_params(self) -> None:
        check_finite(self.amount, "amount")

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        step = self.amount * moments.gap_vector()
        return {("x", "document"): offset(-step), ("y", "document"): offset(step)}


class OriginShift(Corrector):
    """Subtract amount·mean from one or both modalities, renormalised (Levi & Gilboa, sec. 5)."""

    def __init__(self, amount: float = 1.0, move: Literal["x", "y", "both"] = "both") -> None:
        self.amount = amount
        self.move = move

    def _check_params(self) -> None:
        check_finite(self.amount, "amount")
        check_choice(self.move, "move", ("x", "y", "both"))

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        if self.move != "both" and self.move not in sides:
            raise InputValueError(
                f"move={self.move!r} is for two modalities, got {len(sides)}: {', '.join(sides)}."
            )
        maps = {}
        for side, rows in sides.items():
            amount = self.amount if self.move in (side, "both") else 0.0
            maps[side, "document"] = offset(-amount * rows.mean)
        return maps


class Center(Corrector):
    """Subtract each modality's own mean and renormalise (as GR-CLIP and I0T do).

    Queries that are not like the documents of their modality have a mean of their own.
    """

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        maps = {(side, "document"): offset(-rows.mean) for side, rows in sides.items()}
        for side, rows in self.asking_moments_.items():
            maps[side, "query"] = offset(-rows.mean)
        return maps
