"""What a correction remembers of the rows it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modgap._arrays import to_numpy
from modgap._results import Brief, unchecked
from modgap._validate import check_all_finite
from modgap.moments import RowMoments


@dataclass(frozen=True, eq=False)
class FittedRows(Brief):
    """How many rows of a modality there were, and the mean and variance of each feature.

    Of the rows at unit length where the correction's maps bring them there, else as given.
    """

    n: int
    mean: np.ndarray
    variance: np.ndarray

    def __post_init__(self) -> None:
        check_all_finite(self.mean, "The mean of the fitted rows")
        check_all_finite(self.variance, "The variance of the fitted rows")

    @classmethod
    def of_each(cls, moments: Mapping[str, RowMoments]) -> dict[str, FittedRows]:
        """Those of every modality; nothing where only means were gathered."""
        if any(rows.scatter is None for rows in moments.values()):
            return {}
        return {
            name: unchecked(
                cls, n=rows.n, mean=to_numpy(rows.mean), variance=to_numpy(rows.variance)
            )
            for name, rows in moments.items()
        }
