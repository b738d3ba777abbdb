"""What MixBench is searched with: uncorrected rows, GR-CLIP's, and calibrated ones.

GR-CLIP is the method that was published with MixBench (Li et al. 2025, *Closing the Modality Gap
for Mixed Modality Search*, arXiv 2507.19054). It subtracts the mean of queries from a query, the
mean of documents' texts from a document's text, and that of their images from its image; a document
of both parts is their weighted sum, less the weighted sum of both means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from modgap.arrays import to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_values
from modgap.core.door import check_matrix
from modgap.corrections import Calibrate, Metric
from modgap.io import fuse
from modgap.io.modalities import Modalities
from modgap.reproduce.mixbench.files import Kind
from modgap.reproduce.mixbench.saved_rows import KEYS
from modgap.reproduce.mixbench.subsets import KINDS, MixBenchRows, MixBenchSubset

Side = Literal["query", "document"]

# NDCG@10 of each model as it is and, where that was published, with GR-CLIP; columns in the order
# of SUBSETS. From table 1 of the paper's appendix, and what the pull request that adds MixBench to
# mteb measured, where it quotes the paper's values of VLM2Vec, too.
PUBLISHED: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "CLIP-B/16": {
        "raw": (0.478, 0.388, 0.354, 0.563),
        "gr_clip": (0.603, 0.636, 0.406, 0.726),
    },
    "CLIP-L/14": {
        "raw": (0.505, 0.426, 0.389, 0.596),
        "gr_clip": (0.648, 0.656, 0.465, 0.754),
    },
    "OpenCLIP-B/16": {
        "raw": (0.551, 0.570, 0.385, 0.643),
        "gr_clip": (0.636, 0.668, 0.434, 0.758),
    },
    "OpenCLIP-L/14": {
        "raw": (0.566, 0.605, 0.387, 0.653),
        "gr_clip": (0.678, 0.699, 0.467, 0.796),
    },
    "SigLIP-400m": {
        "raw": (0.546, 0.327, 0.372, 0.385),
        "gr_clip": (0.692, 0.696, 0.532, 0.769),
    },
    "VLM2Vec-Qwen2VL-7B": {"raw": (0.632, 0.753, 0.412, 0.734)},
    "Qwen3-VL-Embedding-2B": {"raw": (0.79488, 0.88198, 0.54664, 0.85505)},
}
SOURCES: Mapping[str, str] = {
    **dict.fromkeys(PUBLISHED, "arXiv 2507.19054, table 1"),
    "Qwen3-VL-Embedding-2B": "github.com/embeddings-benchmark/mteb/pull/5144",
}


def own_means(subset: MixBenchSubset) -> dict[str, np.ndarray]:
    """Means of the unit rows of a subset itself, of queries and of what documents show."""
    found = {}
    for side, rows in (("query", subset.queries), ("document", subset.documents)):
        for part in KEYS:
            held = getattr(rows, part)
            if len(held):
                found[f"{side}_{part}"] = unit(held).astype(np.float64).mean(axis=0)
    return found


def check_means(means: Mapping[str, Any], subset: MixBenchSubset) -> dict[str, np.ndarray]:
    """The means that a subset needs, as vectors of its number of columns."""
    checked = {}
    for name, mean in own_means(subset).items():
        if name not in means:
            raise InputValueError(
                f"means must give the mean {name!r} for {subset.name}, got {sorted(means)}."
            )
        given = check_matrix(np.asarray(means[name], np.float64)[None], f"means[{name!r}]")
        if given.shape[1] != len(mean):
            raise InputValueError(
                f"means[{name!r}] must have the {len(mean)} columns of the rows, "
                f"got {given.shape[1]}."
            )
        check_values(given, f"means[{name!r}]")
        checked[name] = given[0]
    return checked


def gr_clip_rows(
    rows: MixBenchRows, side: Side, kind: Kind, means: Mapping[str, np.ndarray], weight: float
) -> np.ndarray:
    """Queries or documents of a kind as GR-CLIP ranks them, by cosine.

    Parameters
    ----------
    rows, side, kind
        Rows of any length, which side they are on, and the kind that is taken.
    means : mapping
        Of unit rows: "query_text", "document_text" and "document_image", and "query_image" where
        queries have an image; such a query is fused as a document is. "document_fused" and
        "query_fused" where the model embedded texts with their images.
    weight : float
        Share of the text where there are both parts, with a row each.
    """

    def centred(part: Kind) -> np.ndarray:
        less: np.ndarray = unit(rows.rows(part, kind)) - means[f"{side}_{part}"]
        return less

    if kind != "fused" or rows.joint:
        return centred(kind)
    return weight * centred("text") + (1 - weight) * centred("image")


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
class SearchedRows:
    """What a method makes of the queries and of the documents of each kind."""

    queries: np.ndarray
    documents: Mapping[Kind, np.ndarray]
    metric: Metric


def searches(
    subset: MixBenchSubset, weight: float = 0.5, means: Mapping[str, Array] | None = None
) -> dict[str, SearchedRows]:
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
    found = {
        "raw": SearchedRows(queries, documents, "cosine"),
        "gr_clip": SearchedRows(
            gr_clip_rows(subset.queries, "query", subset.asks, subtracted, weight),
            {k: gr_clip_rows(subset.documents, "document", k, subtracted, weight) for k in kinds},
            "cosine",
        ),
    }
    data = Modalities.of(documents, paired=False).with_queries({subset.asks: queries})
    for method, corrector in OURS.items():
        bank = None
        if corrector.hubs:
            if subset.bank is None:
                continue
            bank = _rows(subset.bank, subset.asks, weight)
        fitted = clone(corrector).fit(data, queries=subset.asks, bank=bank).correction_
        found[method] = SearchedRows(
            fitted.apply(queries, subset.asks, "query"),
            {kind: fitted.apply(rows, kind) for kind, rows in documents.items()},
            fitted.metric,
        )
    return found


def _rows(rows: MixBenchRows, kind: Kind, weight: float) -> np.ndarray:
    """The rows of those of a kind; the rows of a text and its image make one."""
    if kind != "fused" or rows.joint:
        return rows.rows(kind, kind)
    return to_numpy(fuse(rows.rows("text", kind), rows.rows("image", kind), weight))
