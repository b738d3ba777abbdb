"""How a run is timed and weighed: best of several in turns; the peak of memory above the start."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Run = Callable[[], object]
Clock = Callable[[], float]


def synchronise() -> None:
    """Wait for the GPU where torch has one at work; without torch there is nothing to wait for."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def seconds(run: Run, clock: Clock = time.perf_counter) -> float:
    """Wall-clock seconds of one run, the GPU's work included; those of another clock on request."""
    synchronise()
    start = clock()
    run()
    synchronise()
    return clock() - start


def best_seconds(
    runs: Mapping[str, Run],
    rounds: int,
    budget: float = float("inf"),
    clock: Clock = time.perf_counter,
) -> dict[str, float]:
    """Best seconds of each run, taken in turns; no new round begins once the budget is spent."""
    best = dict.fromkeys(runs, float("inf"))
    spent = 0.0
    for turn in range(rounds):
        if turn and spent + spent / turn > budget:
            break
        for name, run in runs.items():
            took = seconds(run, clock)
            spent += took
            best[name] = min(best[name], took)
    return best


def anonymous_megabytes() -> float:
    """Anonymous memory of this process now (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("RssAnon is not reported on this system")


class PeakMemory:
    """Samples anonymous memory every few milliseconds while the block runs."""

    def __enter__(self) -> PeakMemory:
        # What earlier runs freed must not serve this one unseen; glibc alone can hand it back.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
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


def peak_megabytes(run: Run) -> float:
    """Anonymous memory at the peak of a run, above that before it."""
    with PeakMemory() as memory:
        run()
    return memory.above_start


def peak_gpu_megabytes(run: Run) -> float:
    """The GPU's memory at the peak of a run, above that before it."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
