"""What a search returns: ids, scores and modalities, best first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modgap._results import Result


@dataclass(frozen=True, eq=False)
class Hits(Result):
    """The k best documents of each of n queries, (n, k) each, best first.

    A larger score is a nearer document. Where a query has fewer than k results, the id is None,
    the score −∞ and the modality empty.
    """

    ids: np.ndarray
    scores: np.ndarray
    modalities: np.ndarray
