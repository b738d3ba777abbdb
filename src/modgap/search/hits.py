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

    def table(self, first_query: int = 0) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """One line for each result; queries are numbered from ``first_query``."""
        lines = []
        for query, found in enumerate(zip(self.ids, self.modalities, self.scores, strict=True)):
            for place, (key, name, score) in enumerate(zip(*found, strict=True), start=1):
                if key is not None:  # an approximate search may find fewer
                    cells = (first_query + query, place, key, name, f"{score:.6f}")
                    lines.append(tuple(map(str, cells)))
        return ("query", "place", "id", "modality", "score"), lines
