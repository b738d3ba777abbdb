"""Queries of a new model for documents of an old one: linear maps, and the correction with one.

How it works: rows that both models embedded are regressed, those of the new model on what the old
correction makes of the same rows as queries. The map is then the query map of the correction;
documents stay as they are stored.

1. Both sides less their means, because a modality lies far from the origin.
2. "ridge" is the matrix W of least Σ ‖y − W x‖² / n + s v ‖W‖², v the mean variance of a column of
   x: a share s of it is added to every direction, so that those of little variance count less.
3. "orthogonal" is the W = c U Vᵀ of least Σ ‖y − W x‖², U and V from the singular vectors of
   Σ y xᵀ (Schönemann 1966). It turns and scales rows alike, so it takes fewer of them.
4. Each is fitted on the rows of the query modality, or on those of all modalities, each less its
   own mean: a model has one space for all of them, so the others tell how it is turned as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.arrays import unit as unit_rows
from modgap.core.results import changed, silent
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction
from modgap.corrections.fitted_moments import used_moments
from modgap.corrections.fitted_rows import FittedRows
from modgap.io import Embeddings

# s of a ridge: what is tried.
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
# Queries whose lengths differ by less are of one length.
_ONE_LENGTH = 1e-4


@dataclass(frozen=True)
class MapMethod:
    """A way to map rows of one model to those of another.

    >>> str(MapMethod("ridge", 0.01)), str(MapMethod("orthogonal", of_all=True))
    ('ridge(0.01)', 'orthogonal of all modalities')
    """

    kind: Literal["ridge", "orthogonal"]
    strength: float = 0.0
    of_all: bool = False

    def __str__(self) -> str:
        name = f"ridge({self.strength:g})" if self.kind == "ridge" else self.kind
        return f"{name} of all modalities" if self.of_all else name


MAP_METHODS = tuple(
    method
    for of_all in (False, True)
    for method in (
        *(MapMethod("ridge", strength, of_all) for strength in STRENGTHS),
        MapMethod("orthogonal", of_all=of_all),
    )
)


class QueryMaps:
    """The maps from the queries of a new model to those of an old one, as a correction maps them.

    Parameters
    ----------
    correction : Correction
        That of the documents of the old model, which serves one query modality.
    old, new : mapping of str to Embeddings
        The same rows by both models, by modality.
    """

    def __init__(
        self, correction: Correction, old: Mapping[str, Embeddings], new: Mapping[str, Embeddings]
    ) -> None:
        (self._asking,) = correction.queries
        self._correction, self._new = correction, new[self._asking]
        self._asked = asked = correction.affine(self._asking, "query")
        # Lengths that do not matter must not be seen by the map.
        of_cosine = correction.metric == "cosine"
        self._normalise = asked.normalise or of_cosine
        # What ends at unit length is fitted before it does: until then a map is linear in the rows.
        plain = changed(asked, renormalise=False, blocks=None)
        self._sums: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for name, side in new.items():
            targets = to_numpy(plain.mapped(old[name].rows(), name)).astype(np.float64)
            targets = unit_rows(targets) if of_cosine and not asked.renormalise else targets
            rows = to_numpy(side.rows()).astype(np.float64)
            rows = unit_rows(rows) if self._normalise else rows
            means = rows.mean(axis=0), targets.mean(axis=0)
            if name == self._asking:
                self._means = means
                lengths = np.linalg.norm(targets, axis=1)
                self._length = float(lengths.mean())
                self._one_length = bool(np.ptp(lengths) <= _ONE_LENGTH * self._length)
            rows, targets = rows - means[0], targets - means[1]
            self._sums[name] = rows.T @ rows, rows.T @ targets

    @cached_property
    def _fitted(self) -> dict[str, FittedRows]:
        found = used_moments(self._new, f"{self._asking} queries", self._normalise, silent)
        return FittedRows.of_each({self._asking: found})

    def affine(self, method: MapMethod) -> Affine:
        """The query map by one method; its rows have one length where those of the old model do."""
        matrix = self._matrix(method)
        offset = self._means[1] - matrix @ self._means[0]
        ends, blocks = self._asked.renormalise, self._asked.blocks
        if self._one_length and not ends:
            ends, long = True, abs(self._length - 1) > _ONE_LENGTH
            blocks = tuple(self._length * one for one in blocks or (1.0,)) if long else blocks
        return Affine(
            len(self._means[0]), matrix, offset=offset, renormalise=ends, blocks=blocks,
            normalise=self._normalise,
        )  # fmt: skip

    def correction(self, method: MapMethod, /, **about: Any) -> Correction:
        """The correction of the old documents for queries of the new model.

        ``about`` says how it came to be. It recognises queries by those that were fitted on, and
        has no background: that would be of other queries.
        """
        documents = {key: one for key, one in self._correction.maps.items() if key[1] == "document"}
        return changed(
            self._correction,
            maps={**documents, (self._asking, "query"): self.affine(method)},
            fitted_queries=self._fitted,
            about={**self._correction.about, **about},
            background=None,
        )

    def _matrix(self, method: MapMethod) -> np.ndarray:
        scatter, products = self._scatter(method.of_all)
        total = float(np.trace(scatter))
        if method.kind == "orthogonal":
            left, sizes, right = np.linalg.svd(products.T, full_matrices=False)
            return np.asarray(left @ right * (sizes.sum() / total))
        values, vectors = self._spectra[method.of_all]
        added = method.strength * total / len(values)
        return np.asarray((vectors / (np.maximum(values, 0) + added) @ (vectors.T @ products)).T)

    @cached_property
    def _spectra(self) -> dict[bool, tuple[np.ndarray, np.ndarray]]:
        return {of_all: np.linalg.eigh(self._scatter(of_all)[0]) for of_all in (False, True)}

    def _scatter(self, of_all: bool) -> tuple[np.ndarray, np.ndarray]:
        """Σ x xᵀ and Σ x yᵀ, of the query modality or of all."""
        if not of_all:
            return self._sums[self._asking]
        scatters, products = zip(*self._sums.values(), strict=True)
        return np.sum(scatters, axis=0), np.sum(products, axis=0)
