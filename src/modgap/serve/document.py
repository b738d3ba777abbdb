"""The page's document, made once in the background and handed out as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from modgap._results import Progress, plain
from modgap.serve.jobs import Job, Jobs

MakeDocument = Callable[[Progress], Mapping[str, Any]]


class LiveDocument:
    """Makes the document in a thread of its own, so that fitting a correction need not wait."""

    def __init__(self, make: MakeDocument) -> None:
        self._jobs = Jobs(waiting=1, kept=1, name="modgap report")
        self._job = self._jobs.submit("report", lambda progress: _as_json(make(progress))).id

    def state(self) -> Job:
        """Where it stands; its result is the document as JSON."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> Job:
        """Where it stands once made, or after ``timeout`` seconds."""
        job = self._jobs.wait(self._job, timeout)
        assert job is not None  # the only job there is, so it is kept
        return job

    def close(self) -> None:
        """Stop at the next step."""
        self._jobs.close()


def _as_json(document: Mapping[str, Any]) -> bytes:
    live = {**plain(document), "live": True}
    return json.dumps(live, allow_nan=False, separators=(",", ":")).encode()
