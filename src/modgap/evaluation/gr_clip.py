"""GR-CLIP, the method that was published with MixBench: subtract means, fuse, compare by cosine.

Li et al. 2025, *Closing the Modality Gap for Mixed Modality Search*, arXiv 2507.19054. From a query
the mean of queries is subtracted, from a document's text the mean of documents' texts, from its
image that of their images; a document of both parts is their weighted sum, less the weighted sum of
both means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from modgap._arrays import unit
from modgap._door import check_matrix
from modgap._validate import InputValueError, check_values
from modgap.io.mixbench import KINDS, Kind, MixBenchRows, MixBenchSubset

Side = Literal["query", "document"]
Part = Literal["text", "image"]
PARTS: tuple[Part, ...] = ("text", "image")

# NDCG@10 of each model as it is and with GR-CLIP, from table 1 of the paper's appendix; columns in
# the order of SUBSETS.
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
}


def mean_name(side: Side, part: Part) -> str:
    """What the mean of a side's texts or images is called: "document_text"."""
    return f"{side}_{part}"


def own_means(subset: MixBenchSubset) -> dict[str, np.ndarray]:
    """Means of the unit rows of a subset itself, of queries and of what documents show."""
    found = {}
    for side, rows in _sides(subset).items():
        for part in PARTS:
            held = getattr(rows, part)
            if len(held):
                found[mean_name(side, part)] = unit(held).astype(np.float64).mean(axis=0)
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
    subset: MixBenchSubset, means: Mapping[str, np.ndarray], weight: float = 0.5
) -> tuple[dict[Kind, np.ndarray], dict[Kind, np.ndarray]]:
    """Queries and documents of each kind as GR-CLIP ranks them, by cosine.

    Parameters
    ----------
    subset : MixBenchSubset
        Rows of any length.
    means : mapping
        Of unit rows: "query_text", "document_text" and "document_image", and "query_image" where
        queries have an image; such a query is fused as a document is.
    weight : float
        Share of the text where there are both parts.
    """
    queries, documents = (
        {kind: _centred(rows, side, kind, means, weight) for kind in KINDS if kind in rows.kinds}
        for side, rows in _sides(subset).items()
    )
    return queries, documents


def _sides(subset: MixBenchSubset) -> dict[Side, MixBenchRows]:
    return {"query": subset.queries, "document": subset.documents}


def _centred(
    rows: MixBenchRows, side: Side, kind: Kind, means: Mapping[str, np.ndarray], weight: float
) -> np.ndarray:
    def less_mean(part: Part) -> np.ndarray:
        return unit(rows.rows(part, kind)) - means[mean_name(side, part)]

    if kind != "fused":
        return less_mean(kind)
    return weight * less_mean("text") + (1 - weight) * less_mean("image")


def ndcg_of_found(grades: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """NDCG of each query as MixBench's script takes it: scikit-learn's, over what was found.

    The best order it is compared with is that of the documents found, not of all relevant ones, so
    that with several relevant documents it may be 1 where one of them was missed. Documents of
    equal score share their gains.

    Parameters
    ----------
    grades, scores : (n, k) arrays
        How relevant the k found documents of each query are, and their scores, best first.

    >>> ndcg_of_found(np.array([[0, 1], [1, 0], [0, 0]]), np.array([[2, 1]] * 3)).round(4).tolist()
    [0.6309, 1.0, 0.0]
    """
    n, places = grades.shape
    discount = 1 / np.log2(np.arange(2, places + 2))
    starts = np.ones((n, places), dtype=bool)
    starts[:, 1:] = scores[:, 1:] != scores[:, :-1]
    tied = np.cumsum(starts.ravel()) - 1
    shared = (np.bincount(tied, grades.ravel()) / np.bincount(tied))[tied].reshape(n, places)
    ideal = -np.sort(-grades, axis=1) @ discount
    return np.where(ideal > 0, (shared @ discount) / np.where(ideal > 0, ideal, 1.0), 0.0)
