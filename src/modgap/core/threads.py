"""Run work in threads; results come in order and memory stays bounded.

How it works:

1. The caller's thread draws items and gives them to a pool. It draws the next item only when the
   oldest result has been taken, so few results wait (`ahead`).
2. Streams are read in the same way, each of them one item ahead (`read_ahead`).
3. NumPy's own threads would compete with these: BLAS is limited to one thread while they run, for
   the whole process, and the last user restores it (`in_threads`, `single_threaded_blas`).
4. A job of many steps carries a mark in its context. Work that it runs in threads finds the mark
   and stays in the job's own thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Scratch of all threads together: what is streamed stays within 500 MB on any number of cores.
_THREAD_BYTES = 200 * 10**6

_lock = threading.Lock()
_users = 0
_limit: _BlasLimit | None = None
_most_processors: int | None = None
# Whether this thread is one of several that do whole jobs.
_in_job: ContextVar[bool] = ContextVar("in_job", default=False)


def ahead(
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int | None = None,
    *,
    waiting: int | None = None,
    in_turns: bool = False,
) -> Iterator[R]:
    """``work`` on each item, in the order of the items; errors come where their item would.

    The caller's thread draws the items. At most ``waiting`` + 1 results exist that were not taken,
    ``workers`` + 1 by default, so memory does not grow with the items. By default there are as
    many workers as processors. With ``in_turns`` the workers rest while their results are taken,
    for callers that need all processors themselves.

    >>> list(ahead(lambda x: x * x, range(4), workers=2))
    [0, 1, 4, 9]
    """
    workers = workers or processors()
    most = waiting or workers
    made: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    left = iter(items)
    try:
        while in_turns and (some := list(islice(left, workers))):
            futures = [pool.submit(work, item) for item in some]
            wait(futures)
            for future in futures:
                yield future.result()
        for item in left:
            made.append(pool.submit(work, item))
            if len(made) > most:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def read_ahead(streams: Iterable[Callable[[], Iterator[R]]], workers: int) -> Iterator[R]:
    """The items of all streams, in order; ``workers`` streams are read at once.

    Each of these streams is one item ahead of the caller, so at most ``workers`` items wait.

    >>> list(read_ahead([lambda: iter("ab"), lambda: iter("c")], workers=2))
    ['a', 'b', 'c']
    """
    left = iter(streams)
    reading: deque[tuple[Iterator[R], Future[R | None]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        while True:
            for stream in islice(left, workers - len(reading)):
                items = stream()
                reading.append((items, pool.submit(next, items, None)))
            if not reading:
                return
            items, future = reading.popleft()
            item = future.result()
            if item is not None:
                reading.appendleft((items, pool.submit(next, items, None)))
                yield item
            del item
    finally:
        pool.shutdown(cancel_futures=True)


def in_threads(
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int | None = None,
    *,
    whole_jobs: bool = False,
) -> Iterator[R]:
    """`ahead` for NumPy: each thread has a core, and a BLAS of one thread.

    NumPy releases the lock of Python while it computes; BLAS would take every core for each thread,
    so it is limited to one. A single item, or a single worker, has all of BLAS instead. With
    ``whole_jobs`` each item is a job of many steps: it has the context of the caller's thread, so
    it can be stopped with it, and starts no threads of its own.

    >>> list(in_threads(len, ["a", "bc", "def"], workers=2))
    [1, 2, 3]
    """
    workers = 1 if _in_job.get() else workers or processors()
    left = iter(items)
    first = list(islice(left, 2)) if workers > 1 else []
    if len(first) < 2:
        yield from map(work, chain(first, left))
        return
    jobs = (_job(work, item) if whole_jobs else partial(work, item) for item in chain(first, left))
    with single_threaded_blas():
        yield from ahead(lambda job: job(), jobs, workers)


@contextmanager
def meanwhile(work: Callable[[], R]) -> Iterator[Callable[[], R]]:
    """Run work in a thread of its own while the block runs; yields what waits for its result.

    It has the context of the caller's thread, so it can be stopped with it.

    >>> with meanwhile(lambda: 6 * 7) as answer:
    ...     answer()
    42
    """
    with ThreadPoolExecutor(1, thread_name_prefix="meanwhile") as pool:
        yield pool.submit(copy_context().run, work).result


def _job(work: Callable[[T], R], item: T) -> Callable[[], R]:
    context = copy_context()
    context.run(_in_job.set, True)
    return partial(context.run, work, item)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """One BLAS thread a call while it lasts; of several at once the last one restores."""
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _BlasLimit()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limit is not None:
                _limit.end()


class _BlasLimit:
    """BLAS has one thread until this is ended, whichever thread does so.

    threadpoolctl leaves a limit to the thread that set it, and passes over what others ask for. So
    a thread of its own sets this one and takes it back; who limited BLAS before keeps that limit.
    """

    def __init__(self) -> None:
        self._begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="one BLAS thread", daemon=True)
        self._thread.start()
        self._begun.wait()

    def _keep(self) -> None:
        try:
            with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
                self._begun.set()
                self._over.wait()
        finally:
            self._begun.set()

    def end(self) -> None:
        """Back to as many threads as before."""
        self._over.set()
        self._thread.join()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """The libraries that are loaded; looked for, which takes 3 ms, where modules have come."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def workers_for(block_bytes: int) -> int:
    """How many threads may work at once, so that what they hold takes no more than 200 MB."""
    return max(1, min(processors(), _THREAD_BYTES // max(1, block_bytes)))


def processors() -> int:
    """Processors that this process may use."""
    bound = hasattr(os, "sched_getaffinity")
    found = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
    return min(found, _most_processors or found)


@contextmanager
def at_most_processors(number: int) -> Iterator[None]:
    """Fewer of them while it lasts, in all threads: those that a cluster gave to this process."""
    global _most_processors
    before, _most_processors = _most_processors, max(1, number)
    try:
        yield
    finally:
        _most_processors = before
