"""Are frequent concepts nearer the mean? A prediction of Levi and Gilboa (sec. 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_count
from modgap.core.door import check_rows
from modgap.core.results import Result
from modgap.measures.conformity import conformity


@dataclass(frozen=True)
class ConceptConformity(Result):
    """Spearman's rank correlation of concept frequency and conformity.

    ``low`` and ``high`` are its 95 % interval over rows drawn anew; ``n`` rows have a concept. NaN
    where all rows point the same way.
    """

    correlation: float
    low: float
    high: float
    n: int


def concept_frequency(concepts: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """How frequent the concepts of each row are: the mean log share of rows that have them.

    NaN for a row without concepts.

    >>> concept_frequency([["dog", "grass"], ["dog"], []]).round(3).tolist()
    [-0.752, -0.405, nan]
    """
    own = [set(row) for row in concepts]
    rows_with = Counter(concept for row in own for concept in row)
    share = {concept: np.log(count / len(own)) for concept, count in rows_with.items()}
    return np.array([np.mean([share[one] for one in row]) if row else np.nan for row in own])


def concept_conformity(
    X: Array, concepts: Sequence[Sequence[Hashable]], *, draws: int = 1000, seed: int = 0
) -> ConceptConformity:
    """Rank correlation of how frequent a row's concepts are with its conformity.

    Above 0 where rows of frequent concepts lie nearer the mean, as Levi and Gilboa predict.

    Parameters
    ----------
    X : (n, d) array
        Rows of one modality.
    concepts : n sequences
        The concepts of each row: words of a caption, objects in an image, labels. Rows without
        any are left out of the correlation.
    draws : int
        How often rows are drawn anew for the interval.
    seed : int
        Seed of the draws.
    """
    from scipy.stats import spearmanr

    X = check_rows(X, min_rows=3, nonzero=True)
    check_count(draws, "draws")
    if len(concepts) != X.shape[0]:
        raise InputValueError(
            f"concepts must have one entry for each row of X, got {len(concepts)} for "
            f"{X.shape[0]} rows."
        )
    if any(isinstance(row, str) for row in concepts):
        raise InputValueError("Each entry of concepts must be a list of concepts, got a string.")
    frequency, typical = concept_frequency(concepts), to_numpy(conformity(X))
    kept = np.flatnonzero(np.isfinite(frequency))
    if len(kept) < 3 or len(np.unique(frequency[kept])) < 2:
        raise InputValueError("concepts must differ in frequency over at least three rows.")
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(kept, len(kept)) for _ in range(draws)]
    some = [
        float(spearmanr(frequency[rows], typical[rows]).statistic)
        for rows in drawn
        if np.ptp(frequency[rows]) > 0 and np.ptp(typical[rows]) > 0
    ]
    low, high = np.quantile(some, (0.025, 0.975)) if some else (np.nan, np.nan)
    whole = np.nan  # where all rows point the same way
    if np.ptp(typical[kept]) > 0:
        whole = float(spearmanr(frequency[kept], typical[kept]).statistic)
    return ConceptConformity(whole, float(low), float(high), len(kept))
