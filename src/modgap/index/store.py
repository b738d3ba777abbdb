"""What an index keeps, and what a database does for it: store and find vectors, and keep a note."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, ClassVar

import numpy as np

from modgap.core.checks import InputValueError, check_count
from modgap.corrections import Correction
from modgap.index.errors import one_sentence
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Graphs, Note
from modgap.index.row_monitor import RowMonitor
from modgap.index.stored_vectors import Corrections, StoredVector, as_corrections, vector_names

BATCH_ROWS = 4096


class VectorStore(ABC):
    """The state of an index, and the methods that each database has of its own."""

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

    def _vector_names(self) -> list[str]:
        return vector_names(self._given)

    def _one_sentence(self) -> AbstractContextManager[None]:
        return one_sentence(self.place, self.failures, self._address)

    def _forget_session(self) -> None:
        for held in (self._written, self._next, self._made):
            held.clear()

    def close(self) -> None:
        """Let go of locks, files and connections."""
        self._resources.close()

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
