"""The live explorer without its server: rows, search and corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np

from modgap._version import __version__
from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.core.results import Progress
from modgap.corrections import METHODS, METRICS, Corrector, Metric, in_one_sentence
from modgap.evaluation import GOAL_METRICS, Goal
from modgap.evaluation.metric_names import metric_descriptions
from modgap.index.row_monitor import RowMonitor, tell
from modgap.io import Embeddings, Modalities
from modgap.reports import contents
from modgap.reports.terms import terms
from modgap.search import Hits
from modgap.serve.index import DEFAULT_ROWS, MixedIndex, check_vector
from modgap.serve.models import (
    DataInfo,
    IndexKind,
    MethodInfo,
    ModalityInfo,
    RowItem,
    SearchAnswer,
    SearchHit,
    TermInfo,
)
from modgap.serve.rows import RowItems
from modgap.serve.workbench import STEPS, Bench, Fitted, FittedCorrections


class Explorer:
    """Two modalities, one live index, and the corrections fitted so far.

    All methods may be called from any thread.

    Parameters
    ----------
    data : Modalities, path or table
        What is explored, with captions, ids and thumbnails where there are any; one path, table or
        mapping of names to rows that holds both modalities.
    queries : str or several, optional
        The query modalities in the metrics, as for ``diagnose``. Rows of all can be searched
        with.
    metric : {"cosine", "inner_product", "euclidean"}
        How the index ranks the rows as they are.
    goal, model, seed
        As for ``diagnose``; the seed also draws the sample of the index.
    rows : int
        Search at most this many rows of each modality, a sample if there are more. They are held
        in memory. Files of more are read again for the document and for fitting, and have to stay
        as they are.
    kept : int
        Remember at most this many corrections. The oldest goes first, the recommended one never.
    """

    def __init__(
        self,
        data: Modalities | Any,
        *,
        queries: str | Sequence[str] | None = None,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        model: str | None = None,
        seed: int = 0,
        rows: int = DEFAULT_ROWS,
        kept: int = 12,
    ) -> None:
        data = Modalities.of(data)
        check_choice(metric, "metric", METRICS)
        check_choice(goal, "goal", tuple(GOAL_METRICS))
        check_count(rows, "rows")
        if len(data.names) > 2:
            raise InputValueError(
                f"The live explorer searches two modalities, got {len(data.names)}: "
                f"{', '.join(data.names)}. Serve two of them, or write a page of all with modgap "
                "report."
            )
        data = _held(data, rows)
        self.data, self.metric, self.goal, self.model, self.seed = data, metric, goal, model, seed
        self.bench = Bench(data, queries=queries, metric=metric, goal=goal, model=model, seed=seed)
        self.queries = self.bench.queries
        self.index = MixedIndex(data, metric=metric, at_most=rows, seed=seed)
        self.corrections = FittedCorrections(kept)
        self.rows = RowItems(data, self.index.live)
        # Receives every query, as it is.
        self.monitor: RowMonitor | None = None
        self._groups = dict(zip(data.names, data.groups, strict=True)) if data.paired else {}
        # In an index of one side per group, half of the groups are there as the first modality.
        n_groups = 1 + int(max((codes.max() for codes in self._groups.values()), default=-1))
        self._as_first = np.random.default_rng(seed).permutation(n_groups) < n_groups // 2

    def info(self) -> DataInfo:
        """The data, its index, the methods to fit and the terms of the page."""
        data = self.data
        modalities = [
            ModalityInfo(
                name=name,
                rows=side.n_rows,
                live_rows=len(self.index.live[name]),
                captions="captions" in side.columns,
                ids="ids" in side.columns,
                thumbnails=name in data.thumbnails,
            )
            for name, side in data.sides.items()
        ]
        return DataInfo(
            version=__version__,
            names=list(data.names),
            modalities=modalities,
            dim=data.dim,
            paired=data.paired,
            queries=list(self.queries),
            metric=self.metric,
            model=self.model,
            seed=self.seed,
            sampling=[
                f"The live index holds {m.live_rows:,} of the {m.rows:,} {m.name} rows, a sample "
                f"drawn with seed {self.seed}."
                for m in modalities
                if m.live_rows < m.rows
            ],
            metrics=metric_descriptions(data.names, self.queries, data.asking),
            terms={
                key: TermInfo(**term)
                for key, term in terms(data.names, self.queries, data.asking).items()
            },
            methods=[
                MethodInfo(available=data.paired or not method.needs_pairs, **asdict(method))
                for method in METHODS.values()
            ],
            why_no_fit=self.bench.why_not(),
        )

    def document(self, progress: Progress, *, umap: bool = False) -> Mapping[str, Any]:
        """The page's document; the correction it recommends can be searched with from then on.

        ``umap`` is that of ``report``.
        """
        document, diagnosis = contents(
            self.data, queries=self.queries, goal=self.goal, metric=self.metric, model=self.model,
            umap=umap, seed=self.seed, progress=progress,
        )  # fmt: skip
        if diagnosis is not None and diagnosis.correction is not None:
            progress("the recommended correction for other queries", 99, 100)
            others = self.bench.for_other_queries(diagnosis.correction)
            self.corrections.recommend(diagnosis, others)
        return document

    def search(
        self,
        modality: str,
        *,
        row: int | None = None,
        vector: Any = None,
        k: int = 10,
        correction: str | None = None,
        index: IndexKind = "all",
        at_most: float | None = None,
    ) -> SearchAnswer:
        """The rows nearest to a row of the data or to a vector, raw beside corrected.

        Parameters
        ----------
        modality : str
            The modality of the query.
        row : int, optional
            The query as a row of the data, which is left out of its own results.
        vector : sequence of float, optional
            The query as numbers; either this or ``row`` must be given.
        k : int
            How many rows to find.
        correction : str, optional
            The identifier of a correction to search with beside the rows as they are.
        index : {"all", "one_side"}
            Every row, or every group as one of its modalities only: half of the groups as each,
            and that of the query as the other one. ``mixed_retrieval`` searches the second.
        at_most : float, optional
            Leave out corrected rows with more expected wrong results than this.
        """
        if (row is None) == (vector is None):
            raise InputValueError("A search takes a row or a vector, and not both.")
        check_count(k, "k")
        check_choice(index, "index", get_args(IndexKind))
        fix = None
        if correction is not None:
            check_choice(modality, "modality", self.data.names)
            fix = self.corrections.get(correction).serving(modality)
        query = None
        if row is not None:
            query = self.rows.item(modality, row)
            asked = self.index.row(modality, row)
        else:
            check_choice(modality, "modality", self.data.names)
            asked = check_vector(vector, self.data.dim)
        among = self._one_side(modality, row) if index == "one_side" else None
        if at_most is not None and fix is None:
            raise InputValueError("at_most cuts corrected results. Name a correction, too.")
        raw = self.index.search(asked, modality, k, without=row, among=among)
        found = None
        if fix is not None:
            found = self.index.search(
                asked, modality, k, without=row, among=among, correction=fix, at_most=at_most
            )
        chance = None if found is None else found.chance
        tell(self.monitor, f"{modality} queries", asked)
        tell(self.monitor, f"{modality} queries", results=raw if found is None else found)
        return SearchAnswer(
            query=query,
            metric=self.metric,
            raw=self._described(raw, query),
            corrected_metric=None if fix is None else fix.metric,
            corrected_demands=None if fix is None else in_one_sentence(fix, [modality]),
            corrected=None if found is None else self._described(found, query),
            chance=None if chance is None else float(chance[0]),
            least=None if found is None or chance is None else found.least,
        )

    def _one_side(self, modality: str, row: int | None) -> dict[str, np.ndarray]:
        """Marks the live rows that are there when every group is there as one modality only.

        A group that has rows on one side only is always there.
        """
        if not self.data.paired:
            raise InputValueError(
                "An index of one side per group needs pairs, and it is not known which rows match. "
                "Search all rows instead."
            )
        first = self.data.names[0]
        as_first = self._as_first
        if row is not None and as_first[self._groups[modality][row]] == (modality == first):
            as_first = ~as_first
        single = np.ones(len(as_first), dtype=bool)
        single[self.data.matched_groups] = False
        return {
            name: ((as_first if name == first else ~as_first) | single)[codes[live.numbers]]
            for name, live in self.index.live.items()
            for codes in (self._groups[name],)
        }

    def _described(self, hits: Hits, query: RowItem | None) -> list[SearchHit]:
        wrong = hits.expected_wrong
        expected = np.full(hits.ids.shape, None) if wrong is None else wrong
        there = np.isfinite(hits.scores[0])
        parts = (hits.modalities, hits.ids, hits.scores, expected)
        columns = (part[0][there].tolist() for part in parts)
        groups = self._groups if query is not None else {}
        asked = groups[query.modality][query.row] if query is not None and groups else None
        return [
            SearchHit(
                **self.rows.item(name, row).model_dump(),
                score=score,
                match=bool(groups[name][row] == asked) if groups else None,
                expected_wrong=e,
            )
            for name, row, score, e in zip(*columns, strict=True)
        ]

    def try_out(self, corrector: Corrector, progress: Progress) -> Fitted:
        """Fit and evaluate a correction; ``corrections.add`` then remembers it."""
        fitted = self.bench.fit(corrector, progress)
        progress("placing the rows in the index", STEPS - 1, STEPS)
        self.index.documents(fitted.correction)
        progress("done", STEPS, STEPS)
        return fitted


def _held(data: Modalities, at_most: int) -> Modalities:
    """The data in memory, but for the rows of sides that have more than ``at_most``."""

    def held(side: Embeddings) -> Embeddings:
        side = side.with_words_loaded()
        return side.with_rows_loaded() if side.n_rows <= at_most else side

    sides, asking = (
        {name: held(side) for name, side in given.items()} for given in (data.sides, data.asking)
    )
    return replace(data, sides=sides, asking=asking)
