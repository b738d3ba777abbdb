"""Printing: tables and JSON on stdout, lines for the user on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from modgap.core.results import document, to_json

# Without a terminal to fit, tables get the width they need.
_PLAIN_WIDTH = 110
_LABEL_WIDTH = 25
_to_terminal = sys.stdout is not None and sys.stdout.isatty()  # None where stdout is closed
out = Console(highlight=False, width=None if _to_terminal else _PLAIN_WIDTH)
err = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line on stderr as it is: a path may hold square brackets, and is copied in one piece."""
    err.print(text, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """JSON on stdout, untouched by colours and line breaks."""
    print(to_json(value))


def print_result(kind: str, result: Any, as_json: bool, **more: Any) -> None:
    """A result as JSON, with ``more`` beside it, or as its table."""
    if as_json:
        print_json(document(kind, result, **more))
    else:
        print_table(*result.table())


def print_meanings(terms: Iterable[str], names: Sequence[str]) -> None:
    """What the lines of a table mean, each term once."""
    from modgap.reports.terms import terms as known

    meanings = known(names)
    for term in dict.fromkeys(terms):
        found = meanings[term]
        source = f" [dim]({escape(found['source'])})[/dim]" if found["source"] else ""
        out.print(f"\n[bold]{escape(found['label'])}.[/bold] {escape(found['definition'])}{source}")


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    marked: int | None = None,
    stack_heads: bool = False,
) -> None:
    """A table; the marked row stands out. ``stack_heads`` puts each word of a head on a line."""
    table = Table(
        box=None, pad_edge=False, collapse_padding=True, header_style="bold", padding=(0, 1)
    )
    for place, head in enumerate(header):
        left = place == 0
        table.add_column(
            escape(head.replace(" ", "\n") if stack_heads else head),
            justify="left" if left else "right",
            vertical="bottom",
            min_width=_LABEL_WIDTH if left else None,
        )
    for number, row in enumerate(rows):
        style = "bold green" if number == marked else None
        table.add_row(*(escape(cell) for cell in row), style=style)
    out.print(table)
