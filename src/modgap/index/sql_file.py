"""A table in a file of SQL, searched flat: what the databases share that are one file each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

import numpy as np

from modgap.core.files import file_to_write
from modgap.core.locks import sole_writer_of
from modgap.index.base import VectorIndex
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Note
from modgap.index.store import BATCH_ROWS
from modgap.index.stored_vectors import Corrections, StoredVector, check_storable


class SqlFileIndex(VectorIndex):
    """A table of documents; every search is exact, and looks at all of them.

    The vectors have a column each, after ``id`` and ``modality``. Other tables are left alone. The
    file is opened for writing only once something is written.
    """

    # The types of columns of whole numbers and of text.
    id_types: ClassVar[dict[IdType, str]]
    # Rows of the values in a list, which is one parameter.
    values_of_list: ClassVar[str]

    def __init__(
        self,
        path: str | Path,
        correction: Corrections,
        *,
        table: str = "modgap",
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(correction, f"table {table!r} of {path}", batch_rows)
        self._library = self._import()
        self.failures = (self._library.Error, ValueError, RuntimeError, OSError)
        # Whole, since names such as :memory: mean other things than files.
        self.path = Path(path).absolute()
        check_storable([table], "The name of a table")
        self.table = table
        self._quoted = quoted(table)
        self._opened: Any = None
        self._writes = False
        # Threads share the connection, which serves one at a time.
        self._turn = RLock()

    @abstractmethod
    def _import(self) -> Any:
        """The library of the database, which has its ``Error``."""

    @abstractmethod
    def _connect(self) -> Any:
        """A connection, for reading unless ``_writes``; only then a file is made."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """All statements of a block are carried out, or none."""

    @abstractmethod
    def _columns(self, vector: StoredVector) -> list[str]:
        """The columns that hold a vector, with their types."""

    @abstractmethod
    def _create(self, columns: str, note: Note) -> None:
        """Make the empty table, and what holds the note."""

    @abstractmethod
    def _nearness(self, vector: StoredVector) -> str:
        """How near a vector is to a query, in SQL; larger is nearer."""

    @abstractmethod
    def _query(self, query: np.ndarray) -> Any:
        """The parameter of `_nearness`."""

    @abstractmethod
    def _list(self, ids: Sequence[Id]) -> Any:
        """The parameter of ``values_of_list``."""

    def _kept(self, vector: StoredVector) -> Sequence[str]:
        """More columns of each result, for `_hits_of`."""
        return ()

    def _hits_of(self, found: list[tuple[Any, ...]], query: np.ndarray) -> list[Hit]:
        """Results of one query; ``found`` has an id, a modality, how near it is, and `_kept`."""
        return [(key, modality, near) for key, modality, near in found]

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            self._opened = self._connect()
            self._resources.callback(self._opened.close)
        return self._opened

    def _run(self, statement: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._turn:
            found: list[tuple[Any, ...]] = self._connection.execute(statement, given).fetchall()
        return found

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A transaction in which no other thread takes part."""
        with self._turn, self._transaction():
            yield

    def _lock(self) -> None:
        file_to_write(self.path)
        self._resources.enter_context(sole_writer_of(self.path))
        if self._opened is not None:
            self._opened.close()
        self._opened, self._writes = None, True

    def _make(self, note: Note, id_type: IdType) -> None:
        columns = [f"id {self.id_types[id_type]}", f"modality {self.id_types['str']}"]
        for vector in self.vectors.values():
            columns += self._columns(vector)
        with self._whole():
            self._create(", ".join(columns), note)

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        self._run(f"DELETE FROM {self._quoted} {self._among}", [modality, self._list(ids)])

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        found = self._run(
            f"SELECT id FROM {self._quoted} {self._among}", [modality, self._list(ids)]
        )
        return {key for (key,) in found}

    @property
    def _among(self) -> str:
        return f"WHERE modality = ? AND id IN ({self.values_of_list})"

    def _ids_of(self, modality: str) -> list[Id]:
        found = self._run(f"SELECT id FROM {self._quoted} WHERE modality = ?", [modality])
        return [key for (key,) in found]

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        chosen, names = _only(only)
        kept = "".join(f", {column}" for column in self._kept(vector))
        statement = (
            f"SELECT id, modality, {self._nearness(vector)} AS near{kept} FROM {self._quoted}"
            f"{chosen} ORDER BY near DESC LIMIT {k}"
        )
        return [
            self._hits_of(self._run(statement, [self._query(query), *names]), query)
            for query in queries
        ]

    def _count(self, only: str | None) -> int:
        chosen, names = _only(only)
        return int(self._run(f"SELECT count(*) FROM {self._quoted}{chosen}", names)[0][0])

    def _drop(self) -> None:
        self._run(f"DROP TABLE {self._quoted}")


def quoted(text: str, mark: str = '"') -> str:
    """A name in SQL, or with ``'`` a text; nothing else in it means anything."""
    return mark + text.replace(mark, 2 * mark) + mark


def _only(modality: str | None) -> tuple[str, list[str]]:
    """The condition of one modality, and what it is filled with."""
    return ("", []) if modality is None else (" WHERE modality = ?", [modality])
