"""What every corrector shares: fit, transform, and the correction it leaves behind."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from modgap.core.checks import Array, InputError, InputValueError, check_choice, check_names
from modgap.core.door import opened_two
from modgap.core.results import Progress, changed, silent, unchecked
from modgap.corrections.affine import Affine, check_maps
from modgap.corrections.correction import Correction, Metric
from modgap.corrections.fitted_moments import (
    RowLength,
    check_one_space,
    hash_of_means,
    side_keys,
    sides_of,
    unit_or_given,
    used_moments,
    wanted_moments,
)
from modgap.corrections.fitted_rows import FittedRows
from modgap.corrections.labels import code_label, given_parameters
from modgap.corrections.query_names import query_modalities
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.moments import PairMoments, RowMoments


class NotFitted(InputError, NotFittedError):
    """The corrector must be fitted before it can be used."""


class NothingMovesWarning(UserWarning):
    """The correction leaves every row where it is."""


class Corrector(BaseEstimator, ABC):
    """Base of the correctors: subclasses store parameters and say how moments become maps.

    A subclass implements ``_maps(moments)`` for two modalities, or ``_maps_of(sides)`` for any
    number, and sets ``metric``; ``needs_pairs`` when row i of X must belong to row i of Y. What
    moments cannot give overrides ``_fit_rows``. One whose maps serve the queries of a single
    modality says so in ``serves_one`` and finds it in ``asking_``. Bringing rows to unit length is
    left to this class.
    """

    metric: Metric = "cosine"
    needs_pairs = False

    correction_: Correction
    # The key of the maps ("x" or "y", beyond two modalities a name) whose queries they serve, where
    # they serve one only.
    asking_: str | None
    # Moments of the query rows, by the same keys, where these are not the documents.
    asking_moments_: dict[str, RowMoments]

    def fit(
        self,
        X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
        Y: Array | Embeddings | None = None,
        *,
        names: Sequence[str] = DEFAULT_NAMES,
        queries: str | None = None,
        query_rows: Mapping[str, Array | Embeddings] | None = None,
        bank: Array | Embeddings | None = None,
        rows: RowLength = "unit",
        model: str | None = None,
        moments: PairMoments | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn the maps from rows of all modalities.

        Rows in memory are used as they are; those on disk are read once, in batches.

        Parameters
        ----------
        X, Y : (n, d) and (m, d) arrays, tensors, Embeddings, paths or tables
            The two modalities; or all of them as ``X``, a mapping of names to rows, one path or
            table, or one ``Modalities``. Only a corrector that needs pairs asks for row i of X to
            match row i of Y, or for groups.
        names : pair of str
            What the modalities are called.
        queries : str, optional
            The modality whose queries a correction is for that serves one only, as ``Calibrate``
            does; "text" where that is a name.
        query_rows : mapping of str to (n, d) arrays, optional
            Queries by modality, where they are not like its documents: short queries beside long
            captions, or a model with a prompt for queries.
        bank : (n, d) array, optional
            Unlabelled queries like those of your users, such as a query log, for a correction with
            hubs. Default: the rows of the query modality; a document skips its own.
        rows : {"unit", "given"}
            "unit" brings every row to unit length first, here and in the maps, as cosines do;
            "given" uses rows as they are, for searches by inner product or Euclidean distance.
        model : str, optional
            The name of the model, stored in the correction.
        moments : PairMoments, optional
            The moments of these very rows, if already computed, with those of the unit
            rows where ``rows`` is "unit".
        progress : callable, optional
            Called as ``progress(step, done, total)``.
        """
        self._check_params()
        self._check_bank(bank)
        unit = check_choice(rows, "rows", ("unit", "given")) == "unit"
        data = Modalities.of(X, Y, names)
        if query_rows is not None:
            data = data.with_queries(query_rows)
        check_one_space(data)
        self._learn(data, queries, bank, unit, model, moments, progress or silent)
        return self._warned()

    def _learn(
        self,
        data: Modalities,
        queries: str | None,
        bank: Array | Embeddings | None,
        unit: bool,
        model: str | None,
        moments: PairMoments | None,
        say: Progress,
    ) -> None:
        """``fit`` of modalities of one space, with parameters that are checked."""
        self._ask(queries, data.names)
        keys = dict(zip(data.names, side_keys(data.names), strict=True))
        self.asking_moments_ = {
            keys[name]: used_moments(side, f"{name} queries", unit, say)
            for name, side in data.asking.items()
        }
        if len(data.names) == 2:
            used = self._pair_moments(data, unit, moments, say)
            sides = sides_of(used)
            maps = self._fit_rows(data, used, unit)
        else:
            found = data.side_moments(say, **wanted_moments(unit))
            sides = {name: unit_or_given(m, unit) for name, m in found.items()}
            maps = self._maps_of(sides)
        self._keep(maps, sides, data.names, unit, model)
        self._after_fit(data, bank)

    def _pair_moments(
        self, data: Modalities, unit: bool, given: PairMoments | None, say: Progress
    ) -> PairMoments:
        """The moments of two modalities, across them where pairs are needed."""
        if self.needs_pairs:
            if not data.paired:
                raise InputValueError(self._pairs_needed())
            found = data.pairs(copied=False).pair_moments(say)
        else:
            found = given or data.moments(say, **wanted_moments(unit))
        return found.at_unit_length() if unit else found

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
        if self.needs_bank:
            raise InputValueError(
                f"{self.label} needs rows for its bank of queries, which moments do not have. Use "
                "fit."
            )
        self._ask(queries, check_names(names))
        self.asking_moments_ = {}
        unit = check_choice(rows, "rows", ("unit", "given")) == "unit"
        used = moments.at_unit_length() if unit else moments
        self._keep(self._maps(used), sides_of(used), check_names(names), unit, model)
        return self._warned()

    @property
    def takes_many(self) -> bool:
        """Whether it works on more than two modalities."""
        return type(self)._maps_of is not Corrector._maps_of

    @property
    def needs_bank(self) -> bool:
        """Whether it takes a bank of queries."""
        return False

    @property
    def serves_one(self) -> bool:
        """Whether the maps serve the queries of one modality only."""
        return False

    @property
    def needs_query_covariance(self) -> bool:
        """Whether the map of a modality depends on how the queries spread."""
        return False

    def why_closed(self) -> str:
        """Why no modality can be added to what it fitted; empty where one can."""
        return "" if self.takes_many else "it works on two modalities"

    def maps_beside(
        self, asking: Mapping[str, RowMoments], sides: Mapping[str, RowMoments]
    ) -> dict[tuple[str, str], Affine]:
        """The maps of further modalities; ``asking`` are the queries, where these matter."""
        self.asking_ = next(iter(asking), None)
        self.asking_moments_ = {}
        maps = self._maps_of({**asking, **sides})
        return {key: affine for key, affine in maps.items() if key[0] in sides}

    def _ask(self, queries: str | None, names: Sequence[str]) -> None:
        asking = query_modalities(queries, names) if self.serves_one or queries else ()
        if self.serves_one and len(asking) > 1:
            raise InputValueError(
                f"{self.label} serves the queries of one modality, got {' and '.join(asking)}. Fit "
                "one for each."
            )
        self.asking_ = side_keys(names)[names.index(asking[0])] if self.serves_one else None

    def _warned(self) -> Self:
        if reason := self.nothing_moves():
            warnings.warn(reason, NothingMovesWarning, stacklevel=3)
        return self

    def try_fit(
        self,
        data: Modalities,
        *,
        queries: str | None = None,
        bank: Array | Embeddings | None = None,
        rows: RowLength = "unit",
        model: str | None = None,
        moments: PairMoments | None = None,
        check: bool = True,
    ) -> tuple[Correction | None, str]:
        """The correction of a fresh copy of this corrector, or None and why there is none.

        Parameters
        ----------
        data : Modalities
            The rows to fit on, of one space.
        queries, bank, rows, model, moments
            As for ``fit``.
        check : bool
            Look at the parameters first; those of our own correctors need no look.
        """
        if self.needs_pairs and not data.paired:
            return None, "it needs pairs"
        copy = clone(self)
        try:
            if check:
                copy._check_params()
                copy._check_bank(bank)
            copy._learn(data, queries, bank, rows == "unit", model, moments, silent)
        except InputError as error:
            return None, str(error)
        reason = copy.nothing_moves()
        return (None, reason) if reason else (copy.correction_, "")

    def nothing_moves(self) -> str:
        """Why the fitted correction leaves every row where it is; empty where it moves rows."""
        return ""

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """In a notebook: the fitted correction, else scikit-learn's own drawing."""
        if not hasattr(self, "correction_"):
            return dict(super()._repr_mimebundle_(**options))
        return {"text/plain": repr(self), "text/html": self.correction_._repr_html_()}

    @property
    def label(self) -> str:
        """The corrector as it is written in code, without what is left at its default."""
        return code_label(self)

    def transform(self, X: Array, Y: Array | None = None) -> tuple[Array, Array]:
        """Both modalities as documents, of two sets of rows or of one path or table of both."""
        if Y is None:
            X, Y = opened_two(X, Y, self._fitted().names, matched=False)
        return self.transform_x(X), self.transform_y(Y)

    def transform_x(self, X: Array) -> Array:
        """Rows of the first modality as documents."""
        return self._fitted().x(X)

    def transform_y(self, Y: Array) -> Array:
        """Rows of the second modality as documents."""
        return self._fitted().y(Y)

    def fit_transform(
        self, X: Array, Y: Array | None = None, **options: Any
    ) -> tuple[Array, Array]:
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

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        """Maps of two modalities, keyed by ("x" or "y", role)."""
        return self._maps_of(sides_of(moments))

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        """Maps of any number of modalities, with the keys of ``sides``."""
        raise InputValueError(
            f"{type(self).__name__} works on two modalities, got {len(sides)}: {', '.join(sides)}."
        )

    def _check_bank(self, bank: Array | Embeddings | None) -> None:
        if bank is not None and not self.needs_bank:
            raise InputValueError(
                f"{self.label} takes no bank of queries; Calibrate(hubs=0.5) does."
            )

    def _after_fit(self, data: Modalities, bank: Array | Embeddings | None) -> None:
        """What is added to the correction once its maps are there."""

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
        asked = {named[side]: moments for side, moments in self.asking_moments_.items()}
        asking = None if self.asking_ is None else named[self.asking_]
        spreads = {asking} if self.needs_query_covariance and asking else set()
        check_maps(maps.values())
        self.correction_ = unchecked(
            Correction,
            names=tuple(names),
            maps={
                (named[side], role): changed(affine, normalise=unit)
                for (side, role), affine in maps.items()
            },
            metric=self.metric,
            about={
                "method": type(self).__name__,
                "label": self.label,
                "parameters": given_parameters(self),
                "fitted_on": {name: moments.n for name, moments in rows.items()},
                "rows": "unit" if unit else "given",
                "model": model,
                "means_sha256": hash_of_means(rows.values()),
            },
            queries=tuple(names) if asking is None else (asking,),
            fitted=FittedRows.of_each(rows, spreads - {*asked}),
            fitted_queries=FittedRows.of_each(asked, spreads),
        )
        self.n_features_in_ = self.correction_.dim_in
