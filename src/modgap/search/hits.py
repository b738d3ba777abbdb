"""What a search returns: ids, scores and modalities, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from modgap.core.results import Result, changed, notebook_html, notebook_table

# Characters of a query's label that a table shows.
_LABEL = 40
_SHOWN_IN_NOTEBOOK = 50
# What stands in the place of a result that is missing.
_EMPTY = {
    "ids": None, "scores": -np.inf, "modalities": "", "expected_wrong": np.inf,
    "probability": np.nan,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Hits(Result):
    """The k best documents of each of n queries, (n, k) each, best first.

    A larger score is a nearer document. Where a query has fewer than k results, the id is None,
    the score −∞ and the modality empty.

    ``expected_wrong`` (n, k) is how many wrong results to expect that are at least as good; None
    where nobody knows. ``chance`` (n,) is the share of queries without any match whose best result
    looks as good. ``least`` is the smallest number of expected wrong results that the bank tells:
    smaller ones are shown as less than that. ``probability`` (n, k) is that of being a match, as a
    ``ScoreCalibrator`` says; None without one, NaN where it says nothing.
    """

    ids: np.ndarray
    scores: np.ndarray
    modalities: np.ndarray
    expected_wrong: np.ndarray | None = None
    chance: np.ndarray | None = None
    least: float = 0.0
    probability: np.ndarray | None = None

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
        """One line for each result; queries are numbered from ``first_query``, or have labels.

        With expected wrong results, a query without any result has a line that says so.
        """
        lines = []
        expected = self.expected_wrong
        for query, found in enumerate(zip(self.ids, self.modalities, self.scores, strict=True)):
            asked: str | int = first_query + query
            if labels:
                asked = shorten(labels[query], _LABEL, placeholder="…")
            for place, (key, name, score) in enumerate(zip(*found, strict=True), start=1):
                if key is not None:  # an approximate search may find fewer
                    cells = [asked, place, key, name, f"{score:.6f}"]
                    if expected is not None:
                        cells.append(self._shown(float(expected[query, place - 1])))
                    if self.probability is not None:
                        cells.append(f"{self.probability[query, place - 1]:.2f}")
                    lines.append(tuple(map(str, cells)))
            if expected is not None and self.nothing_found[query]:
                more = () if self.probability is None else ("",)
                lines.append((str(asked), "–", "nothing found", "", "", "", *more))
        header: tuple[str, ...] = ("query", "place", "id", "modality", "score")
        header += () if expected is None else ("expected wrong",)
        return header + (() if self.probability is None else ("match probability",)), lines

    def _shown(self, expected: float) -> str:
        return f"< {self.least:.2g}" if expected < self.least else f"{expected:.2g}"

    def first(self, k: int) -> Hits:
        """The k best of each query."""
        return self._changed(lambda values, _: values[:, :k])

    def kept(self, keep: np.ndarray) -> Hits:
        """Without the results that ``keep`` (n, k) says no of; their places stay, empty."""
        return self._changed(lambda values, empty: np.where(keep, values, empty))

    def moved(self, order: np.ndarray) -> Hits:
        """The results of each query in the order of these places (n, k)."""
        return self._changed(lambda values, _: np.take_along_axis(values, order, axis=1))

    def _changed(self, change: Callable[[np.ndarray, Any], np.ndarray]) -> Hits:
        held = {name: getattr(self, name) for name in _EMPTY}
        return changed(
            self, **{name: change(v, _EMPTY[name]) for name, v in held.items() if v is not None}
        )

    @property
    def nothing_found(self) -> np.ndarray:
        """Which queries have no result, (n,)."""
        return np.asarray(np.all(np.isneginf(self.scores), axis=1))
