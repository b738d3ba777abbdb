"""One calibrated ranking from modality-filtered searches of the vectors as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_choice, check_count
from modgap.core.door import check_rows
from modgap.corrections import Correction
from modgap.search.hits import Hits

# Ids and scores of one search, (n, k) each, or what an index returned.
Found = tuple[Any, Any] | Hits


def merge(
    correction: Correction,
    queries: Array,
    modality: str,
    hits_by_modality: Mapping[str, Found],
    k: int,
) -> Hits:
    """The k best of all modalities, from one search in each, without re-indexing anything.

    A correction that keeps the rankings within a modality, as ``Calibrate(mode="keep")`` does,
    turns each score s into a · s + b, with a and b of the query and the modality alone. So k
    results of each modality are enough for the exact k best of all, and fewer are not.

    Parameters
    ----------
    correction : Correction
        One that ranks by inner product and keeps rankings within a modality.
    queries : (n, d) array
        The query vectors, of any length where the correction brings rows to unit length
        (``correction.unit_rows``), else as they were searched with.
    modality : str
        The modality of the queries, one that the correction serves.
    hits_by_modality : mapping of str to Hits or (ids, scores)
        For each document modality the ids and scores of its best documents, (n, k') each. Scores
        are cosines where the correction brings rows to unit length, else inner products.
    k : int
        How many results of each query to return.

    Returns
    -------
    Hits
        The scores are those of the corrected vectors.
    """
    queries = check_rows(queries, "queries")
    check_count(k, "k")
    check_choice(modality, "modality", correction.names)
    if correction.hubs is not None:
        raise InputValueError(
            "A correction with hubs changes rankings within a modality, so raw searches cannot be "
            "merged by it. Store corrected vectors (modgap index build), or merge by a correction "
            "without hubs."
        )
    if correction.metric != "inner_product" or not correction.keeps_rankings:
        method = correction.about.get("method", "This correction")
        raise InputValueError(
            f"{method} changes rankings within a modality, so raw searches cannot be merged by it. "
            "Use Calibrate(mode='keep'), or store corrected vectors."
        )
    asked = correction.map(modality, "query")(to_numpy(queries).astype(np.float64), "queries")
    ids, scores, names = [], [], []
    for name, found in hits_by_modality.items():
        check_choice(name, "modality", correction.names)
        found_ids, found_scores = _pair(found, name, len(asked))
        slope = correction.slope(modality, name)
        assert slope is not None
        # What the query scores on a document at the origin.
        offset = correction.affine(name).dense().offset
        level = np.zeros(len(asked)) if offset is None else asked @ offset
        ids.append(found_ids)
        scores.append(slope * found_scores + level[:, None])
        # Where a search found fewer than k, the score is −∞ and there is no document to name.
        names.append(np.where(np.isneginf(found_scores), "", name).astype(object))
    if not ids:
        raise InputValueError("merge needs the hits of at least one modality.")
    kinds = {part.dtype.kind for part in ids}
    if len(kinds) > 1:  # NumPy would turn whole numbers into text
        ids = [part.astype(object) for part in ids]
    return best_of(np.hstack(ids), np.hstack(scores), np.hstack(names), k)


def best_of(ids: np.ndarray, scores: np.ndarray, names: np.ndarray, k: int) -> Hits:
    """The k best entries of each line; equal scores keep the order they came in."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Hits(*(np.take_along_axis(part, order, axis=1) for part in (ids, scores, names)))


def _pair(found: Found, name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    ids, scores = (found.ids, found.scores) if isinstance(found, Hits) else found
    ids, scores = np.asarray(ids), np.asarray(scores, dtype=np.float64)
    if ids.ndim != 2 or ids.shape != scores.shape or len(ids) != n:
        raise InputValueError(
            f"The hits of {name} must be ids and scores with one line for each of the {n} "
            f"queries, got shapes {ids.shape} and {scores.shape}."
        )
    if np.any(np.isnan(scores)):
        raise InputValueError(f"The scores of {name} must be numbers, got NaN.")
    return ids, scores
