"""Names, texts and bodies of functions as PostgreSQL's SQL writes them, whatever is in them."""

from __future__ import annotations

import hashlib
import re

from modgap.core.checks import InputValueError

# For each metric the operator that pgvector orders by, and its class of operators.
OPERATORS = {
    "cosine": ("<=>", "vector_cosine_ops"),
    "inner_product": ("<#>", "vector_ip_ops"),
    "euclidean": ("<->", "vector_l2_ops"),
}
# PostgreSQL cuts longer names without an error.
_MAX_BYTES = 63
# Reserved in PostgreSQL, some only as names of functions and types: SELECT word FROM
# pg_get_keywords() WHERE catcode IN ('R', 'T').
_RESERVED = re.compile(
    "all|analyse|analyze|and|any|array|as|asc|asymmetric|authorization|between|"
    "binary|both|case|cast|check|collate|collation|column|concurrently|"
    "constraint|create|cross|current_catalog|current_date|current_role|"
    "current_schema|current_time|current_timestamp|current_user|default|deferrable|"
    "desc|distinct|do|else|end|except|false|fetch|for|foreign|freeze|from|"
    "full|grant|group|having|ilike|in|initially|inner|intersect|into|is|"
    "isnull|join|lateral|leading|left|like|limit|localtime|localtimestamp|"
    "natural|not|notnull|null|offset|on|only|or|order|outer|overlaps|placing|"
    "primary|references|returning|right|select|session_user|similar|some|"
    "symmetric|system_user|table|tablesample|then|to|trailing|true|union|unique|"
    "user|using|variadic|verbose|when|where|window|with"
)


def check_identifier(name: str, what: str) -> str:
    """A name that PostgreSQL keeps as it is; ``what`` says of what it is the name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InputValueError(
            f"The name of {what} must be text of Unicode, got {name!r}."
        ) from error
    if not name or "\0" in name:
        raise InputValueError(
            f"The name of {what} must not be empty and have no zero byte, got {name!r}."
        )
    if size > _MAX_BYTES:
        raise InputValueError(
            f"PostgreSQL keeps {_MAX_BYTES} bytes of a name, and that of {what} has {size}: "
            f"{name!r}. Choose a shorter one."
        )
    return name


def table_parts(table: str) -> list[str]:
    """The name of a table, after that of its schema where it has one."""
    parts = table.split(".")
    if len(parts) > 2:
        raise InputValueError(
            f"A table is named as TABLE or SCHEMA.TABLE, and neither has a dot, got {table!r}."
        )
    return [check_identifier(part, f"table {table!r}") for part in parts]


def shortened(name: str) -> str:
    """A name of our making that PostgreSQL keeps whole: a digest takes the place of its end.

    >>> shortened("embedding_text"), len(shortened("embedding_text" * 9))
    ('embedding_text', 63)
    """
    if len(name.encode()) <= _MAX_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    kept = name.encode()[: _MAX_BYTES - 13].decode(errors="ignore")
    return f"{kept}_{digest}"


def quoted_name(name: str) -> str:
    """A name in SQL, between quotation marks where plain SQL would read it otherwise.

    >>> quoted_name("items"), quoted_name("Items"), quoted_name("order"), quoted_name('a"b%')
    ('items', '"Items"', '"order"', '"a""b%"')
    """
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name) and not _RESERVED.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_table(table: str) -> str:
    """A table in SQL, with its schema where it has one."""
    return ".".join(map(quoted_name, table_parts(table)))


def quoted_text(value: str) -> str:
    r"""A text in SQL.

    >>> print(quoted_text("it's"), quoted_text("\\"))
    'it''s' E'\\'
    """
    doubled = value.replace("'", "''")
    return "E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in value else f"'{doubled}'"


def quoted_body(body: str) -> str:
    """The body of a function between dollars, whatever names it has in it.

    >>> quoted_body(" SELECT 1 "), quoted_body(' SELECT "a$$b" ')
    ('$$ SELECT 1 $$', '$m$ SELECT "a$$b" $m$')
    """
    mark = "$$"
    while mark in body:
        mark = f"${'m' * (len(mark) - 1)}$"
    return mark + body + mark


def comment_text(text: str) -> str:
    """Text that stays within a comment's line."""
    return " ".join(re.split(r"[\r\n]+", text))
