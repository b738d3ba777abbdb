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

from modgap._results import Progress
from modgap._validate import InputError

JobState = Literal["queued", "running", "done", "failed", "cancelled"]

_log = logging.getLogger(__name__)


class QueueFull(Exception):
    """As much work is waiting as may wait."""


class _Cancelled(BaseException):
    """Raised inside the work at its next step; no `except Exception` on the way may swallow it."""


@dataclass(frozen=True)
class Job:
    """Where one piece of work stands. A new state is a new object, so that readers need no lock."""

    id: str
    title: str
    state: JobState = "queued"
    step: str | None = None
    done: int = 0
    total: int = 0
    result: Any = field(default=None, repr=False)
    error: str | None = None
    # Whether what failed was refused in words meant for the user; anything else is a fault of ours.
    refused: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ("done", "failed", "cancelled")


class Jobs:
    """Runs one piece of work after the other.

    At most ``waiting`` may queue, and the last ``kept`` that ended are remembered. Work takes a
    ``progress(step, done, total)`` to call as it goes, which is also where it can be cancelled.
    """

    def __init__(self, waiting: int = 8, kept: int = 64, name: str = "modgap jobs") -> None:
        self._waiting, self._kept, self._name = waiting, kept, name
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queue: deque[tuple[str, Callable[[Progress], Any]]] = deque()
        self._changed = threading.Condition()
        self._cancelled: set[str] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, title: str, work: Callable[[Progress], Any]) -> Job:
        """Queue work; refused when as much waits already as may."""
        with self._changed:
            if self._closed:
                raise QueueFull("The server is stopping and takes no more work.")
            if len(self._queue) >= self._waiting:
                raise QueueFull(
                    f"{len(self._queue)} jobs are waiting, as many as may. "
                    "Wait for one of them to end, or cancel it."
                )
            job = Job(secrets.token_hex(8), title)
            self._jobs[job.id] = job
            self._queue.append((job.id, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return job

    def get(self, job: str) -> Job | None:
        """Where a job stands; None if there is none, or it was so long ago that it is forgotten."""
        with self._changed:
            return self._jobs.get(job)

    def cancel(self, job: str) -> Job | None:
        """Stop a job: at once if it waits, at its next step if it runs. Forget one that ended."""
        with self._changed:
            found = self._jobs.get(job)
            if found is None:
                return None
            if found.ended:
                return self._jobs.pop(job)
            if found.state == "queued":
                self._queue = deque(waiting for waiting in self._queue if waiting[0] != job)
                return self._update(job, state="cancelled")
            self._cancelled.add(job)
            return found

    def wait(self, job: str, timeout: float | None = None) -> Job | None:
        """Where a job stands once it has ended, or after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: job not in self._jobs or self._jobs[job].ended, timeout=timeout
            )
            return self._jobs.get(job)

    def close(self) -> None:
        """Take no more work, drop what waits, and stop what runs at its next step."""
        with self._changed:
            self._closed = True
            for waiting, _ in self._queue:
                self._update(waiting, state="cancelled")
            self._queue.clear()
            self._cancelled.update(key for key, job in self._jobs.items() if not job.ended)
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
                job, work = self._queue.popleft()
                self._update(job, state="running")
            outcome = self._outcome(job, work)
            with self._changed:
                self._cancelled.discard(job)
                self._update(job, **outcome)

    def _outcome(self, job: str, work: Callable[[Progress], Any]) -> dict[str, Any]:
        """How the work ended; whatever it raises, the thread goes on."""

        def progress(step: str, done: int, total: int) -> None:
            with self._changed:
                if job in self._cancelled:
                    raise _Cancelled
                self._update(job, step=step, done=done, total=total or 0)

        try:
            return {"state": "done", "result": work(progress)}
        except _Cancelled:
            return {"state": "cancelled"}
        except InputError as error:
            return {"state": "failed", "error": str(error), "refused": True}
        except MemoryError:
            said = "There was not enough memory for it. Serve fewer rows with --rows."
            return {"state": "failed", "error": said, "refused": True}
        except BaseException as error:
            _log.exception("a job failed")
            what = traceback.format_exception_only(error)[0].strip().partition("\n")[0]
            return {"state": "failed", "error": f"It failed unexpectedly: {what.rstrip('.')}."}
