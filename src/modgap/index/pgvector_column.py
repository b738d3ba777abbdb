"""Correct a table you have: a new column beside the old one, in batches that can be resumed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from modgap._validate import InputError, InputValueError, check_count, require
from modgap.corrections import Correction
from modgap.index.base import Progress
from modgap.index.notes import check_note_fits, new_note
from modgap.index.pgvector import Column, columns_of, lock, place_of, register, session


def add_column(
    url: str,
    table: str,
    correction: Correction,
    *,
    column: str = "embedding",
    modality_column: str = "modality",
    new_column: str = "embedding_corrected",
    batch_rows: int = 1000,
    progress: Progress | None = None,
) -> int:
    """Add a column with the corrected documents of another; how many rows were written.

    Rows are read in the order of the primary key; each batch is committed. What is there already
    is never touched, so a run that was killed is run again and finishes, and a later run corrects
    the rows that came since. Search it with ``PgvectorIndex(url, correction, table=table,
    column=new_column).open()``; undo it with `drop_column`.
    """
    batch_rows = check_count(batch_rows, "batch_rows")
    place = place_of(url, table)
    with session(url, place) as connection:
        work = _Work(connection, place, table, correction, column, modality_column, new_column)
        lock(connection, table, place)
        work.check()
        work.make()
        written = work.fill(batch_rows, progress)
        work.note(finished=True)
    return written


def drop_column(url: str, table: str, new_column: str = "embedding_corrected") -> None:
    """Undo `add_column`; only a column that it wrote is dropped."""
    place = place_of(url, table)
    sql = require("psycopg", "pgvector", "PostgreSQL").sql
    with session(url, place) as connection:
        lock(connection, table, place)
        found = columns_of(connection, table).get(new_column)
        if found is None or found.note.get("modgap") != "index":
            raise InputValueError(
                f"There is no column {new_column!r} that modgap wrote in {place}."
            )
        names = (sql.Identifier(*table.split(".")), sql.Identifier(new_column))
        connection.execute(sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(*names))


class _Work:
    """One run of add_column: what it knows and the statements it sends."""

    def __init__(
        self,
        connection: Any,
        place: str,
        table: str,
        correction: Correction,
        column: str,
        modality_column: str,
        new_column: str,
    ) -> None:
        self.place = place
        self.sql = require("psycopg", "pgvector", "PostgreSQL").sql
        self.table, self.correction = table, correction
        self.column, self.modality_column, self.new_column = column, modality_column, new_column
        self.connection = connection
        self.names = {
            "table": self.sql.Identifier(*table.split(".")),
            "column": self.sql.Identifier(column),
            "modality": self.sql.Identifier(modality_column),
            "new": self.sql.Identifier(new_column),
        }

    def run(self, statement: str, parameters: Any = (), **more: Any) -> Any:
        composed = self.sql.SQL(statement).format(**self.names, **more)
        return self.connection.execute(composed, parameters)

    def check(self) -> None:
        """Everything that can be wrong, before anything is changed."""
        found = columns_of(self.connection, self.table)
        if not found:
            raise InputValueError(f"There is no {self.place}. Check the name and its schema.")
        for name in (self.column, self.modality_column):
            if name not in found:
                raise InputValueError(
                    f"There is no column {name!r} in {self.place}; it has {', '.join(found)}."
                )
        self.check_vectors(found[self.column])
        self.check_modalities()
        self.keys = self.primary_key()
        self.names["keys"] = self.sql.SQL(", ").join(map(self.sql.Identifier, self.keys))
        self.single = len(self.keys) == 1
        self.exists = self.new_column in found
        if self.exists:
            note = found[self.new_column].note
            if note.get("modgap") != "index":
                raise InputValueError(
                    f"{self.place} has a column {self.new_column!r} already, which modgap did not "
                    "write. Choose another name for the new one."
                )
            check_note_fits(self.correction, note, f"column {self.new_column!r} of {self.place}")

    def check_vectors(self, found: Column) -> None:
        if found.kind != "vector":
            raise InputValueError(
                f"Column {self.column!r} of {self.place} must be of type vector, got {found.kind}."
            )
        register(self.connection, self.place)
        dim = found.dim
        if dim is None:
            statement = "SELECT vector_dims({column}) FROM {table} WHERE {column} IS NOT NULL"
            row = self.run(f"{statement} LIMIT 1").fetchone()
            dim = self.correction.dim_in if row is None else row[0]
        if dim != self.correction.dim_in:
            raise InputValueError(
                f"Column {self.column!r} of {self.place} holds vectors of {dim} columns, but the "
                f"correction is for {self.correction.dim_in}. It must be fitted on embeddings of "
                "the same model."
            )

    def check_modalities(self) -> None:
        held = {row[0] for row in self.run("SELECT DISTINCT {modality}::text FROM {table}")}
        unknown = sorted(map(repr, held - {*self.correction.names}))
        if unknown:
            raise InputValueError(
                f"Column {self.modality_column!r} of {self.place} holds {', '.join(unknown[:5])}, "
                f"but the correction names {' and '.join(map(repr, self.correction.names))}. Fit "
                "it with these names (--names)."
            )

    def primary_key(self) -> list[str]:
        rows = self.connection.execute(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass(%s) AND i.indisprimary "
            "ORDER BY array_position(i.indkey::int2[], a.attnum)",
            (self.names["table"].as_string(self.connection),),
        )
        keys = [row[0] for row in rows]
        if not keys:
            raise InputValueError(
                f"{self.place} has no primary key, so that batches cannot be kept apart. Add one "
                "first."
            )
        return keys

    def make(self) -> None:
        if self.exists:
            return
        with self.connection.transaction():
            dim = self.sql.Literal(self.correction.dim_out)
            self.run("ALTER TABLE {table} ADD COLUMN {new} vector({dim})", dim=dim)
            self.note(finished=False)

    def note(self, *, finished: bool) -> None:
        ids = "str"
        if self.single:
            kind = columns_of(self.connection, self.table)[self.keys[0]].kind
            ids = "int" if kind in ("int2", "int4", "int8") else "str"
        text = json.dumps(new_note(self.correction, ids, finished=finished, part="column"))
        self.run("COMMENT ON COLUMN {table}.{new} IS {text}", text=self.sql.Literal(text))

    def fill(self, batch_rows: int, progress: Progress | None) -> int:
        todo = "{new} IS NULL AND {column} IS NOT NULL"
        total = self.run(f"SELECT count(*) FROM {{table}} WHERE {todo}").fetchone()[0]
        after: tuple[Any, ...] = ()
        written = 0
        while True:
            condition = ""
            if after:
                places = ", ".join(["%s"] * len(after))
                condition = f"AND ({{keys}}) > ({places})"
            with self.connection.transaction():
                rows = self.run(
                    f"SELECT {{keys}}, {{modality}}::text, {{column}} FROM {{table}} WHERE {todo} "
                    f"{condition} ORDER BY {{keys}} LIMIT {batch_rows} FOR UPDATE",
                    after,
                ).fetchall()
                if not rows:
                    return written
                self.store([row[:-2] for row in rows], self.correct(rows))
            after = rows[-1][:-2]
            written += len(rows)
            if progress is not None:
                progress("correcting", written, total)

    def correct(self, rows: list[tuple[Any, ...]]) -> np.ndarray:
        raw = np.stack([_array(row[-1]) for row in rows])
        names = np.array([row[-2] for row in rows])
        corrected = np.empty((len(rows), self.correction.dim_out), np.float32)
        try:
            for name in np.unique(names):
                corrected[names == name] = self.correction.apply(raw[names == name], str(name))
        except InputError as error:
            first, last = rows[0][:-2], rows[-1][:-2]
            raise InputValueError(
                f"{error} These are the rows of {self.place} from key {first} to {last}; those "
                "before them are done."
            ) from error
        return corrected

    def store(self, keys: list[tuple[Any, ...]], vectors: np.ndarray) -> None:
        """Through a temporary table: one COPY and one UPDATE for the whole batch."""
        self.run(
            "CREATE TEMPORARY TABLE modgap_batch ON COMMIT DROP AS SELECT {keys}, {new} FROM "
            "{table} LIMIT 0"
        )
        target = self.sql.SQL("COPY modgap_batch ({keys}, {new}) FROM STDIN").format(**self.names)
        with self.connection.cursor().copy(target) as copy:
            for key, vector in zip(keys, vectors, strict=True):
                copy.write_row((*key, vector))
        same = self.sql.SQL(" AND ").join(
            self.sql.SQL("t.{0} = b.{0}").format(self.sql.Identifier(key)) for key in self.keys
        )
        self.run("UPDATE {table} t SET {new} = b.{new} FROM modgap_batch b WHERE {same}", same=same)


def _array(value: Any) -> np.ndarray:
    """A vector as pgvector's Python package gives it, an array or an object of its own."""
    return np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value, dtype=np.float32)


__all__ = ["add_column", "drop_column"]
