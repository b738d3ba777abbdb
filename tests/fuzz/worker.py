"""A process that runs cases one after another, with little memory; it may die of one."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import IO

from fuzz.targets import TARGETS, WHOLE, Cases, folder_of

# What a command may take beyond the libraries, which are loaded before: claims must not be
# believed. In training, threads and their stacks are part of it.
MEMORY = 2 * 1024**3
# Far longer than the slowest case takes.
SECONDS = 60


def work(cases: list[str], home: Path) -> None:
    """Run cases and say on stdout, a line of JSON each, which begins and how it ended."""
    say_to = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    faulthandler.enable()
    os.environ["XDG_STATE_HOME"] = str(home)  # where logs of the unexpected go
    made = Cases(home)
    os.chdir(home)
    _load_libraries(made)
    _limit_memory()
    for case in cases:
        _say(say_to, case=case)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        ended = made.run(case)
        faulthandler.cancel_dump_traceback_later()
        if not ended.failure:
            shutil.rmtree(folder_of(home, case))
        _say(say_to, case=case, accepted=ended.accepted, failure=ended.failure)


def _say(to: IO[str], **what: object) -> None:
    to.write(json.dumps(what) + "\n")
    to.flush()


def _load_libraries(made: Cases) -> None:
    """Run every target once: what it imports should not count as memory of a case."""
    for name in TARGETS:
        ended = made.run(f"{name}:{WHOLE}")
        if ended.failure or not ended.accepted:
            raise SystemExit(f"Whole files of {name} are not accepted: {ended}")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    work(json.loads(sys.stdin.read()), Path(sys.argv[1]))
