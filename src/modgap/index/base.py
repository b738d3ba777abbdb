"""What every index shares: maps, checks and metadata; a database only stores and finds vectors.

Another database is one file: a subclass of `VectorIndex` with ``metrics`` and its abstract methods.

Scores are those of the correction's metric, larger is nearer: the cosine, the inner product, or
−‖q − d‖² for Euclidean distance. What is stored and compared is float32.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import (
    InputValueError,
    check_choice,
    check_count,
    check_values,
)
from modgap.core.results import Progress
from modgap.corrections import Correction, check_recognised, own_keys
from modgap.corrections.wording import changed_lines
from modgap.index.documents import as_embeddings, check_id_types, check_ids
from modgap.index.equal_lengths import lifted_lengths
from modgap.index.errors import one_sentence
from modgap.index.graph_recall import SAMPLE_K, share_found, warn_of_low_recall
from modgap.index.hits import Hit, Id, IdType, to_hits
from modgap.index.metadata import (
    Graphs,
    Note,
    background_marks,
    change_mark,
    check_note,
    made_by,
    new_note,
)
from modgap.index.stored_vectors import (
    Corrections,
    StoredVector,
    as_corrections,
    check_banks,
    query_modality,
    vector_names,
)
from modgap.io import Embeddings
from modgap.search import Hits
from modgap.search.merging import NO_BACKGROUND, merge_checked

BATCH_ROWS = 4096
# More results than these are counted first: no search makes room for more than there are.
_MANY = 10_000
# One graph of all modalities is measured with so many queries.
_SAMPLE = 200
# Changes that were begun and not finished are known by the last so many marks.
_MARKS = 100
_log = logging.getLogger(__name__)


class RowMonitor(Protocol):
    """What may watch the rows that pass through an index, as `modgap.GapMonitor` is."""

    def add(self, name: str, rows: Any) -> None:
        """Rows as the model gives them; ``name`` is a modality, or "text queries"."""

    def add_results(self, name: str, results: Any) -> None:
        """What queries of this name found among the documents of all modalities, as `Hits`."""


def tell(monitor: RowMonitor | None, name: str, rows: Any = None, results: Any = None) -> None:
    """Tell a monitor of rows, or of results; what goes wrong there must not stop a search."""
    if monitor is None:
        return
    try:
        if results is None:
            monitor.add(name, rows)
        else:
            monitor.add_results(name, results)
    except Exception:
        _log.warning("The monitor failed on %s rows.", name, exc_info=True)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to be stored: what they are called, which are stored already, keys by vector, a mark."""

    source: Embeddings
    ids: list[Id]
    id_type: IdType
    keys: Mapping[str, np.ndarray | None]
    known: set[Id]
    upsert: bool
    mark: str


class VectorIndex(ABC):
    """One index that holds the documents of both modalities, corrected.

    ``write`` stores raw vectors as corrected documents, ``search`` takes raw queries. A document
    is known by its modality and its id together, so image 7 and text 7 are two documents. Ids are
    all whole numbers or all text.

    Opened with several corrections, one for each query modality, it stores one vector a document
    for each, and a query searches those made for its modality. Where graphs are searched there is
    one for each modality, unless one for all was asked for, and their results are merged. With a
    correction that has a background, they are merged by expected wrong results.

    Used as a context manager, an index is finished when the block ends without an error. One that
    was not finished (the process was killed, say) is opened again with ``create=True``: ``write``
    then leaves out the ids that are there. Documents of a finished index are added, replaced and
    deleted by id. Each batch is stored for good, so it can be searched at any time; a change that
    was interrupted is finished by making it again.

    Opened with a correction that was extended by a modality (`modgap.corrections.extend`), it takes
    documents of that too; those that are there stay as they are.

    ``monitor`` may be set to a `modgap.GapMonitor`: it sees every query that is searched and
    of every document that is stored, as the model gave them, and of the results in all modalities.
    """

    monitor: RowMonitor | None = None
    # For each metric what the database calls it, and what turns nearness into scores.
    metrics: ClassVar[Mapping[str, tuple[Any, Callable[[Any], Any]]]]
    # What the database's own library raises; becomes one sentence.
    failures: tuple[type[Exception], ...] = ()
    # Whether graphs are made where ``ef_search`` is given, and not otherwise.
    graphs_on_request: ClassVar[bool] = False

    def __init__(
        self,
        corrections: Corrections,
        place: str,
        batch_rows: int = BATCH_ROWS,
        *,
        ef_search: int | None = None,
        one_graph: bool = False,
    ) -> None:
        self._given = as_corrections(corrections)
        self.place = place
        self._address = ""  # whose secrets no sentence repeats
        self.batch_rows = check_count(batch_rows, "batch_rows")
        self.ef_search = None if ef_search is None else check_count(ef_search, "ef_search")
        if self.graphs_on_request and one_graph and ef_search is None:
            raise InputValueError("one_graph needs ef_search: without it no graph is made.")
        self.one_graph = one_graph
        self.names = self._given[0].names
        self.metric = self._given[0].metric
        self.vectors: dict[str, StoredVector] = {}
        self.graphs: Graphs | None = None
        # Of one graph of all modalities, measured when it was built: recall by query modality.
        self.graph_recall: dict[str, float] = {}
        self._metric_name, self._score = self.metrics[self.metric]
        self._resources = ExitStack()  # locks and connections, let go of by close
        self._note: Note | None = None
        self._resuming = False
        # Marks of the changes that this session made, all of their batches.
        self._made: list[str] = []
        self._replacing = False
        self._locked = False
        # Of each modality in this session: rows that were written, and a number above every id.
        self._written: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._sampled: dict[str, list[np.ndarray]] = {}

    def __repr__(self) -> str:
        name, held = type(self).__name__, " and ".join(self.names)
        return f"{name}({self.place!r}, {held}, by {self.metric.replace('_', ' ')})"

    @property
    def id_type(self) -> IdType | None:
        """What the ids are; None while there are no documents."""
        kind: IdType | None = None if self._note is None else self._note["id_type"]
        return kind

    @property
    def corrections(self) -> dict[str, Correction]:
        """By the modality whose queries they serve."""
        used = [v.correction for v in self.vectors.values()] or self._given
        return {name: correction for correction in used for name in correction.queries}

    def open(self, *, create: bool = False, replace: bool = False) -> Self:
        """Look at what is there: it must be of these corrections, or with ``create`` nothing yet.

        ``create`` resumes an index that was not finished; ``replace`` drops a finished one.
        """
        with self._one_sentence():
            if create:
                self._lock()
                self._locked = True
            found = self._load_note()
            if found and replace:
                self._check_may_change()
                # Dropped by the first write, once what is to take its place has been checked.
                self._replacing = True
            if self._replacing or (found is None and create):
                self._plan()
                return self
        if found is None:
            raise InputValueError(
                f"There is no index at {self.place}. Build it with modgap index build, or "
                "with open_index(…, create=True)."
            )
        self._keep(found, check_note(found, self._given, self.place, create=create))
        with self._one_sentence():
            self._check_opened()
        self._resuming = not found["finished"]
        return self

    def _plan(self) -> None:
        """What an index that is begun will hold."""
        if self.one_graph and any(one.background is not None for one in self._given):
            raise InputValueError(
                "This correction searches each modality on its own, which one graph of all "
                "modalities is slow at. Leave one_graph (--one-graph) out."
            )
        kept: Graphs = "one" if self.one_graph else "each"
        self.graphs = kept if self._builds_graphs() else None
        lifts = self.graphs is not None and self._lifts()
        self.vectors = {
            name: StoredVector(
                name,
                correction,
                lifted_lengths(correction, one_graph=self.graphs == "one") if lifts else None,
            )
            for name, correction in zip(self._vector_names(), self._given, strict=True)
        }
        self._check_plan()

    def _vector_names(self) -> list[str]:
        return vector_names(self._given)

    def _keep(self, note: Note, vectors: dict[str, StoredVector]) -> None:
        self._note, self.vectors, self.graphs = note, vectors, note["graphs"]
        self.names = tuple(note["names"])

    def write(
        self,
        vectors: Any,
        modality: str,
        ids: Any = None,
        progress: Progress | None = None,
        *,
        upsert: bool = False,
        trust_rows: bool = False,
    ) -> int:
        """Store raw vectors of one modality as corrected documents.

        Every row is checked before the first is stored, and that they look like rows of their
        modality. Each batch is stored for good before the next is read.

        Parameters
        ----------
        vectors : (n, d) array or Embeddings
            Rows as the model gives them; `Embeddings` are read in batches.
        modality : str
            Which modality of the correction they are.
        ids : sequence of int or str, optional
            What the documents are called; by default the ids of the embeddings, else row numbers.
        progress : callable, optional
            Called with what is being done, the rows done, and all rows.
        upsert : bool
            Replace documents whose ids are stored; without it these are refused.
        trust_rows : bool
            Only warn of rows that look like another modality's or another model's.

        Returns
        -------
        int
            How many were stored; fewer than there are rows where something unfinished is resumed.
        """
        source = self._checked(vectors, modality, trust_rows)
        return self._write({modality: source}, ids, progress, upsert)[modality]

    def write_all(
        self,
        documents: Mapping[str, Any],
        progress: Progress | None = None,
        *,
        upsert: bool = False,
        trust_rows: bool = False,
    ) -> dict[str, int]:
        """Store vectors of several modalities by name; how many of each were stored.

        All of them are checked before any is stored.

        Parameters
        ----------
        documents : mapping of str to arrays or Embeddings
            The rows of each modality.
        progress, upsert, trust_rows
            As for ``write``.
        """
        sources = {name: self._checked(rows, name, trust_rows) for name, rows in documents.items()}
        return self._write(sources, None, progress, upsert)

    def delete(self, ids: Any, modality: str) -> int:
        """Remove documents of one modality by id; how many of them were there.

        Each batch is removed for good before the next. Ids that are not there change nothing.

        Parameters
        ----------
        ids : sequence of int or str
            What the documents are called.
        modality : str
            Which modality they are.
        """
        check_choice(modality, "modality", self.names)
        if not len(ids):
            return 0
        every, id_type = check_ids(ids, len(ids), modality)
        self._lock_to_change()
        with self._one_sentence():
            known = self._stored(modality, every, id_type)
            gone = [one for one in every if one in known]
            if not gone:
                return 0
            mark = change_mark("delete", modality, every)
            self._begin_change(mark, modality, len(gone))
            for start in range(0, len(gone), self.batch_rows):
                self._remove(modality, gone[start : start + self.batch_rows])
        self._made.append(mark)
        return len(gone)

    def ids_of_texts(self, texts: Sequence[str], modality: str) -> list[Id]:
        """Ids that were written as text, as the index has them; refused where they cannot be."""
        check_choice(modality, "modality", self.names)
        if self._note is None or self._note["id_type"] == "str":
            return [*texts]
        bad = [text for text in texts if not re.fullmatch("0|-?[1-9][0-9]*", text)]
        if bad:
            raise InputValueError(f"The ids of {self.place} are whole numbers, got {bad[0]!r}.")
        return [int(text) for text in texts]

    def changed_share(self) -> dict[str, float]:
        """By modality, the share of documents that changed since the index was built.

        They were added, replaced or deleted; the background of the correction, if it has one, was
        not fitted again since then.
        """
        shares = {}
        for name, (built, changed) in (self._note or {"documents": {}})["documents"].items():
            known = 0 if self._is_refitted(name) else changed
            shares[name] = min(1.0, known / max(1, built, self.count(name)))
        return shares

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
        # −∞ stands for a hit that is missing.
        bad = np.flatnonzero(np.any(np.isnan(found.scores) | (found.scores == np.inf), axis=1))
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

    def finish(self) -> None:
        """Everything is written: make what speeds up searching, and say so in the note.

        A program that keeps an index open calls it after its changes.
        """
        note = self._note
        if note is not None and (self._made or not note["finished"]):
            with self._one_sentence():
                self._finish()
                for name in self._written:
                    note["numbers"][name] = self._next_number(name)
                    note["documents"].setdefault(name, (self._count(name), 0))
                left = [mark for mark in note["changing"] if mark not in self._made]
                note |= {"finished": True, "changing": left}
                self._save_note(note)
            self._forget_session()
            self._resuming = False
            if self.graphs == "one":
                self._measure_graph()

    def _measure_graph(self) -> None:
        """Recall of the one graph for a sample of the rows just written, asked as queries."""
        for name, parts in self._sampled.items():
            rows = np.concatenate(parts)
            rows = rows[:: -(-len(rows) // _SAMPLE)]
            vector, _ = self.vector_for(name)
            mapped = vector.query(rows, name)
            exact, found = (
                self._hits(vector, mapped, SAMPLE_K, None, exact=exactly).scores
                for exactly in (True, False)
            )
            self.graph_recall[name] = share_found(found, exact)
        self._sampled.clear()
        warn_of_low_recall(self.graph_recall, self.place)

    def holdings(self) -> list[str]:
        """What it holds, and how much of that changed since it was built, in lines."""
        lines = [
            f"one graph of all modalities: recall@10 {recall:.4f} for {name} queries"
            for name, recall in self.graph_recall.items()
        ]
        lines.append(f"{self.place} holds {self.count():,} documents")
        return lines + changed_lines(self.changed_share(), self._given)

    def demands(self) -> list[str]:
        """What it holds, what each vector is made by, and its graphs, in lines."""
        lines = self.holdings()
        for name, vector in self.vectors.items():
            lines.append(f"{name}, {vector.dim} columns: {vector.correction}")
        if self.graphs is not None:
            kind = "one for each modality" if self.graphs == "each" else "one of all modalities"
            longer = any(vector.lengths is not None for vector in self.vectors.values())
            more = "; one more column gives documents one length, as graphs need it"
            what = "graphs" if self._has_graphs() else "lists"
            lines.append(f"  {what:<10} {kind}{more if longer else ''}")
        return lines

    def drop(self) -> None:
        """Remove the index and all its documents."""
        if self._note is not None:
            self._lock_to_change()
            with self._one_sentence():
                self._drop()
        self._note, self._resuming = None, False
        self._forget_session()

    def _forget_session(self) -> None:
        for held in (self._written, self._next, self._made):
            held.clear()

    def close(self) -> None:
        """Let go of locks, files and connections."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self.close()

    def _one_sentence(self) -> AbstractContextManager[None]:
        return one_sentence(self.place, self.failures, self._address)

    def _checked(self, vectors: Any, modality: str, trust_rows: bool) -> Embeddings:
        """Rows that can be stored; what cannot be used is refused before the first row is."""
        source = as_embeddings(vectors, modality, self._given[0])
        check_banks(self._given)
        first, smallest, largest = 0, np.inf, 0.0
        for batch in source.batches():
            check_values(batch, modality, first_row=first)
            sizes = np.maximum(batch.max(axis=1), -batch.min(axis=1))
            smallest, largest = min(smallest, float(sizes.min())), max(largest, float(sizes.max()))
            first += len(batch)
        check_recognised(self._given[0], source, modality, trust_rows=trust_rows)
        for vector in self.vectors.values():
            if vector.may_refuse(modality, smallest, largest):  # then before the first is stored
                first = 0
                for batch in source.batches(self.batch_rows):
                    vector.document(batch, modality, first_row=first)
                    first += len(batch)
        return source

    def _write(
        self,
        sources: Mapping[str, Embeddings],
        ids: Any,
        progress: Progress | None,
        upsert: bool,
    ) -> dict[str, int]:
        """Store rows of several modalities; what cannot be stored is refused before any is."""
        self._lock_to_change()
        self._check_whole()
        plans = {name: self._plan_rows(rows, name, ids, upsert) for name, rows in sources.items()}
        check_id_types({name: plan.id_type for name, plan in plans.items()})
        return {name: self._store(plan, name, progress) for name, plan in plans.items()}

    def _plan_rows(self, source: Embeddings, modality: str, ids: Any, upsert: bool) -> _Rows:
        """What the rows are called, which are stored already, and whose queries are their own."""
        first = self._next_number(modality)
        every: list[Id] = list(range(first, first + source.n_rows))
        id_type: IdType = "int"
        given = source.ids if ids is None else ids
        if given is not None:
            every, id_type = check_ids(given, source.n_rows, modality)
        elif upsert:
            raise InputValueError(
                f"Documents are replaced by id, and the rows of {modality} have none. Give them "
                "(ids=…, --ids)."
            )
        named = source if ids is None else source.with_column("ids", ids)
        with self._one_sentence():
            known = self._stored(modality, every, id_type)
        if self._note is not None and modality not in self.names:
            self._check_extensible()
        mark = change_mark("write", modality, every)
        if known and not (upsert or self._resumes(mark)):
            example = next(one for one in every if one in known)
            raise InputValueError(
                f"{self.place} holds {len(known)} of these ids of {modality} already, {example!r} "
                "for instance. Leave them out, give the rows other ids, or replace the documents "
                "(upsert=True, --upsert)."
            )
        # Once it is built, a document that comes by its number has the number of that row.
        numbers = every if self._note is not None and self._note["finished"] else None
        first = self._written.get(modality, 0)
        keys = {
            name: own_keys(vector.correction, named, modality, first_row=first, numbers=numbers)
            for name, vector in self.vectors.items()
        }
        return _Rows(source, every, id_type, keys, known, upsert, mark)

    def _store(self, rows: _Rows, modality: str, progress: Progress | None) -> int:
        source, every, known = rows.source, rows.ids, rows.known
        with self._one_sentence():
            if self._replacing:
                self._make_way()
                self._replacing = False
            if self._note is None:
                self._note = new_note(self.vectors.values(), rows.id_type, graphs=self.graphs)
                self._make(self._note, rows.id_type)
                self._resuming = True
            else:
                self._begin_change(rows.mark, modality, len(every))
                if modality not in self.names:
                    self._extend()
            left_out = set() if rows.upsert else known
            written, done = 0, 0
            for batch in source.batches(self.batch_rows):
                places = [p for p in range(len(batch)) if every[done + p] not in left_out]
                if places:
                    new = batch if len(places) == len(batch) else batch[places]
                    numbers = done + np.array(places)
                    stored = {
                        name: vector.document(
                            new,
                            modality,
                            first_row=done,
                            keys=None if (own := rows.keys[name]) is None else own[numbers],
                        )
                        for name, vector in self.vectors.items()
                    }
                    ids = [every[number] for number in numbers]
                    self._add(stored, modality, ids, replace=not known.isdisjoint(ids))
                    tell(self.monitor, modality, new)
                written, done = written + len(places), done + len(batch)
                if progress is not None:
                    progress(f"storing {modality}", done, source.n_rows)
        self._made.append(rows.mark)
        self._written[modality] = self._written.get(modality, 0) + source.n_rows
        if rows.id_type == "int":
            self._next[modality] = max(self._next_number(modality), 1 + max(map(int, every)))
        if self.graphs == "one" and modality in self.corrections:
            some = np.linspace(0, source.n_rows - 1, min(_SAMPLE, source.n_rows))
            self._sampled.setdefault(modality, []).append(source.take(np.unique(some.astype(int))))
        return written

    def _resumes(self, mark: str) -> bool:
        """Whether a change was begun before, and not finished."""
        begun = self._note is not None and mark in self._note["changing"]
        return self._resuming or (begun and mark not in self._made)

    def _begin_change(self, mark: str, modality: str, n_documents: int) -> None:
        """Note a change of a finished index; made again after a kill, it counts once."""
        note = self._note
        assert note is not None
        if not note["finished"]:
            return
        for name in [*note["documents"]]:
            if self._is_refitted(name):
                note["documents"][name] = (self._count(name), 0)
        if mark not in note["changing"]:
            note["changing"] = [*note["changing"][-_MARKS:], mark]
            if modality in note["documents"]:
                built, changed = note["documents"][modality]
                note["documents"][modality] = (built, changed + n_documents)
        for name, vector in self.vectors.items():
            note["vectors"][name]["backgrounds"] = background_marks(vector.correction)
        self._note_change(note)

    def _check_extensible(self) -> None:
        if self.graphs == "one" and any(one.lengths is not None for one in self.vectors.values()):
            raise InputValueError(
                f"{self.place} has one graph, in which documents of all modalities have one "
                "length. Build it again for a further modality."
            )

    def _extend(self) -> None:
        """Make room for documents of the modalities that were added to the correction."""
        assert self._note is not None
        new = [name for name in self._given[0].names if name not in self.names]
        self.names = (*self.names, *new)
        self._make_room(new)
        self._note |= made_by(self.vectors.values(), self.names)
        self._note_change(self._note)

    def _is_refitted(self, modality: str) -> bool:
        """Whether the background of a modality is not the one that its documents were noted by."""
        assert self._note is not None
        return any(
            background_marks(vector.correction).get(modality) != mark
            for name, vector in self.vectors.items()
            if (mark := self._note["vectors"][name]["backgrounds"].get(modality)) is not None
        )

    def _lock_to_change(self) -> None:
        """Rows are changed as they are now, which may not be what was there when it opened."""
        if self._locked:
            return
        with self._one_sentence():
            self._lock()
            self._locked = True
            found = self._load_note()
        if found is None:
            raise InputValueError(f"{self.place} has been removed since it was opened.")
        self._keep(found, check_note(found, self._given, self.place))

    def _check_whole(self) -> None:
        """Every document gets every vector."""
        held = {} if self._note is None or self._replacing else self._note["vectors"]
        missing = [name for name in held if name not in self.vectors]
        if missing or (held and len(self.vectors) < len(self._given)):
            wanted = " and ".join(
                f"{' and '.join(said['queries'])} queries ({name})" for name, said in held.items()
            )
            raise InputValueError(
                f"{self.place} stores vectors for {wanted}. Rows are added with the corrections of "
                "all of these and no others."
            )

    def _next_number(self, modality: str) -> int:
        """What the next row without an id is called; what is run again numbers rows as before."""
        before = 0 if self._note is None else self._note["numbers"].get(modality, 0)
        return max(int(before), self._next.get(modality, 0))

    def _stored(self, modality: str, ids: list[Id], id_type: IdType) -> set[Id]:
        """Which of the ids are stored; refused where they are of another type."""
        known: set[Id] = set()
        if self._note is None:
            return known
        check_id_types({self.place: self._note["id_type"], modality: id_type})
        if modality not in self.names:
            return known
        for start in range(0, len(ids), self.batch_rows):
            known |= self._known(modality, ids[start : start + self.batch_rows])
        return known

    # What a database does; the vectors it gets are corrected already.

    @abstractmethod
    def _load_note(self) -> Note | None:
        """The note kept with the vectors; {} if something else is there; None if nothing is."""

    @abstractmethod
    def _save_note(self, note: Note) -> None:
        """Replace the note."""

    @abstractmethod
    def _make(self, note: Note, id_type: IdType) -> None:
        """Make the empty table and keep the note with it."""

    @abstractmethod
    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        """Store corrected rows for good, all of them or none; ``vectors`` by name.

        ``replace`` says that some of the ids are stored already: those documents are replaced.
        """

    @abstractmethod
    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        """Remove documents for good, all of them or none; their ids are stored."""

    @abstractmethod
    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        """Which of the ids are stored already."""

    @abstractmethod
    def _ids_of(self, modality: str) -> list[Id]:
        """The ids of all documents of a modality."""

    @abstractmethod
    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        """The k best documents of each corrected query by this vector, or more, in any order.

        ``exact`` leaves a graph aside where there is one. Where there is one for each modality and
        it is to be searched, ``only`` names the modality.
        """

    @abstractmethod
    def _count(self, only: str | None) -> int:
        """How many documents are stored."""

    @abstractmethod
    def _drop(self) -> None:
        """Remove the table and all that belongs to it."""

    def _make_room(self, new: Sequence[str]) -> None:  # noqa: B027
        """What documents of further modalities need; some of it may be there after a kill."""

    def _note_change(self, note: Note) -> None:
        """Replace the note before documents change, where they change before all is finished."""
        self._save_note(note)

    def _make_way(self) -> None:
        """Remove what is to be replaced, before the first row of its successor is stored."""
        self._drop()

    def _builds_graphs(self) -> bool:
        """Whether an index that is begun gets graphs; options that cannot be met are refused."""
        return self.ef_search is not None

    def _has_graphs(self) -> bool:
        """Whether what is kept for each modality is a graph, not a list."""
        return True

    def _searches_graphs(self) -> bool:
        """Whether a search uses the graphs that there are."""
        return self.ef_search is not None

    def _lifts(self) -> bool:
        """Whether the graphs take documents with one more column."""
        return True

    def _check_plan(self) -> None:  # noqa: B027
        """Refuse vectors that cannot be stored, before the first is."""

    def _check_opened(self) -> None:
        """Refuse, or warn of, what was found when an index is opened."""
        if self.graphs_on_request and self.ef_search is not None and self.graphs is None:
            raise InputValueError(
                f"{self.place} has no graph to search with ef_search. {self._graph_advice()}, or "
                "leave ef_search out to search exactly."
            )

    def _graph_advice(self) -> str:
        """How to get a graph where there is none."""
        return "Build it with ef_search"

    def _check_may_change(self) -> None:  # noqa: B027
        """Refuse to add rows to, or to drop, what modgap did not make."""

    def _lock(self) -> None:  # noqa: B027
        """Refuse to write where another process is writing."""

    def _finish(self) -> None:  # noqa: B027
        """What is left to do once everything is written."""
