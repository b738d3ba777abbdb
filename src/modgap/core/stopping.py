"""Work that may be stopped while it runs: every block of rows is a place to stop at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("stop", default=None)


class Stopped(BaseException):
    """Raised inside work that is to stop; no `except Exception` on the way may swallow it."""


@contextmanager
def stoppable(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """While it lasts, work of this thread stops at its next block once ``is_wanted`` says so.

    >>> with stoppable(lambda: False):
    ...     stop_here()
    """
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def stop_here() -> None:
    """End the work here if someone wants it stopped. Cheap, so that every block can ask."""
    is_wanted = _is_wanted.get()
    if is_wanted is not None and is_wanted():
        raise Stopped
