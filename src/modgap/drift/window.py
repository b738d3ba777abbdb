"""What was seen lately, in slices of time, of which the oldest is forgotten."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Counted(Protocol):
    """What knows how many it holds: moments of rows, answers of searches."""

    @property
    def n(self) -> int:
        """How many."""


Seen = TypeVar("Seen", bound=Counted)


@dataclass
class Slice(Generic[Seen]):
    """What was seen in one stretch of time."""

    began: float
    ended: float
    seen: Seen


class Window(Generic[Seen]):
    """At most ``n_slices`` slices: what was seen in so many seconds, or the last ``least`` or so.

    A slice ends once it is ``seconds / n_slices`` old and has its share of ``least``.
    """

    def __init__(self, seconds: float, n_slices: int, least: int) -> None:
        self.seconds, self.n_slices, self.least = seconds, n_slices, least
        self.slices: deque[Slice[Seen]] = deque()

    def keep(self, now: float, after: Callable[[Seen | None], Seen]) -> None:
        """Add what came: ``after`` makes the new slice of the last one, or of None to begin one."""
        last = self.slices[-1] if self.slices else None
        if last is not None and now < last.began:  # the clock was set back
            last.began = now
        if last is None or (
            now - last.began >= self.seconds / self.n_slices
            and last.seen.n >= self.least / self.n_slices
        ):
            self.slices.append(Slice(now, now, after(None)))
        else:
            last.seen, last.ended = after(last.seen), now

    def forget(self, now: float) -> None:
        """Drop slices beyond their number, and old ones where enough is left."""
        n = sum(one.seen.n for one in self.slices)
        while len(self.slices) > 1:
            oldest = self.slices[0]
            stale = now - oldest.ended > self.seconds and n - oldest.seen.n >= self.least
            if not (len(self.slices) > self.n_slices or stale):
                break
            n -= self.slices.popleft().seen.n
