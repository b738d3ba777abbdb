"""Makes the page's document in the background."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from modgap.core.results import Progress, plain
from modgap.serve.jobs import Job, Jobs

MakeDocument = Callable[[Progress], Mapping[str, Any]]


class LiveDocument:
    """Makes the document in a thread of its own, so that fitting a correction need not wait.

    It is begun at once, and once made it stays. One that failed or was cancelled can be begun anew.
    """

    def __init__(self, make: MakeDocument) -> None:
        self._make, self._verdict = make, ""
        self._jobs = Jobs(waiting=1, kept=1, name="modgap report")
        self._job = self._begin()

    def state(self) -> Job:
        """Its state; the result is the document as JSON."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> Job:
        """Its state once made, or after ``timeout`` seconds."""
        job = self._jobs.wait(self._job, timeout)
        assert job is not None  # the last one is always kept
        return job

    def again(self) -> Job:
        """Begin anew what failed or was cancelled; what is made or being made stays."""
        if self.state().state in ("failed", "cancelled"):
            self._job = self._begin()
        return self.state()

    def cancel(self) -> Job:
        """Give it up, unless it has ended."""
        if not self.state().ended:
            self._jobs.cancel(self._job)
        return self.state()

    def why_none(self) -> str:
        """Why it recommends no correction, for as long as it does not."""
        job = self.state()
        if job.state == "done":
            return f"The report recommends no correction. {self._verdict}".strip()
        if job.ended:
            return f"{report_words(job)} So it recommends no correction."
        return "The report is being made, and may recommend a correction."

    def close(self) -> None:
        """Give it up."""
        self._jobs.close()

    def _begin(self) -> str:
        return self._jobs.submit("report", self._made).id

    def _made(self, progress: Progress) -> bytes:
        document = plain(self._make(progress))
        # The last sentence says what to do.
        self._verdict = " ".join(((document.get("verdict") or {}).get("sentences") or [])[-1:])
        live = {**document, "live": True}
        return json.dumps(live, allow_nan=False, separators=(",", ":")).encode()


def report_words(job: Job) -> str:
    """The state of the report in a sentence or two."""
    if job.state == "done":
        return "The report is made."
    if job.state == "failed":
        return f"The report could not be made. {job.error}"
    at = job.step or ""
    if at and job.total:
        at += f", {100 * job.done // job.total} % done"
    if job.state == "cancelled":
        return f"The report was cancelled{f' at: {at}' if at else ''}."
    return f"The report is being made{f': {at}' if at else ''}."
