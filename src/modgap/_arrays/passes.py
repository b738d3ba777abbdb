"""Who is told how far a pass over many rows has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Called with the share of a pass that a block was.
Listener = Callable[[float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` after each block of what is quadratic in the rows, in here."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def passed(share: float) -> None:
    """Say that this share of a pass is done."""
    listener = _listener.get()
    if listener is not None:
        listener(share)
