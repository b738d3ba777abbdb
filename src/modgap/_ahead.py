"""Work that is done ahead of whoever takes it, in threads, in order, and never far ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Scratch of all threads together: what is streamed stays within 500 MB on any number of cores.
_THREAD_BYTES = 200 * 10**6


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


def in_threads(work: Callable[[T], R], blocks: Iterable[T], workers: int) -> Iterator[R]:
    """``work`` on each block of rows, in order, in threads that have a core each.

    NumPy lets other threads run while it computes; BLAS would take every core for each of them, so
    it is kept to one. A single block, or a single worker, has all of BLAS instead.

    >>> list(in_threads(len, ["a", "bc", "def"], workers=2))
    [1, 2, 3]
    """
    left = iter(blocks)
    first = list(islice(left, 2)) if workers > 1 else []
    if len(first) < 2:
        yield from map(work, chain(first, left))
        return
    with _one_core_each():
        yield from ahead(work, chain(first, left), workers)


def _one_core_each() -> AbstractContextManager[object]:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def workers_for(block_bytes: int) -> int:
    """How many threads may work at once, so that what they hold takes no more than 200 MB."""
    return max(1, min(processors(), _THREAD_BYTES // max(1, block_bytes)))


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
