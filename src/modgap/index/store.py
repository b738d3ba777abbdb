"""What a database must do for a `VectorIndex`: store corrected vectors and find the nearest.

Another database is one file: a subclass of `VectorIndex` with ``metrics`` and the eight abstract
methods below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from modgap.index.answers import Hit, Id, IdType
from modgap.index.notes import Note
from modgap.index.vectors import StoredVector


class VectorStore(ABC):
    """Keeps a note and vectors with their modality and id; all vectors are corrected already.

    ``self.vectors`` says which vectors a document has, and how many columns each.
    """

    # For each metric what the database calls it, and what turns its nearness into a score.
    metrics: ClassVar[Mapping[str, tuple[Any, Callable[[float], float]]]]
    # What the database's own library raises; becomes one sentence.
    failures: tuple[type[Exception], ...] = ()
    # How wide graphs are searched; None where that was not asked for.
    ef_search: int | None

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
    def _add(self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id]) -> None:
        """Store corrected rows for good, all of them or none; ``vectors`` by name."""

    @abstractmethod
    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        """Which of the ids are stored already."""

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

    def _make_way(self) -> None:
        """Remove what is to be replaced, before the first row of its successor is stored."""
        self._drop()

    def _builds_graphs(self) -> bool:
        """Whether an index that is begun gets graphs; options that cannot be met are refused."""
        return self.ef_search is not None

    def _searches_graphs(self) -> bool:
        """Whether a search uses the graphs that there are."""
        return self.ef_search is not None

    def _lifts(self) -> bool:
        """Whether the graphs take documents with one more column."""
        return True

    def _check_plan(self) -> None:  # noqa: B027
        """Refuse vectors that cannot be stored, before the first is."""

    def _check_opened(self) -> None:  # noqa: B027
        """Refuse, or warn of, what was found when an index is opened."""

    def _check_may_change(self) -> None:  # noqa: B027
        """Refuse to add rows to, or to drop, what modgap did not make."""

    def _lock(self) -> None:  # noqa: B027
        """Refuse to write where another process is writing."""

    def _finish(self) -> None:  # noqa: B027
        """What is left to do once everything is written."""
