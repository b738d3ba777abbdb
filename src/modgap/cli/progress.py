"""Progress on stderr: a bar in a terminal, and lines in a log where work takes long."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

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

from modgap.cli.show import err, say
from modgap.core.results import Progress

# Seconds between two lines about long work.
_TELL_EVERY = 30


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
