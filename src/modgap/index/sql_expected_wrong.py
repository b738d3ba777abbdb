"""Expected wrong results in SQL: lists of results merged by E, in PostgreSQL and in DuckDB.

What it computes stands in `modgap.corrections.list_background`; the numbers of the bank that it
needs are written into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from modgap.corrections import Background
from modgap.corrections.list_background import EVEN, FIRST, FLATTEST, LEAST_HELD, LEAST_PLACES
from modgap.index.postgres_names import quoted_text

Dialect = Literal["postgresql", "duckdb"]
# How many heights of the bank are at most u, in each dialect.
_AT_MOST_U = {
    "postgresql": "width_bucket(u, heights)",
    "duckdb": "len(list_filter(heights, lambda known: known <= u))",
}
_ARRAYS = {"postgresql": "'{{{}}}'::double precision[]", "duckdb": "[{}]::DOUBLE[]"}

# After the common table found (i, m, s, given): id, modality, score and place as given of each hit.
_MERGED = """\
bank (m, nth, r, usual, best_mean, level_mean, slope_mean, best_weight, level_weight, slope_weight,
      heights, logs) AS (VALUES
{lists}
    ), ranked AS (
        SELECT found.*, row_number() OVER best_first AS place,
               count(*) OVER (PARTITION BY found.m) AS n
        FROM found WINDOW best_first AS (PARTITION BY found.m ORDER BY found.s DESC, found.given)
    ), placed AS (  -- the level of a query is its score at this place
        SELECT ranked.*, CASE WHEN n >= r THEN r
               ELSE greatest(least({least_places}, n), floor(n / 2.0)) END AS reached
        FROM ranked JOIN bank USING (m)
    ), measured AS (
        SELECT m, min(s) AS lowest, (avg(s) FILTER (WHERE place >= {first}) - min(s))
               / avg(ln(reached / (place - 0.5))) FILTER (WHERE place >= {first}) AS slope
        FROM placed WHERE place <= reached GROUP BY m
    ), levels AS (
        SELECT m, lowest, greatest(coalesce(slope, usual), {flattest} * usual) AS slope
        FROM measured JOIN bank USING (m)
    ), high AS (  -- heights above it, comparable between queries and modalities
        SELECT placed.i, placed.m, placed.s, placed.place,
               (s - lowest) / sqrt(slope * usual) AS u,
               best_weight * (s - best_mean) + level_weight * least(lowest - level_mean, 0)
               + slope_weight * (ln(slope) - slope_mean) AS above
        FROM placed JOIN levels USING (m) JOIN bank USING (m)
    ), knots AS (  -- between which of the bank's heights
        SELECT high.*,
               least(greatest({at_most_u}, 1), array_length(heights, 1) - 1)::int AS b
        FROM high JOIN bank USING (m)
    ), judged AS (  -- how many documents a query of the bank has so high
        SELECT knots.*, nth,
               logs[b] + (logs[b + 1] - logs[b])
               * (least(greatest(u, heights[1]), heights[array_length(heights, 1)]) - heights[b])
               / (heights[b + 1] - heights[b]) AS log_e
        FROM knots JOIN bank USING (m)
    ), best AS (  -- queries without a match whose best result looks as good
        SELECT (count(*) + 0.5) / {n_chances} AS chance
        FROM unnest({surprises}) AS known (surprise)
        WHERE surprise >= (SELECT max(above - log_e) FROM judged WHERE place = 1)
    ), wrong AS (
        SELECT judged.*, exp(log_e) AS of_its_list, greatest(exp(log_e), {least_held}) AS held,
               (SELECT count(DISTINCT m) FROM judged) AS n_lists
        FROM judged
    ), odds AS (  -- where a list has its match, what follows is less likely to be another
        SELECT wrong.*, held * (1 + {even} * coalesce(sum(1 / held) OVER (
                   PARTITION BY m ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
               ), 0)) AS against
        FROM wrong
    ), one_list AS (
        SELECT i, m, s, n_lists * of_its_list AS e,
               row_number() OVER (ORDER BY against, nth, place) AS nr
        FROM odds
    )
    SELECT i AS id, m AS modality, s AS score, e AS expected_wrong FROM one_list, best
    WHERE nr <= k AND (at_most IS NULL
        OR ((e <= at_most OR nr = 1) AND chance <= 1 - exp(-at_most)))
    ORDER BY nr"""

_QUERY = """\
    IF at_most < {least} THEN
        RAISE EXCEPTION 'at_most must be at least {least:.2g} with a bank of {n_queries} queries';
    END IF;
    RETURN QUERY
    WITH found (i, m, s, given) AS MATERIALIZED (
{union}
    ), {merged};"""


def judged_query(background: Background, searches: Iterable[str]) -> str:
    """What a search function returns; ``searches`` give id, modality and score of each list."""
    return _QUERY.format(
        least=background.least * len(background.lists),
        n_queries=background.n_queries,
        union="\n    UNION ALL\n".join(searches),
        merged=merged_by_expected_wrong(background),
    )


def merged_by_expected_wrong(background: Background, dialect: Dialect = "postgresql") -> str:
    """Common tables and a SELECT that merge the hits of ``found (i, m, s, given)`` by E.

    It names ``k`` and ``at_most``, which may be NULL.
    """
    lists = []
    for nth, (name, one) in enumerate(background.lists.items()):
        means, weights = one.signal_scale
        numbers = (one.places, one.slope, *means, *weights)
        arrays = (array_of_sql(values, dialect) for values in one.curve)
        cells = ", ".join((quoted_text(name), str(nth), *map(_double, numbers), *arrays))
        lists.append(f"        ({cells})")
    surprises = background.surprises(tuple(background.lists))
    return _MERGED.format(
        lists=",\n".join(lists),
        least_places=LEAST_PLACES,
        first=FIRST,
        flattest=FLATTEST,
        even=_double(EVEN),
        least_held=_double(LEAST_HELD),
        at_most_u=_AT_MOST_U[dialect],
        n_chances=len(surprises) + 1,
        surprises=array_of_sql(surprises[np.isfinite(surprises)], dialect),
    )


def _double(value: float) -> str:
    """A number that no dialect takes for one of fixed decimals."""
    return f"{float(value)!r}::double precision"


def array_of_sql(values: np.ndarray, dialect: Dialect) -> str:
    """Numbers as an array."""
    return _ARRAYS[dialect].format(",".join(map(repr, values.tolist())))
