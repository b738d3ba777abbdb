"""What every corrector shares: fit, transform, and the correction it leaves behind."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from modgap._arrays import to_numpy
from modgap._results import Progress, silent
from modgap._validate import Array, InputError, InputValueError, check_names, check_same_space
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Metric
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.moments import PairMoments


class NotFitted(InputError, NotFittedError):
    """The corrector must be fitted before it can be used."""


class NothingMovesWarning(UserWarning):
    """The correction leaves every row where it is."""


class Corrector(BaseEstimator, ABC):
    """Base of the correctors: subclasses store parameters and say how moments become maps.

    A subclass implements ``_maps(moments)`` and sets ``metric``; ``needs_pairs`` when row i of X
    must belong to row i of Y. What moments cannot give overrides ``_fit_rows``.
    """

    metric: Metric = "cosine"
    needs_pairs = False

    correction_: Correction

    def fit(
        self,
        X: Array | Embeddings | Modalities,
        Y: Array | Embeddings | None = None,
        *,
        names: Sequence[str] = DEFAULT_NAMES,
        model: str | None = None,
        moments: PairMoments | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn the maps from rows of both modalities.

        Rows in memory are used as they are; those on disk are read once, in batches.

        Parameters
        ----------
        X, Y : (n, d) and (m, d) arrays, tensors or Embeddings
            The two modalities, or one ``Modalities`` as ``X``. Only a corrector that needs pairs
            asks for row i of X to match row i of Y, or for groups.
        names : pair of str
            What the modalities are called.
        model : str, optional
            The name of the model, noted in the correction.
        moments : PairMoments, optional
            The moments of these very rows, where they are at hand already.
        progress : callable, optional
            Called as ``progress(step, done, total)``.
        """
        self._learn(Modalities.of(X, Y, names), model, moments, progress or silent)
        return self._warned()

    def _learn(
        self, data: Modalities, model: str | None, moments: PairMoments | None, say: Progress
    ) -> None:
        self._check_params()
        if self.needs_pairs:
            if not data.paired:
                raise InputValueError(self._pairs_needed())
            data = data.pairs()
            moments = data.pair_moments(say)
        elif moments is None:
            moments = data.moments(say, unit=False, nonzero=True)
        check_same_space(moments.x.given.mean[None, :], moments.y.given.mean[None, :], data.names)
        self._keep(self._fit_rows(data, moments), moments, data.names, model)

    def fit_moments(
        self,
        moments: PairMoments,
        *,
        names: Sequence[str] = DEFAULT_NAMES,
        model: str | None = None,
    ) -> Self:
        """Learn the maps from moments gathered beforehand, over shards for instance."""
        self._check_params()
        self._keep(self._maps(moments), moments, check_names(names), model)
        return self._warned()

    def _warned(self) -> Self:
        if reason := self.nothing_moves():
            warnings.warn(reason, NothingMovesWarning, stacklevel=3)
        return self

    def try_fit(
        self,
        data: Modalities,
        *,
        model: str | None = None,
        moments: PairMoments | None = None,
    ) -> tuple[Correction | None, str]:
        """The correction of a fresh copy of this corrector, or None and why there is none."""
        if self.needs_pairs and not data.paired:
            return None, "it needs pairs"
        copy = clone(self)
        try:
            copy._learn(data, model, moments, silent)
        except InputError as error:
            return None, str(error)
        reason = copy.nothing_moves()
        return (None, reason) if reason else (copy.correction_, "")

    def nothing_moves(self) -> str:
        """Why the fitted correction leaves every row where it is; empty where it moves rows."""
        return ""

    @property
    def label(self) -> str:
        """The corrector as it is written in code, without what is left at its default."""
        given = self.get_params()
        parameters = inspect.signature(type(self)).parameters.values()
        shown = [
            f"{p.name}={given[p.name]!r}"
            for place, p in enumerate(parameters)
            if place == 0 or given[p.name] != p.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

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

    def _pairs_needed(self) -> str:
        return (
            f"{type(self).__name__} needs pairs: row i of X must belong to row i of Y, or groups "
            "must say which rows match (--groups). The other correctors need none."
        )

    def _fit_rows(self, data: Modalities, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
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
        names: tuple[str, ...],
        model: str | None,
    ) -> None:
        named = dict(zip("xy", names, strict=True))
        about = self._about({named["x"]: moments.x.n, named["y"]: moments.y.n}, model)
        about["means_sha256"] = hash_of_means(moments)
        self.correction_ = Correction(
            (named["x"], named["y"]),
            {(named[side], role): affine for (side, role), affine in maps.items()},
            self.metric,
            about,
        )
        self.n_features_in_ = moments.x.dim


def hash_of_means(moments: PairMoments) -> str:
    """Tells whether two corrections were fitted on the same rows, to six digits."""
    digest = hashlib.sha256()
    for side in (moments.x, moments.y):
        digest.update(np.round(to_numpy(side.given.mean), 6).astype("<f8").tobytes())
    return digest.hexdigest()


def offset(moments: PairMoments, vector: Array, renormalise: bool = True) -> Affine:
    """The map that adds one vector to every row."""
    return Affine(moments.x.dim, offset=to_numpy(vector), renormalise=renormalise)
