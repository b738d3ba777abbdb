"""A table of a PostgreSQL database with pgvector: statements, columns, notes, the lock."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from modgap.core.checks import InputValueError, require
from modgap.core.secrets import without_secrets
from modgap.index.errors import said_by
from modgap.index.metadata import Note, read_note
from modgap.index.postgres_names import check_identifier, table_parts

_LOCK_TRIES = 20
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?"
# Also as SQLAlchemy writes it, with the name of a driver.
_SCHEME = re.compile(r"(?i)(?:postgres(?:ql)?|pg)(?:\+\w+)?://")


class UncorrectedRowsWarning(UserWarning):
    """Rows of a table of yours that a search does not find, or not as they are now."""


@dataclass(frozen=True)
class TableTrigger:
    """A trigger: whether it fires whoever writes, and the schema and name of its function."""

    always: bool
    function: tuple[str, str]


@dataclass(frozen=True)
class TableColumn:
    """A column as the database describes it; ``dim`` is None where any number of columns may be."""

    kind: str
    dim: int | None
    note: Note
    key_place: int  # in the primary key; -1 where it is no part of it

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.kind in ("int2", "int4", "int8")


class Table:
    """A connection that commits by itself, and the names that its statements may use.

    ``columns`` are names of columns by what statements call them: ``Table(url, "t", id="key")``
    puts the quoted ``key`` where a statement says ``{id}``, and ``t`` where it says ``{table}``.
    """

    def __init__(self, url: str, table: str, **columns: str) -> None:
        self.table, self.place = table, table_words(url, table)
        parts = table_parts(table)
        for column in columns.values():
            check_identifier(column, "a column")
        psycopg = require("psycopg", "pgvector", "PostgreSQL")
        self.failure: type[Exception] = psycopg.Error
        self._sql = psycopg.sql
        self._names = {name: self._sql.Identifier(column) for name, column in columns.items()}
        self._names["table"] = self._sql.Identifier(*parts)
        try:
            self.connection = psycopg.connect(
                libpq_address(url), connect_timeout=10, autocommit=True
            )
        except (psycopg.Error, ValueError) as error:
            said, cause = said_by(error, url)
            raise InputValueError(
                f"{self.place} cannot be reached: {said}. Check that the server runs, and the "
                "address, user and password."
            ) from cause

    def run(self, statement: str, parameters: Any = (), **values: Any) -> Any:
        """Execute a statement; ``values`` are written into it as quoted literals."""
        composed = self._composed(statement, values, has_parameters=bool(parameters))
        return self.connection.execute(composed, parameters or None)

    def copy(self, target: str, rows: Iterable[Any], kinds: list[str] | None = None) -> None:
        """COPY rows into a target; in binary where the kinds of the columns are given."""
        statement = f"COPY {target} FROM STDIN" + (" (FORMAT BINARY)" if kinds else "")
        with self.connection.cursor().copy(self._composed(statement, {})) as copy:
            if kinds:
                copy.set_types(kinds)
            for row in rows:
                copy.write_row(row)

    def _composed(
        self, statement: str, values: dict[str, Any], *, has_parameters: bool = False
    ) -> Any:
        parts = dict(self._names)
        parts |= {name: self._sql.Literal(value) for name, value in values.items()}
        if has_parameters:  # psycopg then takes a % for the beginning of a placeholder
            written = {name: part.as_string(self.connection) for name, part in parts.items()}
            parts = {name: self._sql.SQL(one.replace("%", "%%")) for name, one in written.items()}
        return self._sql.SQL(statement).format(**parts)

    def name(self, key: str, columns: Iterable[str]) -> None:
        """Let statements say ``{key}`` for several columns."""
        names = [self._sql.Identifier(check_identifier(name, "a column")) for name in columns]
        self._names[key] = self._sql.SQL(", ").join(names)

    def columns(self) -> dict[str, TableColumn]:
        """The columns of the table by name; none where there is no such table."""
        rows = self.connection.execute(
            "SELECT a.attname, t.typname, a.atttypmod, col_description(a.attrelid, a.attnum), "
            "COALESCE(array_position(i.indkey::int2[], a.attnum), -1) FROM pg_attribute a "
            "JOIN pg_type t ON t.oid = a.atttypid "
            "LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary "
            "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped",
            (self._names["table"].as_string(self.connection),),
        )
        return {
            # vector(d) keeps d in its modifier, which is -1 where any dimension may be.
            name: TableColumn(kind, size if size > 0 else None, read_note(comment), key_place)
            for name, kind, size, comment, key_place in rows
        }

    def trigger(self, name: str) -> TableTrigger | None:
        """A trigger of the table; None where there is none of this name."""
        row = self.connection.execute(
            "SELECT t.tgenabled = 'A', n.nspname, p.proname FROM pg_trigger t "
            "JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE t.tgrelid = to_regclass(%s) AND t.tgname = %s",
            (self._names["table"].as_string(self.connection), name),
        ).fetchone()
        return None if row is None else TableTrigger(row[0], (row[1], row[2]))

    def is_partitioned(self) -> bool:
        """Whether its rows lie in other tables: no index of all can be made while it is in use."""
        row = self.connection.execute(
            "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)",
            (self._names["table"].as_string(self.connection),),
        ).fetchone()
        return row is not None and row[0]

    def count_pending(self, new: str, source: str) -> int:
        """How many rows have a vector in one column and none in another, made from it."""
        self.name("given", [source])
        self.name("made", [new])
        count: int = self.run(
            "SELECT count(*) FROM {table} WHERE {made} IS NULL AND {given} IS NOT NULL"
        ).fetchone()[0]
        return count

    def graphs(self, column: str) -> list[tuple[str, bool]]:
        """The HNSW graphs of a column: the class of its operators, and if it is of some rows."""
        found: list[tuple[str, bool]] = self.connection.execute(
            "SELECT o.opcname, i.indpred IS NOT NULL FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
            "JOIN pg_opclass o ON o.oid = i.indclass[0] "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            "WHERE i.indrelid = to_regclass(%s) AND m.amname = 'hnsw' AND a.attname = %s "
            "ORDER BY 1, 2",
            (self._names["table"].as_string(self.connection), column),
        ).fetchall()
        return found

    def save_note(self, column: str, note: Note) -> None:
        """Keep a note as the comment of the column that statements call so."""
        text = json.dumps(note)
        self.run(f"COMMENT ON COLUMN {{table}}.{{{column}}} IS {{text}}", text=text)

    def register(self) -> None:
        """Send and read vectors in binary; the extension must be there."""
        psycopg = require("psycopg", "pgvector", "PostgreSQL")
        vectors = require("pgvector.psycopg", "pgvector", "PostgreSQL")
        try:
            vectors.register_vector(self.connection)
        except psycopg.ProgrammingError as error:
            raise InputValueError(
                f"The database of {self.place} lacks the extension pgvector. Install it and run: "
                "CREATE EXTENSION vector"
            ) from error

    def lock(self) -> None:
        """One writer at a time; the server lets go when the connection ends, however it ends.

        It needs a moment to notice that a process was killed, so this asks a few times.
        """
        for _ in range(_LOCK_TRIES):
            held = self.connection.execute(
                "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (f"modgap.{self.table}",)
            ).fetchone()[0]
            if held:
                return
            time.sleep(0.1)
        raise InputValueError(f"Another process is writing to {self.place}. Wait until it is done.")


def is_postgres(address: str) -> bool:
    """Whether an address is one of PostgreSQL, however its scheme is spelled."""
    return _SCHEME.match(address) is not None


def libpq_address(url: str) -> str:
    """The address as PostgreSQL's own library reads it.

    >>> libpq_address("postgresql+psycopg://me:a%2Fb@host/db")
    'postgresql://me:a%2Fb@host/db'
    """
    user, at, rest = _split(url)
    return f"postgresql://{user}{at}{rest}"


def table_words(url: str, table: str) -> str:
    """What to call the table in a sentence: never with the password."""
    rest = _split(url)[2]
    hosts, _, database = re.sub(r"[?#].*", "", rest, flags=re.DOTALL).partition("/")
    hosts = re.sub(r":\d*(?=,|$)", "", hosts)
    named = unquote(database) or "the default database"
    return f"table {table!r} of {named} at {unquote(hosts) or 'the local server'}"


def _split(url: str) -> tuple[str, str, str]:
    """User and password, the @ after them, and the rest; refused where that is not clear."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise InputValueError(
            f"A PostgreSQL address begins with postgresql://, got {without_secrets(url)!r}."
        )
    user, at, rest = url[scheme.end() :].rpartition("@")
    hosts = re.split("[/?]", rest, maxsplit=1)[0]
    clear = not re.search(r"[/@\s\0]", user) and re.fullmatch(rf"{_HOST}(?:,{_HOST})*", hosts)
    if not clear or re.search(r"%(?![0-9A-Fa-f]{2})|%00|\0", user + rest):
        raise InputValueError(
            "The address of a PostgreSQL database must be postgresql://USER:PASSWORD@HOST/DATABASE "
            "with %2F for a /, %40 for a @, %25 for a % and %20 for a space inside a name or the "
            f"password, got {without_secrets(url)!r}."
        )
    return user, at, rest
