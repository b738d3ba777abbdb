"""One process or several: what torchrun started, and which part of a batch each one takes."""

from __future__ import annotations

import atexit
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from modgap.core.checks import InputValueError
from modgap.io.devices import find_devices


@dataclass(frozen=True)
class Processes:
    """This process's rank among ``count``, and the device it computes on."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the process that logs and writes."""
        return self.rank == 0

    def shard(self, rows: Tensor) -> Tensor:
        """This process's rows of a batch that all of them know."""
        return rows if self.count == 1 else rows.tensor_split(self.count)[self.rank]


def join_processes(device: str = "auto") -> Processes:
    """Join the processes that torchrun started, with NCCL on GPUs and gloo on CPUs.

    A group that is there already is used. A new one is kept until Python ends, so that a script
    can train several times: a group cannot safely be left and joined again.
    """
    place = pick_device(device)
    if not dist.is_available():
        return Processes(0, 1, place)
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
            return Processes(0, 1, place)
        if place.type == "cuda":
            torch.cuda.set_device(place)
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
        atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())
    return Processes(dist.get_rank(), dist.get_world_size(), place)


def pick_device(name: str = "auto") -> torch.device:
    """A device by name; "auto" is this process's GPU where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise InputValueError(
            f'train.device must be "auto", "cpu", "cuda" or "cuda:0", got {name!r}.'
        )
    return find_devices(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if name == "cuda" else name)[0]


@contextmanager
def torch_settings(processes: Processes, threads: int) -> Iterator[None]:
    """Torch set up for a run; the caller's generators and settings are put back after it."""
    before, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    cuda = [processes.device] if processes.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        try:
            if threads:
                torch.set_num_threads(threads)
            # Batches keep their shape, so it pays to try which convolution is fastest.
            torch.backends.cudnn.benchmark = True
            yield
        finally:
            torch.set_num_threads(before)
            torch.backends.cudnn.benchmark = benchmark


@contextmanager
def whole_steps() -> Iterator[Callable[[], bool]]:
    """Hold back Ctrl-C and SIGTERM until a step is done; the function says whether one came.

    When the block ends, what was held back happens. A second signal does not wait. Only the main
    thread can hold signals back; elsewhere none is.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def hold(number: int, _: object) -> None:
        came.append(number)
        give_back()  # the next one is dealt with as before

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, hold)
    try:
        yield lambda: bool(came)
    finally:
        give_back()
    if came:
        signal.raise_signal(came[0])
