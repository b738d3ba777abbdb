"""Tensors that the processor makes while the card works on those before."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

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

    def ready(future: Future[tuple[Array, Any]]) -> Array:
        made, event = future.result()
        here.wait_event(event)
        made.record_stream(here)
        return made

    # One core is left to the thread that keeps the card busy.
    workers = max(1, min(count, (os.cpu_count() or 1) - 1))
    waiting: deque[Future[tuple[Array, Any]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for number in range(count):
                waiting.append(pool.submit(task, number))
                if len(waiting) > 2 * workers:
                    yield ready(waiting.popleft())
            while waiting:
                yield ready(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()
