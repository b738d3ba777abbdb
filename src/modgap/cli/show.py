"""Printing: tables and JSON on stdout, progress on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as ProgressBar
from rich.table import Table

from modgap.core.results import Progress, document, to_json

# Without a terminal to fit, tables get the width they need.
_PLAIN_WIDTH = 110
_LABEL_WIDTH = 25
# Seconds between two lines about long work.
_TELL_EVERY = 30
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


@contextmanager
def steps(*, rate: bool = False) -> Iterator[Progress]:
    """A progress bar for work in named steps; silent when stderr is no terminal.

    ``rate`` is for long work whose steps are items: it adds how many are done a second and how
    long the rest will take, and tells so every half minute where there is no terminal.
    """
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    columns.append(MofNCompleteColumn())
    if rate:
        if not err.is_terminal:
            yield _Told()
            return
        columns += [_RateColumn(), TimeRemainingColumn()]
    with ProgressBar(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def step(name: str, done: int, total: int) -> None:
            bar.update(task, description=escape(name), completed=done, total=total or None)

        yield step


class _RateColumn(ProgressColumn):
    """How many items are done a second."""

    def render(self, task: Task) -> str:
        return "" if task.speed is None else f"{task.speed:,.0f}/s"


class _Told:
    """Progress as lines, for a log."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._first: int | None = None

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = done
        if now - self._said < _TELL_EVERY or done == self._first:
            return
        self._said = now
        speed = (done - self._first) / (now - self._began)
        left = (total - done) / speed
        say(f"modgap: {name}, {done:,} of {total:,}, {speed:,.0f}/s, about {_duration(left)} left")


def _duration(seconds: float) -> str:
    """A time as people say it.

    >>> _duration(95), _duration(7300)
    ('2 min', '2 h 2 min')
    """
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
