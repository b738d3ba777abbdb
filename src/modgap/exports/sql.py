"""Merging as a function of PostgreSQL or a macro of DuckDB, for result lists as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modgap._version import __version__
from modgap.corrections import Correction
from modgap.index.postgres_names import quoted_body, quoted_text
from modgap.index.sql_expected_wrong import Dialect, array_of_sql, merged_by_expected_wrong

_HEAD = """\
-- Merges the result lists of several modalities {how}. Made by modgap {version}.
-- Give the hits of all lists as three arrays of one length: ids, names of lists, and scores,
-- larger is nearer. Scores: {scores}.
"""
_ID_LISTS = "ids text[], modalities text[], scores double precision[]"
_EXPECTED_WRONG = """\
-- Give the best 30 hits of each list, or all that it has. at_most leaves out results with more
-- expected wrong ones, and all where the best looks like that of a query without a match; it must
-- be {least:.4g} or more.
"""
_CALIBRATED = """\
-- Give the k best hits of each list and the raw query. The score is (s - query . mean) / spread.
"""
# The hits of the three arrays, in the order given.
_FOUND = """found (i, m, s, given) AS (
        SELECT unnest(ids), unnest(modalities), unnest(scores), generate_subscripts(ids, 1)
    ), """
_LEVELS = """numbers (m, nth, spread, mean) AS (VALUES
{lists}
    ), entries AS (
        SELECT m, spread, nth, unnest(query) AS q, unnest(mean) AS mu FROM numbers
    ), constants AS (  -- of the query: its level in each list
        SELECT m, nth, min(spread) AS spread, sum(q * mu){length} AS level
        FROM entries GROUP BY m, nth
    )
    SELECT i AS id, m AS modality, (s - level) / spread AS score
    FROM found JOIN constants USING (m) ORDER BY score DESC, nth, given LIMIT k"""
_FUNCTIONS = {
    "postgresql": """\
CREATE OR REPLACE FUNCTION {name}(
    {arguments}
) RETURNS TABLE ({returned}) LANGUAGE sql STABLE PARALLEL SAFE AS {body};
""",
    "duckdb": """\
CREATE OR REPLACE MACRO {name}(
    {arguments}
) AS TABLE
{body};
""",
}


def merging_sql(correction: Correction, numbers: Mapping[str, Any], dialect: Dialect) -> str:
    """The text of the file; ``numbers`` are those of ``merge_numbers``."""
    by_e = numbers["kind"] == "expected_wrong"
    returned = "id text, modality text, score double precision"
    if by_e:
        background = correction.background
        assert background is not None
        name, how = "merge_by_expected_wrong", "by expected wrong results"
        more = _EXPECTED_WRONG.format(least=numbers["least_at_most"])
        merged = merged_by_expected_wrong(background, dialect)
        returned += ", expected_wrong double precision"
        arguments = {
            "postgresql": f"{_ID_LISTS},\n"
            "    k int DEFAULT 10, at_most double precision DEFAULT NULL",
            "duckdb": "ids, modalities, scores, k := 10, at_most := NULL",
        }[dialect]
    else:
        name, how, more = "merge_calibrated", "by calibrated scores", _CALIBRATED
        rows = [
            f"        ({quoted_text(one)}, {nth}, {held['spread']!r}::double precision, "
            f"{array_of_sql(np.array(held['mean']), dialect)})"
            for nth, (one, held) in enumerate(numbers["lists"].items())
        ]
        length = " / sqrt(sum(q * q))" if numbers["unit_queries"] else ""
        merged = _LEVELS.format(lists=",\n".join(rows), length=length)
        arguments = {
            "postgresql": f"query double precision[], {_ID_LISTS}, k int DEFAULT 10",
            "duckdb": "query, ids, modalities, scores, k := 10",
        }[dialect]
    body = f"    WITH {_FOUND}{merged}"
    if dialect == "postgresql":
        body = quoted_body(f"\n{body} ")
    head = _HEAD.format(how=how, version=__version__, scores=numbers["scores"])
    return f"{head}{more}\n" + _FUNCTIONS[dialect].format(
        name=name, arguments=arguments, returned=returned, body=body
    )
