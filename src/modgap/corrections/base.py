"""What every corrector shares: fit, transform, and the correction it leaves behind."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from modgap._arrays import to_numpy
from modgap._results import Progress, silent
from modgap._validate import (
    Array,
    InputError,
    InputValueError,
    check_choice,
    check_names,
    check_same_space,
)
from modgap.corrections.affine import Affine
from modgap.corrections.asking import asking_modality
from modgap.corrections.correction import Correction, Metric
from modgap.corrections.fitted import FittedRows
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.moments import PairMoments, RowMoments

RowLength = Literal["unit", "given"]


def row_length(metric: Metric) -> RowLength:
    """How a correction takes the rows of an index that ranks by this metric.

    Cosines do not look at lengths, so the maps must not either.
    """
    return "unit" if metric == "cosine" else "given"


class NotFitted(InputError, NotFittedError):
    """The corrector must be fitted before it can be used."""


class NothingMovesWarning(UserWarning):
    """The correction leaves every row where it is."""


class Corrector(BaseEstimator, ABC):
    """Base of the correctors: subclasses store parameters and say how moments become maps.

    A subclass implements ``_maps(moments)`` and sets ``metric``; ``needs_pairs`` when row i of X
    must belong to row i of Y. What moments cannot give overrides ``_fit_rows``. One whose maps
    serve the queries of a single modality says so in ``serves_one`` and finds it in ``asking_``.
    Bringing rows to unit length is left to this class.
    """

    metric: Metric = "cosine"
    needs_pairs = False

    correction_: Correction
    # The key of the maps, "x" or "y", whose queries they serve, where they serve one only.
    asking_: str | None

    def fit(
        self,
        X: Array | Embeddings | Modalities,
        Y: Array | Embeddings | None = None,
        *,
        names: Sequence[str] = DEFAULT_NAMES,
        queries: str | None = None,
        rows: RowLength = "unit",
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
        queries : str, optional
            The modality whose queries a correction is for that serves one only, as ``Calibrate``
            does; "text" where that is a name.
        rows : {"unit", "given"}
            "unit" brings every row to unit length first, here and in the maps, as cosines do;
            "given" uses rows as they are, for searches by inner product or Euclidean distance.
        model : str, optional
            The name of the model, noted in the correction.
        moments : PairMoments, optional
            The moments of these very rows, where they are at hand already, with those of the unit
            rows where ``rows`` is "unit".
        progress : callable, optional
            Called as ``progress(step, done, total)``.
        """
        data = Modalities.of(X, Y, names)
        self._learn(data, queries, rows, model, moments, progress or silent)
        return self._warned()

    def _learn(
        self,
        data: Modalities,
        queries: str | None,
        rows: RowLength,
        model: str | None,
        moments: PairMoments | None,
        say: Progress,
    ) -> None:
        self._check_params()
        self._ask(queries, data.names)
        unit = is_unit(rows)
        if self.needs_pairs:
            if not data.paired:
                raise InputValueError(self._pairs_needed())
            data = data.pairs()
            moments = data.pair_moments(say)
        elif moments is None:
            moments = data.moments(say, unit=unit, nonzero=True)
        check_same_space(moments.x.given.mean[None, :], moments.y.given.mean[None, :], data.names)
        used = moments.at_unit_length() if unit else moments
        self._keep(self._fit_rows(data, used, unit), _sides(used), data.names, unit, model)

    def fit_moments(
        self,
        moments: PairMoments,
        *,
        names: Sequence[str] = DEFAULT_NAMES,
        queries: str | None = None,
        rows: RowLength = "unit",
        model: str | None = None,
    ) -> Self:
        """Learn the maps from moments gathered beforehand, over shards for instance.

        Parameters
        ----------
        moments : PairMoments
            With those of the unit rows where ``rows`` is "unit".
        names, queries, rows, model
            As for ``fit``.
        """
        self._check_params()
        self._ask(queries, check_names(names))
        unit = is_unit(rows)
        used = moments.at_unit_length() if unit else moments
        self._keep(self._maps(used), _sides(used), check_names(names), unit, model)
        return self._warned()

    @property
    def serves_one(self) -> bool:
        """Whether the maps serve the queries of one modality only."""
        return False

    def _ask(self, queries: str | None, names: Sequence[str]) -> None:
        asking = asking_modality(queries, names) if self.serves_one or queries else None
        self.asking_ = "xy"[names.index(asking)] if asking and self.serves_one else None

    def _warned(self) -> Self:
        if reason := self.nothing_moves():
            warnings.warn(reason, NothingMovesWarning, stacklevel=3)
        return self

    def try_fit(
        self,
        data: Modalities,
        *,
        queries: str | None = None,
        rows: RowLength = "unit",
        model: str | None = None,
        moments: PairMoments | None = None,
    ) -> tuple[Correction | None, str]:
        """The correction of a fresh copy of this corrector, or None and why there is none.

        Parameters
        ----------
        data : Modalities
            The rows to fit on.
        queries, rows, model, moments
            As for ``fit``.
        """
        if self.needs_pairs and not data.paired:
            return None, "it needs pairs"
        copy = clone(self)
        try:
            copy._learn(data, queries, rows, model, moments, silent)
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

    def _fit_rows(
        self, data: Modalities, moments: PairMoments, unit: bool
    ) -> Mapping[tuple[str, str], Affine]:
        """Maps from the rows themselves, at unit length where ``unit`` is set."""
        return self._maps(moments)

    @abstractmethod
    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        """Maps keyed by ("x" or "y", role)."""

    def _check_params(self) -> None:
        """Refuse parameters that cannot be used."""

    def _keep(
        self,
        maps: Mapping[tuple[str, str], Affine],
        sides: Mapping[str, RowMoments],
        names: Sequence[str],
        unit: bool,
        model: str | None,
    ) -> None:
        """The correction of maps and moments whose keys are called ``names``."""
        named = dict(zip(sides, names, strict=True))
        rows = {named[side]: moments for side, moments in sides.items()}
        self.correction_ = Correction(
            tuple(names),
            {
                (named[side], role): replace(affine, normalise=unit)
                for (side, role), affine in maps.items()
            },
            self.metric,
            {
                "method": type(self).__name__,
                "label": self.label,
                "parameters": self.get_params(),
                "fitted_on": {name: moments.n for name, moments in rows.items()},
                "rows": "unit" if unit else "given",
                "model": model,
                "means_sha256": _hash(rows.values()),
            },
            queries=() if self.asking_ is None else (named[self.asking_],),
            fitted=FittedRows.of_each(rows),
        )
        self.n_features_in_ = self.correction_.dim_in


def is_unit(rows: RowLength) -> bool:
    """Whether rows are brought to unit length first."""
    return check_choice(rows, "rows", ("unit", "given")) == "unit"


def _sides(moments: PairMoments) -> dict[str, RowMoments]:
    return {"x": moments.x.given, "y": moments.y.given}


def hash_of_means(moments: PairMoments) -> str:
    """Tells whether two corrections were fitted on the same rows, to six digits."""
    return _hash(_sides(moments).values())


def _hash(sides: Iterable[RowMoments]) -> str:
    digest = hashlib.sha256()
    for side in sides:
        digest.update(np.round(to_numpy(side.mean), 6).astype("<f8").tobytes())
    return digest.hexdigest()


def offset(moments: PairMoments, vector: Array, renormalise: bool = True) -> Affine:
    """The map that adds one vector to every row."""
    return Affine(moments.x.dim, offset=to_numpy(vector), renormalise=renormalise)
