"""A table in a DuckDB file, searched flat: by DuckDB's own functions of arrays, without extensions.

DuckDB's graphs (its extension ``vss``) are not used: they are downloaded when first asked for, and
are kept in a file only as an experiment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from modgap.core.checks import require
from modgap.core.files import file_to_write
from modgap.core.locks import sole_writer_of
from modgap.index.base import VectorIndex
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Note, read_note
from modgap.index.store import BATCH_ROWS
from modgap.index.stored_vectors import Corrections, StoredVector, check_storable

# What a file holds, such as a view, reads no other file and no URL, and loads no extension.
_CONFIG = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
_TYPES = {"int": "BIGINT", "str": "VARCHAR"}


class DuckdbIndex(VectorIndex):
    """A table of a DuckDB file; every search is exact, and looks at all documents.

    The note is the comment of the table. Other tables of the file are left alone.

    Several processes may search a file, or one may change it, which is DuckDB's own rule: so it is
    opened for reading only until something is written.

    Parameters
    ----------
    path : path
        The file.
    correction : Correction, path, or several
        What documents and queries are mapped with.
    table : str
        The name of the table; as in all of DuckDB, A and a are the same.
    batch_rows : int
        Rows stored together.
    """

    metrics: ClassVar = {
        "cosine": (("array_cosine_similarity", "DESC"), float),
        "inner_product": (("array_inner_product", "DESC"), float),
        "euclidean": (("array_distance", "ASC"), lambda distance: -(distance**2)),
    }

    def __init__(
        self,
        path: str | Path,
        correction: Corrections,
        *,
        table: str = "modgap",
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(correction, f"table {table!r} of {path}", batch_rows)
        self._duckdb = require("duckdb", "duckdb", "A DuckDB table")
        self.failures = (self._duckdb.Error, ValueError, RuntimeError, OSError)
        # Whole, since DuckDB reads :memory: and md:NAME as other things than files.
        self.path = Path(path).absolute()
        check_storable([table], "The name of a table")
        self.table = table
        self._quoted = _quoted(table)
        self._opened: Any = None
        self._writes = False

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            self._opened = self._duckdb.connect(
                str(self.path), read_only=not self._writes, config=_CONFIG
            )
            self._resources.callback(self._opened.close)
        return self._opened

    def _lock(self) -> None:
        file_to_write(self.path)
        self._resources.enter_context(sole_writer_of(self.path))
        if self._opened is not None:
            self._opened.close()
        self._opened, self._writes = None, True

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        found = self._connection.execute(
            "SELECT table_name, comment FROM duckdb_tables() "
            "WHERE database_name = current_database() AND schema_name = current_schema()"
        ).fetchall()
        # Bytes, since only the letters of ASCII are the same to DuckDB in upper and lower case.
        said = {name.encode().lower(): comment for name, comment in found}
        wanted = self.table.encode().lower()
        return read_note(said[wanted]) if wanted in said else None

    def _save_note(self, note: Note) -> None:
        said = _quoted(json.dumps(note), "'")
        self._connection.execute(f"COMMENT ON TABLE {self._quoted} IS {said}")

    def _make(self, note: Note, id_type: IdType) -> None:
        vectors = [f"{_quoted(name)} FLOAT[{one.dim}]" for name, one in self.vectors.items()]
        columns = ", ".join([f"id {_TYPES[id_type]}", "modality VARCHAR", *vectors])
        with self._whole():
            self._connection.execute(f"CREATE TABLE {self._quoted} ({columns})")
            self._save_note(note)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """All statements of the block, or none."""
        self._connection.begin()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        columns: dict[str, Any] = {"id": list(ids), "modality": [modality] * len(ids)}
        for name, rows in vectors.items():
            columns[name] = pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])
        with self._whole():
            if replace:
                self._remove(modality, ids)
            self._connection.register("modgap_given", pa.table(columns))
            self._connection.execute(
                f"INSERT INTO {self._quoted} BY NAME SELECT * FROM modgap_given"
            )
            self._connection.unregister("modgap_given")

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        self._connection.execute(
            f"DELETE FROM {self._quoted} WHERE modality = ? AND id IN (SELECT unnest(?))",
            [modality, list(ids)],
        )

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        found = self._connection.execute(
            f"SELECT id FROM {self._quoted} WHERE modality = ? AND id IN (SELECT unnest(?))",
            [modality, list(ids)],
        )
        return {key for (key,) in found.fetchall()}

    def _ids_of(self, modality: str) -> list[Id]:
        found = self._connection.execute(
            f"SELECT id FROM {self._quoted} WHERE modality = ?", [modality]
        )
        return [key for (key,) in found.fetchall()]

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        function, order = self._metric_name
        chosen, names = _only(only)
        statement = (
            f"SELECT id, modality, {function}({_quoted(vector.name)}, ?::FLOAT[{vector.dim}]) "
            f"AS near FROM {self._quoted}{chosen} ORDER BY near {order} LIMIT {k}"
        )
        return [
            self._connection.execute(statement, [query, *names]).fetchall() for query in queries
        ]

    def _count(self, only: str | None) -> int:
        chosen, names = _only(only)
        counted = self._connection.execute(f"SELECT count(*) FROM {self._quoted}{chosen}", names)
        return int(counted.fetchone()[0])

    def _finish(self) -> None:
        self._connection.execute("CHECKPOINT")  # what is in the write-ahead log goes into the file

    def _drop(self) -> None:
        self._connection.execute(f"DROP TABLE {self._quoted}")


def _quoted(text: str, mark: str = '"') -> str:
    """A name in SQL, or with ``'`` a text; nothing else in it means anything to DuckDB."""
    return mark + text.replace(mark, 2 * mark) + mark


def _only(modality: str | None) -> tuple[str, list[str]]:
    """The condition of one modality, and what it is filled with."""
    return ("", []) if modality is None else (" WHERE modality = ?", [modality])
