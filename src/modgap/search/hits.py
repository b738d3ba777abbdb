"""What a search returns: ids, scores and modalities, best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.core.checks import check_all_finite, check_count, require
from modgap.core.results import Result, changed, notebook_html, notebook_table
from modgap.core.tables import HasTable

if TYPE_CHECKING:
    import pandas

# Characters of a query's label that a table shows.
_LABEL = 40
_SHOWN_IN_NOTEBOOK = 50
# What stands in the place of a result that is missing.
_EMPTY = {
    "ids": None, "scores": -np.inf, "modalities": "", "expected_wrong": np.inf,
    "probability": np.nan, "sources": "",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Hits(HasTable, Result):
    """The k best documents of each of n queries, (n, k) each, best first.

    A larger score is a nearer document. Where a query has fewer than k results, the id is None,
    the score −∞ and the modality empty.

    ``expected_wrong`` (n, k) is how many wrong results to expect that are at least as good; None
    where nobody knows. ``chance`` (n,) is the share of queries without any match whose best result
    looks as good. ``least`` is the smallest number of expected wrong results that the bank tells:
    smaller ones are shown as less than that. ``probability`` (n, k) is that of being a match, as a
    ``ScoreCalibrator`` says; None without one, NaN where it says nothing. ``sources`` (n, k) names
    the list that each result comes from, where lists were merged that are not named by modality.
    """

    ids: np.ndarray
    scores: np.ndarray
    modalities: np.ndarray
    expected_wrong: np.ndarray | None = None
    chance: np.ndarray | None = None
    least: float = 0.0
    probability: np.ndarray | None = None
    sources: np.ndarray | None = None

    @classmethod
    def of_scores(
        cls, scores_by_id: Sequence[Mapping[Any, float]], modality: str, k: int = 60
    ) -> Hits:
        """The results of any engine, from the scores of the documents that each query found.

        Parameters
        ----------
        scores_by_id : mappings of id to score, one for each query
            Larger is nearer. Documents that a query did not find, such as those that share no word
            with it, are left out.
        modality : str
            That of the documents.
        k : int
            How many of each query to keep; with fewer, the others have no id and the score −∞.

        >>> Hits.of_scores([{"a": 1.5, "b": 7.0}, {}], "text", k=2).ids.tolist()
        [['b', 'a'], [None, None]]
        """
        ids = np.full((len(scores_by_id), check_count(k, "k")), None, dtype=object)
        scores = np.full(ids.shape, -np.inf)
        for query, found in enumerate(scores_by_id):
            values = np.array(list(found.values()), dtype=np.float64)
            check_all_finite(values, f"The scores of query {query}")
            best = np.argsort(-values, kind="stable")[:k]
            keys = list(found)
            ids[query, : len(best)] = [keys[place] for place in best]
            scores[query, : len(best)] = values[best]
        return cls(ids, scores, np.where(np.isneginf(scores), "", modality).astype(object))

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

        With more than scores, a query without any result has a line that says so.
        """
        header: tuple[str, ...] = ("query", "rank", "id", "modality")
        header += ("score",) if self.sources is None else ("source", "score")
        header += () if self.expected_wrong is None else ("expected wrong",)
        header += () if self.probability is None else ("match probability",)
        lines = []
        expected = self.expected_wrong
        for query, found in enumerate(zip(self.ids, self.modalities, self.scores, strict=True)):
            asked: str | int = first_query + query
            if labels:
                asked = shorten(labels[query], _LABEL, placeholder="…")
            for place, (key, name, score) in enumerate(zip(*found, strict=True), start=1):
                if key is not None:  # an approximate search may find fewer
                    cells = [asked, place, key, name]
                    if self.sources is not None:
                        cells.append(self.sources[query, place - 1])
                    cells.append(f"{score:.6f}")
                    if expected is not None:
                        wrong = float(expected[query, place - 1])
                        below = wrong < self.least
                        cells.append(f"< {self.least:.2g}" if below else f"{wrong:.2g}")
                    if self.probability is not None:
                        cells.append(f"{self.probability[query, place - 1]:.2f}")
                    lines.append(tuple(map(str, cells)))
            if len(header) > 5 and self.nothing_found[query]:
                lines.append((str(asked), "–", "nothing found", *[""] * (len(header) - 3)))
        return header, lines

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each result, with every digit; a query without any result has none."""
        frames: Any = require("pandas", "", "to_pandas", package="pandas")
        query, place = np.nonzero(self.modalities != "")
        columns = {"query": query, "rank": place + 1}
        for name in ("id", "modality", "source", "score", "expected_wrong", "probability"):
            plural = {"id": "ids", "modality": "modalities", "source": "sources", "score": "scores"}
            if (values := getattr(self, plural.get(name, name))) is not None:
                columns[name] = values[query, place]
        return frames.DataFrame(columns)

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
