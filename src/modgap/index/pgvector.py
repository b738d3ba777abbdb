"""PostgreSQL with pgvector: a table of modgap's own, or a corrected column of a table you have."""

from __future__ import annotations

import hashlib
import operator
import shlex
import warnings
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.index.base import VectorIndex
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import FORMAT, Note
from modgap.index.postgres import Table, TableColumn, UncorrectedRowsWarning, table_words
from modgap.index.postgres_names import (
    OPERATORS,
    check_identifier,
    quoted_name,
    quoted_table,
    quoted_text,
)
from modgap.index.sql_column_place import ColumnPlace
from modgap.index.store import BATCH_ROWS
from modgap.index.stored_vectors import Corrections, StoredVector, vector_names

# What pgvector's HNSW takes at most: columns of a vector, and ef_search, and so results.
_MAX_COLUMNS = 2_000
_MAX_EF_SEARCH = 1_000


class WrongOperatorsWarning(UserWarning):
    """A graph of the column ranks by another metric than the correction, so it is of no use."""


class PgvectorIndex(VectorIndex):
    """Documents in a table (modality, id, embedding), the note in the comment of the column.

    Searches are exact unless ``ef_search`` is given: then an HNSW graph for each modality is made
    when the table is finished, and a search asks each. One graph of both is poor: documents of
    different modalities may have nothing to do with each other.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host/database``.
    correction : Correction, path, or several
        What documents and queries are mapped with. With several there is a column for each,
        ``embedding_text`` and so on.
    table : str
        The table, ``schema.table`` where it is in another schema.
    column : str, optional
        The column of vectors, or how the names of several begin: ``embedding`` in a new table. To
        search a column that `add_column` wrote it need not be said.
    modality_column, id_column : str
        Names of its other columns.
    ef_search : int, optional
        Candidates that a search of a graph keeps, at most 1000; exact search without it.
    one_graph : bool
        One graph of all modalities instead of one for each. Its recall is measured when it is
        finished, with a warning where that is low.
    batch_rows : int
        Rows committed together.
    """

    metrics: ClassVar = {
        "cosine": (OPERATORS["cosine"], lambda distance: 1.0 - distance),
        "inner_product": (OPERATORS["inner_product"], operator.neg),
        "euclidean": (OPERATORS["euclidean"], lambda distance: -(distance**2)),
    }
    graphs_on_request = True

    def __init__(
        self,
        url: str,
        correction: Corrections,
        *,
        table: str = "modgap",
        column: str | None = None,
        modality_column: str = "modality",
        id_column: str = "id",
        ef_search: int | None = None,
        one_graph: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        place = table_words(url, table)
        super().__init__(correction, place, batch_rows, ef_search=ef_search, one_graph=one_graph)
        self._address = url
        if ef_search is not None:
            check_count(ef_search, "ef_search", at_most=_MAX_EF_SEARCH)
        self._column = column
        self._others = (modality_column, id_column)
        self._table = Table(url, table, modality=modality_column, id=id_column)
        self._resources.callback(self._table.connection.close)
        self._run, self.failures = self._table.run, (self._table.failure,)

    def _vector_names(self) -> list[str]:
        names = vector_names(self._given, "embedding" if self._column is None else self._column)
        return [check_identifier(name, "a column") for name in names]

    def _check_plan(self) -> None:
        widest = max(vector.dim for vector in self.vectors.values())
        if self.graphs is not None and widest > _MAX_COLUMNS:
            raise InputValueError(
                f"An HNSW graph of pgvector takes at most {_MAX_COLUMNS:,} columns, and there "
                f"would be {widest:,}. Leave ef_search out to search exactly."
            )

    def _lock(self) -> None:
        self._table.lock()

    def _load_note(self) -> Note | None:
        found = self._table.columns()
        if not found:
            return None
        self._table.register()
        notes = {name: column.note for name, column in sorted(found.items()) if column.note}
        if self._column is not None:
            prefix = f"{self._column}_"
            several = {name: note for name, note in notes.items() if name.startswith(prefix)}
            notes = {self._column: notes[self._column]} if self._column in notes else several
        if not notes:
            raise InputValueError(self._without_correction(found))
        first = next(iter(notes.values()))
        old = [note for note in notes.values() if note["format"] != FORMAT]
        if old:
            return old[0]  # to be refused in words
        for name in self._others:
            check_choice(name, f"A column of {self.place}", tuple(found))
        is_column = any(note["scope"] == "column" for note in notes.values())
        if is_column:
            first["id_type"] = "int" if found[self._others[1]].is_whole else "str"
        return {
            **first,
            "vectors": {name: note["vectors"][name] for name, note in notes.items()},
            "finished": all(note["finished"] for note in notes.values()),
            "scope": "column" if is_column else "table",
        }

    def _without_correction(self, found: Mapping[str, TableColumn]) -> str:
        """What to do with a table that is there and holds no vectors of modgap's."""
        raw = next((name for name, column in found.items() if column.kind == "vector"), "COLUMN")
        return (
            f"{self.place} has no vectors that modgap corrected"
            + (f" in column {self._column!r}" if self._column else "")
            + f". If it is yours, correct it: {build_command(self._table.table, raw)} (in Python, "
            "add_column). For an index of its own choose another name of a table (table=…, "
            "--table …)."
        )

    def _save_note(self, note: Note) -> None:
        with self._table.connection.transaction():
            for name, held in note["vectors"].items():
                self._table.name("column", [name])
                self._table.save_note("column", {**note, "vectors": {name: held}})

    def _check_opened(self) -> None:
        """Whether there are graphs, in a table of yours too, and by the operators of the metric."""
        assert self._note is not None
        wanted = self._metric_name[1]
        kinds: set[bool] = set()
        for name in self.vectors:
            found = self._table.graphs(name)
            kinds |= {partial for ops, partial in found if ops == wanted}
            wrong = sorted({ops for ops, _ in found} - {wanted})
            if wrong:
                warnings.warn(
                    f"Column {name!r} of {self.place} has a graph by {' and '.join(wrong)}, but "
                    f"the correction ranks by {self.metric.replace('_', ' ')}: a search by the "
                    f"graph's operator would undo the correction, and one by "
                    f"{self._metric_name[0]} cannot use the graph. Drop it and make: "
                    f"{self._create_graph(name)}",
                    WrongOperatorsWarning,
                    stacklevel=4,
                )
        if self._note["scope"] == "column":
            self.graphs = ("each" if True in kinds else "one") if kinds else None
            self._check_rows()
        super()._check_opened()

    def _check_rows(self) -> None:
        """Warn where a column of a table of yours has rows that are stale, or none yet."""
        found = self._table.columns()
        for name in self.vectors:
            note = found[name].note
            trigger = self._table.trigger(ColumnPlace(self._table.table, name).trigger)
            n_pending = self._table.count_pending(name, note["source"])
            if trigger is None or not trigger.always:
                said = "The trigger is missing or switched off, so rows may be stale."
            elif "since" in note:
                said = "Its rows are being made anew, and that is not done, so rows may be stale."
            elif n_pending:
                said = f"{n_pending:,} rows are not corrected, so a search does not find them."
            else:
                continue
            warnings.warn(
                f"Column {name!r} of {self.place}: {said} Run: "
                f"{build_command(self._table.table, note['source'], name, self._others[0])}",
                UncorrectedRowsWarning,
                stacklevel=5,
            )

    def _graph_advice(self) -> str:
        if self._note is None or self._note["scope"] == "table":
            return super()._graph_advice()
        return f"Make one for each modality ({self._create_graph(next(iter(self.vectors)))})"

    def _create_graph(self, name: str) -> str:
        return (
            f"CREATE INDEX CONCURRENTLY ON {quoted_table(self._table.table)} USING hnsw "
            f"({quoted_name(name)} {self._metric_name[1]}) WHERE {quoted_name(self._others[0])} = "
            f"{quoted_text(self.names[0])}; and so on for the others."
        )

    def _make(self, note: Note, id_type: IdType) -> None:
        kind = "bigint" if id_type == "int" else "text"
        with self._table.connection.transaction():
            self._run("CREATE EXTENSION IF NOT EXISTS vector")
            self._run(
                f"CREATE TABLE {{table}} ({{modality}} text NOT NULL, {{id}} {kind} NOT NULL, "
                "PRIMARY KEY ({modality}, {id}))"
            )
            for name, vector in self.vectors.items():
                self._table.name("column", [name])
                self._run(
                    "ALTER TABLE {table} ADD COLUMN {column} vector({dim}) NOT NULL",
                    dim=vector.dim,
                )
            self._save_note(note)
        self._table.register()

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        kinds = ["text", "text" if isinstance(ids[0], str) else "int8", *["vector"] * len(vectors)]
        lines = ((modality, *line) for line in zip(ids, *vectors.values(), strict=True))
        self._table.name("columns", list(vectors))
        with self._table.connection.transaction():
            if replace:
                self._remove(modality, ids)
            self._table.copy("{table} ({modality}, {id}, {columns})", lines, kinds)

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        self._run(
            "DELETE FROM {table} WHERE {modality} = %s AND {id} = ANY(%s)", (modality, list(ids))
        )

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        self._check_may_change()
        found = self._run(
            "SELECT {id} FROM {table} WHERE {modality} = %s AND {id} = ANY(%s)",
            (modality, list(ids)),
        )
        return {row[0] for row in found}

    def _ids_of(self, modality: str) -> list[Id]:
        found = self._run("SELECT {id} FROM {table} WHERE {modality} = %s", (modality,))
        return [row[0] for row in found]

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        self._table.name("column", [vector.name])
        with self._table.connection.transaction():
            if exact or (self.graphs == "one" and only is not None):
                # A graph would approximate, and one of all finds few of a modality.
                self._run("SET LOCAL enable_indexscan = off")
            else:
                check_count(k, "k", at_most=_MAX_EF_SEARCH)
                # The graph returns no more results than it looked at.
                width = max(self.ef_search or 0, k)
                self._run("SET LOCAL hnsw.ef_search = {width}", width=width)
                self._run("SET LOCAL enable_seqscan = off")
            return [self._best(query, k, only) for query in queries]

    def _best(self, query: np.ndarray, k: int, only: str | None) -> list[Hit]:
        # As a literal: a parameter would not tell the planner which graph holds the modality.
        condition = "" if only is None else "AND {modality} = {only}"
        found: list[Hit] = self._run(
            f"SELECT {{id}}, {{modality}}::text, {{column}} {self._metric_name[0]} %s "
            f"FROM {{table}} WHERE {{column}} IS NOT NULL {condition} ORDER BY 3 LIMIT %s",
            (query, k),
            only=only,
        ).fetchall()
        return found

    def _count(self, only: str | None) -> int:
        self._table.name("column", [next(iter(self.vectors))])
        condition = "" if only is None else "AND {modality} = {only}"
        count: int = self._run(
            f"SELECT count(*) FROM {{table}} WHERE {{column}} IS NOT NULL {condition}", only=only
        ).fetchone()[0]
        return count

    def _finish(self) -> None:
        if self.graphs is None:
            return
        for column in self.vectors:
            self._table.name("column", [column])
            for name in self.names if self.graphs == "each" else (None,):
                # A name of its own, so that it is made once however often the table is finished.
                text = f"{self._table.table}/{self._others}/{column}/{name}"
                graph = f"modgap_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
                condition = "" if name is None else "WHERE {modality} = {name}"
                self._run(
                    f"CREATE INDEX IF NOT EXISTS {graph} ON {{table}} USING hnsw "
                    f"({{column}} {self._metric_name[1]}) {condition}",
                    name=name,
                )

    def _drop(self) -> None:
        self._check_may_change()
        self._run("DROP TABLE {table}")

    def _check_may_change(self) -> None:
        notes = [column.note for column in self._table.columns().values() if column.note]
        if any(note.get("scope") != "table" for note in notes):
            raise InputValueError(
                f"{self.place} is a table of yours: modgap neither adds rows to it nor drops it. "
                "Rows that you add are corrected by its trigger; drop_column undoes the column."
            )


def build_command(
    table: str, column: str, new_column: str | None = None, modality_column: str | None = None
) -> str:
    """The command that corrects a column of a table of yours, and what is missing in it."""
    words = {
        "--table": table,
        "--from-column": column,
        "--new-column": new_column,
        "--modality-column": None if modality_column == "modality" else modality_column,
    }
    given = [f"{word} {shlex.quote(value)}" for word, value in words.items() if value]
    return f"modgap index build postgresql://… CORRECTION {' '.join(given)}"
