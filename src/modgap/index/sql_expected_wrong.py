"""Expected wrong results in SQL: the function that searches each modality and merges them by E.

What it computes stands in `modgap.corrections.list_background`; the numbers of the bank that it
needs are written into it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from modgap.corrections import Background
from modgap.corrections.list_background import (
    EVEN,
    FIRST,
    FLATTEST,
    LEAST_HELD,
    LEAST_PLACES,
    LEVEL_SHARE,
)
from modgap.index.postgres_names import quoted_text

_BODY = """
#variable_conflict use_variable
DECLARE mapped vector := {mapped};
BEGIN
    IF at_most < {least} THEN
        RAISE EXCEPTION 'at_most must be at least {least:.2g} with a bank of {n_queries} queries';
    END IF;
    PERFORM set_config('hnsw.ef_search', least(greatest({width}, k), 1000)::text, true);
    RETURN QUERY
    WITH found (i, m, s) AS MATERIALIZED (
{union}
    ), bank (m, r, usual, best_mean, best_spread, heights, logs) AS (VALUES
{lists}
    ), ranked AS (
        SELECT found.*, row_number() OVER best_first AS place,
               count(*) OVER (PARTITION BY found.m) AS n
        FROM found WINDOW best_first AS (PARTITION BY found.m ORDER BY found.s DESC)
    ), placed AS (  -- the level of a query is its score at this place
        SELECT ranked.*,
               CASE WHEN n >= r THEN r ELSE greatest(least({least_places}, n), n / 2) END AS last
        FROM ranked JOIN bank USING (m)
    ), levels AS (
        SELECT m, min(s) AS lowest, (avg(s) FILTER (WHERE place >= {first}) - min(s))
               / avg(ln(last / (place - 0.5))) FILTER (WHERE place >= {first}) AS slope
        FROM placed WHERE place <= last GROUP BY m
    ), high AS (  -- heights above it, comparable between queries and modalities
        SELECT placed.i, placed.m, placed.s, placed.place, (s - lowest)
               / sqrt(greatest(coalesce(slope, usual), {flattest} * usual) * usual) AS u
        FROM placed JOIN levels USING (m) JOIN bank USING (m)
    ), between AS (  -- between which of the bank's heights
        SELECT high.*, least(greatest(width_bucket(u, heights), 1), cardinality(heights) - 1) AS b
        FROM high JOIN bank USING (m)
    ), judged AS (  -- how many documents a query of the bank has so high
        SELECT between.*, (s - best_mean) / best_spread AS above, logs[b] + (logs[b + 1] - logs[b])
               * (least(greatest(u, heights[1]), heights[cardinality(heights)]) - heights[b])
               / (heights[b + 1] - heights[b]) AS log_e
        FROM between JOIN bank USING (m)
    ), first AS MATERIALIZED (  -- queries without a match whose best result looks as good
        SELECT (count(*) + 0.5) / {n_chances} AS chance
        FROM unnest({surprises}) AS known (surprise)
        WHERE surprise >= (SELECT max({level_share} * above - log_e) FROM judged WHERE place = 1)
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
        SELECT i, m, s, n_lists * of_its_list AS e, row_number() OVER (ORDER BY against) AS rank
        FROM odds
    )
    SELECT one_list.i, one_list.m, one_list.s, one_list.e FROM one_list, first
    WHERE at_most IS NULL
        OR ((e <= at_most OR rank = 1) AND chance <= 1 - exp(-at_most))
    ORDER BY rank LIMIT k;
END """


def judged_body(background: Background, mapped: str, width: int, searches: Iterable[str]) -> str:
    """The body of the search function; ``searches`` give id, modality and score of each list."""
    lists = []
    for name, one in background.lists.items():
        # Where all best scores are equal they say nothing.
        spread = f"'{float(np.std(one.best)) or 'Infinity'}'::double precision"
        numbers = (str(one.places), repr(one.slope), repr(float(np.mean(one.best))), spread)
        cells = ", ".join((quoted_text(name), *numbers, *map(_array, one.curve)))
        lists.append(f"        ({cells})")
    surprises = background.surprises(tuple(background.lists))
    return _BODY.format(
        mapped=mapped,
        width=width,
        least=background.least * len(lists),
        n_queries=background.n_queries,
        union="\n    UNION ALL\n".join(searches),
        lists=",\n".join(lists),
        least_places=LEAST_PLACES,
        first=FIRST,
        flattest=FLATTEST,
        even=EVEN,
        level_share=LEVEL_SHARE,
        least_held=LEAST_HELD,
        n_chances=len(surprises) + 1,
        surprises=_array(surprises[np.isfinite(surprises)]),
    )


def _array(values: np.ndarray) -> str:
    return "'{" + ",".join(map(repr, values.tolist())) + "}'::double precision[]"
