"""A correction as SQL: correct a pgvector column where it is, and search it, without Python.

Made of what pgvector has had since 0.5: element-wise + and *, ``vector_norm`` and casts between
vectors and arrays.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Correction, Hubs
from modgap.corrections.correction import fingerprint
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
)
from modgap.index.sql_expected_wrong import judged_body
from modgap.index.stored_vectors import check_banks, check_storable, default_ef_search
from modgap.io.group_keys import first_own_key

_SCORES = {"cosine": "1 - {}", "inner_product": "-({})", "euclidean": "-power({}, 2)"}
_HEAD = """\
-- Corrects the raw vectors of a PostgreSQL table where they are, and searches them, with pgvector.
-- Made for a table {table} (id, modality, embedding vector({dim})) whose modality is one of
-- {names}: change these names here where yours differ. Run it with: psql -f {file}
-- Undo it with: ALTER TABLE {table} DROP COLUMN {columns};

CREATE OR REPLACE FUNCTION modgap_scale(v vector, c double precision) RETURNS vector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT v * array_fill(c::real, ARRAY[vector_dims(v)])::vector $$;
CREATE OR REPLACE FUNCTION modgap_unit(v vector) RETURNS vector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT modgap_scale(v, 1 / nullif(vector_norm(v), 0)) $$;
CREATE OR REPLACE FUNCTION modgap_lift(v vector, length double precision) RETURNS vector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT (v::real[] ||
                  sqrt(greatest(length ^ 2 - vector_norm(v) ^ 2, 0))::real)::vector $$;
"""
# Rows that another correction made must not stand beside those of this one.
_SAME_CORRECTION = """\
 BEGIN
    IF EXISTS (SELECT 1 FROM {table} WHERE {target} IS NOT NULL) AND {mark} IS DISTINCT FROM
        (SELECT col_description(attrelid, attnum) FROM pg_attribute
         WHERE attrelid = {table_text}::regclass AND attname = {column_text})
    THEN RAISE EXCEPTION 'Another correction made this column. Drop it first, see above.';
    END IF;
END """
_MATRICES = """
CREATE TABLE IF NOT EXISTS modgap_matrix
    (name text, place int, line vector, PRIMARY KEY (name, place));
CREATE OR REPLACE FUNCTION modgap_multiply(matrix_name text, v vector) RETURNS vector
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    AS $$ SELECT array_agg((-(line <#> v))::real ORDER BY place)::vector
          FROM modgap_matrix WHERE name = matrix_name $$;
"""

# The bank, and what a document's best queries of it score on average.
_BANKS = """
-- A bank of queries, from which the column of hubs is made. It is as private as the queries are;
-- once all documents have their column it can go: DROP TABLE modgap_bank;
CREATE TABLE IF NOT EXISTS modgap_bank (name text, own bigint, query vector);
ALTER TABLE modgap_bank ALTER COLUMN query SET STORAGE MAIN;  -- read for every document
CREATE OR REPLACE FUNCTION modgap_hubs(
    bank_name text, v vector, weight double precision, k int, own_key bigint
) RETURNS vector LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT (v::real[] || (-weight * coalesce(avg(best.score), 0))::real)::vector
          FROM (SELECT -(query <#> v) AS score FROM modgap_bank
                WHERE name = bank_name AND (own = own_key) IS NOT TRUE
                ORDER BY score DESC LIMIT k) AS best $$;
CREATE OR REPLACE FUNCTION modgap_key(label text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT ('x' || substr(encode(sha256(convert_to(
                 CASE WHEN getdatabaseencoding() = 'UTF8' THEN normalize(label) ELSE label END,
                 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint $$;
CREATE OR REPLACE FUNCTION modgap_row(label text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT CASE WHEN label ~ '^[0-9]{1,15}$' THEN label::bigint END $$;
"""
# From this size on the SQL says what is shorter.
_LARGE = 20_000_000
_SHORTER = """\
-- This file is {megabytes} MB, most of it the bank. Shorter: modgap index build postgresql://…
-- CORRECTION --table {table} --from-column {column} does the same from the correction's file.
"""


def pgvector_sql(
    corrections: Mapping[str, Correction],
    *,
    table: str = "items",
    column: str = "embedding",
    modality_column: str = "modality",
    id_column: str = "id",
    group_column: str | None = None,
    file: str = "pgvector.sql",
) -> str:
    """SQL that adds a corrected column to a table, one HNSW graph per modality, and a search.

    ``SELECT * FROM search_by_text('[…]', 10)`` then takes a raw query vector. It can be run again
    for rows that came since; what is corrected already stays. Of a correction with a background it
    returns expected wrong results too, and takes ``at_most``.

    Parameters
    ----------
    corrections : mapping of str to Correction
        By the query modality; each gets a column and a search function of its own.
    table, column, modality_column, id_column : str
        The table, its raw vectors, its modalities and its ids.
    group_column : str, optional
        Of corrections with hubs that were fitted with labels of groups: the column of the labels,
        by which queries of a bank that are a document's own are left out.
    file : str
        The name under which the SQL is saved, for its comment.
    """
    check_banks([*corrections.values()])
    first = next(iter(corrections.values()))
    for name in (column, modality_column, id_column, group_column):
        if name is not None:
            check_identifier(name, "a column")
    check_storable(first.names, "The name of a modality")
    names = {asking: shortened(f"{column}_{asking}") for asking in corrections}
    parts = [
        _HEAD.format(
            table=comment_text(quoted_table(table)),
            dim=first.dim_in,
            names=comment_text(", ".join(map(quoted_text, first.names))),
            file=comment_text(file),
            columns=comment_text(", DROP COLUMN ".join(map(quoted_name, names.values()))),
        )
    ]
    if any(m.matrix is not None for c in corrections.values() for m in c.maps.values()):
        parts.append(_MATRICES)
    if any(c.hubs is not None and c.hubs.weight for c in corrections.values()):
        parts.append(_BANKS)
    where = _Table(
        quoted_table(table),
        quoted_name(column),
        quoted_name(modality_column),
        quoted_name(id_column),
        None if group_column is None else quoted_name(group_column),
    )
    for asking, correction in corrections.items():
        parts.append(_one(correction, asking, names[asking], where))
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


@dataclass(frozen=True)
class _Table:
    """The table and its columns, as SQL writes them."""

    table: str
    column: str
    modality: str
    id: str
    group: str | None

    def own(self, hubs: Hubs, name: str) -> str:
        """The key of the group of a document, in SQL; NULL where the table does not say it."""
        if hubs.keys is None:
            return "NULL"
        if hubs.keyed_by == "group":
            return "NULL" if self.group is None else f"modgap_key({self.group}::text)"
        if hubs.keyed_by == "id":
            return f"modgap_key({self.id}::text)"
        first = f" + {first_own_key(name)}" if hubs.keyed_by == "own row" else ""
        return f"modgap_row({self.id}::text){first}"

    def says(self, hubs: Hubs) -> str:
        """Which queries are a document's own and left out, for a comment."""
        if hubs.keys is None:
            return ""
        if hubs.keyed_by == "group" and self.group is None:
            return " Those of a document's own group stay in: no column says which they are."
        by = {"group": f"group ({self.group})", "id": f"id ({self.id})"}
        number = f"row number (taken to be {self.id}, from 0)"
        return f" Those of a document's own {by.get(str(hubs.keyed_by), number)} are left out."


def _one(correction: Correction, asking: str, new: str, where: _Table) -> str:
    table, column, modality, identifier = where.table, where.column, where.modality, where.id
    (operator, kind), score = OPERATORS[correction.metric], _SCORES[correction.metric]
    lengths, background = lifted_lengths(correction), correction.background
    target, dim = quoted_name(new), correction.dim_out + (lengths is not None)
    mark = quoted_text(f"modgap {fingerprint(correction)}")
    same = _SAME_CORRECTION.format(
        table=table,
        target=target,
        table_text=quoted_text(table),
        column_text=quoted_text(new),
        mark=mark,
    )
    lines = [
        comment_text(f"-- For {asking} queries: {table}.{target}.")
        + (" Its last column only makes rows equally long, for the graphs." if lengths else "")
        + (" The one before it is that of hubs." if lengths and correction.hubs else ""),
        f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {target} vector({dim});",
        f"DO {quoted_body(same)};",
        f"COMMENT ON COLUMN {table}.{target} IS {mark};",
    ]
    lines += _bank_rows(correction, new, where)
    searches = []
    for name in correction.names:
        affine = correction.affine(name)
        lines += _matrix_rows(affine, f"{new}/{name}")
        stored = _expression(affine, column, f"{new}/{name}")
        if (hubs := correction.hubs) is not None and not hubs.weight:
            stored = f"({stored}::real[] || 0::real)::vector"
        elif hubs is not None:
            stored = (
                f"modgap_hubs({quoted_text(new)}, {stored}, {hubs.weight!r}, {hubs.neighbours}, "
                f"{where.own(hubs, name)})"
            )
        if lengths is not None:
            stored = f"modgap_lift({stored}, {lengths[name]!r})"
        graph = quoted_name(shortened(f"{new}_{name}_hnsw"))
        lines += [
            f"UPDATE {table} SET {target} = {stored}",
            f"    WHERE {modality} = {quoted_text(name)} AND {target} IS NULL",
            f"        AND {column} IS NOT NULL;",
            f"CREATE INDEX IF NOT EXISTS {graph} ON {table}",
            f"    USING hnsw ({target} {kind}) WHERE {modality} = {quoted_text(name)};",
        ]
        found = f"t.{target} {operator} mapped"
        shown, limit = found, "k"
        if background is not None:
            # The fourth column orders equal scores: here they have no order.
            shown, limit = f"-({found}), 0", f"greatest(k, {background.list_of(name).places})"
        searches.append(
            f"    (SELECT t.{identifier}::text, t.{modality}::text, {shown}\n"
            f"     FROM {table} AS t WHERE t.{modality} = {quoted_text(name)}\n"
            f"         AND t.{target} IS NOT NULL\n"
            f"     ORDER BY {found} LIMIT {limit})"
        )
    query = correction.affine(asking, "query")
    lines += _matrix_rows(query, f"{new}/{asking}/query")
    mapped = _expression(query, "query", f"{new}/{asking}/query")
    added = ["1"] * (correction.hubs is not None) + ["0"] * (lengths is not None)
    if added:
        mapped = f"({mapped}::real[] || ARRAY[{', '.join(added)}]::real[])::vector"
    function, width = search_function(asking), default_ef_search(correction)
    arguments, returned = "query vector, k int", "id text, modality text, score double precision"
    if background is not None:
        body = judged_body(background, mapped, width, searches)
        return "\n".join([*lines, f"""\
-- With at_most only results with at most so many expected wrong ones, and none where none passes.
{_drop(f"{function}(vector, int)")}
CREATE OR REPLACE FUNCTION {function}(
    {arguments} DEFAULT 10, at_most double precision DEFAULT NULL
) RETURNS TABLE ({returned}, expected_wrong double precision)
    LANGUAGE plpgsql AS {quoted_body(body)};
"""])  # fmt: skip
    union = "\n    UNION ALL\n".join(searches)
    body = f"""
#variable_conflict use_variable
DECLARE mapped vector := {mapped};
BEGIN
    PERFORM set_config('hnsw.ef_search', least(greatest({width}, k), 1000)::text, true);
    -- One graph for each modality; the best of each are the best of all.
    RETURN QUERY SELECT found.i, found.m, {score.format("found.distance")} FROM (
{union}
    ) AS found (i, m, distance) ORDER BY found.distance LIMIT k;
END """
    lines.append(f"""\
{_drop(f"{function}(vector, int, double precision)")}
CREATE OR REPLACE FUNCTION {function}({arguments} DEFAULT 10)
    RETURNS TABLE ({returned})
    LANGUAGE plpgsql AS {quoted_body(body)};
""")
    return "\n".join(lines)


def _drop(function: str) -> str:
    """Drop what an earlier correction left under this name, without a word where there is none."""
    return (
        "SET client_min_messages TO warning;\n"
        f"DROP FUNCTION IF EXISTS {function};\n"
        "RESET client_min_messages;"
    )


def search_function(asking: str) -> str:
    """The name of the function that searches with queries of a modality."""
    return quoted_name(shortened(f"search_by_{asking}"))


def _expression(affine: Affine, row: str, matrix: str) -> str:
    """What the map makes of a vector, in SQL."""
    if affine.normalise:
        row = f"modgap_unit({row})"
    if affine.matrix is not None:
        row = f"modgap_multiply({quoted_text(matrix)}, {row})"
    if affine.scale != 1.0:
        row = f"modgap_scale({row}, {affine.scale!r})"
    if affine.offset is not None:
        row = f"({row} + {_vector(affine.offset)})"
    if affine.renormalise:
        row = f"modgap_unit({row})"
    if affine.blocks is not None:
        scaled = [f"modgap_scale({row}, {factor!r})" for factor in affine.blocks]
        row = scaled[0]
        if len(scaled) > 1:
            row = f"({' || '.join(f'{one}::real[]' for one in scaled)})::vector"
    return row


def _matrix_rows(affine: Affine, name: str) -> list[str]:
    """The rows of the map's matrix, as a table that SQL can multiply by."""
    if affine.matrix is None:
        return []
    rows = ",\n    ".join(
        f"({quoted_text(name)}, {place}, {_vector(row)})" for place, row in enumerate(affine.matrix)
    )
    return [
        f"DELETE FROM modgap_matrix WHERE name = {quoted_text(name)};",
        f"INSERT INTO modgap_matrix VALUES\n    {rows};",
    ]


def _bank_rows(correction: Correction, name: str, where: _Table) -> list[str]:
    """The bank of a correction with hubs, as a table that SQL can score documents by."""
    hubs = correction.hubs
    if hubs is None or not hubs.weight:
        return []
    bank = hubs.check_bank()
    keys = [None] * len(bank) if hubs.keys is None else hubs.keys.tolist()
    rows = ",\n    ".join(
        f"({quoted_text(name)}, {'NULL' if key is None else key}, '[{','.join(row)}]')"
        for key, row in zip(keys, _few_digits(bank).tolist(), strict=True)
    )
    return [
        comment_text(f"-- {len(bank):,} queries.{where.says(hubs)}"),
        f"DELETE FROM modgap_bank WHERE name = {quoted_text(name)};",
        f"INSERT INTO modgap_bank VALUES\n    {rows};",
    ]


def _few_digits(values: np.ndarray) -> np.ndarray:
    """Numbers of half precision as text: five digits, ten times what they are precise to."""
    # There are at most 2¹⁶ of them, and many more entries.
    found, places = np.unique(values, return_inverse=True)
    short = [re.sub(r"^(-?)0\.", r"\1.", f"{value:.5g}") for value in found.tolist()]
    return np.array(short)[places].reshape(values.shape)


def _vector(values: np.ndarray) -> str:
    if not np.all(np.abs(values) < np.finfo(np.float32).max):
        raise InputValueError(
            "The numbers of this correction are beyond float32, in which pgvector holds vectors. "
            "Fit it on rows of smaller numbers."
        )
    # pgvector holds float32: eight digits are all of it.
    return "'[" + ",".join(f"{value:.8g}" for value in values) + "]'::vector"
