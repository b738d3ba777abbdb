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

    ``expected_wrong`` (n, k) is how many wrong results to expect that are at least as good; None
    where nobody knows. ``chance`` (n,) is the share of queries without any match whose best result
    looks as good. ``least`` is the smallest number of expected wrong results that the bank tells:
    smaller ones are shown as less than that.
    """

    ids: np.ndarray
    scores: np.ndarray
    modalities: np.ndarray
    expected_wrong: np.ndarray | None = None
    chance: np.ndarray | None = None
    least: float = 0.0

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
        expected = self.expected_wrong
        for query, found in enumerate(zip(self.ids, self.modalities, self.scores, strict=True)):
            for place, (key, name, score) in enumerate(zip(*found, strict=True), start=1):
                if key is not None:  # an approximate search may find fewer
                    asked: str | int = first_query + query
                    if labels:
                        asked = shorten(labels[query], _LABEL, placeholder="…")
                    cells = [asked, place, key, name, f"{score:.6f}"]
                    if expected is not None:
                        cells.append(self._shown(float(expected[query, place - 1])))
                    lines.append(tuple(map(str, cells)))
        header = ("query", "place", "id", "modality", "score")
        return header if expected is None else (*header, "expected wrong"), lines

    def _shown(self, expected: float) -> str:
        return f"< {self.least:.2g}" if expected < self.least else f"{expected:.2g}"

    @property
    def nothing_found(self) -> np.ndarray:
        """Which queries have no result, (n,)."""
        return np.asarray(np.all(np.isneginf(self.scores), axis=1))
