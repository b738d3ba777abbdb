"""A correction in a notebook: what it does to rows, drawn, and what it demands, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modgap._drawing import draw_steps
from modgap._results import notebook_html, notebook_table
from modgap.corrections.wording import demands_by_topic, label

if TYPE_CHECKING:
    from modgap.corrections.correction import Correction


def correction_html(correction: Correction) -> str:
    """The drawing and the table; names are text, never markup."""
    known = {f"{name} documents": correction.map(name) for name in correction.names}
    if correction.roles_differ:
        known |= {f"{name} queries": correction.map(name, "query") for name in correction.queries}
    lanes = [
        (rows, (f"{one.dim_in} columns", *one.steps(), f"{correction.dim_out} columns"))
        for rows, one in known.items()
    ]
    fitted = ", ".join(f"{rows.n:,} {name} rows" for name, rows in correction.fitted.items())
    demanded = [*demands_by_topic(correction).items(), *([("fitted on", fitted)] if fitted else [])]
    served = " and ".join(correction.queries)
    return notebook_html(
        draw_steps(f"{label(correction)}: what is done to rows", lanes),
        notebook_table(("", ""), demanded, f"Serves {served} queries", words=True),
    )
