"""Long runs, one small JSON file each: claimed, resumed and recorded in one way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from modgap.core.checks import InputValueError
from modgap.core.files import write_text
from modgap.core.locks import sole_writer_of
from modgap.core.results import to_json


@dataclass(frozen=True, kw_only=True)
class LongRun:
    """A run by the name of its file, with the seconds that it should take."""

    name: str
    seconds: float

    def file_in(self, folder: Path) -> Path:
        """Where the run leaves what it measured."""
        return folder / f"{self.name}.json"

    def is_done(self, folder: Path) -> bool:
        """Whether the run has left what it measured."""
        return self.file_in(folder).exists()


RunKind = TypeVar("RunKind", bound=LongRun)


class Budget:
    """Minutes that may be used; estimates follow what the runs before took."""

    def __init__(self, minutes: float | None, began: float) -> None:
        self.end = None if minutes is None else began + 60 * minutes
        self.factor = 1.0

    def allows(self, run: LongRun, now: float) -> bool:
        """Whether a run that starts now should end in time."""
        return self.end is None or now + self.factor * run.seconds <= self.end

    def learn(self, run: LongRun, seconds: float) -> None:
        """Take note of how long a run took: the mean of what was thought and what was seen."""
        self.factor = (self.factor + seconds / run.seconds) / 2


def complete(
    runs: Sequence[RunKind],
    folder: Path,
    budget: Budget,
    work: Callable[[RunKind], Mapping[str, Any]],
    *,
    is_ready: Callable[[RunKind], bool] = lambda run: True,
    brief: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> list[RunKind]:
    """Do the runs that are not there yet, as far as the minutes go; what waits is given back.

    A run that another process is at is left to it. ``work`` gives what a run measures, and
    ``brief`` what of it is worth a line. A run that is not ready waits for others.
    """
    left = [run for run in runs if not run.is_done(folder)]
    while (run := next((run for run in left if is_ready(run)), None)) is not None:
        started = monotonic()
        if not budget.allows(run, started):
            print(f"no time for {run.name}, and {len(left) - 1} more are left", flush=True)
            return []
        left.remove(run)
        with ExitStack() as held:
            try:
                held.enter_context(sole_writer_of(folder / run.name))
            except InputValueError:
                continue  # another process is at it
            if run.is_done(folder):
                continue
            found = work(run)
            write_text(run.file_in(folder), to_json(found) + "\n")
        seconds = monotonic() - started
        budget.learn(run, seconds)
        line = {"run": run.name, "seconds": round(seconds, 1), **brief(found)}
        print(json.dumps(line), flush=True)
    return left


def gather(folder: Path, path: Path) -> str:
    """Put every run's file in a folder into one, in the order of their names.

    A run has a line: short enough to keep, and a run that changes is one line that changes.
    """
    runs = [
        json.loads(found.read_text(encoding="utf-8"))
        for found in sorted(folder.glob("*.json"))
        if found != path
    ]
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for run in runs)
    write_text(path, f"[\n{lines}\n]\n")
    return f"{len(runs)} runs in {path}"
