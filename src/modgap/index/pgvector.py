"""PostgreSQL with pgvector: a table of modgap's own, or a corrected column of a table you have."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from modgap._validate import InputValueError, check_count
from modgap.corrections import Correction
from modgap.index.answers import Hit, Id, IdType
from modgap.index.base import BATCH_ROWS, VectorIndex
from modgap.index.notes import Note
from modgap.index.postgres import Table, place_of

# What pgvector's HNSW takes at most: columns of a vector, and ef_search, and so results.
_MAX_COLUMNS = 2_000
_MAX_EF_SEARCH = 1_000


class PgvectorIndex(VectorIndex):
    """Documents in a table (modality, id, embedding), the note in the comment of the column.

    Searches are exact unless ``ef_search`` is given: then an HNSW graph for each modality is made
    when the table is finished. One graph each, because documents of different modalities may have
    nothing to do with each other (the blocks of Calibrate are orthogonal), and a search finds no
    way between them.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host/database``.
    correction : Correction
        What documents and queries are mapped with.
    table : str
        The table, ``schema.table`` where it is in another schema.
    column, modality_column, id_column : str
        Names of its columns; others than the defaults serve to search a column that `add_column`
        wrote.
    ef_search : int, optional
        Candidates that a search of a graph keeps, at most 1000; exact search without it.
    batch_rows : int
        Rows committed together.
    """

    metrics: ClassVar = {
        "cosine": (("<=>", "vector_cosine_ops"), lambda distance: 1.0 - distance),
        "inner_product": (("<#>", "vector_ip_ops"), operator.neg),
        "euclidean": (("<->", "vector_l2_ops"), lambda distance: -(distance**2)),
    }

    def __init__(
        self,
        url: str,
        correction: Correction,
        *,
        table: str = "modgap",
        column: str = "embedding",
        modality_column: str = "modality",
        id_column: str = "id",
        ef_search: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(correction, place_of(url, table), batch_rows)
        self.ef_search = ef_search
        if ef_search is not None:
            check_count(ef_search, "ef_search", at_most=_MAX_EF_SEARCH)
            if self.dim > _MAX_COLUMNS:
                raise InputValueError(
                    f"An HNSW graph of pgvector takes at most {_MAX_COLUMNS:,} columns, and the "
                    f"correction gives {self.dim:,}. Leave ef_search out to search exactly."
                )
        self._columns = (modality_column, id_column, column)
        self._table = Table(url, table, column=column, modality=modality_column, id=id_column)
        self._resources.callback(self._table.connection.close)
        self._run, self.failures = self._table.run, (self._table.failure,)

    def _lock(self) -> None:
        self._table.lock()

    def _load_note(self) -> Note | None:
        found = self._table.columns()
        if not found:
            return None
        if not {*self._columns} <= {*found}:
            return {}
        self._table.register()
        return found[self._columns[2]].note

    def _save_note(self, note: Note) -> None:
        self._table.save_note("column", note)

    def _make(self, note: Note, id_type: IdType) -> None:
        kind = "bigint" if id_type == "int" else "text"
        with self._table.connection.transaction():
            self._run("CREATE EXTENSION IF NOT EXISTS vector")
            self._run(
                f"CREATE TABLE {{table}} ({{modality}} text NOT NULL, {{id}} {kind} NOT NULL, "
                "{column} vector({dim}) NOT NULL, PRIMARY KEY ({modality}, {id}))",
                dim=self.dim,
            )
            self._save_note(note)
        self._table.register()

    def _add(self, rows: np.ndarray, modality: str, ids: Sequence[Id]) -> None:
        kinds = ["text", "text" if isinstance(ids[0], str) else "int8", "vector"]
        lines = ((modality, key, row) for key, row in zip(ids, rows, strict=True))
        with self._table.connection.transaction():
            self._table.copy("{table} ({modality}, {id}, {column})", lines, kinds)

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        self._check_may_change()
        found = self._run(
            "SELECT {id} FROM {table} WHERE {modality} = %s AND {id} = ANY(%s)",
            (modality, list(ids)),
        )
        return {row[0] for row in found}

    def _nearest(self, queries: np.ndarray, k: int, only: str | None) -> list[list[Hit]]:
        # One graph for each modality, so one search in each; an exact search takes one for all.
        names: Sequence[str | None] = [only]
        with self._table.connection.transaction():
            if self.ef_search is None:
                self._run("SET LOCAL enable_indexscan = off")  # an HNSW graph would approximate
            else:
                check_count(k, "k", at_most=_MAX_EF_SEARCH)
                names = self.correction.names if only is None else names
                # The graph returns no more results than it looked at.
                self._run("SET LOCAL hnsw.ef_search = {width}", width=max(self.ef_search, k))
                self._run("SET LOCAL enable_seqscan = off")
            return [[hit for name in names for hit in self._best(q, k, name)] for q in queries]

    def _best(self, query: np.ndarray, k: int, only: str | None) -> list[Hit]:
        # As a literal: a parameter would not tell the planner which graph holds the modality.
        condition = "" if only is None else "AND {modality} = {only}"
        found: list[Hit] = self._run(
            f"SELECT {{id}}, {{modality}}::text, {{column}} {self._metric_name[0]} %s AS distance "
            f"FROM {{table}} WHERE {{column}} IS NOT NULL {condition} ORDER BY distance LIMIT %s",
            (query, k),
            only=only,
        ).fetchall()
        return found

    def _count(self, only: str | None) -> int:
        condition = "" if only is None else "AND {modality} = {only}"
        count: int = self._run(
            f"SELECT count(*) FROM {{table}} WHERE {{column}} IS NOT NULL {condition}", only=only
        ).fetchone()[0]
        return count

    def _finish(self) -> None:
        if self.ef_search is None:
            return
        for name in self.correction.names:
            # A name of its own, so that it is made once however often the table is finished.
            text = f"{self._table.table}/{self._columns}/{name}"
            graph = f"modgap_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
            self._run(
                f"CREATE INDEX IF NOT EXISTS {graph} ON {{table}} USING hnsw "
                f"({{column}} {self._metric_name[1]}) WHERE {{modality}} = {{name}}",
                name=name,
            )

    def _drop(self) -> None:
        self._check_may_change()
        self._run("DROP TABLE {table}")

    def _check_may_change(self) -> None:
        found = self._table.columns().get(self._columns[2])
        if found is not None and found.note.get("scope") != "table":
            raise InputValueError(
                f"{self.place} is a table of yours: modgap neither adds rows to it nor drops it. "
                "Correct new rows with add_column, undo the column with drop_column."
            )
