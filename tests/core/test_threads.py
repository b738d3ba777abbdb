"""Work in threads: in order, bounded, on the cores there are, gone with whoever asked for it."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from modgap.core.stopping import Stopped, stop_here, stoppable
from modgap.core.threads import (
    ahead,
    at_most_processors,
    in_threads,
    meanwhile,
    processors,
    read_ahead,
    single_threaded_blas,
    workers_for,
)
from modgap.diagnosis import diagnose


def test_work_ahead_is_in_order_bounded_and_passes_errors_on():
    started = []

    def work(item):
        started.append(item)
        if item == 7:
            raise ValueError("seven")
        return item

    found = ahead(work, range(100), workers=2)
    assert [next(found) for _ in range(7)] == [*range(7)]
    assert max(started) <= 6 + 2 + 1
    with pytest.raises(ValueError, match="seven"):
        next(found)


def test_work_in_turns_rests_while_its_results_are_taken():
    started = []

    def work(item):
        started.append(item)
        return item

    found = ahead(work, range(7), workers=3, in_turns=True)
    assert [next(found) for _ in range(4)] == [0, 1, 2, 3]
    assert sorted(started) == [*range(6)]
    assert [*found] == [4, 5, 6]


@pytest.mark.parametrize(("waiting", "drawn"), [(None, 3), (6, 7)])
def test_items_are_drawn_by_the_caller_and_no_further_than_may_wait(waiting, drawn):
    by = []

    def items():
        for item in range(100):
            by.append(threading.current_thread().name)
            yield item

    found = ahead(abs, items(), workers=2, waiting=waiting)
    assert next(found) == 0
    assert by == [threading.current_thread().name] * drawn


def no_thread_is_left():
    return not any(one.name.startswith("ahead") for one in threading.enumerate())


def test_the_next_stream_is_read_while_the_first_is_worked_on():
    begun = threading.Event()

    def second():
        begun.set()
        yield "b"

    items = read_ahead([lambda: iter("a"), second], 2)
    assert next(items) == "a"
    assert begun.wait(30)  # though nobody has asked for it
    assert list(items) == ["b"]


@pytest.mark.parametrize("workers", [1, 3])
def test_streams_are_read_no_further_than_one_item_each(workers):
    made, taken = [0], 0

    def items():
        for item in range(5):
            made[0] += 1
            yield item

    for item in read_ahead([items] * 8, workers):
        assert item == taken % 5
        taken += 1
        assert made[0] - taken <= workers
    assert (made[0], taken) == (40, 40)
    assert no_thread_is_left()


def test_an_error_of_a_stream_comes_where_its_item_would_and_no_thread_stays():
    def broken():
        yield 2
        raise ValueError("part 2 is damaged")

    items = read_ahead([lambda: iter([1]), broken] * 3, 3)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="part 2"):
        next(items)
    items = read_ahead([lambda: iter(range(9))] * 9, 3)
    next(items)
    items.close()
    assert no_thread_is_left()


def test_what_runs_in_threads_comes_back_in_order_and_ends_with_its_caller():
    for workers in (None, 1, 3):
        assert list(in_threads(lambda x: x**2, range(50), workers)) == [x**2 for x in range(50)]
    started = []
    before = threading.active_count()
    for found in in_threads(started.append, range(1000)):
        assert found is None
        break
    assert len(started) < 100
    assert threading.active_count() <= before
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda x: 1 / x, [1, 2, 0, 3]))


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture
def two_threads_of_blas():
    """As on a machine with several cores, and nobody holds that limit: its thread is gone."""
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    in_thread(lambda: threadpool_limits(2, user_api="blas"))
    yield blas_threads()
    in_thread(lambda: threadpool_limits(max(before), user_api="blas"))


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_blas_has_one_thread_until_the_last_of_several_is_done(two_threads_of_blas):
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # not the one that came last
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == two_threads_of_blas
    found = in_threads(lambda _: blas_threads(), range(4), workers=2)
    assert [*found] == [{1}] * 4
    assert blas_threads() == two_threads_of_blas


def test_blas_gets_its_threads_back_whichever_thread_was_last(two_threads_of_blas):
    for _ in range(2):
        begun, other = single_threaded_blas(), single_threaded_blas()
        begun.__enter__()
        with meanwhile(other.__enter__) as entered:
            entered()
            begun.__exit__(None, None, None)
            assert blas_threads() == {1}
        with meanwhile(lambda: other.__exit__(None, None, None)) as left:  # noqa: B023
            left()
            assert blas_threads() == two_threads_of_blas


def test_a_diagnosis_leaves_blas_its_threads(two_threads_of_blas, rng):
    X = rng.normal(size=(400, 8))
    diagnose(X + 1, X + 0.1 * rng.normal(size=X.shape))
    assert blas_threads() == two_threads_of_blas


def test_processors_are_those_that_a_process_was_given(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
    assert processors() == 3
    with at_most_processors(2):
        assert processors() == workers_for(1) == 2
        with at_most_processors(0):
            assert processors() == 1
        assert processors() == 2
    assert workers_for(1) == 3
    assert workers_for(150 * 10**6) == 1


def test_whole_jobs_can_be_stopped_and_start_no_threads_of_their_own():
    stops = iter([False] * 3)
    inner = set()

    def job(number):
        stop_here()
        inner.update(in_threads(lambda _: threading.get_ident(), range(3), 3))
        return number

    with stoppable(lambda: next(stops, True)), pytest.raises(Stopped):
        list(in_threads(job, range(50), 2, whole_jobs=True))
    assert len(inner) <= 2
    assert threading.get_ident() not in inner
