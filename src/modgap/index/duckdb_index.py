"""A table in a DuckDB file, searched flat: by DuckDB's own functions of arrays, without extensions.

DuckDB's graphs (its extension ``vss``) are not used: they are downloaded when first asked for, and
are kept in a file only as an experiment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from modgap.core.checks import require
from modgap.index.hits import Id
from modgap.index.metadata import Note, read_note
from modgap.index.sql_file import SqlFileIndex, quoted
from modgap.index.stored_vectors import StoredVector

# What a file holds, such as a view, reads no other file and no URL, and loads no extension.
_CONFIG = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}


class DuckdbIndex(SqlFileIndex):
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
        "cosine": ("array_cosine_similarity", float),
        "inner_product": ("array_inner_product", float),
        "euclidean": ("-array_distance", lambda near: -(near**2)),
    }
    id_types: ClassVar = {"int": "BIGINT", "str": "VARCHAR"}
    values_of_list = "SELECT unnest(?)"

    def _import(self) -> Any:
        return require("duckdb", "duckdb", "A DuckDB table")

    def _connect(self) -> Any:
        return self._library.connect(str(self.path), read_only=not self._writes, config=_CONFIG)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        found = self._run(
            "SELECT table_name, comment FROM duckdb_tables() "
            "WHERE database_name = current_database() AND schema_name = current_schema()"
        )
        # Bytes, since only the letters of ASCII are the same to DuckDB in upper and lower case.
        said = {name.encode().lower(): comment for name, comment in found}
        wanted = self.table.encode().lower()
        return read_note(said[wanted]) if wanted in said else None

    def _save_note(self, note: Note) -> None:
        said = quoted(json.dumps(note), "'")
        self._run(f"COMMENT ON TABLE {self._quoted} IS {said}")

    def _columns(self, vector: StoredVector) -> list[str]:
        return [f"{quoted(vector.name)} FLOAT[{vector.dim}]"]

    def _create(self, columns: str, note: Note) -> None:
        self._run(f"CREATE TABLE {self._quoted} ({columns})")
        self._save_note(note)

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
            self._run(f"INSERT INTO {self._quoted} BY NAME SELECT * FROM modgap_given")
            self._connection.unregister("modgap_given")

    def _list(self, ids: Sequence[Id]) -> list[Id]:
        return list(ids)

    def _nearness(self, vector: StoredVector) -> str:
        return f"{self._metric_name}({quoted(vector.name)}, ?::FLOAT[{vector.dim}])"

    def _query(self, query: np.ndarray) -> np.ndarray:
        return query

    def _finish(self) -> None:
        self._run("CHECKPOINT")  # what is in the write-ahead log goes into the file
