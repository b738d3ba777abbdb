"""Where a corrected column of a table is, and how it is removed, as SQL."""

from __future__ import annotations

from dataclasses import dataclass

from modgap.index.postgres_names import (
    quoted_body,
    quoted_name,
    quoted_table,
    quoted_text,
    shortened,
    table_parts,
)

_UNDO = """
DECLARE
    one regprocedure;
BEGIN
    SET LOCAL lock_timeout = '5s';
    SET LOCAL client_min_messages = warning;
    IF {comment} LIKE '%"modgap": "index"%' IS NOT TRUE THEN
        RAISE EXCEPTION USING MESSAGE = {not_ours};
    END IF;
    FOR one IN SELECT oid FROM pg_proc WHERE obj_description(oid, 'pg_proc') = {mark}
        AND pronamespace = (SELECT pronamespace FROM pg_proc WHERE oid = to_regprocedure({made_by}))
    LOOP
        EXECUTE format('DROP FUNCTION %s', one);
    END LOOP;
    DROP TRIGGER IF EXISTS {trigger} ON {table};
    DROP FUNCTION IF EXISTS {base}();
    DROP TABLE IF EXISTS {base};
    ALTER TABLE {table} DROP COLUMN {target};
END """


@dataclass(frozen=True)
class ColumnPlace:
    """A corrected column by its table and its name, and what is made for it.

    ``made_as`` are the schema and the name of the function of its trigger, where the table has
    another name now.
    """

    table: str
    name: str
    made_as: tuple[str, ...] | None = None

    @property
    def target(self) -> str:
        """The column, as SQL writes it."""
        return quoted_name(self.name)

    @property
    def trigger(self) -> str:
        """Its trigger: PostgreSQL fires them by name, so that it sees what others made of a row."""
        return shortened(f"zz_modgap_{self.name}")

    @property
    def base(self) -> str:
        """The function of its trigger, and the table of its numbers, as SQL writes them."""
        return ".".join(map(quoted_name, self._parts))

    @property
    def mark(self) -> str:
        """The comment of the functions that search it."""
        return f"modgap: searches {self._parts[-1]}"

    @property
    def _parts(self) -> tuple[str, ...]:
        *schema, table = table_parts(self.table)
        return self.made_as or (*schema, shortened(f"modgap_{table}_{self.name}"))

    @property
    def comment(self) -> str:
        """Its note, as an expression of SQL; NULL where there is none."""
        return (
            "(SELECT col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = "
            f"{quoted_text(quoted_table(self.table))}::regclass AND attname = "
            f"{quoted_text(self.name)} AND NOT attisdropped)"
        )

    def block(self, text: str, **more: str) -> str:
        """A statement that runs some lines, with the names of the table and the column."""
        table = quoted_table(self.table)
        words = {
            "table": table,
            "table_text": quoted_text(table),
            "target": self.target,
            "target_text": quoted_text(self.name),
            "trigger": quoted_name(self.trigger),
            "base": self.base,
            "base_text": quoted_text(self.base),
            "made_by": quoted_text(f"{self.base}()"),
            "trigger_text": quoted_text(self.trigger),
            "comment": self.comment,
            "comment_on": quoted_text(f"COMMENT ON COLUMN {table}.{self.target} IS "),
        }
        return f"DO {quoted_body(text.format(**words | more))};"

    def undo(self) -> str:
        """A statement that leaves the table as it was, and nothing beside it."""
        not_ours = f"There is no column {self.name} that modgap made in {self.table}."
        return self.block(_UNDO, not_ours=quoted_text(not_ours), mark=quoted_text(self.mark))
