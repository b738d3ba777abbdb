"""Work that is done ahead of whoever takes it, in threads, in order, and never far ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ahead(
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int | None = None,
    *,
    in_turns: bool = False,
) -> Iterator[R]:
    """``work`` on each item, in the order of the items; errors come where their item would.

    At most ``workers`` + 1 results wait at a time, so memory stays the same over any number of
    items. By default there are as many workers as processors. ``in_turns`` is for who needs the
    processors too: the workers then rest while the results they made are taken.

    >>> list(ahead(lambda x: x * x, range(4), workers=2))
    [0, 1, 4, 9]
    """
    workers = workers or processors()
    if in_turns:
        yield from _in_turns(work, items, workers)
        return
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


def _in_turns(work: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    left = iter(items)
    with ThreadPoolExecutor(workers, thread_name_prefix="ahead") as pool:
        while some := list(islice(left, workers)):
            futures = [pool.submit(work, item) for item in some]
            wait(futures)
            for future in futures:
                yield future.result()


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
