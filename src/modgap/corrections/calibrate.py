"""Calibration: make the scores of documents of different modalities comparable.

A query's scores on the non-matching documents of a modality have a mean, q · μ, and a spread, σ,
of their own. Counted in spreads above that mean, scores of all modalities mean the same, and one
index can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import (
    Array,
    InputValueError,
    check_choice,
    check_matrix,
    check_modalities,
    check_same_space,
)
from modgap.corrections.affine import Affine
from modgap.corrections.base import Corrector
from modgap.corrections.correction import Correction
from modgap.moments import Moments, PairMoments, RowMoments

MODES = ("keep", "mixed")
FORMS = ("blocks", "compromise", "x", "y")


class Calibrate(Corrector):
    """Score documents by (q · v − q · μ_m) / σ_qm, μ_m the mean of the document's modality.

    σ_qm is the spread of the scores that queries of modality q have on non-matching documents of
    modality m, in closed form: σ² = trace(M_q Cov_m), M_q the second moment of the queries.

    ``mode="keep"`` leaves the query as it is, so every ranking within a modality is the raw one.
    ``"mixed"`` centres and renormalises documents and queries first, as ``Center`` does; on thin
    shells, where centred rows are all about sqrt(trace Cov) long, their spread is
    σ² = trace(Cov_q Cov_m) / (trace Cov_q · trace Cov_m).

    σ depends on the query's modality as well, so one set of d columns cannot be exact for queries
    of both. ``form="blocks"`` is: 2 d columns, the document in the block of its modality, the
    query in every block, divided by its spread there. ``"x"`` and ``"y"`` take d columns and are
    exact for queries of that modality (store both as two vectors to serve both); ``"compromise"``
    takes d columns and the geometric mean of the two spreads.

    Ranks by inner product; rows should be of unit length where cosines are meant. To try it
    without touching an index, see ``modgap.search.merge``.
    """

    metric = "inner_product"

    def __init__(
        self,
        mode: Literal["keep", "mixed"] = "keep",
        form: Literal["blocks", "compromise", "x", "y"] = "blocks",
    ) -> None:
        self.mode = mode
        self.form = form

    def _check_params(self) -> None:
        check_choice(self.mode, "mode", MODES)
        check_choice(self.form, "form", FORMS)

    def fit_modalities(self, rows: Mapping[str, Array], *, model: str | None = None) -> Calibrate:
        """Fit any number of modalities, keyed by name; ``form`` must be "blocks"."""
        self._check_params()
        if self.form != "blocks":
            raise InputValueError(
                f'Several modalities have room only in form="blocks", got {self.form!r}.'
            )
        names = check_modalities(tuple(rows))
        checked = {name: check_matrix(rows[name], name) for name in names}
        for name in names[1:]:
            check_same_space(checked[names[0]], checked[name], (names[0], name))
        sides = {
            name: Moments.from_batch(part, name=name, unit=False).given
            for name, part in checked.items()
        }
        about = self._about({name: side.n for name, side in sides.items()}, model)
        self.correction_ = Correction(names, self._maps_of(sides), self.metric, about)
        self.n_features_in_ = self.correction_.dim_in
        return self

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        return self._maps_of({"x": moments.x.given, "y": moments.y.given})

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> dict[tuple[str, str], Affine]:
        self.spreads_ = {
            (asking, held): self._spread(sides[asking], sides[held])
            for asking in sides
            for held in sides
        }
        self.means_ = {side: to_numpy(rows.mean) for side, rows in sides.items()}
        centred = self.mode == "mixed"
        maps = {}
        for side, mean in self.means_.items():
            if self.form == "blocks":
                stored = tuple(float(side == other) for other in self.means_)
                asked = tuple(1 / self.spreads_[side, held] for held in self.means_)
            else:
                stored, asked = (1 / self._one_spread(side),), None
            maps[side, "document"] = Affine(
                len(mean), offset=-mean, renormalise=centred, blocks=stored
            )
            maps[side, "query"] = Affine(
                len(mean), offset=-mean if centred else None, renormalise=centred, blocks=asked
            )
        return maps

    def _spread(self, asking: RowMoments, held: RowMoments) -> float:
        """Within-query spread of the scores of non-matching documents, over all queries."""
        queries, documents = to_numpy(asking.covariance), to_numpy(held.covariance)
        variance = float(np.sum(queries * documents))
        if self.mode == "keep":
            mean = to_numpy(asking.mean)
            variance += float(mean @ documents @ mean)
        elif variance > 0:
            variance /= float(np.trace(queries)) * float(np.trace(documents))
        if variance <= 0:
            raise InputValueError(
                "Calibrate needs documents that vary where the queries look: "
                "the scores of a modality have no spread."
            )
        return variance**0.5

    def _one_spread(self, held: str) -> float:
        """The one spread that d columns have room for."""
        if self.form in ("x", "y"):
            return self.spreads_[self.form, held]
        return (self.spreads_["x", held] * self.spreads_["y", held]) ** 0.5
