"""Background work: order, progress, failure, cancelling, and bounds."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from modgap.arrays import row_blocks
from modgap.core.checks import InputValueError
from modgap.serve import Jobs, QueueFull


class Held:
    """Work that waits to be let go, and counts its steps."""

    def __init__(self) -> None:
        self.started, self.go = threading.Event(), threading.Event()

    def __call__(self, progress: Any) -> str:
        progress("first", 0, 2)
        self.started.set()
        assert self.go.wait(30)
        progress("second", 1, 2)
        return "made"


def test_work_goes_through_its_states_in_order_and_one_at_a_time():
    jobs, first, second = Jobs(), Held(), Held()
    a, b = jobs.submit("a", first), jobs.submit("b", second)
    assert first.started.wait(30)
    now = jobs.get(a.id)
    assert now is not None
    assert (now.state, now.step, now.done, now.total) == ("running", "first", 0, 2)
    assert not second.started.is_set()
    assert jobs.get(b.id).state == "queued"
    first.go.set()
    second.go.set()
    ended = [jobs.wait(job.id, 30) for job in (a, b)]
    assert [(e.state, e.result, e.step) for e in ended if e] == [("done", "made", "second")] * 2


@pytest.mark.parametrize(
    ("error", "said", "refused"),
    [
        (InputValueError("The rows do not vary."), "The rows do not vary.", True),
        (RuntimeError("broken\nin two"), "It failed unexpectedly: RuntimeError: broken", False),
        (KeyError(), "It failed unexpectedly: KeyError.", False),
        (MemoryError(), "not enough memory", True),
        (SystemExit(3), "It failed unexpectedly: SystemExit: 3", False),
    ],
)
def test_a_failed_job_says_why_and_the_next_one_runs(error, said, refused):
    def fails(_: Any) -> None:
        raise error

    jobs = Jobs()
    failed = jobs.wait(jobs.submit("fails", fails).id, 30)
    assert failed is not None
    assert failed.state == "failed"
    assert said in (failed.error or "")
    assert "\n" not in (failed.error or "")
    assert failed.refused == refused
    after = jobs.wait(jobs.submit("works", lambda _: 7).id, 30)
    assert after is not None
    assert (after.state, after.result) == ("done", 7)


def test_a_job_ends_at_once_when_cancelled_whether_it_runs_or_waits():
    jobs, held, kept = Jobs(), Held(), []
    running, waiting = jobs.submit("runs", held, kept.append), jobs.submit("waits", lambda _: 1)
    assert held.started.wait(30)
    for job in (waiting, running):
        assert jobs.cancel(job.id).state == "cancelled"
    after = jobs.submit("waits for the thread alone", lambda _: 2)
    held.go.set()
    assert jobs.wait(after.id, 30).result == 2
    ended = jobs.get(running.id)
    assert ended is not None
    assert (ended.state, ended.step, ended.result, kept) == ("cancelled", "first", None, [])


def test_work_stops_inside_a_step_at_its_next_block_of_rows():
    begun, stopped = threading.Event(), threading.Event()

    def endless(_: Any) -> None:
        try:
            for _ in row_blocks(10**15, 1):
                begun.set()
        finally:
            stopped.set()

    jobs = Jobs()
    job = jobs.submit("has no steps", endless)
    assert begun.wait(30)
    jobs.cancel(job.id)
    assert stopped.wait(30)
    assert jobs.wait(jobs.submit("works", lambda _: 3).id, 30).result == 3


def test_what_is_made_after_a_job_was_cancelled_is_not_kept():
    begun, go, kept = threading.Event(), threading.Event(), []
    jobs = Jobs()

    def deaf(_: Any) -> str:
        begun.set()
        assert go.wait(30)
        return "made"

    job = jobs.submit("one long call", deaf, kept.append)
    assert begun.wait(30)
    jobs.cancel(job.id)
    assert jobs.cancel(job.id) is not None  # forgotten while its work still runs
    go.set()
    assert jobs.wait(jobs.submit("works", lambda _: 4).id, 30).result == 4
    assert (kept, jobs.get(job.id)) == ([], None)


def test_a_result_is_what_is_kept_of_the_work():
    jobs = Jobs()
    job = jobs.submit("works", lambda _: 4, lambda made: 2 * made)
    assert jobs.wait(job.id, 30).result == 8


def test_a_job_that_ended_is_forgotten_when_cancelled():
    jobs = Jobs()
    job = jobs.submit("works", lambda _: 1)
    jobs.wait(job.id, 30)
    assert jobs.cancel(job.id).state == "done"
    assert jobs.get(job.id) is None
    assert jobs.cancel(job.id) is None


def test_only_so_many_may_wait():
    jobs, held = Jobs(waiting=2), Held()
    jobs.submit("runs", held)
    assert held.started.wait(30)
    waiting = [jobs.submit("waits", lambda _: 1) for _ in range(2)]
    with pytest.raises(QueueFull, match="2 jobs are waiting, the most allowed"):
        jobs.submit("too many", lambda _: 1)
    jobs.cancel(waiting[0].id)
    last = jobs.submit("fits again", lambda _: 2)
    held.go.set()
    assert jobs.wait(last.id, 30).result == 2


def test_only_the_last_results_are_kept_in_the_order_they_ended():
    jobs, held = Jobs(waiting=8, kept=3), Held()
    first = jobs.submit("first to start, last to end", held)
    assert held.started.wait(30)
    others = [jobs.submit("waits", lambda _: 1) for _ in range(4)]
    for other in others:
        jobs.cancel(other.id)
    held.go.set()
    assert jobs.wait(first.id, 30).state == "done"
    assert [jobs.get(other.id) is None for other in others] == [True, True, False, False]


def test_closing_drops_what_waits_stops_what_runs_and_takes_no_more():
    jobs, held = Jobs(), Held()
    running, waiting = jobs.submit("runs", held), jobs.submit("waits", lambda _: 1)
    assert held.started.wait(30)
    jobs.close()
    held.go.set()
    for job in (running, waiting):
        assert jobs.wait(job.id, 30).state == "cancelled"
    with pytest.raises(QueueFull, match="stopping"):
        jobs.submit("late", lambda _: 1)
