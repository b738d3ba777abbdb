"""PostgreSQL with pgvector: a table of modgap's own, or a corrected column of a table you have."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from modgap._validate import InputValueError, check_count, require
from modgap.corrections import Correction
from modgap.index.answers import Hit, Id, one_line
from modgap.index.base import BATCH_ROWS, VectorIndex

# Operator, operator class of an index, and what turns the distance into a score.
_METRICS = {
    "cosine": ("<=>", "vector_cosine_ops", lambda distance: 1.0 - distance),
    "inner_product": ("<#>", "vector_ip_ops", lambda distance: -distance),
    "euclidean": ("<->", "vector_l2_ops", lambda distance: -(distance**2)),
}
_LOCK_TRIES = 20


_MOST_GRAPH_COLUMNS = 2_000


class PgvectorIndex(VectorIndex):
    """Documents in a table (modality, id, embedding), the note in the comment of the column.

    The other names of columns serve to search a column that `add_column` wrote. Searches are
    exact unless ``effort`` is given: then an HNSW graph for each modality is made when the table
    is finished, and ``effort`` is their ef_search. One graph each, because documents of different
    modalities may have nothing to do with each other (the blocks of Calibrate are orthogonal), and
    a search finds no way between them.
    """

    def __init__(
        self,
        url: str,
        correction: Correction,
        *,
        table: str = "modgap",
        column: str = "embedding",
        modality_column: str = "modality",
        id_column: str = "id",
        effort: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(correction, place_of(url, table), batch_rows)
        self.effort = None if effort is None else check_count(effort, "effort", at_most=1000)
        if effort is not None and self.dim > _MOST_GRAPH_COLUMNS:
            raise InputValueError(
                f"An HNSW graph of pgvector takes at most {_MOST_GRAPH_COLUMNS:,} columns, and the "
                f"correction gives {self.dim:,}. Leave effort out to search exactly."
            )
        self.table = table
        psycopg = require("psycopg", "pgvector", "PostgreSQL")
        self.failures = (psycopg.Error,)
        self.connection = connect(url, self.place)
        sql = psycopg.sql
        self._sql = sql
        self._names = {
            "table": sql.Identifier(*table.split(".")),
            "column": sql.Identifier(column),
            "modality": sql.Identifier(modality_column),
            "id": sql.Identifier(id_column),
        }
        self._columns = (modality_column, id_column, column)

    def _run(self, statement: str, parameters: Any = (), **more: Any) -> Any:
        composed = self._sql.SQL(statement).format(**self._names, **more)
        return self.connection.execute(composed, parameters)

    def _lock(self) -> None:
        lock(self.connection, self.table, self.place)

    def _load_note(self) -> Mapping[str, Any] | None:
        found = columns_of(self.connection, self.table)
        if not found:
            return None
        if not {*self._columns} <= {*found}:
            return {}
        register(self.connection, self.place)
        return found[self._columns[2]].note

    def _save_note(self, note: Mapping[str, Any]) -> None:
        text = self._sql.Literal(json.dumps(note))
        self._run("COMMENT ON COLUMN {table}.{column} IS {text}", text=text)

    def _make(self, note: Mapping[str, Any], ids: Literal["int", "str"]) -> None:
        with self.connection.transaction():
            self._run("CREATE EXTENSION IF NOT EXISTS vector")
            self._run(
                "CREATE TABLE {table} ({modality} text NOT NULL, {id} {kind} NOT NULL, "
                "{column} vector({dim}) NOT NULL, PRIMARY KEY ({modality}, {id}))",
                kind=self._sql.SQL("bigint" if ids == "int" else "text"),
                dim=self._sql.Literal(self.dim),
            )
            self._save_note(note)
        register(self.connection, self.place)

    def _add(self, rows: np.ndarray, modality: str, ids: Sequence[Id]) -> None:
        statement = "COPY {table} ({modality}, {id}, {column}) FROM STDIN (FORMAT BINARY)"
        kinds = ["text", "text" if isinstance(ids[0], str) else "int8", "vector"]
        composed = self._sql.SQL(statement).format(**self._names)
        with self.connection.transaction(), self.connection.cursor().copy(composed) as copy:
            copy.set_types(kinds)
            for key, row in zip(ids, rows, strict=True):
                copy.write_row((modality, key, row))

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        self._check_may_drop()
        found = self._run(
            "SELECT {id} FROM {table} WHERE {modality} = %s AND {id} = ANY(%s)",
            (modality, list(ids)),
        )
        return {row[0] for row in found}

    def _nearest(self, queries: np.ndarray, k: int, only: str | None) -> list[list[Hit]]:
        if self.effort is not None:
            check_count(k, "k", at_most=1000)  # of ef_search, and so of results
        # One graph for each modality, so one search in each; an exact search takes one for all.
        names: Sequence[str | None] = [only]
        if self.effort is not None and only is None:
            names = self.correction.names
        found = []
        with self.connection.transaction():
            if self.effort is None:
                self._run("SET LOCAL enable_indexscan = off")  # an HNSW graph would approximate
            else:
                # The graph returns no more results than it looked at.
                effort = self._sql.Literal(max(self.effort, k))
                self._run("SET LOCAL hnsw.ef_search = {effort}", effort=effort)
                self._run("SET LOCAL enable_seqscan = off")
            for query in queries:
                hits = [hit for name in names for hit in self._best(query, k, name)]
                found.append(sorted(hits, key=lambda hit: -hit[2])[:k])
        return found

    def _best(self, query: np.ndarray, k: int, only: str | None) -> list[Hit]:
        operator, _, score = _METRICS[self.metric]
        # As a literal: a parameter would not tell the planner which graph holds the modality.
        condition = "" if only is None else "AND {modality} = {only}"
        rows = self._run(
            "SELECT {id}, {modality}::text, {column} {operator} %s AS distance FROM {table} "
            f"WHERE {{column}} IS NOT NULL {condition} ORDER BY distance LIMIT %s",
            (query, k),
            operator=self._sql.SQL(operator),
            only=self._sql.Literal(only),
        )
        return [(key, name, score(distance)) for key, name, distance in rows]

    def _count(self, only: str | None) -> int:
        condition = "" if only is None else "AND {modality} = %s"
        statement = f"SELECT count(*) FROM {{table}} WHERE {{column}} IS NOT NULL {condition}"
        count: int = self._run(statement, () if only is None else (only,)).fetchone()[0]
        return count

    def _finish(self) -> None:
        if self.effort is not None:
            classes = self._sql.SQL(_METRICS[self.metric][1])
            for name in self.correction.names:
                # A name of its own, so that it is made once however often the table is finished.
                digest = hashlib.sha256(f"{self.table}/{self._columns}/{name}".encode()).hexdigest()
                self._run(
                    "CREATE INDEX IF NOT EXISTS {graph} ON {table} USING hnsw ({column} {classes}) "
                    "WHERE {modality} = {name}",
                    graph=self._sql.Identifier(f"modgap_{digest[:24]}"),
                    classes=classes,
                    name=self._sql.Literal(name),
                )

    def _drop(self) -> None:
        self._check_may_drop()
        self._run("DROP TABLE {table}")

    def _check_may_drop(self) -> None:
        found = columns_of(self.connection, self.table).get(self._columns[2])
        if found is not None and found.note.get("part") != "table":
            raise InputValueError(
                f"{self.place} is a table of yours: modgap neither adds rows to it nor drops it. "
                "Correct new rows with add_column, undo the column with drop_column."
            )

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Column:
    """A column of a table as the database describes it."""

    def __init__(self, kind: str, modifier: int, comment: str | None) -> None:
        self.kind = kind
        # vector(d) keeps d here; -1 where the column takes any dimension.
        self.dim = modifier if kind == "vector" and modifier > 0 else None
        try:
            note = json.loads(comment or "")
        except ValueError:
            note = None
        self.note: dict[str, Any] = note if isinstance(note, dict) else {}


def columns_of(connection: Any, table: str) -> dict[str, Column]:
    """The columns of a table by name; none where there is no such table."""
    from psycopg import sql

    name = sql.Identifier(*table.split(".")).as_string(connection)
    rows = connection.execute(
        "SELECT a.attname, t.typname, a.atttypmod, col_description(a.attrelid, a.attnum) "
        "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped",
        (name,),
    )
    return {row[0]: Column(*row[1:]) for row in rows}


def connect(url: str, place: str) -> Any:
    """A connection that commits by itself; one sentence where there is none to be had."""
    psycopg = require("psycopg", "pgvector", "PostgreSQL")
    try:
        return psycopg.connect(url, connect_timeout=10, autocommit=True)
    except psycopg.Error as error:
        raise InputValueError(
            f"{place} cannot be reached: {one_line(error)}. Check that the server runs, and the "
            "address, user and password."
        ) from error


@contextmanager
def session(url: str, place: str) -> Iterator[Any]:
    """A connection for a while; what goes wrong becomes one sentence."""
    psycopg = require("psycopg", "pgvector", "PostgreSQL")
    try:
        with connect(url, place) as connection:
            yield connection
    except psycopg.Error as error:
        raise InputValueError(f"{place} cannot be used: {one_line(error)}.") from error


def register(connection: Any, place: str) -> None:
    """Send and read vectors in binary; the extension must be there."""
    psycopg = require("psycopg", "pgvector", "PostgreSQL")
    try:
        require("pgvector.psycopg", "pgvector", "PostgreSQL").register_vector(connection)
    except psycopg.ProgrammingError as error:
        raise InputValueError(
            f"The database of {place} lacks the extension pgvector. Install it and run: "
            "CREATE EXTENSION vector"
        ) from error


def lock(connection: Any, table: str, place: str) -> None:
    """One writer at a time; the server lets go when the connection ends, however it ends.

    It needs a moment to notice that a process was killed, so this asks a few times.
    """
    for _ in range(_LOCK_TRIES):
        held = connection.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (f"modgap.{table}",)
        ).fetchone()[0]
        if held:
            return
        time.sleep(0.1)
    raise InputValueError(f"Another process is writing to {place}. Wait until it is done.")


def place_of(url: str, table: str) -> str:
    """What to call the table in a sentence: never with the password."""
    parts = urlsplit(url)
    database = parts.path.lstrip("/") or "the default database"
    return f"table {table!r} of {database} at {parts.hostname or 'the local server'}"
