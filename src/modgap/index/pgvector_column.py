"""Correct a table you have: a new column beside the old one, which a trigger keeps right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.core.results import Progress
from modgap.corrections import Correction, OwnQueriesWarning
from modgap.index.equal_lengths import lifted_lengths
from modgap.index.errors import one_sentence
from modgap.index.metadata import match_vectors
from modgap.index.postgres import Table, TableColumn, UncorrectedRowsWarning
from modgap.index.postgres_names import quoted_table
from modgap.index.sql_column import (
    CORRECTED_ROWS,
    FILL_ROWS,
    LOCK_TIMEOUT,
    CorrectedColumn,
    column_names,
)
from modgap.index.sql_column_place import ColumnPlace
from modgap.index.stored_vectors import Corrections, StoredVector, as_corrections, check_banks

_LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's code of a lock_timeout


def add_column(
    url: str,
    table: str,
    correction: Corrections,
    *,
    column: str = "embedding",
    modality_column: str = "modality",
    new_column: str | None = None,
    group_column: str | None = None,
    graphs: bool = False,
    rebuild: bool = False,
    batch_rows: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Add a column with the corrected documents of another; how many rows were corrected.

    A trigger corrects rows that are inserted or changed from then on, in the database. The rows
    that are there are corrected by it in batches, each committed; nothing is locked for longer
    than one. A run that was killed is run again and finishes. Where the trigger was missing or
    switched off all rows are corrected anew. Search the column with ``open_index(url, correction,
    table=table)``; undo it with `drop_column`. With several corrections, one for each query
    modality, there is a new column for each.

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
        The column to make, by default ``embedding_corrected`` for a column ``embedding``; with
        several corrections how their names begin, by default as ``column``: ``embedding_text`` and
        so on.
    group_column : str, optional
        Of a correction with hubs: the column whose values say which queries of its bank are a
        row's own: the id, the label of the group or the row number that a row had when the
        correction was fitted. By default the primary key, unless it went by labels.
    graphs : bool
        Make an HNSW graph for each modality, while the table is in use.
    rebuild : bool
        Correct all rows anew.
    batch_rows : int, optional
        Rows committed together; 1,000 by default.
    progress : callable, optional
        Called with what is being done, the rows done, and all rows.
    """
    rows = FILL_ROWS if batch_rows is None else check_count(batch_rows, "batch_rows")
    given = as_corrections(correction)
    check_banks(given)
    source = _Source(column, modality_column, group_column)
    names = column_names(given, column, new_column)
    written = []
    with _locked(url, table, column=column, modality=modality_column) as work:
        for name, one in zip(names, given, strict=True):
            work.name("new", [name])
            made = _plan(work, one, source, name, graphs)
            _install(work, made, rebuild)
            written.append(_fill(work, made, rows, progress))
            for statement in () if work.is_partitioned() else made.indexes():
                work.connection.execute(statement)
            _warn_of_pending(work, made)
    return max(written)


@dataclass(frozen=True)
class _Source:
    """The columns of a table that are read: raw vectors, modalities, and groups if any."""

    column: str
    modality: str
    group: str | None

    def own(
        self, correction: Correction, found: Mapping[str, TableColumn], place: str
    ) -> str | None:
        """The column that says whose queries of a bank are a row's own; None if none does."""
        hubs = correction.hubs
        if hubs is None or hubs.keys is None:
            return None
        if self.group is not None:
            return self.group
        keys = [name for name, one in found.items() if one.key_place >= 0 and name != self.modality]
        if hubs.keyed_by == "id":
            if len(keys) == 1:
                return keys[0]
            raise InputValueError(
                "The correction knows whose queries of its bank are a row's own by the row's id, "
                f"and the primary key of {place} is {' and '.join(keys) or 'missing'}. Name the "
                "column of the ids that the rows had when it was fitted (group_column=…, "
                "--group-column …)."
            )
        numbers = [name for name in keys if found[name].is_whole]
        own = numbers[0] if len(keys) == len(numbers) == 1 and hubs.keyed_by != "group" else None
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


def _plan(
    work: Table, correction: Correction, source: _Source, new_column: str, graphs: bool
) -> CorrectedColumn:
    """The column as it is to be; refused where something else is there."""
    found = work.columns()
    _check_source(work, found, correction, source, graphs)
    own = source.own(correction, found, work.place)
    vector = StoredVector(new_column, correction, lifted_lengths(correction) if graphs else None)
    if new_column not in found:
        _check_modalities(work, correction, source.modality)
    else:
        note, place = found[new_column].note, f"column {new_column!r} of {work.place}"
        if note.get("scope") != "column":
            raise InputValueError(
                f"{work.place} has a column {new_column!r} already, which modgap did not make. "
                "Choose another name for the new one."
            )
        try:
            vector = match_vectors(note, (correction,), place)[new_column]
        except InputValueError as error:
            raise InputValueError(
                f"{error} Or make the new column under another name (new_column=…, --new-column "
                "…), search that one, and drop this one then."
            ) from error
        if graphs and not note["graphs"]:
            raise InputValueError(
                f"{place} was made without graphs. Leave them out, or drop it first "
                "(modgap index drop-column)."
            )
        graphs = note["graphs"] is not None
    return CorrectedColumn(work.table, source.column, source.modality, vector, own, graphs)


def _install(work: Table, made: CorrectedColumn, rebuild: bool) -> None:
    """The column, its numbers and its trigger: all of it or nothing."""
    with work.connection.transaction():
        for statement in (LOCK_TIMEOUT, *made.install(rebuild=rebuild)):
            work.connection.execute(statement)


def _fill(work: Table, made: CorrectedColumn, batch_rows: int, progress: Progress | None) -> int:
    """Have the trigger correct what is not; the server tells now and then how far it is."""
    note = work.columns()[made.vector.name].note
    pending = "TRUE" if "since" in note else made.pending
    total = work.connection.execute(
        f"SELECT count(*) FROM {quoted_table(work.table)} AS t WHERE {pending}"
    ).fetchone()[0]

    def told(diagnostic: Any) -> None:
        said = CORRECTED_ROWS.fullmatch(diagnostic.message_primary or "")
        if said and progress is not None:
            progress("correcting", int(said[1]), total)

    work.connection.add_notice_handler(told)
    with suppress(work.failure):  # where a server can, it stops soon after this process was killed
        work.run("SET client_connection_check_interval = '200ms'")
    try:
        work.connection.execute(made.fill(batch_rows))
    finally:
        work.connection.remove_notice_handler(told)
    written = int(work.run("SELECT current_setting('modgap.corrected')").fetchone()[0])
    if progress is not None and written:
        progress("correcting", written, total)
    return written


def _warn_of_pending(work: Table, made: CorrectedColumn) -> None:
    if n := work.count_pending(made.vector.name, made.source):
        names = " and ".join(map(repr, made.vector.correction.names))
        warnings.warn(
            f"{n:,} rows of {work.place} could not be corrected, so no search finds them: their "
            f"modality is none of {names}, or their vector has length zero. See which: SELECT * "
            f"FROM {quoted_table(work.table)} AS t WHERE {made.pending}",
            UncorrectedRowsWarning,
            stacklevel=3,
        )


def column_demands(
    corrections: Corrections, column: str, new_column: str | None = None
) -> list[str]:
    """For each column that `add_column` makes: its name, and what its correction demands."""
    given = as_corrections(corrections)
    names = column_names(given, column, new_column)
    return [f"{name}, {one.dim_out} columns: {one}" for name, one in zip(names, given, strict=True)]


def drop_column(url: str, table: str, new_column: str | None = None) -> str:
    """Undo `add_column`, or the SQL of `modgap fix`; the name of the column that was dropped.

    The column goes with its graphs, its trigger, its functions and its numbers, and the table is
    as it was. ``new_column`` may be left out where modgap made only one.
    """
    named = {} if new_column is None else {"new": new_column}
    with _locked(url, table, **named) as work:
        made = sorted(n for n, c in work.columns().items() if c.note.get("scope") == "column")
        if new_column is None and len(made) > 1:
            raise InputValueError(
                f"modgap made {' and '.join(map(repr, made))} in {work.place}. Say which to drop "
                "(new_column=…, --new-column …)."
            )
        if not made or (new_column or made[0]) not in made:
            column = f"column {new_column!r}" if new_column else "column"
            raise InputValueError(f"There is no {column} that modgap made in {work.place}.")
        name = new_column or made[0]
        place = ColumnPlace(table, name)
        trigger = work.trigger(place.trigger)
        if trigger is not None:
            place = ColumnPlace(table, name, trigger.function)
        work.connection.execute(place.undo())
    return name


@contextmanager
def _locked(url: str, table: str, **columns: str) -> Iterator[Table]:
    """A table that no other process is writing to; what goes wrong becomes one sentence."""
    work = Table(url, table, **columns)
    with closing(work.connection), one_sentence(work.place, (work.failure,), url):
        work.lock()
        try:
            yield work
        except work.failure as error:
            if getattr(error, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            raise InputValueError(
                f"Somebody has held {work.place} for more than 5 s, and its columns change only "
                "when nobody does. Nothing was changed by this step: run the same again."
            ) from error


def _check_source(
    work: Table,
    found: Mapping[str, TableColumn],
    correction: Correction,
    source: _Source,
    graphs: bool,
) -> None:
    """A table with vectors of the correction's dimension."""
    if not found:
        raise InputValueError(f"There is no {work.place}. Check the name and its schema.")
    if graphs and work.is_partitioned():
        raise InputValueError(
            f"{work.place} is partitioned, and PostgreSQL makes no graph of such a table while it "
            "is in use. Leave graphs (--ef-search) out, or correct its partitions instead."
        )
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


def _check_modalities(work: Table, correction: Correction, modality: str) -> None:
    """Modalities that the correction names, before there is a column."""
    held = {row[0] for row in work.run("SELECT DISTINCT {modality}::text FROM {table}")}
    unknown = sorted(map(repr, held - {*correction.names, None}))
    if unknown:
        raise InputValueError(
            f"Column {modality!r} of {work.place} holds {', '.join(unknown[:5])}, but the "
            f"correction names {' and '.join(map(repr, correction.names))}. Fit it with these "
            "names (--names)."
        )
