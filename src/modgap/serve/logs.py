"""Keeps clients from filling the log: a repeated message is logged once a minute, with a count."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

SECONDS = 60.0


class Sparing(logging.Filter):
    """Lets a message through once a minute, with how often it was held back since.

    Messages are the same where their words before formatting are, and the kind of their error.

    >>> sparing = Sparing(now=lambda: 0.0)
    >>> line = logging.makeLogRecord({"msg": "no more files"})
    >>> sparing.filter(line), sparing.filter(line)
    (True, False)
    """

    def __init__(self, seconds: float = SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._now = seconds, now
        self._said: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is due again."""
        error = record.exc_info[0] if record.exc_info else None
        # Words that differ each time would grow the memory; they are all one.
        key: tuple[object, ...] = (record.name, record.lineno, str(record.msg)[:80], error)
        if key not in self._said and len(self._said) >= 100:
            key = ("other",)
        last, held = self._said.get(key, (float("-inf"), 0))
        now = self._now()
        if now - last < self._seconds:
            self._said[key] = (last, held + 1)
            return False
        self._said[key] = (now, 0)
        if held:
            times = "once" if held == 1 else f"{held:,} times"
            record.msg, record.args = f"{record.getMessage()} ({times} more since last said)", ()
        return True


@contextmanager
def said_sparingly(loggers: Sequence[str]) -> Iterator[None]:
    """Hold back the repeated messages of these loggers while the block runs."""
    sparing = Sparing()
    for name in loggers:
        logging.getLogger(name).addFilter(sparing)
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeFilter(sparing)
