"""The page's document, made once in the background and handed out as it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from modgap._results import Progress, plain
from modgap.serve.jobs import Job, Jobs

MakeDocument = Callable[[Progress], Mapping[str, Any]]


class LiveDocument:
    """Makes the document when first asked to, in a thread of its own: fitting need not wait."""

    def __init__(self, make: MakeDocument) -> None:
        self._make = make
        self._jobs = Jobs(waiting=1, kept=1, name="modgap report")
        self._job: str | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin, unless it has begun."""
        with self._lock:
            if self._job is None:
                self._job = self._jobs.submit("report", self._work).id

    def state(self) -> Job:
        """Where it stands; its result is the document as JSON."""
        self.start()
        assert self._job is not None
        job = self._jobs.get(self._job)
        assert job is not None  # the only job there is, so it is kept
        return job

    def wait(self, timeout: float | None = None) -> Job:
        """Where it stands once made, or after ``timeout`` seconds."""
        self.start()
        assert self._job is not None
        self._jobs.wait(self._job, timeout)
        return self.state()

    def close(self) -> None:
        """Stop at the next step."""
        self._jobs.close()

    def _work(self, progress: Progress) -> bytes:
        document = {**plain(self._make(progress)), "live": True}
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
