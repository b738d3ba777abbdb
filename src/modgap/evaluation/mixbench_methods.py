"""What MixBench is searched with: the rows as they are, GR-CLIP's, and calibrated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from modgap._arrays import to_numpy
from modgap._validate import Array, InputValueError
from modgap.corrections import Calibrate, Metric
from modgap.evaluation.gr_clip import check_means, gr_clip_rows, own_means
from modgap.io import fuse
from modgap.io.mixbench import KINDS, Kind, MixBenchRows, MixBenchSubset
from modgap.io.modalities import Modalities

# Every method that is compared, and what a table calls it. The settings of ours are fixed: nothing
# is chosen by the qrels.
METHODS: Mapping[str, str] = {
    "raw": "raw",
    "gr_clip": "GR-CLIP",
    "calibrated": "calibrated",
    "centred": "centred, calibrated",
    "hubs": "with hubs",
}
OURS: Mapping[str, Calibrate] = {
    "calibrated": Calibrate(),
    "centred": Calibrate("mixed"),
    "hubs": Calibrate("mixed", hubs=0.5),
}


@dataclass(frozen=True, eq=False)
class Searched:
    """What a method makes of the queries and of the documents of each kind."""

    queries: np.ndarray
    documents: Mapping[Kind, np.ndarray]
    metric: Metric


def searches(
    subset: MixBenchSubset, weight: float = 0.5, means: Mapping[str, Array] | None = None
) -> dict[str, Searched]:
    """Every method on the rows of a subset; the qrels are not looked at.

    Parameters
    ----------
    subset, weight, means
        As for ``evaluate_mixbench``.
    """
    kinds = [kind for kind in KINDS if kind in subset.documents.kinds]
    if len(kinds) < 2 or subset.asks not in kinds:
        raise InputValueError(
            f"{subset.name} must have documents of two kinds at least, and {subset.asks} ones "
            f"among them as its queries are, got {' and '.join(kinds)}."
        )
    queries = _rows(subset.queries, subset.asks, weight)
    documents = {kind: _rows(subset.documents, kind, weight) for kind in kinds}
    subtracted = own_means(subset) if means is None else check_means(means, subset)
    asked, held = gr_clip_rows(subset, subtracted, weight)
    found = {
        "raw": Searched(queries, documents, "cosine"),
        "gr_clip": Searched(asked[subset.asks], held, "cosine"),
    }
    data = Modalities.of(documents, paired=False).with_queries({subset.asks: queries})
    for method, corrector in OURS.items():
        bank = None
        if corrector.hubs:
            if subset.bank is None:
                continue
            bank = _rows(subset.bank, subset.asks, weight)
        fitted = clone(corrector).fit(data, queries=subset.asks, bank=bank).correction_
        found[method] = Searched(
            fitted.apply(queries, subset.asks, "query"),
            {kind: fitted.apply(rows, kind) for kind, rows in documents.items()},
            fitted.metric,
        )
    return found


def _rows(rows: MixBenchRows, kind: Kind, weight: float) -> np.ndarray:
    """The rows of those of a kind; a text and its image make one."""
    if kind != "fused":
        return rows.rows(kind, kind)
    return to_numpy(fuse(rows.rows("text", kind), rows.rows("image", kind), weight))
