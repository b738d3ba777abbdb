"""``make fuzz``: damaged files for MODGAP_FUZZ seconds, in processes that may die of one."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz.targets import SHARES, TARGETS, Cases, folder_of
from modgap.core.results import text_table

TESTS = Path(__file__).parents[1]
ARTEFACTS = TESTS.parent / "artefacts" / "fuzz"
BATCH = 300
WORKER = (sys.executable, "-m", "fuzz.worker")


@dataclass
class Tally:
    """Counts of each format, and the failures: the case and what went wrong."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def add(self, case: str, accepted: bool, failure: str) -> None:
        """Count a case."""
        name = case.partition(":")[0]
        self.counts[name, "runs"] += 1
        ended = "failures" if failure else "accepted" if accepted else "refused"
        self.counts[name, ended] += 1
        if failure:
            self.failures.append((case, failure))

    def table(self) -> str:
        """A line for each format that was run."""
        heads = ("runs", "accepted", "refused", "failures")
        names = [name for name in TARGETS if self.counts[name, "runs"]]
        rows = [[name, *(f"{self.counts[name, head]:,}" for head in heads)] for name in names]
        total = [f"{sum(self.counts[name, head] for name in names):,}" for head in heads]
        return text_table(("format", *heads), [*rows, ["all", *total]])


def fuzz(cases: Sequence[str], tally: Tally, until: float, artefacts: Path = ARTEFACTS) -> None:
    """Run cases in a process of their own, and go on in another where it dies of one."""
    left = list(cases)
    while left and time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="modgap-fuzz-") as home:
            done = _fuzz_until_one_kills(left, Path(home), tally, until, artefacts)
        left = left[done:]


def _fuzz_until_one_kills(
    cases: Sequence[str], home: Path, tally: Tally, until: float, artefacts: Path
) -> int:
    """Run cases in one process; how many are done, with the one that it died of."""
    done, running = 0, ""
    with _worker(cases, home) as (process, lines):
        for said in lines:
            running = said["case"]
            if "failure" in said:
                tally.add(**said)
                if said["failure"]:
                    _keep(running, said["failure"], folder_of(home, running), artefacts)
                done, running = done + 1, ""
                if time.monotonic() > until:
                    return done
    if not running and done == 0:
        raise SystemExit(f"The worker did not start: exit status {process.returncode}.")
    if running:
        failure = _how_it_died(process.returncode)
        tally.add(running, False, failure)
        _keep(running, failure, folder_of(home, running), artefacts)
        done += 1
    return done


@contextmanager
def _worker(
    cases: Sequence[str], home: Path
) -> Iterator[tuple[subprocess.Popen[str], Iterator[dict[str, Any]]]]:
    """A process that runs cases, and what it says of each; it ends with the block."""
    paths = [str(TESTS), *sys.path]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*WORKER, home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(list(cases)))
            process.stdin.close()
            yield process, (json.loads(line) for line in process.stdout)
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Wait a little for a process that has nothing more to say, or end it."""
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()


def _how_it_died(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"the process ended with status {status}: it hung, or left without a word"


def _keep(case: str, failure: str, folder: Path, artefacts: Path) -> None:
    """Keep the files of a failure, and how to run it again."""
    kept = artefacts / case.replace(":", "-")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    with suppress(OSError, shutil.Error):
        shutil.copytree(folder, kept / "case", symlinks=True)
    (kept / "failure.txt").write_text(
        f"{case}\n{failure}\nagain: PYTHONPATH=tests python -m fuzz --replay {case}\n",
        encoding="utf-8",
    )


def draw(first: int) -> Iterator[str]:
    """Formats in turn, by their shares, with seeds from the first on."""
    names = [name for name, share in SHARES.items() for _ in range(share)]
    Random(first).shuffle(names)
    seed = first
    while True:
        for name in names:
            yield f"{name}:{seed}"
            seed += 1


def replay(case: str) -> int:
    """Run one case in this process, and leave its files."""
    home = ARTEFACTS / case.replace(":", "-")
    shutil.rmtree(home, ignore_errors=True)
    ended = Cases(home).run(case)
    print(f"{case}: {ended.failure or ('accepted' if ended.accepted else 'refused')}")
    print(f"its files are in {folder_of(home, case)}")
    return int(bool(ended.failure))


def main(words: Sequence[str] | None = None) -> int:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="first seed; by default another every time")
    parser.add_argument("--formats", default=",".join(TARGETS), help="those to damage")
    parser.add_argument("--cases", type=int, help="stop after so many")
    parser.add_argument("--replay", metavar="FORMAT:SEED", help="run one case again")
    given = parser.parse_args(words)
    if given.replay:
        return replay(given.replay)
    seconds = float(os.environ.get("MODGAP_FUZZ", "600"))
    first = int(time.time()) if given.seed is None else given.seed
    print(f"fuzzing for {seconds:g} seconds from seed {first}", flush=True)
    wanted = set(given.formats.split(","))
    cases = (case for case in draw(first) if case.partition(":")[0] in wanted)
    tally, until = Tally(), time.monotonic() + seconds
    left = given.cases
    while time.monotonic() < until and left != 0:
        size = BATCH if left is None else min(BATCH, left)
        fuzz([next(cases) for _ in range(size)], tally, until)
        left = None if left is None else left - size
    print(tally.table())
    for case, failure in tally.failures:
        print(f"{case}: {failure}")
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
