"""Calibration: make the scores of documents of different modalities comparable.

A query's scores on the non-matching documents of a modality have a mean, q · μ, and a spread, σ,
of their own. Counted in spreads above that mean, scores of all modalities mean the same, and one
index can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_choice, check_count, check_finite
from modgap.core.results import changed
from modgap.corrections.affine import Affine
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.base import Corrector
from modgap.io import Embeddings, Modalities
from modgap.moments import RowMoments

MODES = ("keep", "mixed")
FORMS = ("single", "blocks", "compromise")


class Calibrate(Corrector):
    """Score documents by (q · v − q · μ_m) / σ_qm, μ_m the mean of the document's modality.

    q and v are rows at unit length, unless ``fit`` gets ``rows="given"``. σ_qm is the
    spread of the scores that queries of modality q have on non-matching documents of modality m,
    in closed form: σ² = trace(M_q Cov_m), M_q the second moment of the queries.

    ``mode="keep"`` leaves the query as it is, so every ranking within a modality is the raw one.
    ``"mixed"`` centres and renormalises documents and queries first, as ``Center`` does; on thin
    shells, where centred rows are all about sqrt(trace Cov) long, their spread is
    σ² = trace(Cov_q Cov_m) / (trace Cov_q · trace Cov_m).

    σ depends on the query's modality, so one set of d columns is exact for queries of one.
    ``form="single"`` takes d columns and serves the queries of the modality that ``fit`` gets
    (``queries``, by default text): a document becomes (v − μ_m) / σ_qm, and the query stays as it
    is. Fit two, and store two vectors a document, to serve both. ``"blocks"`` is exact for all:
    2 d columns, the document in the block of its modality, the query in every block, divided by
    its spread there; its documents of different modalities are orthogonal, so no graph connects
    them. ``"compromise"`` takes d columns, serves all, and uses the geometric mean of the spreads.

    ``hubs`` (0 to 1) also subtracts that share of a document's hubness, its mean score on the
    ``neighbours`` queries of a bank that score it highest, which raises recall above that of the
    raw vectors where the bank holds queries like those of your users. It takes one more
    column, and rankings within a modality change; see `modgap.corrections.hubs`.

    Ranks by inner product. ``modgap.search.merge_corrected`` tries it without touching an index.
    """

    metric = "inner_product"

    def __init__(
        self,
        mode: Literal["keep", "mixed"] = "keep",
        form: Literal["single", "blocks", "compromise"] = "single",
        hubs: float = 0.0,
        neighbours: int = 10,
    ) -> None:
        self.mode = mode
        self.form = form
        self.hubs = hubs
        self.neighbours = neighbours

    def _check_params(self) -> None:
        check_choice(self.mode, "mode", MODES)
        check_choice(self.form, "form", FORMS)
        if not 0 <= check_finite(self.hubs, "hubs") <= 1:
            raise InputValueError(f"hubs must be between 0 and 1, got {self.hubs}.")
        check_count(self.neighbours, "neighbours")
        if self.hubs and self.form != "single":
            raise InputValueError(
                f"Hubs serve one query modality: form must be 'single', got {self.form!r}."
            )

    @property
    def serves_one(self) -> bool:
        """Whether the queries of one modality only are served."""
        return self.form == "single"

    @property
    def needs_bank(self) -> bool:
        """Whether hubs are subtracted, which takes a bank of queries."""
        return bool(self.hubs)

    @property
    def needs_query_covariance(self) -> bool:
        """Whether the map of a modality depends on how the queries spread: in the single form."""
        return self.form == "single"

    def why_closed(self) -> str:
        """Why no modality can be added to what it fitted; empty where one can."""
        return "" if self.serves_one else f"form={self.form!r} depends on all query modalities"

    def _after_fit(self, data: Modalities, bank: Array | Embeddings | None) -> None:
        if self.hubs and bank is not None:
            check_bank(self.correction_, bank, data)
        if self.hubs:
            self.correction_ = with_hubs(self.correction_, data, self.hubs, self.neighbours, bank)

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> dict[tuple[str, str], Affine]:
        self.spreads_ = {
            (asking, held): self._spread(self._asks(asking, sides), sides[held])
            for asking in sides
            for held in sides
        }
        self.means_ = {side: to_numpy(rows.mean) for side, rows in sides.items()}
        maps = {}
        for side, mean in self.means_.items():
            dim = len(mean)
            stored, asked = Affine.fitted(dim, offset=-mean), Affine.fitted(dim)
            if self.mode == "mixed":
                stored = changed(stored, renormalise=True)
                asked = changed(stored, offset=-to_numpy(self._asks(side, sides).mean))
            if self.form == "blocks":
                maps[side, "document"] = changed(
                    stored, blocks=tuple(float(side == other) for other in self.means_)
                )
                maps[side, "query"] = changed(
                    asked, blocks=tuple(1 / self.spreads_[side, held] for held in self.means_)
                )
                continue
            spread = self._one_spread(side)
            maps[side, "document"] = (
                Affine.fitted(dim, scale=1 / spread, offset=-mean / spread)
                if self.mode == "keep"
                else changed(stored, blocks=(1 / spread,))  # after it is brought to unit length
            )
            if self.asking_ in (side, None):
                maps[side, "query"] = asked
        return maps

    def _asks(self, side: str, sides: Mapping[str, RowMoments]) -> RowMoments:
        """The moments of the queries of a modality, which may not be those of its documents."""
        return self.asking_moments_.get(side, sides[side])

    @np.errstate(over="ignore", invalid="ignore")
    def _spread(self, asking: RowMoments, held: RowMoments) -> float:
        """Within-query spread of the scores of non-matching documents, over all queries."""
        queries, documents = to_numpy(asking.covariance), to_numpy(held.covariance)
        variance = float(np.sum(queries * documents))
        if self.mode == "keep":
            mean = to_numpy(asking.mean)
            variance += float(mean @ documents @ mean)
        sizes = [
            float(np.trace(covariance) + np.sum(to_numpy(side.mean) ** 2))
            for side, covariance in ((asking, queries), (held, documents))
        ]
        if not np.isfinite(variance):
            raise InputValueError(
                "The scores of these rows leave the range of float64, so their spread is unknown. "
                'Scale the rows, or fit with rows="unit".'
            )
        if variance <= 1e-26 * sizes[0] * sizes[1]:  # nothing but rounding
            raise InputValueError(
                "Calibrate needs documents that vary where the queries look: "
                "the scores of a modality have no spread."
            )
        if self.mode == "mixed":
            variance /= float(np.trace(queries)) * float(np.trace(documents))
        return variance**0.5

    def _one_spread(self, held: str) -> float:
        """The one spread that d columns have room for."""
        if self.asking_ is not None:
            return self.spreads_[self.asking_, held]
        every = [self.spreads_[asking, held] for asking in self.means_]
        return float(np.prod(every)) ** (1 / len(every))
