"""Correct a table you have: a new column beside the old one, in batches that can be resumed."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import InputError, InputValueError, check_choice, check_count
from modgap.core.results import Progress
from modgap.corrections import Correction, OwnQueriesWarning
from modgap.index.errors import one_sentence
from modgap.index.metadata import match_vectors, new_note
from modgap.index.postgres import Table, TableColumn
from modgap.index.postgres_names import check_identifier
from modgap.index.stored_vectors import (
    Corrections,
    StoredVector,
    as_corrections,
    check_banks,
    vector_names,
)
from modgap.io.group_keys import named_keys

_PENDING = "{new} IS NULL AND {column} IS NOT NULL"


def add_column(
    url: str,
    table: str,
    correction: Corrections,
    *,
    column: str = "embedding",
    modality_column: str = "modality",
    new_column: str | None = None,
    group_column: str | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Add a column with the corrected documents of another; how many rows were written.

    Rows are read in the order of the primary key; each batch is committed. What is there already
    is never touched, so a run that was killed is run again and finishes, and a later run corrects
    the rows that came since. Search it with ``open_index(url, correction, table=table)``; undo it
    with `drop_column`. With several corrections, one for each asking modality, there is a new
    column for each.

    Parameters
    ----------
    url, table : str
        ``postgresql://…``, and the table you have.
    correction : Correction, path, or several
        Its document maps are applied.
    column : str
        The column of vectors to correct.
    modality_column : str
        The column that holds, for each row, one of the correction's modality names.
    new_column : str, optional
        The column to make, ``embedding_corrected`` by default; with several corrections how their
        names begin, by default ``embedding``: ``embedding_text`` and so on.
    group_column : str, optional
        Of a correction with hubs: the column whose values say which queries of its bank are a
        row's own: the id, the label of the group or the row number that a row had when the
        correction was fitted. By default the primary key, unless it went by labels.
    batch_rows : int, optional
        Rows committed together; 1,000 by default.
    progress : callable, optional
        Called with what is being done, the rows done, and all rows.
    """
    batch_rows = 1000 if batch_rows is None else check_count(batch_rows, "batch_rows")
    given = as_corrections(correction)
    check_banks(given)
    source = _Source(column, modality_column, group_column)
    names = [check_identifier(name, "a column") for name in _column_names(given, new_column)]
    written = []
    with _locked(url, table, column=column, modality=modality_column) as work:
        for name, one in zip(names, given, strict=True):
            work.name("new", [name])
            written.append(_add_one(work, one, source, name, batch_rows, progress))
    return max(written)


@dataclass(frozen=True)
class _Source:
    """The columns of a table that are read: raw vectors, modalities, and groups if any."""

    column: str
    modality: str
    group: str | None

    def own(self, correction: Correction, keys: Sequence[str]) -> str | None:
        """The column that says whose queries of a bank are a row's own; None if none does."""
        hubs = correction.hubs
        if hubs is None or hubs.keys is None:
            return None
        if self.group is not None:
            return self.group
        naming = [key for key in keys if key != self.modality]
        own = naming[0] if len(naming) == 1 and hubs.keyed_by != "group" else None
        if own is None or hubs.keyed_by != "id":
            said = f"{own!r} is taken as" if own else "nothing says"
            what = "the group" if hubs.keyed_by == "group" else "the number"
            warnings.warn(
                "Queries of the bank that are a row's own are left out of its hubness, and "
                f"{said} {what} that the row had when the correction was fitted. Name the column "
                "that says it (group_column=…, --group-column …).",
                OwnQueriesWarning,
                stacklevel=4,
            )
        return own


def _add_one(
    work: Table,
    correction: Correction,
    source: _Source,
    new_column: str,
    batch_rows: int,
    progress: Progress | None,
) -> int:
    found = work.columns()
    _check_source(work, found, correction, source)
    keys = _check_key(work, found)
    own = source.own(correction, keys)
    work.name("own", [] if own is None else [own], "{}::text", "")
    whole = [found[key].kind in ("int2", "int4", "int8") for key in keys]
    vector = StoredVector(new_column, correction)
    note = new_note([vector], "int" if whole == [True] else "str", scope="column")
    if new_column in found:
        if not found[new_column].note:
            raise InputValueError(
                f"{work.place} has a column {new_column!r} already, which modgap did not write. "
                "Choose another name for the new one."
            )
        place = f"column {new_column!r} of {work.place}"
        match_vectors(found[new_column].note, (correction,), place)
    else:
        with work.connection.transaction():
            work.run("ALTER TABLE {table} ADD COLUMN {new} vector({dim})", dim=vector.dim)
            work.save_note("new", note)
    written = _fill(work, vector, len(keys), own is not None, batch_rows, progress)
    work.save_note("new", {**note, "finished": True})
    return written


def column_demands(corrections: Corrections, new_column: str | None = None) -> list[str]:
    """For each column that `add_column` makes: its name, and what its correction demands."""
    given = as_corrections(corrections)
    names = _column_names(given, new_column)
    return [f"{name}, {one.dim_out} columns: {one}" for name, one in zip(names, given, strict=True)]


def _column_names(corrections: Sequence[Correction], new_column: str | None) -> list[str]:
    default = "embedding_corrected" if len(corrections) == 1 else "embedding"
    return vector_names(corrections, default if new_column is None else new_column)


def drop_column(url: str, table: str, new_column: str = "embedding_corrected") -> None:
    """Undo `add_column`; only a column that it wrote is dropped."""
    with _locked(url, table, new=new_column) as work:
        found = work.columns().get(new_column)
        if found is None or found.note.get("scope") != "column":
            raise InputValueError(
                f"There is no column {new_column!r} that modgap wrote in {work.place}."
            )
        work.run("ALTER TABLE {table} DROP COLUMN {new}")


@contextmanager
def _locked(url: str, table: str, **columns: str) -> Iterator[Table]:
    """A table that no other process is writing to; what goes wrong becomes one sentence."""
    work = Table(url, table, **columns)
    with closing(work.connection), one_sentence(work.place, (work.failure,), url):
        work.lock()
        yield work


def _check_source(
    work: Table,
    found: Mapping[str, TableColumn],
    correction: Correction,
    source: _Source,
) -> None:
    """Vectors of the correction's dimension, and modalities that it names."""
    if not found:
        raise InputValueError(f"There is no {work.place}. Check the name and its schema.")
    column = source.column
    for name in filter(None, (column, source.modality, source.group)):
        check_choice(name, f"A column of {work.place}", tuple(found))
    if found[column].kind != "vector":
        raise InputValueError(
            f"Column {column!r} of {work.place} must be of type vector, got {found[column].kind}."
        )
    work.register()
    dim = found[column].dim
    if dim is None:
        first = "SELECT vector_dims({column}) FROM {table} WHERE {column} IS NOT NULL LIMIT 1"
        row = work.run(first).fetchone()
        dim = correction.dim_in if row is None else row[0]
    if dim != correction.dim_in:
        raise InputValueError(
            f"Column {column!r} of {work.place} holds vectors of {dim} columns, but the "
            f"correction is for {correction.dim_in}. It must be fitted on embeddings of the same "
            "model."
        )
    held = {row[0] for row in work.run("SELECT DISTINCT {modality}::text FROM {table}")}
    unknown = sorted(map(repr, held - {*correction.names}))
    if unknown:
        raise InputValueError(
            f"Column {source.modality!r} of {work.place} holds {', '.join(unknown[:5])}, but the "
            f"correction names {' and '.join(map(repr, correction.names))}. Fit it with these "
            "names (--names)."
        )


def _check_key(work: Table, found: Mapping[str, TableColumn]) -> list[str]:
    """The columns of the primary key, in its order."""
    places = sorted((column.key_place, name) for name, column in found.items())
    keys = [name for place, name in places if place >= 0]
    if not keys:
        raise InputValueError(
            f"{work.place} has no primary key, so batches cannot be kept apart. Add one first."
        )
    work.name("keys", keys)
    work.name("sorted", keys, "t.{}")
    work.name("same", keys, "t.{0} = b.{0}", " AND ")
    # Unlike any table of yours: a temporary table hides one of the same name.
    work.name("batch", [f"modgap_batch_{hashlib.sha256(work.table.encode()).hexdigest()[:16]}"])
    return keys


def _fill(
    work: Table,
    vector: StoredVector,
    n_keys: int,
    has_own: bool,
    batch_rows: int,
    progress: Progress | None,
) -> int:
    """Correct what is still empty, batch by batch in the order of the key."""
    total = work.run(f"SELECT count(*) FROM {{table}} WHERE {_PENDING}").fetchone()[0]
    after: tuple[Any, ...] = ()
    written = 0
    own = "{own}" if has_own else "NULL"
    while True:
        condition = f"AND ({{keys}}) > ({', '.join(['%s'] * n_keys)})" if after else ""
        with work.connection.transaction():
            rows = work.run(
                f"SELECT {{keys}}, {own}, {{modality}}::text, {{column}} FROM {{table}} AS t "
                f"WHERE {_PENDING} {condition} ORDER BY {{sorted}} LIMIT {batch_rows} FOR UPDATE",
                after,
            ).fetchall()
            if not rows:
                return written
            keys = [row[:n_keys] for row in rows]
            _store(work, keys, _corrected(work, vector.correction, keys, rows, has_own))
        after = keys[-1]
        written += len(rows)
        if progress is not None:
            progress("correcting", written, total)


def _corrected(
    work: Table,
    correction: Correction,
    keys: Sequence[tuple[Any, ...]],
    rows: Sequence[tuple[Any, ...]],
    has_own: bool,
) -> np.ndarray:
    # pgvector's Python package gives an array, or an object of its own.
    given = [one.to_numpy() if hasattr(one, "to_numpy") else one for *_, one in rows]
    raw = np.stack([np.asarray(one, dtype=np.float32) for one in given])
    names = np.array([row[-2] for row in rows])
    own = np.array([row[-3] for row in rows], dtype=object)
    corrected = np.empty((len(rows), correction.dim_out), np.float32)
    try:
        for name in np.unique(names).tolist():
            of_name = names == name
            found = None
            if has_own and correction.hubs is not None and correction.hubs.keyed_by is not None:
                found = named_keys(own[of_name].tolist(), name, correction.hubs.keyed_by)
            corrected[of_name] = correction.map(name)(raw[of_name], name, keys=found)
    except InputError as error:
        raise InputValueError(
            f"{error} These are the rows of {work.place} from key {keys[0]} to {keys[-1]}; those "
            "before them are done."
        ) from error
    return corrected


def _store(work: Table, keys: Sequence[tuple[Any, ...]], vectors: np.ndarray) -> None:
    """Through a temporary table: one COPY and one UPDATE for the whole batch."""
    work.run(
        "CREATE TEMPORARY TABLE {batch} ON COMMIT DROP AS SELECT {keys}, {new} FROM {table} LIMIT 0"
    )
    lines = ((*key, vector) for key, vector in zip(keys, vectors, strict=True))
    work.copy("{batch} ({keys}, {new})", lines)
    work.run("UPDATE {table} t SET {new} = b.{new} FROM {batch} b WHERE {same}")
