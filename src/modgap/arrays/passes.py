"""Progress of passes over many rows: kernels report it, a listener receives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Called with the share of a pass that a block was.
Listener = Callable[[float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, kernels that are quadratic in the rows call ``listener`` as they go."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def passed(share: float) -> None:
    """Report that this share of a pass is done."""
    listener = _listener.get()
    if listener is not None:
        listener(share)
