"""Time every case in a process of its own and print one table.

    python benchmarks/run.py [--only cone] [--scale 0.2] [--repeats 5] [--write]

Ours and its yardstick run in turns after a warm-up; the ratio is of the best of each. Memory is
the peak of anonymous memory during our run above that after the inputs were loaded, so mapped
file pages do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
NAMES = [
    "cone", "retrieval", "robustness", "moments", "calibrate", "search", "hub-search", "hubness",
    "equal-ranks", "equal-search",
]  # fmt: skip
START, END = "<!-- measured: start -->", "<!-- measured: end -->"


def anonymous_megabytes() -> float:
    """Anonymous memory of this process now (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("RssAnon is not reported on this system")


class PeakMemory:
    """Samples anonymous memory every few milliseconds while the block runs."""

    def __enter__(self) -> PeakMemory:
        self.start = self.peak = anonymous_megabytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.003):
            self.peak = max(self.peak, anonymous_megabytes())

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_megabytes())

    @property
    def above_start(self) -> float:
        return self.peak - self.start


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def run_case(name: str, scale: float, repeats: int) -> dict:
    from cases import CASES

    case = CASES[name](scale)
    with PeakMemory() as memory:
        case.ours()
    case.bare()
    times = [(seconds(case.ours), seconds(case.bare)) for _ in range(repeats)]
    ours, bare = (min(column) for column in zip(*times, strict=True))
    return {
        "what": case.what,
        "yardstick": case.yardstick,
        "ours_s": ours,
        "bare_s": bare,
        "ratio": ours / bare,
        "limit": case.limit,
        "megabytes": memory.above_start,
        "megabytes_limit": case.megabytes,
    }


def table(results: list[dict]) -> str:
    lines = [
        "| what | against | seconds | yardstick | ratio | limit | memory | limit |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in results:
        allowed = f"{r['megabytes_limit']:.0f} MB" if r["megabytes_limit"] else "–"
        lines.append(
            f"| {r['what']} | {r['yardstick']} | {r['ours_s']:.2f} | {r['bare_s']:.2f} "
            f"| **{r['ratio']:.2f}** | {r['limit']:.2f} | {r['megabytes']:.0f} MB | {allowed} |"
        )
    return "\n".join(lines)


def machine() -> str:
    import numpy as np

    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{date.today()}: {os.cpu_count()} cores of {model}, {gigabytes:.0f} GiB, "
        f"{platform.system()}, Python {platform.python_version()}, NumPy {np.__version__}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the cases")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_case(options.only, options.scale, options.repeats)))
        return
    results = []
    for name in [options.only] if options.only else NAMES:
        print(f"running {name} …", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, "--child", "--only", name]
        command += ["--scale", str(options.scale), "--repeats", str(options.repeats)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        results.append(json.loads(done.stdout))
    text = f"{machine()}\n\n{table(results)}"
    print(text)
    if options.write:
        readme = HERE / "README.md"
        before, rest = readme.read_text().split(START)
        after = rest.split(END)[1]
        readme.write_text(f"{before}{START}\n{text}\n{END}{after}")
    over = [
        r["what"]
        for r in results
        if r["ratio"] > r["limit"]
        or (r["megabytes_limit"] and r["megabytes"] > r["megabytes_limit"])
    ]
    if over and options.scale == 1.0:
        sys.exit(f"over the limit: {', '.join(over)}")


if __name__ == "__main__":
    main()
