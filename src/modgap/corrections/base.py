"""What every corrector shares: fit, transform, and the correction it leaves behind."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from modgap._arrays import to_numpy
from modgap._validate import Array, InputError, check_names, check_two
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Metric
from modgap.moments import PairMoments


class NotFitted(InputError, NotFittedError):
    """The corrector must be fitted before it can be used."""


class Corrector(BaseEstimator, ABC):
    """Base of the correctors: subclasses store parameters and say how moments become maps.

    A subclass implements ``_maps(moments)`` and sets ``metric``; ``needs_pairs`` when row i of X
    must belong to row i of Y. What cannot be had from moments overrides ``_fit_rows``.
    """

    metric: Metric = "cosine"
    needs_pairs = False

    correction_: Correction

    def fit(
        self,
        X: Array,
        Y: Array,
        *,
        names: tuple[str, str] = ("image", "text"),
        model: str | None = None,
        moments: PairMoments | None = None,
    ) -> Corrector:
        """Learn the maps from rows of both modalities; ``model`` is noted in the correction.

        ``moments`` are those of these very rows, where they are at hand already.
        """
        self._check_params()
        X, Y = check_two(X, Y)
        if moments is None:
            moments = PairMoments.from_batch(X, Y, unit=False, paired=False)
        maps = self._fit_rows(X, Y, moments)
        return self._keep(maps, moments, names, model)

    def fit_moments(
        self,
        moments: PairMoments,
        *,
        names: tuple[str, str] = ("image", "text"),
        model: str | None = None,
    ) -> Corrector:
        """Learn the maps from moments gathered beforehand, over shards for instance."""
        self._check_params()
        return self._keep(self._maps(moments), moments, names, model)

    def transform(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """Both modalities as documents."""
        return self.transform_x(X), self.transform_y(Y)

    def transform_x(self, X: Array) -> Array:
        """Rows of the first modality as documents."""
        return self._fitted().x(X)

    def transform_y(self, Y: Array) -> Array:
        """Rows of the second modality as documents."""
        return self._fitted().y(Y)

    def fit_transform(self, X: Array, Y: Array, **options: Any) -> tuple[Array, Array]:
        """Fit, then transform the same rows."""
        return self.fit(X, Y, **options).transform(X, Y)

    def _fitted(self) -> Correction:
        if not hasattr(self, "correction_"):
            raise NotFitted(
                f"This {type(self).__name__} has not been fitted. Call fit(X, Y) first."
            )
        return self.correction_

    def _fit_rows(
        self, X: Array, Y: Array, moments: PairMoments
    ) -> Mapping[tuple[str, str], Affine]:
        return self._maps(moments)

    @abstractmethod
    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        """Maps keyed by ("x" or "y", role)."""

    def _check_params(self) -> None:
        """Refuse parameters that cannot be used."""

    def _about(self, fitted_on: Mapping[str, int], model: str | None) -> dict[str, Any]:
        """How a correction came to be."""
        return {
            "method": type(self).__name__,
            "parameters": self.get_params(),
            "fitted_on": dict(fitted_on),
            "model": model,
        }

    def _keep(
        self,
        maps: Mapping[tuple[str, str], Affine],
        moments: PairMoments,
        names: tuple[str, str],
        model: str | None,
    ) -> Corrector:
        named = dict(zip("xy", check_names(names), strict=True))
        about = self._about({named["x"]: moments.x.n, named["y"]: moments.y.n}, model)
        about["means_sha256"] = hash_of_means(moments)
        self.correction_ = Correction(
            (named["x"], named["y"]),
            {(named[side], role): affine for (side, role), affine in maps.items()},
            self.metric,
            about,
        )
        self.n_features_in_ = moments.x.dim
        return self


def hash_of_means(moments: PairMoments) -> str:
    """Tells whether two corrections were fitted on the same rows, to six digits."""
    digest = hashlib.sha256()
    for side in (moments.x, moments.y):
        digest.update(np.round(to_numpy(side.given.mean), 6).astype("<f8").tobytes())
    return digest.hexdigest()


def offset(moments: PairMoments, vector: Array, renormalise: bool = True) -> Affine:
    """The map that adds one vector to every row."""
    return Affine(moments.x.dim, offset=to_numpy(vector), renormalise=renormalise)
