"""The rows that a correction was fitted on: how many, their mean and their variance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputValueError, check_all_finite
from modgap.core.results import Brief, unchecked
from modgap.moments import RowMoments


@dataclass(frozen=True, eq=False)
class FittedRows(Brief):
    """How many rows of a modality there were, and the mean and variance of each feature.

    Of the rows at unit length where the correction's maps bring them there, else as given. The
    ``covariance`` of query rows is kept where the map of a further modality takes it.
    """

    n: int
    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_all_finite(self.mean, "The mean of the fitted rows")
        check_all_finite(self.variance, "The variance of the fitted rows")
        if self.covariance is not None:
            check_all_finite(self.covariance, "The covariance of the fitted rows")
            if self.covariance.shape != (len(self.mean),) * 2:
                raise InputValueError(
                    f"The covariance of rows of {len(self.mean)} columns must be square, got shape "
                    f"{self.covariance.shape}."
                )

    @classmethod
    def of_each(
        cls, moments: Mapping[str, RowMoments], spreads: Collection[str] = ()
    ) -> dict[str, FittedRows]:
        """Those of every modality, with the covariance of those in ``spreads``.

        Nothing where only means were gathered.
        """
        if any(rows.scatter is None for rows in moments.values()):
            return {}
        return {
            name: unchecked(
                cls,
                n=rows.n,
                mean=to_numpy(rows.mean),
                variance=to_numpy(rows.variance),
                covariance=to_numpy(rows.covariance) if name in spreads else None,
            )
            for name, rows in moments.items()
        }

    def tensors(self, prefix: str) -> dict[str, np.ndarray]:
        """Its arrays, named for a file; of the covariance one half, in single precision."""
        held = {f"{prefix}.mean": self.mean, f"{prefix}.variance": self.variance}
        if self.covariance is not None:
            half = self.covariance[np.tril_indices(len(self.mean))]
            held[f"{prefix}.covariance"] = half.astype(np.float32)
        return held

    @classmethod
    def read(cls, n: int, prefix: str, tensors: Mapping[str, np.ndarray]) -> FittedRows:
        """What ``tensors`` gave."""
        mean, half = tensors[f"{prefix}.mean"], tensors.get(f"{prefix}.covariance")
        whole = None
        if half is not None:
            whole = np.zeros((len(mean),) * 2)
            whole[np.tril_indices(len(mean))] = half
            whole = whole + np.tril(whole, -1).T
        return cls(n, mean, tensors[f"{prefix}.variance"], whole)
