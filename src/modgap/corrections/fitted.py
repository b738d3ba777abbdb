"""What a correction remembers of the rows it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modgap._arrays import to_numpy
from modgap.moments import RowMoments


@dataclass(frozen=True, eq=False)
class FittedRows:
    """How many rows of a modality there were, and the mean and variance of each feature.

    Of the rows at unit length where the correction's maps bring them there, else as given.
    """

    n: int
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, rows: RowMoments) -> FittedRows:
        """From moments that hold variances."""
        return cls(rows.n, to_numpy(rows.mean), to_numpy(rows.variance))
