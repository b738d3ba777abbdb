"""Work in threads, in order: ahead of whoever takes it and never far ahead, or on every core."""

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

    Items are drawn in the caller's thread. At most ``waiting`` + 1 results are made and not taken,
    ``workers`` + 1 where it is left out, so memory stays the same over any number of items. By
    default there are as many workers as processors. ``in_turns`` is for who needs the processors
    too: the workers then rest while the results they made are taken.

    >>> list(ahead(lambda x: x * x, range(4), workers=2))
    [0, 1, 4, 9]
    """
    workers = workers or processors()
    if in_turns:
        yield from _in_turns(work, items, workers)
        return
    most = waiting or workers
    made: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        for item in items:
            made.append(pool.submit(work, item))
            if len(made) > most:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
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


def in_threads(
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int | None = None,
    *,
    whole_jobs: bool = False,
) -> Iterator[R]:
    """`ahead` for NumPy: each thread has a core, and a BLAS of one thread.

    NumPy lets other threads run while it computes; BLAS would take every core for each of them, so
    it is kept to one. A single item, or a single worker, has all of BLAS instead. ``whole_jobs``
    says that each item is a job of many steps: it can be stopped as in the caller's thread, knows
    which rows were checked, and starts no threads of its own.

    >>> list(in_threads(len, ["a", "bc", "def"], workers=2))
    [1, 2, 3]
    """
    workers = 1 if _in_job.get() else workers or processors()
    left = iter(items)
    first = list(islice(left, 2)) if workers > 1 else []
    if len(first) < 2:
        yield from map(work, chain(first, left))
        return
    every = chain(first, left)
    with single_threaded_blas():
        if whole_jobs:
            yield from ahead(_run, (_job(work, item) for item in every), workers)
        else:
            yield from ahead(work, every, workers)


@contextmanager
def meanwhile(work: Callable[[], R]) -> Iterator[Callable[[], R]]:
    """Work in a thread of its own, while the block goes on; what is given waits for its result.

    It knows what the caller's thread knows, and can be stopped with it.

    >>> with meanwhile(lambda: 6 * 7) as answer:
    ...     answer()
    42
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="meanwhile")
    try:
        yield pool.submit(copy_context().run, work).result
    finally:
        pool.shutdown()


def _job(work: Callable[[T], R], item: T) -> Callable[[], R]:
    """The work on an item with what the caller's thread knows."""
    context = copy_context()
    context.run(_in_job.set, True)
    return partial(context.run, work, item)


def _run(job: Callable[[], R]) -> R:
    return job()


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
