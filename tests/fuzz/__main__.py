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
from contextlib import suppress
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
            said, status = _worked(left, home, until)
            ended = [one for one in said if "failure" in one]
            running = said[-1]["case"] if said and "failure" not in said[-1] else ""
            if status and running:
                ended.append({"case": running, "accepted": False, "failure": _how_it_died(status)})
            elif status and not ended:
                raise SystemExit(f"The worker did not start: exit status {status}.")
            for one in ended:
                tally.add(**one)
                if one["failure"]:
                    folder = folder_of(Path(home), one["case"])
                    _keep(one["case"], one["failure"], folder, artefacts)
        left = left[len(ended) :]


def _worked(cases: Sequence[str], home: str, until: float) -> tuple[list[dict[str, Any]], int]:
    """What a process says of the cases it runs until a time, and its exit status."""
    paths = os.pathsep.join(filter(None, [str(TESTS), *sys.path]))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    status, words = 0, [*WORKER, home]
    with open(Path(home) / "said", "w+") as out:
        with suppress(subprocess.TimeoutExpired):
            status = subprocess.run(
                words, input=json.dumps(list(cases)), stdout=out, text=True, env=environment,
                timeout=max(until - time.monotonic(), 0.1),
            ).returncode  # fmt: skip
        out.seek(0)
        return [json.loads(line) for line in out if line.endswith("\n")], status


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
