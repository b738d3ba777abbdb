"""How an index is searched: queries are mapped, and the lists of modalities are merged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.corrections import check_recognised
from modgap.index.graph_recall import SAMPLE_K, SAMPLE_QUERIES, share_found, warn_of_low_recall
from modgap.index.hits import Hit, Id, to_hits
from modgap.index.row_monitor import tell
from modgap.index.store import VectorStore
from modgap.index.stored_vectors import StoredVector, query_modality
from modgap.search import Hits
from modgap.search.merging import NO_BACKGROUND, merge_checked

# More results than these are counted first: no search makes room for more than there are.
_MANY = 10_000


class SearchedStore(VectorStore):
    """A store that takes raw queries, and says which documents it holds."""

    def search(
        self,
        queries: Any,
        modality: str | None = None,
        k: int = 10,
        only: str | None = None,
        *,
        at_most: float | None = None,
    ) -> Hits:
        """The k best documents of each raw query, best first.

        Parameters
        ----------
        queries : (n, d) or (d,) array
            Query vectors as the model gives them.
        modality : str, optional
            The modality of the queries: it says which map is applied to them. May be left out
            where the index serves only one.
        k : int
            How many documents to find.
        only : str, optional
            Restrict the results to documents of this modality.
        at_most : float, optional
            Leave out results with more expected wrong results than this, with a correction that
            has a background, as ``ExpectedWrong`` makes it.

        Returns
        -------
        Hits
            (n, k) ids, scores and modalities. There are fewer than k columns where no query has k
            results. Where a query has fewer than others, the id is None and the score −∞. With
            ``expected_wrong`` where the correction has a background; results are in its order.
        """
        vector, modality = self.vector_for(modality)
        if only is not None:
            check_choice(only, "only", self.names)
        k = check_count(k, "k")
        if k > _MANY:
            k = min(k, max(1, self.count()))
        if at_most is not None and vector.correction.background is None:
            raise InputValueError(NO_BACKGROUND)
        rows = to_numpy(queries)
        rows = rows[None] if rows.ndim == 1 else rows
        mapped = vector.query(rows, modality)
        # Only warns.
        check_recognised(vector.correction, rows, modality, role="query", trust_rows=True)
        tell(self.monitor, f"{modality} queries", rows)
        if self._note is None:
            found = to_hits([[] for _ in mapped], k, self._score, "int")
        elif vector.correction.background is None:
            found = self._hits(vector, mapped, k, only, exact=False)
        else:
            found = self._judged_hits(vector, mapped, k, only, at_most)
        # A hit that is missing has the score −∞, and no modality.
        missing = np.isneginf(found.scores) & (found.modalities == "")
        bad = np.flatnonzero(np.any(~np.isfinite(found.scores) & ~missing, axis=1))
        if len(bad):
            raise InputValueError(
                f"The scores of query {bad[0]} leave the range of float32, in which an index "
                "scores. Scale the queries."
            )
        if only is None:
            tell(self.monitor, f"{modality} queries", results=found)
        return found

    def best_of(self, name: str, queries: np.ndarray, modality: str | None, k: int) -> Hits:
        """The k best documents of the modality ``name`` by their scores, for checked queries."""
        vector, modality = self.vector_for(modality)
        return self._hits(vector, vector.query(queries, modality), k, name, exact=False)

    def vector_for(self, modality: str | None) -> tuple[StoredVector, str]:
        """The vector that queries of a modality search, and the modality."""
        name = query_modality(self.corrections, modality)
        return next(v for v in self.vectors.values() if name in v.correction.queries), name

    def _hits(
        self, vector: StoredVector, mapped: np.ndarray, k: int, only: str | None, *, exact: bool
    ) -> Hits:
        assert self._note is not None
        exact = exact or self.graphs is None or not self._searches_graphs()
        apart = self.graphs == "each" and only is None and not exact
        asked: Sequence[str | None] = self.names if apart else [only]
        found: list[list[Hit]] = [[] for _ in mapped]
        with self._one_sentence():
            for name in asked:
                for line, hits in zip(
                    found, self._nearest(vector, mapped, k, name, exact), strict=True
                ):
                    line += hits
        return to_hits(found, k, self._score, self._note["id_type"])

    def _judged_hits(
        self,
        vector: StoredVector,
        mapped: np.ndarray,
        k: int,
        only: str | None,
        at_most: float | None,
    ) -> Hits:
        """Each modality searched on its own, merged by expected wrong results."""
        background = vector.correction.background
        assert background is not None
        asked = self.names if only is None else (only,)
        wanted = {name: max(k, background.list_of(name).places) for name in asked}
        lists = {}
        for name, n in wanted.items():
            found = self._hits(vector, mapped, n, name, exact=False)
            lists[name] = found.ids, found.scores
        return merge_checked(lists, k, background, at_most=at_most)

    def count(self, only: str | None = None) -> int:
        """How many documents are stored, of one modality or in all."""
        if only is not None:
            check_choice(only, "only", self.names)
        if self._note is None:
            return 0
        with self._one_sentence():
            return self._count(only)

    def ids(self, modality: str) -> list[Id]:
        """What the documents of a modality are called, in any order."""
        check_choice(modality, "modality", self.names)
        if self._note is None:
            return []
        with self._one_sentence():
            return self._ids_of(modality)

    def held(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        """Which of these ids are stored documents of a modality."""
        if self._note is None or not len(ids):
            return set()
        with self._one_sentence():
            return self._known(modality, ids)

    def ids_of_texts(self, texts: Sequence[str], modality: str) -> list[Id]:
        """Ids that were written as text, as the index has them; refused where they cannot be."""
        check_choice(modality, "modality", self.names)
        if self._note is None or self._note["id_type"] == "str":
            return [*texts]
        bad = [text for text in texts if not re.fullmatch("0|-?[1-9][0-9]*", text)]
        if bad:
            raise InputValueError(f"The ids of {self.place} are whole numbers, got {bad[0]!r}.")
        return [int(text) for text in texts]

    def _measure_graph(self) -> None:
        """Recall of the one graph for a sample of the rows just written, asked as queries."""
        for name, parts in self._sampled.items():
            rows = np.concatenate(parts)
            rows = rows[:: -(-len(rows) // SAMPLE_QUERIES)]
            vector, _ = self.vector_for(name)
            mapped = vector.query(rows, name)
            exact, found = (
                self._hits(vector, mapped, SAMPLE_K, None, exact=exactly).scores
                for exactly in (True, False)
            )
            self.graph_recall[name] = share_found(found, exact)
        self._sampled.clear()
        warn_of_low_recall(self.graph_recall, self.place)
