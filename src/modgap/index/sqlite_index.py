"""A table in an SQLite file, searched flat by the functions of sqlite-vec.

sqlite-vec compares by cosine and by Euclidean distance, and has no inner product: that is the
cosine times both lengths, so documents are stored at unit length, with their length beside. Its
virtual tables (``vec0``) are not used: they scan all vectors, too, find at most 4,096 documents,
and take no such product.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np

from modgap.core.checks import require
from modgap.index.hits import Hit, Id
from modgap.index.metadata import Note, read_note
from modgap.index.sql_file import SqlFileIndex, quoted
from modgap.index.stored_vectors import StoredVector
from modgap.search.exact import given_scores

# How long another process that writes to the file is waited for.
_WAIT_MS = 10_000
# Rows of up to 2,000 columns fit into pages of a new file; a scan of longer ones is slower.
_PAGE_BYTES = 32_768


class SqliteIndex(SqlFileIndex):
    """A table of an SQLite file; every search is exact, and looks at all documents.

    The note is in a table of its own, ``TABLE.note``. Other tables of the file are left alone.

    The library is ``apsw``, because the ``sqlite3`` of Python often loads no extensions. A file may
    be searched by several processes while one changes it; who finds it locked waits ten seconds.

    Parameters
    ----------
    path : path
        The file.
    correction : Correction, path, or several
        What documents and queries are mapped with.
    table : str
        The name of the table; as in all of SQLite, A and a are the same.
    batch_rows : int
        Rows stored together.
    """

    # Nearness in SQL is for the ranking; the scores of what is found are computed from its rows.
    metrics: ClassVar = {
        "cosine": ("-vec_distance_cosine({0}, ?)", float),
        # A row of zeros has no cosine.
        "inner_product": ("coalesce({1} * (1 - vec_distance_cosine({0}, ?)), 0)", float),
        "euclidean": ("-vec_distance_L2({0}, ?)", float),
    }
    id_types: ClassVar = {"int": "INTEGER", "str": "TEXT"}
    values_of_list = "SELECT value FROM json_each(?)"

    def _import(self) -> Any:
        library = require("apsw", "sqlite", "An SQLite table")
        self._extension = require("sqlite_vec", "sqlite", "An SQLite table")
        return library

    def _connect(self) -> Any:
        # Also for a search: it may have to undo what a killed process was writing.
        flags = self._library.SQLITE_OPEN_READWRITE
        if self._writes:
            flags |= self._library.SQLITE_OPEN_CREATE
        connection = self._library.Connection(str(self.path), flags)
        try:
            connection.set_busy_timeout(_WAIT_MS)
            connection.enable_load_extension(True)
            connection.load_extension(self._extension.loadable_path())
            connection.enable_load_extension(False)
            # What a file holds, such as a view or a trigger, calls no function with side effects.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _transaction(self) -> AbstractContextManager[Any]:
        connection: AbstractContextManager[Any] = self._connection
        return connection

    @property
    def _note_table(self) -> str:
        return quoted(f"{self.table}.note")

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        named = "SELECT type FROM sqlite_schema WHERE name = ? COLLATE NOCASE"
        there, noted = (self._run(named, [name]) for name in (self.table, f"{self.table}.note"))
        if not there and not noted:
            return None
        if there != [("table",)] or noted != [("table",)]:
            return {}
        found = self._run(f"SELECT note FROM {self._note_table}")
        return read_note(found[0][0] if len(found) == 1 else None)

    def _save_note(self, note: Note) -> None:
        self._run(f"UPDATE {self._note_table} SET note = ?", [json.dumps(note)])

    def _names_of(self, vector: str) -> list[str]:
        """The columns of a vector: its numbers, and its length where the metric looks at it."""
        names = [quoted(vector), quoted(f"length_of_{vector}")]
        return names if self.metric == "inner_product" else names[:1]

    def _columns(self, vector: StoredVector) -> list[str]:
        types = ("BLOB NOT NULL", "REAL NOT NULL")
        names = self._names_of(vector.name)
        return [f"{name} {one}" for name, one in zip(names, types, strict=False)]

    def _create(self, columns: str, note: Note) -> None:
        # Without rowid, the rows of a modality lie together, and one is found by its id.
        self._run(
            f"CREATE TABLE {self._quoted} ({columns}, PRIMARY KEY (modality, id)) WITHOUT ROWID"
        )
        self._run(f"CREATE TABLE {self._note_table} (note TEXT NOT NULL)")
        self._run(f"INSERT INTO {self._note_table} VALUES (?)", [json.dumps(note)])

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        names: list[str] = ["id", "modality"]
        columns: list[Sequence[Any]] = [ids, [modality] * len(ids)]
        for vector, rows in vectors.items():
            added = self._names_of(vector)
            names += added
            columns += self._blobs_and_lengths(rows)[: len(added)]
        statement = (
            f"INSERT{' OR REPLACE' if replace else ''} INTO {self._quoted} ({', '.join(names)}) "
            f"VALUES ({', '.join('?' * len(names))})"
        )
        with self._whole():
            self._connection.executemany(statement, zip(*columns, strict=True))

    def _list(self, ids: Sequence[Id]) -> str:
        return json.dumps(list(ids), ensure_ascii=False)

    def _nearness(self, vector: StoredVector) -> str:
        nearness: str = self._metric_name
        return nearness.format(*self._names_of(vector.name))

    def _kept(self, vector: StoredVector) -> Sequence[str]:
        return self._names_of(vector.name)

    def _query(self, query: np.ndarray) -> bytes:
        (blob,), _ = self._blobs_and_lengths(query[None])
        return blob

    def _blobs_and_lengths(self, rows: np.ndarray) -> tuple[list[bytes], list[float]]:
        """Rows as sqlite-vec reads them, and their lengths.

        Where the metric is no distance they have unit length: its cosines of very long or very
        short rows leave the range of float32.
        """
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        if self.metric != "euclidean":
            rows = (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
        return [row.tobytes() for row in rows], lengths.tolist()

    def _hits_of(self, found: list[tuple[Any, ...]], query: np.ndarray) -> list[Hit]:
        """With scores in float64, since sqlite-vec adds up in float32, one product at a time."""
        if not found:
            return []
        keys, modalities, near, vectors, *lengths = zip(*found, strict=True)
        rows = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(found), -1)
        rows = rows.astype(np.float64)
        for column in lengths:
            rows *= np.array(column)[:, None]
        asked = query[None].astype(np.float64)
        scores = given_scores(asked, rows, np.zeros(len(found), dtype=int), self.metric)
        # What leaves the range of float32 was not ranked.
        scores = np.where(np.isfinite(near), scores, near)
        return [*zip(keys, modalities, scores.tolist(), strict=True)]

    def _drop(self) -> None:
        with self._whole():
            super()._drop()
            self._run(f"DROP TABLE {self._note_table}")
