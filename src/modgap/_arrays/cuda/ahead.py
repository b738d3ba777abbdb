"""Tensors that the processor makes while the card works on those before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from modgap._ahead import ahead, processors
from modgap._validate import Array


def made_ahead(make: Callable[[int], Array], count: int, like: Array) -> Iterator[Array]:
    """``make(0)``, ``make(1)`` … in order, by threads that are a few ahead.

    Each thread has a stream of its own on the device of ``like``, so that what it sends there
    waits for nothing; the stream of the caller waits for what it is given.
    """
    import torch

    here = torch.cuda.current_stream(like.device)
    own = threading.local()

    def task(number: int) -> tuple[Array, Any]:
        if not hasattr(own, "stream"):
            own.stream = torch.cuda.Stream(like.device)
            own.stream.wait_stream(here)
        with torch.cuda.stream(own.stream):
            made = make(number)
            return made, own.stream.record_event()

    # One core is left to the thread that keeps the card busy, and twice as much is ready for it as
    # elsewhere, so that it never waits. Drawing noise takes longest of all.
    workers = max(1, min(count, processors() - 1))
    for made, event in ahead(task, range(count), workers, waiting=2 * workers):
        here.wait_event(event)
        made.record_stream(here)
        yield made
