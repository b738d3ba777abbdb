"""A correction as SQL: correct a pgvector column where it is, and search it, without Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from modgap.corrections import Correction, Hubs
from modgap.corrections.fingerprints import fingerprint
from modgap.index.equal_lengths import lifted_lengths
from modgap.index.postgres_names import (
    OPERATORS,
    check_identifier,
    comment_text,
    quoted_body,
    quoted_name,
    quoted_table,
    quoted_text,
    shortened,
    table_parts,
)
from modgap.index.sql_column import FILL_ROWS, LOCK_TIMEOUT, CorrectedColumn, column_names
from modgap.index.sql_column_place import ColumnPlace
from modgap.index.sql_expected_wrong import judged_query
from modgap.index.stored_vectors import StoredVector, check_banks, check_storable, default_ef_search

_SCORES = {"cosine": "1 - {}", "inner_product": "-({})", "euclidean": "-power({}, 2)"}
_HEAD = """\
-- Corrects the raw vectors of a PostgreSQL table where they are, and searches them, with pgvector.
-- Made for a table {table} (id, modality, embedding vector({dim})) whose modality is one of
-- {names}: change these names here where yours differ.
-- Run it with: psql -v ON_ERROR_STOP=1 -f {file}
-- A trigger corrects rows that are inserted or changed. The rows that are there are corrected in
-- batches of {batch:,}; nothing is locked for longer than one. Interrupted, it is run again.
-- Undo it with: psql -f {undo}
"""
# What the functions take, without a background and with one.
_TYPES = ("vector, int", "vector, int, double precision")
# Before anything is made: the columns are there, and nothing else has the new names.
_CHECK = """
DECLARE
    missing text := (SELECT string_agg(name, ' and ') FROM unnest({columns}) AS name
        WHERE name NOT IN (SELECT attname FROM pg_attribute
            WHERE attrelid = {table_text}::regclass AND attnum > 0 AND NOT attisdropped));
    note text := {comment};
    is_there boolean := EXISTS (SELECT FROM pg_attribute WHERE attrelid = {table_text}::regclass
        AND attname = {target_text} AND NOT attisdropped);
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = {table_text} || ' has no column ' || missing
            || '. Change the names in this file where those of your table differ.';
    ELSIF is_there AND note LIKE '%"modgap": "index"%' IS NOT TRUE THEN
        RAISE EXCEPTION USING MESSAGE = {table_text} || ' has a column ' || {target_text}
            || ' already, which modgap did not make. Change its name in this file.';
    ELSIF is_there AND (strpos(note, {fingerprint}) = 0 OR {dim} IS DISTINCT FROM (
        SELECT atttypmod FROM pg_attribute WHERE attrelid = {table_text}::regclass
        AND attname = {target_text}))
    THEN
        RAISE EXCEPTION USING MESSAGE = 'Another correction made column ' || {target_text}
            || ' of ' || {table_text} || ', or the same without graphs. Undo it first: ' || {undo};
    ELSIF EXISTS (SELECT FROM pg_proc WHERE oid IN ({functions})
        AND obj_description(oid, 'pg_proc') IS DISTINCT FROM {mark})
    THEN
        RAISE EXCEPTION USING MESSAGE = 'There is a function ' || {named} || ' already, of another '
            || 'table or your own. Change its name in this file.';
    END IF;
END """
# From this size on the SQL says what is shorter.
_LARGE = 20_000_000
_SHORTER = """\
-- This file is {megabytes} MB, most of it the bank. Shorter: modgap index build postgresql://…
-- CORRECTION --table {table} --from-column {column} --ef-search 64 does the same from the
-- correction\'s file, without the function that searches.
"""
_SEARCH = """
#variable_conflict use_variable
DECLARE
    v vector := query;
BEGIN
    {steps}
    PERFORM set_config('hnsw.ef_search', least(greatest({width}, k), 1000)::text, true);
    IF EXISTS (SELECT FROM {table} AS t WHERE {pending}) THEN
        RAISE NOTICE USING MESSAGE = {message};
    END IF;
{found}
END """
# One graph for each modality; the best of each are the best of all.
_BEST = """\
    RETURN QUERY SELECT found.i, found.m, {score} FROM (
{union}
    ) AS found (i, m, distance) ORDER BY found.distance LIMIT k;"""
_FUNCTION = """\
DROP FUNCTION IF EXISTS {function}({other});
CREATE OR REPLACE FUNCTION {function}({arguments})
    RETURNS TABLE (id text, modality text, score double precision{returned})
    LANGUAGE plpgsql AS {body};
COMMENT ON FUNCTION {function}({types}) IS {mark};"""


def pgvector_sql(
    corrections: Mapping[str, Correction],
    *,
    table: str = "items",
    column: str = "embedding",
    modality_column: str = "modality",
    id_column: str = "id",
    group_column: str | None = None,
    file: str = "pgvector.sql",
    undo: str = "pgvector-undo.sql",
) -> str:
    """SQL that adds a corrected column to a table, one HNSW graph per modality, and a search.

    ``SELECT * FROM search_by_text(\'[…]\', 10)`` then takes a raw query vector. A trigger corrects
    rows that are inserted or changed. Of a correction with a background the search returns
    expected wrong results too, and takes ``at_most``.

    Parameters
    ----------
    corrections : mapping of str to Correction
        By the query modality; each gets a column and a search function of its own.
    table, column, modality_column, id_column : str
        The table, its raw vectors, its modalities and its ids.
    group_column : str, optional
        Of corrections with hubs that were fitted with labels of groups: the column of the labels,
        by which queries of a bank that are a document\'s own are left out.
    file, undo : str
        The names under which this and the text of ``undo_sql`` are saved, for its comment.
    """
    given = _distinct(corrections)
    check_banks(given)
    check_storable(given[0].names, "The name of a modality")
    for name in (column, modality_column, id_column, group_column):
        if name is not None:
            check_identifier(name, "a column")
    parts = [
        _HEAD.format(
            table=comment_text(quoted_table(table)),
            dim=given[0].dim_in,
            names=comment_text(", ".join(map(quoted_text, given[0].names))),
            file=comment_text(file),
            undo=comment_text(undo),
            batch=FILL_ROWS,
        )
    ]
    for correction, name in zip(given, column_names(given, column), strict=True):
        vector = StoredVector(name, correction, lifted_lengths(correction))
        keyed_by = None if correction.hubs is None else correction.hubs.keyed_by
        own = {None: None, "group": group_column}.get(keyed_by, id_column)
        made = CorrectedColumn(table, column, modality_column, vector, own, graphs=True)
        parts += _one(made, id_column, undo)
    text = "\n".join(parts)
    if len(text) > _LARGE:
        text = (
            _SHORTER.format(
                megabytes=round(len(text) / 1e6),
                table=comment_text(shlex.quote(table)),
                column=comment_text(shlex.quote(column)),
            )
            + text
        )
    return text


def undo_sql(
    corrections: Mapping[str, Correction], *, table: str = "items", column: str = "embedding"
) -> str:
    """SQL that leaves the table as it was before that of ``pgvector_sql``."""
    names = column_names(_distinct(corrections), column)
    head = f"-- Leaves {comment_text(quoted_table(table))} as it was before it was corrected.\n"
    return head + "".join(f"{ColumnPlace(table, name).undo()}\n" for name in names)


def _distinct(corrections: Mapping[str, Correction]) -> list[Correction]:
    """One that serves several modalities is listed under each."""
    return list({id(correction): correction for correction in corrections.values()}.values())


def _one(made: CorrectedColumn, id_column: str, undo: str) -> list[str]:
    """The statements of one column: all or nothing, then batches, then graphs."""
    correction, place = made.vector.correction, made.place
    functions = {asking: search_function(asking, made.table) for asking in correction.queries}
    columns = [made.source, made.modality, id_column, *([made.own] if made.own else [])]
    marks = [quoted_text(f"{name}({types})") for name in functions.values() for types in _TYPES]
    check = place.block(
        _CHECK,
        columns=f"ARRAY[{', '.join(map(quoted_text, columns))}]",
        fingerprint=quoted_text(f'"fingerprint": "{fingerprint(correction)}"'),
        undo=quoted_text(f"psql -f {undo}"),
        dim=str(made.vector.dim),
        functions=", ".join(f"to_regprocedure({mark})" for mark in marks),
        named=quoted_text(" or ".join(functions.values())),
        mark=quoted_text(place.mark),
    )
    lines = [comment_text(f"-- For {' and '.join(functions)} queries: {made.table}.{place.name}.")]
    if made.vector.lengths is not None:
        lines[0] += " Its last column only makes rows equally long, for the graphs."
    if correction.hubs is not None and correction.hubs.weight:
        lines.append(comment_text(_of_hubs(correction.hubs, made)))
    return [
        *lines,
        "BEGIN;",
        f"SET LOCAL client_min_messages = warning;\n{LOCK_TIMEOUT}",
        check,
        *made.install(),
        *(_search(made, asking, name, id_column) for asking, name in functions.items()),
        "COMMIT;\n",
        made.fill(),
        "SET client_min_messages = warning;",
        *made.indexes(),
        "RESET client_min_messages;",
    ]


def _of_hubs(hubs: Hubs, made: CorrectedColumn) -> str:
    """The bank, and which of its queries are a document's own and left out, for a comment."""
    said = f"-- Its column of hubs is made by {hubs.n_bank:,} queries, kept in {made.place.base}."
    if hubs.keys is None:
        return said
    if made.own is None:
        return f"{said} Those of a document's own group stay in: no column says which they are."
    by = {"group": f"group ({made.own})", "id": f"id ({made.own})"}
    own = by.get(str(hubs.keyed_by), f"row number (taken to be {made.own}, from 0)")
    return f"{said} Those of a document's own {own} are left out."


def _search(made: CorrectedColumn, asking: str, function: str, id_column: str) -> str:
    """The function that searches with the raw queries of a modality."""
    table, correction = quoted_table(made.table), made.vector.correction
    operator, background = OPERATORS[correction.metric][0], correction.background
    found, identifier, modality = (
        f"t.{name}"
        for name in (
            f"{made.place.target} {operator} v", quoted_name(id_column), quoted_name(made.modality)
        )
    )  # fmt: skip
    lists = []
    for name in correction.names:
        shown, limit = found, "k"
        if background is not None:
            # The fourth column orders equal scores: here they have no order.
            shown, limit = f"-({found}), 0", f"greatest(k, {background.list_of(name).places})"
        lists.append(
            f"    (SELECT {identifier}::text, {modality}::text, {shown}\n"
            f"     FROM {table} AS t WHERE {modality} = {quoted_text(name)}\n"
            f"         AND t.{made.place.target} IS NOT NULL\n"
            f"     ORDER BY {found} LIMIT {limit})"
        )
    score = _SCORES[correction.metric].format("found.distance")
    union = "\n    UNION ALL\n".join(lists)
    query = _BEST.format(score=score, union=union)
    arguments, types, other, returned = "query vector, k int DEFAULT 10", *_TYPES, ""
    if background is not None:
        query = judged_query(background, lists)
        arguments, returned = (
            f"{arguments}, at_most double precision DEFAULT NULL",
            ", expected_wrong double precision",
        )
        types, other = other, types
    body = _SEARCH.format(
        steps="\n    ".join(made.query_steps(asking)),
        width=default_ef_search(correction),
        table=table,
        pending=made.pending,
        message=quoted_text(
            f"Some rows of {made.table} are not corrected, so they are not found. Correct them "
            "with pgvector.sql, or see which they are: "
            f"SELECT * FROM {table} AS t WHERE {made.pending}"
        ),
        found=query,
    )
    return _FUNCTION.format(
        function=function,
        other=other,
        arguments=arguments,
        returned=returned,
        body=quoted_body(body),
        types=types,
        mark=quoted_text(made.place.mark),
    )


def search_function(asking: str, table: str = "items") -> str:
    """The name of the function that searches with queries of a modality, in the table's schema."""
    *schema, _ = table_parts(table)
    return ".".join(map(quoted_name, [*schema, shortened(f"search_by_{asking}")]))
