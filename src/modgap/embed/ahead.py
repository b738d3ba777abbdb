"""Work that is done ahead of whoever takes it, in threads, in order, and never far ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ahead(work: Callable[[T], R], items: Iterable[T], workers: int | None = None) -> Iterator[R]:
    """``work`` on each item, in the order of the items; errors come where their item would.

    At most ``workers`` + 1 results wait at a time, so memory stays the same over any number of
    items. By default there are as many workers as processors.

    >>> list(ahead(lambda x: x * x, range(4), workers=2))
    [0, 1, 4, 9]
    """
    workers = workers or processors()
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
