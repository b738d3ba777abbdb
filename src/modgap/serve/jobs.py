"""Work in the background: one thread, a bounded queue, progress, and results for a while."""

from __future__ import annotations

import logging
import secrets
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from modgap.core.checks import InputError
from modgap.core.results import Progress
from modgap.core.stopping import Stopped, stop_here, stoppable

_Work = Callable[[Progress], Any]
_Keep = Callable[[Any], Any]
JobState = Literal["queued", "running", "done", "failed", "cancelled"]

_log = logging.getLogger(__name__)


class QueueFull(Exception):
    """The queue is full."""


@dataclass(frozen=True)
class Job:
    """The state of one piece of work. A new state is a new object, so readers need no lock."""

    id: str
    title: str
    state: JobState = "queued"
    step: str | None = None
    done: int = 0
    total: int = 0
    result: Any = field(default=None, repr=False)
    error: str | None = None
    # Whether its error is a message for the user; any other is a fault of modgap.
    refused: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ("done", "failed", "cancelled")


class Jobs:
    """Runs one piece of work after the other.

    At most ``waiting`` may queue, and the last ``kept`` that ended are remembered. Work takes a
    ``progress(step, done, total)`` to call as it proceeds. A cancelled job ends at once; its work
    stops at the next call or block of rows (see `modgap.core.stopping`), and its result is
    dropped. A single call into LAPACK cannot be stopped.
    """

    def __init__(self, waiting: int = 8, kept: int = 64, name: str = "modgap jobs") -> None:
        self._waiting, self._kept, self._name = waiting, kept, name
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queue: deque[tuple[str, _Work, _Keep | None]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, title: str, work: _Work, keep: _Keep | None = None) -> Job:
        """Queue work; refused when the queue is full.

        ``keep`` turns what the work made into the job's result, unless the job was cancelled. It
        should be quick.
        """
        with self._changed:
            if self._closed:
                raise QueueFull("The server is stopping and takes no more work.")
            if len(self._queue) >= self._waiting:
                raise QueueFull(
                    f"{len(self._queue)} jobs are waiting, the most allowed. "
                    "Wait for one of them to end, or cancel it."
                )
            job = Job(secrets.token_hex(8), title)
            self._jobs[job.id] = job
            self._queue.append((job.id, work, keep))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return job

    def get(self, job: str) -> Job | None:
        """The state of a job; None if there is none, or it was forgotten long ago."""
        with self._changed:
            return self._jobs.get(job)

    def cancel(self, job: str) -> Job | None:
        """End a job at once; its work stops soon after. Forget one that had ended already."""
        with self._changed:
            found = self._jobs.get(job)
            if found is None:
                return None
            if found.ended:
                return self._jobs.pop(job)
            self._queue = deque(waiting for waiting in self._queue if waiting[0] != job)
            return self._update(job, state="cancelled")

    def wait(self, job: str, timeout: float | None = None) -> Job | None:
        """The state of a job once it has ended, or after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: job not in self._jobs or self._jobs[job].ended, timeout=timeout
            )
            return self._jobs.get(job)

    def close(self) -> None:
        """Take no more work, drop what waits, and cancel what runs."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            for job in [key for key, job in self._jobs.items() if not job.ended]:
                self._update(job, state="cancelled")
            self._changed.notify_all()

    def _update(self, job: str, **changes: Any) -> Job:
        self._jobs[job] = replace(self._jobs[job], **changes)
        if self._jobs[job].ended:
            self._jobs.move_to_end(job)
            ended = [key for key, other in self._jobs.items() if other.ended]
            for key in ended[: -self._kept]:
                del self._jobs[key]
        self._changed.notify_all()
        return self._jobs[job]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                job, work, keep = self._queue.popleft()
                self._update(job, state="running")
            self._do(job, work, keep)
            del work, keep  # nothing of it is held while the next one is waited for

    def _has_ended(self, job: str) -> bool:
        """Whether a job was cancelled while it ran; it may even be forgotten by now."""
        return job not in self._jobs or self._jobs[job].ended

    def _do(self, job: str, work: _Work, keep: _Keep | None) -> None:
        """Run the work and note how it ended; the thread survives whatever it raises."""

        def progress(step: str, done: int, total: int) -> None:
            with self._changed:
                stop_here()
                self._update(job, step=step, done=done, total=total or 0)

        failed: dict[str, Any] = {"state": "failed", "refused": True}
        try:
            with stoppable(lambda: self._has_ended(job)):
                made = work(progress)
            with self._changed:
                if not self._has_ended(job):
                    result = made if keep is None else keep(made)
                    self._update(job, state="done", result=result)
            return
        except Stopped:
            return
        except InputError as error:
            failed["error"] = str(error)
        except MemoryError:
            failed["error"] = "There was not enough memory for it. Serve fewer rows with --rows."
        except BaseException as error:
            _log.exception("a job failed")
            what = traceback.format_exception_only(error)[0].strip().partition("\n")[0]
            failed |= {
                "error": f"It failed unexpectedly: {what.rstrip('.')}.",
                "refused": False,
            }
        with self._changed:
            if not self._has_ended(job):
                self._update(job, **failed)
