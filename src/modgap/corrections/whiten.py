"""Whitening: each modality to mean zero and identity covariance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import InputValueError, check_finite
from modgap.corrections.affine import Affine
from modgap.corrections.base import Corrector
from modgap.moments import RowMoments


class Whiten(Corrector):
    """Centre each modality and map it to identity covariance, then renormalise (Levi, app. B).

    The map is the symmetric inverse root of (1 − shrinkage)·C + shrinkage·(trace C / d)·I. With
    ``shrinkage=0`` directions without variance, as there are with fewer rows than dimensions,
    are left out rather than blown up.
    """

    def __init__(self, shrinkage: float = 0.1) -> None:
        self.shrinkage = shrinkage

    def _check_params(self) -> None:
        check_finite(self.shrinkage, "shrinkage")
        if not 0 <= self.shrinkage <= 1:
            raise InputValueError(f"shrinkage must be between 0 and 1, got {self.shrinkage}.")

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        return {(side, "document"): self._map(rows) for side, rows in sides.items()}

    def _map(self, rows: RowMoments) -> Affine:
        values, vectors = rows.spectrum
        average = float(np.mean(values))
        if average <= 0:
            raise InputValueError(
                "Whitening needs rows that vary: all rows of a side are the same."
            )
        values = (1 - self.shrinkage) * values + self.shrinkage * average
        kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
        roots = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
        matrix = (vectors * roots) @ vectors.T
        mean = to_numpy(rows.mean)
        return Affine.fitted(len(mean), matrix, offset=-(matrix @ mean), renormalise=True)
