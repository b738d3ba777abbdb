"""Blocks of NumPy work spread over the cores, each with a BLAS of one thread, results in order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Found = TypeVar("Found")

_lock = threading.Lock()
_users = 0
_limits: Any = None


def n_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """One BLAS thread a call while it lasts; of several at once the last one restores."""
    global _users, _limits
    with _lock:
        _users += 1
        if _users == 1:
            _limits = threadpool_limits(1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()


def in_threads(
    task: Callable[[Item], Found], items: Iterable[Item], *, one_thread: bool = False
) -> Iterator[Found]:
    """``map`` in threads, with few results waiting at a time. Items are drawn by the caller.

    What is left is dropped when the caller stops early.

    >>> list(in_threads(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    items, workers = iter(items), n_cores()
    first = list(islice(items, 2))
    items = chain(first, items)
    if one_thread or workers == 1 or len(first) < 2:
        yield from map(task, items)
        return
    waiting: deque[Future[Found]] = deque()
    with single_threaded_blas(), ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(task, item))
                if len(waiting) > workers + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()
