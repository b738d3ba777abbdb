"""How far a measurement is: rows looked at so far, of all that will be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from modgap._arrays import Listener, listening
from modgap._memory import give_back
from modgap._results import Progress


class Steps:
    """Counts the rows of one step after the other, and tells ``progress`` at each block.

    ``tidy`` gives the memory that a step has left back to the system.

    >>> heard = []
    >>> steps = Steps(lambda *told: heard.append(told), total=4)
    >>> with steps.step("cone", 4) as passed:
    ...     passed(0.5)
    >>> heard
    [('cone', 0, 4), ('cone', 2, 4), ('cone', 4, 4)]
    """

    def __init__(self, progress: Progress, total: int, *, tidy: bool = False) -> None:
        self._progress, self._total, self._tidy = progress, total, tidy
        self._done = 0

    @contextmanager
    def step(self, what: str, rows: int, passes: int = 1) -> Iterator[Listener]:
        """A step that looks at ``rows`` rows, in so many passes over the data."""
        shares = 0.0

        def passed(share: float) -> None:
            nonlocal shares
            shares += share / passes
            # Of a step that took more passes than it said, the end is told when it is there.
            self._tell(what, self._done + int(rows * shares), self._done + rows)

        self._tell(what, self._done, self._done)
        with listening(passed):
            yield passed
        if self._tidy:
            give_back()
        self._done += rows
        self._tell(what, self._done, self._done)

    def _tell(self, what: str, done: int, most: int) -> None:
        self._progress(what, min(done, most), self._total)
