"""Rows that are read ahead of the computation: in threads, in order, in bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

# Bytes that are read and not yet taken, or being read.
AHEAD_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class Stretch:
    """Rows that one thread reads in order; no block of them has more than ``block_bytes``."""

    blocks: Callable[[], Iterator[np.ndarray]]
    block_bytes: int


def read_ahead(
    stretches: Iterable[Stretch], workers: int, most_bytes: int = AHEAD_BYTES
) -> Iterator[np.ndarray]:
    """The blocks of all stretches, in order; errors come where their block would.

    ``workers`` stretches are read at once. At most ``most_bytes`` wait or are being read, or one
    block where that has more. When the iterator is closed, no thread is left.
    """
    reading = _Reading(iter(stretches), most_bytes)
    threads = [
        threading.Thread(target=reading.work, name=f"modgap-read-{number}", daemon=True)
        for number in range(workers)
    ]
    try:
        for thread in threads:
            thread.start()
        yield from reading.blocks()
    finally:
        reading.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


@dataclass(eq=False)
class _Lane:
    """What was read of one stretch and not taken yet."""

    held: deque[np.ndarray] = field(default_factory=deque)
    error: BaseException | None = None
    done: bool = False


class _Reading:
    """What the threads that read and the one that takes share, under one lock."""

    def __init__(self, stretches: Iterator[Stretch], most_bytes: int) -> None:
        self.stretches = stretches
        self.most_bytes = most_bytes
        self.turn = threading.Condition()
        self.lanes: deque[_Lane] = deque()
        self.n_bytes = 0
        self.all_begun = self.stopped = False

    def blocks(self) -> Iterator[np.ndarray]:
        """Everything in order, in the thread of whoever takes it."""
        while True:
            with self.turn:
                self.turn.wait_for(lambda: self.lanes or self.all_begun)
                if not self.lanes:
                    return
                lane = self.lanes[0]
            while (block := self._next_of(lane)) is not None:
                yield block
                with self.turn:
                    self.n_bytes -= block.nbytes
                    self.turn.notify_all()
            with self.turn:
                self.lanes.popleft()
                self.turn.notify_all()

    def _next_of(self, lane: _Lane) -> np.ndarray | None:
        with self.turn:
            self.turn.wait_for(lambda: lane.held or lane.done)
            if lane.held:
                return lane.held.popleft()
        if lane.error is not None:
            raise lane.error
        return None

    def stop(self) -> None:
        """Let the threads end at their next block."""
        with self.turn:
            self.stopped = True
            self.lanes.clear()
            self.turn.notify_all()

    def work(self) -> None:
        """Read one stretch after the other, as long as there are any."""
        while (begun := self._begin()) is not None:
            stretch, lane = begun
            error: BaseException | None = None
            try:
                self._read(stretch, lane)
            except BaseException as raised:
                error = raised
            with self.turn:
                lane.error, lane.done = error, True
                self.turn.notify_all()

    def _begin(self) -> tuple[Stretch, _Lane] | None:
        with self.turn:
            lane = _Lane()
            try:
                stretch = None if self.stopped or self.all_begun else next(self.stretches, None)
            except BaseException as error:
                lane.error, lane.done = error, True
                self.lanes.append(lane)
                stretch = None
            if stretch is None:
                self.all_begun = True
            else:
                self.lanes.append(lane)
            self.turn.notify_all()
            return None if stretch is None else (stretch, lane)

    def _read(self, stretch: Stretch, lane: _Lane) -> None:
        blocks = stretch.blocks()
        while self._has_room(stretch.block_bytes, lane):
            block = next(blocks, None)
            with self.turn:
                self.n_bytes += (0 if block is None else block.nbytes) - stretch.block_bytes
                if block is not None:
                    lane.held.append(block)
                self.turn.notify_all()
            if block is None:
                return

    def _has_room(self, n_bytes: int, lane: _Lane) -> bool:
        """Wait for room for a block and take it; the lane that is read from always gets one."""

        def free() -> bool:
            first = bool(self.lanes) and self.lanes[0] is lane and not lane.held
            return self.stopped or first or self.n_bytes + n_bytes <= self.most_bytes

        with self.turn:
            self.turn.wait_for(free)
            self.n_bytes += 0 if self.stopped else n_bytes
            return not self.stopped
