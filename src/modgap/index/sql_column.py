"""A corrected column of a table you have, as SQL: its trigger, its numbers, batches, graphs, undo.

Made of what PostgreSQL 14 and pgvector 0.5 have. All that is made for a column is named after its
table and itself, and lies in the schema of the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Correction, Hubs
from modgap.index.metadata import Graphs, new_note
from modgap.index.postgres_names import (
    OPERATORS,
    check_identifier,
    quoted_body,
    quoted_name,
    quoted_table,
    quoted_text,
    shortened,
    table_parts,
)
from modgap.index.sql_column_place import ColumnPlace
from modgap.index.stored_vectors import StoredVector, vector_names
from modgap.io.group_keys import first_own_key

FILL_ROWS = 1000
# What the server says while it corrects a table.
CORRECTED_ROWS = re.compile(r"modgap: corrected (\d+) rows")
# For changes that take an instant, but wait for all who use the table.
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s';"

_SCALED = "{0} * array_fill(({1})::real, ARRAY[vector_dims({0})])::vector"
_MATRIX = (
    "(SELECT array_agg((-(d.line <#> v))::real ORDER BY d.place)::vector "
    "FROM {data} AS d WHERE d.name = {name})"
)
# What a document's best queries of the bank score on average.
_HUBS = """\
(v::real[] || (-{weight!r} * coalesce((
        SELECT avg(best.score) FROM (
            SELECT -(d.line <#> v) AS score FROM {data} AS d
            WHERE d.name = 'bank' AND (d.own = own_key) IS NOT TRUE
            ORDER BY score DESC LIMIT {neighbours}
        ) AS best), 0))::real)::vector"""
_LIFT = "(v::real[] || sqrt(greatest({length!r} ^ 2 - vector_norm(v) ^ 2, 0))::real)::vector"
# As modgap makes keys of labels: the first 8 bytes of SHA-256.
_LABEL_KEY = """\
('x' || substr(encode(sha256(convert_to(
        CASE WHEN getdatabaseencoding() = 'UTF8' THEN normalize({own}) ELSE {own} END,
        'UTF8')), 'hex'), 1, 16))::bit(64)::bigint"""
_ROW_KEY = "CASE WHEN {own} ~ '^[0-9]{{1,15}}$' THEN ({own})::bigint END"

# Where it is there already it may be in use, and is not locked.
_MAKE_DATA = """
BEGIN
    IF to_regclass({base_text}) IS NULL THEN
        CREATE TABLE {base} (name text, place int, own bigint, line vector);
        ALTER TABLE {base} ALTER COLUMN line SET STORAGE MAIN;  -- read for every document
    END IF;
END """
# A row that cannot be corrected is stored without: no write of yours fails because of modgap.
_TRIGGER = """
DECLARE
    v vector := NEW.{source};
    own_key bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.{target} IS NOT NULL AND ROW({after}) IS NOT DISTINCT FROM ROW({before}) THEN
            RETURN NEW;
        END IF;
    END IF;
    CASE NEW.{modality}::text
{cases}
    ELSE
        v := NULL;
    END CASE;
    NEW.{target} := v;
    RETURN NEW;
EXCEPTION WHEN data_exception OR undefined_table OR undefined_column THEN
    NEW.{target} := NULL;
    RETURN NEW;
END """
# Where the trigger was missing, switched off or another one, any row may be stale: the note then
# has the transaction since which the trigger has seen what is written.
_INSTALL = """
DECLARE
    known jsonb := {comment}::jsonb;
    made_by regprocedure := {made_by};
    made text := (SELECT md5(prosrc) FROM pg_proc WHERE oid = made_by);
    file text := coalesce(pg_relation_filenode({table_text})::text, '');
    safe boolean := coalesce(known->>'function' = made, false) AND EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = {table_text}::regclass
        AND tgname = {trigger_text} AND tgenabled = 'A' AND tgfoid = made_by);
    anew jsonb := '{{}}';
BEGIN
    EXECUTE format('ALTER FUNCTION %s SET search_path = %s, pg_temp', made_by, (
        SELECT string_agg(quote_ident(n.nspname), ', ' ORDER BY e.extname) FROM pg_namespace AS n
        LEFT JOIN pg_extension AS e ON e.extnamespace = n.oid AND e.extname = 'vector'
        WHERE e.oid IS NOT NULL OR n.nspname = current_schema() OR n.oid = (
            SELECT relnamespace FROM pg_class WHERE oid = {table_text}::regclass)));
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = {table_text}::regclass
        AND attname = {target_text} AND NOT attisdropped)
    THEN
        ALTER TABLE {table} ADD COLUMN {target} vector({dim});
    END IF;
    IF NOT safe THEN
        CREATE OR REPLACE TRIGGER {trigger} BEFORE INSERT OR UPDATE ON {table}
            FOR EACH ROW EXECUTE FUNCTION {base}();
        ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger};
    END IF;
    IF safe AND known ? 'since' AND known->>'file' = file THEN
        anew := jsonb_build_object('since', known->'since', 'file', file);
    ELSIF known IS NOT NULL AND ({rebuild} OR NOT safe OR known ? 'since') THEN
        anew := jsonb_build_object('since', pg_current_xact_id()::xid::text, 'file', file);
    END IF;
    EXECUTE {comment_on} || quote_literal(
        ({note}::jsonb || jsonb_build_object('function', made) || anew)::text);
END """
_FILL = """
DECLARE
    note jsonb := {comment}::jsonb;
    since xid := (note->>'since')::xid;
    reached tid := '(0,0)';
    beyond tid;
    stop bigint := greatest(pg_relation_size({table_text}), (
        SELECT max(pg_relation_size(relid)) FROM pg_partition_tree({table_text}))
        ) / current_setting('block_size')::int;
    batch tid[];
    one tid;
    n_here bigint;
    n_right bigint;
    written bigint := 0;
    said timestamptz := clock_timestamp();
BEGIN
    WHILE (reached::text::point)[0] < stop LOOP
        beyond := format('(%s,0)',
            least((reached::text::point)[0]::bigint + 1000, stop))::tid;
        SELECT array_agg(r.ctid ORDER BY r.ctid) INTO batch FROM (
            SELECT t.ctid FROM {table} AS t WHERE t.ctid > reached AND t.ctid < beyond
            AND ({due}) ORDER BY t.ctid LIMIT {batch_rows}) AS r;
        reached := coalesce(batch[{batch_rows}], beyond);
        -- The trigger corrects what is touched. A row that somebody holds is waited for
        -- afterwards, by itself: who holds rows must not wait.
        WITH touched AS (
            UPDATE {table} AS t SET {target} = NULL WHERE t.ctid = ANY (ARRAY(
                SELECT t.ctid FROM {table} AS t WHERE t.ctid = ANY (batch)
                FOR NO KEY UPDATE SKIP LOCKED))
            RETURNING t.{target} IS NOT NULL AS is_right)
        SELECT count(*), count(*) FILTER (WHERE is_right) INTO n_here, n_right FROM touched;
        written := written + n_right;
        COMMIT;
        IF n_here < cardinality(batch) THEN
            FOREACH one IN ARRAY batch LOOP
                UPDATE {table} AS t SET {target} = NULL
                    WHERE t.ctid = one AND ({due});
                GET DIAGNOSTICS n_here = ROW_COUNT;
                written := written + n_here;
                COMMIT;
            END LOOP;
        END IF;
        IF clock_timestamp() > said + interval '1 second' THEN
            RAISE NOTICE 'modgap: corrected % rows', written;
            said := clock_timestamp();
        END IF;
    END LOOP;
    IF since IS NOT NULL THEN
        EXECUTE {comment_on} || quote_literal((note - '{{since,file}}'::text[])::text);
    END IF;
    PERFORM set_config('modgap.corrected', written::text, false);
END """
# What CREATE INDEX CONCURRENTLY leaves behind when it is interrupted.
_LEFTOVERS = """
DECLARE
    one regclass;
BEGIN
    SET LOCAL lock_timeout = '5s';
    FOR one IN SELECT i.indexrelid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = {table_text}::regclass AND NOT i.indisvalid AND c.relname IN ({names})
    LOOP
        EXECUTE format('DROP INDEX %s', one);
    END LOOP;
END """


@dataclass(frozen=True)
class CorrectedColumn:
    """A column of corrected vectors beside the raw ones; ``vector`` has its name and its maps.

    ``own`` is the column that says which queries of a bank are a document's own, if any does.
    """

    table: str
    source: str
    modality: str
    vector: StoredVector
    own: str | None = None
    graphs: bool = False

    @property
    def place(self) -> ColumnPlace:
        """Where it is."""
        return ColumnPlace(self.table, self.vector.name)

    @property
    def pending(self) -> str:
        """Which rows ``t`` are not corrected, in SQL."""
        return f"t.{self.place.target} IS NULL AND t.{quoted_name(self.source)} IS NOT NULL"

    def install(self, *, rebuild: bool = False) -> list[str]:
        """Statements of one transaction: the column, its numbers, its trigger, its note.

        ``rebuild`` has every row corrected anew.
        """
        place = self.place
        graphs: Graphs | None = "each" if self.graphs else None
        note = new_note([self.vector], "str", graphs=graphs, scope="column")
        note |= {"finished": True, "source": self.source}
        numbers = self._numbers()
        insert = f"INSERT INTO {place.base} VALUES\n    " + ",\n    ".join(numbers) + ";"
        return [
            *([place.block(_MAKE_DATA), f"DELETE FROM {place.base};", insert] if numbers else []),
            f"CREATE OR REPLACE FUNCTION {place.base}() RETURNS trigger\n"
            f"    LANGUAGE plpgsql SECURITY DEFINER AS {quoted_body(self._trigger_body())};",
            place.block(
                _INSTALL,
                dim=str(self.vector.dim),
                rebuild=str(rebuild).lower(),
                note=quoted_text(json.dumps(note)),
            ),
        ]

    def fill(self, batch_rows: int = FILL_ROWS) -> str:
        """One statement that corrects what is not, each batch in a transaction of its own."""
        due = f"{self.pending} OR age(t.xmin) > age(since)"
        return self.place.block(_FILL, batch_rows=str(batch_rows), due=due)

    def indexes(self) -> list[str]:
        """Statements, each outside a transaction: the graphs, and an index of the pending rows.

        By the latter a search knows at once whether there are any.
        """
        modality, correction = quoted_name(self.modality), self.vector.correction
        made = {"pending": (f"btree ({modality})", self.pending.replace("t.", ""))}
        for name in correction.names if self.graphs else ():
            what = f"hnsw ({self.place.target} {OPERATORS[correction.metric][1]})"
            made[f"{name}_hnsw"] = what, f"{modality} = {quoted_text(name)}"
        table = table_parts(self.table)[-1]
        names = {key: shortened(f"{table}_{self.vector.name}_{key}") for key in made}
        listed = ", ".join(map(quoted_text, names.values()))
        return [
            self.place.block(_LEFTOVERS, names=listed),
            *(
                f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {quoted_name(names[key])}\n"
                f"    ON {quoted_table(self.table)} USING {what} WHERE {where};"
                for key, (what, where) in made.items()
            ),
        ]

    def query_steps(self, asking: str) -> list[str]:
        """Statements that map the raw query ``v``."""
        correction = self.vector.correction
        steps = map_steps(correction.affine(asking, "query"), self.place.base, f"query/{asking}")
        added = ["1"] * (correction.hubs is not None) + ["0"] * (self.vector.lengths is not None)
        if added:
            steps.append(f"v := (v::real[] || ARRAY[{', '.join(added)}]::real[])::vector;")
        return steps

    def _trigger_body(self) -> str:
        cases = []
        for name in self.vector.correction.names:
            cases += [f"    WHEN {quoted_text(name)} THEN"]
            cases += [f"        {step}" for step in self._document_steps(name)] or ["NULL;"]
        reads = [f"{quoted_name(self.source)}", self.place.target]
        reads += [f"{quoted_name(one)}::text" for one in (self.modality, self.own) if one]
        return _TRIGGER.format(
            source=quoted_name(self.source),
            target=self.place.target,
            modality=quoted_name(self.modality),
            after=", ".join(f"NEW.{one}" for one in reads),
            before=", ".join(f"OLD.{one}" for one in reads),
            cases="\n".join(cases),
        )

    def _document_steps(self, name: str) -> list[str]:
        """Statements that map the raw document ``v`` of a modality."""
        correction, base = self.vector.correction, self.place.base
        steps = map_steps(correction.affine(name), base, f"document/{name}")
        hubs, lengths = correction.hubs, self.vector.lengths
        if hubs is not None and hubs.weight:
            words = {"weight": hubs.weight, "neighbours": hubs.neighbours, "data": base}
            steps.append(f"own_key := {self._own_key(hubs, name)};")
            steps.append(f"v := {_HUBS.format(**words)};")
        elif hubs is not None:
            steps.append("v := (v::real[] || 0::real)::vector;")
        if lengths is not None:
            steps.append(f"v := {_LIFT.format(length=lengths[name])};")
        if correction.metric == "cosine":
            steps.append("PERFORM 1 / vector_norm(v);  -- without a direction it has no cosine")
        return steps

    def _own_key(self, hubs: Hubs, name: str) -> str:
        """The key of a document among those of the bank; NULL where its row does not say it."""
        if hubs.keys is None or self.own is None:
            return "NULL"
        own = f"NEW.{quoted_name(self.own)}::text"
        if hubs.keyed_by in ("group", "id"):
            return _LABEL_KEY.format(own=own)
        first = f" + {first_own_key(name)}" if hubs.keyed_by == "own row" else ""
        return _ROW_KEY.format(own=own) + first

    def _numbers(self) -> list[str]:
        """The lines of matrices and of the bank, as the table of numbers holds them."""
        correction = self.vector.correction
        maps = {f"document/{name}": correction.affine(name) for name in correction.names}
        for name in correction.queries:
            maps[f"query/{name}"] = correction.affine(name, "query")
        rows = [
            f"({quoted_text(name)}, {place}, NULL, {vector_of_sql(row)})"
            for name, affine in maps.items()
            if affine.matrix is not None
            for place, row in enumerate(affine.matrix)
        ]
        hubs = correction.hubs
        if hubs is None or not hubs.weight:
            return rows
        bank = hubs.check_bank()
        keys = ["NULL"] * len(bank) if hubs.keys is None else hubs.keys.tolist()
        return rows + [
            f"('bank', {place}, {key}, '[{','.join(row)}]')"
            for place, (key, row) in enumerate(zip(keys, _few_digits(bank).tolist(), strict=True))
        ]


def column_names(
    corrections: Sequence[Correction], column: str, new_column: str | None = None
) -> list[str]:
    """The columns of corrected vectors: ``embedding_corrected``, or as ``vector_names``."""
    if new_column is not None:
        names = vector_names(corrections, new_column)
        return [check_identifier(name, "a column") for name in names]
    check_identifier(column, "a column")
    default = f"{column}_corrected" if len(corrections) == 1 else column
    return [shortened(name) for name in vector_names(corrections, default)]


def map_steps(affine: Affine, data: str, name: str) -> list[str]:
    """Statements that do to the vector ``v`` what a map does."""
    unit = f"v := {_SCALED.format('v', '1 / vector_norm(v)')};"
    steps = [unit] if affine.normalise else []
    if affine.matrix is not None:
        steps.append(f"v := {_MATRIX.format(data=data, name=quoted_text(name))};")
    if affine.scale != 1.0:
        steps.append(f"v := {_SCALED.format('v', repr(affine.scale))};")
    if affine.offset is not None:
        steps.append(f"v := v + {vector_of_sql(affine.offset)};")
    if affine.renormalise:
        steps.append(unit)
    if affine.blocks is not None:
        blocks = [f"({_SCALED.format('v', repr(factor))})::real[]" for factor in affine.blocks]
        steps.append(f"v := ({' || '.join(blocks)})::vector;")
    return steps


def _few_digits(values: np.ndarray) -> np.ndarray:
    """Numbers of half precision as text: five digits, ten times what they are precise to."""
    # There are at most 2¹⁶ of them, and many more entries.
    found, places = np.unique(values, return_inverse=True)
    short = [re.sub(r"^(-?)0\.", r"\1.", f"{value:.5g}") for value in found.tolist()]
    return np.array(short)[places].reshape(values.shape)


def vector_of_sql(values: np.ndarray) -> str:
    """Numbers as a vector."""
    if not np.all(np.abs(values) < np.finfo(np.float32).max):
        raise InputValueError(
            "The numbers of this correction are beyond float32, in which pgvector holds vectors. "
            "Fit it on rows of smaller numbers."
        )
    # pgvector holds float32: eight digits are all of it.
    return "'[" + ",".join(f"{value:.8g}" for value in values) + "]'::vector"
