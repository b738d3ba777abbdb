"""What a search returns: ids, scores and modalities, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten

import numpy as np

from modgap.core.results import Result, notebook_html, notebook_table

# Characters of a query's label that a table shows.
_LABEL = 40
_SHOWN_IN_NOTEBOOK = 50


@dataclass(frozen=True, eq=False)
class Hits(Result):
    """The k best documents of each of n queries, (n, k) each, best first.

    A larger score is a nearer document. Where a query has fewer than k results, the id is None,
    the score −∞ and the modality empty.
    """

    ids: np.ndarray
    scores: np.ndarray
    modalities: np.ndarray

    def _brief(self) -> str:
        n, k = self.ids.shape
        return f"{n:,} queries, the {k} best of each"

    def _repr_html_(self) -> str:
        header, rows = self.table()
        left_out = len(rows) - _SHOWN_IN_NOTEBOOK
        said = f"The first {_SHOWN_IN_NOTEBOOK} of {len(rows):,} results" if left_out > 0 else ""
        return notebook_html(notebook_table(header, rows[:_SHOWN_IN_NOTEBOOK], said))

    def table(
        self, first_query: int = 0, labels: Sequence[str] = ()
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """One line for each result; queries are numbered from ``first_query``, or have labels."""
        lines = []
        for query, found in enumerate(zip(self.ids, self.modalities, self.scores, strict=True)):
            for place, (key, name, score) in enumerate(zip(*found, strict=True), start=1):
                if key is not None:  # an approximate search may find fewer
                    asked: str | int = first_query + query
                    if labels:
                        asked = shorten(labels[query], _LABEL, placeholder="…")
                    cells = (asked, place, key, name, f"{score:.6f}")
                    lines.append(tuple(map(str, cells)))
        return ("query", "place", "id", "modality", "score"), lines
