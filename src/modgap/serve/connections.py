"""How many connections may be open, and for how long.

uvicorn limits the size of a request head and the time between two requests. It has no deadline for
a head that is never finished or for an answer that is never read, and its ``limit_concurrency``
closes no connection. `Connection` adds these three.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from modgap.serve.server import BACKLOG, MAX_HEAD

KEEP_ALIVE_SECONDS = 5
# The loop accepts this many connections in one turn and closes those beyond the limit four turns
# later, so few are open beyond the limit for a moment.
ACCEPTED_AT_ONCE = 16
# A client that reads an answer slowly must have read this much of it at the deadline.
MIN_READ = 65_536
_LOGGERS = ("asyncio", "uvicorn.error", "modgap.serve.guard")


def most_connections() -> int:
    """512, or half of the files that this process may open where that is fewer."""
    try:
        import resource
    except ImportError:  # Windows does not count sockets as files
        return 512
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 512 if allowed == resource.RLIM_INFINITY else min(512, allowed // 2)


@dataclass(frozen=True)
class Limits:
    """How many connections the server accepts, and how long it waits.

    Parameters
    ----------
    connections : int
        Open connections; while there are so many, new ones are closed.
    head_seconds : float
        From the opening of a connection, or the end of an answer, to a whole request head.
    read_seconds : float
        In this time a client reads all of an answer or at least 64 KiB of it.
    """

    connections: int = field(default_factory=most_connections)
    head_seconds: float = 10.0
    read_seconds: float = 30.0


class Connection(H11Protocol):
    """A connection that closes when it is one too many or its client misses a deadline."""

    def __init__(self, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._waits_since = self._unread_since = self.loop.time()
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Close at once where there are as many connections as may be."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            transport.abort()
        else:
            self._close_when_overdue()

    def on_response_complete(self) -> None:
        """From the end of an answer, the client has its time for the next head."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def resume_writing(self) -> None:
        """The client has read most of an answer; the rest has its own time."""
        self._unread = 0
        super().resume_writing()

    def _close_when_overdue(self) -> None:
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            return
        if self._is_overdue(self.loop.time()):
            self.transport.abort()
            return
        shortest = min(self._limits.head_seconds, self._limits.read_seconds)
        self.loop.call_later(min(1.0, shortest / 4), self._close_when_overdue)

    def _is_overdue(self, now: float) -> bool:
        unread = self.transport.get_write_buffer_size()
        if unread:
            if not self._unread or unread <= self._unread - MIN_READ:
                self._unread, self._unread_since = unread, now
            return now - self._unread_since > self._limits.read_seconds
        if self._unread:  # the client has just read the rest
            self._unread, self._waits_since = 0, now
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return not is_answering and now - self._waits_since > self._limits.head_seconds


class Server(uvicorn.Server):
    """Serves an app within limits."""

    def __init__(self, app: FastAPI, limits: Limits | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=partial(Connection, limits or Limits()),
            h11_max_incomplete_event_size=MAX_HEAD,
            backlog=ACCEPTED_AT_ONCE,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let more connections wait than are accepted at once; uvicorn has one number for both."""
        await super().startup(sockets=sockets)
        for opened in sockets or ():
            opened.listen(BACKLOG)


class Sparing(logging.Filter):
    """Lets a message through once a minute, with how often it was held back since.

    Messages are the same where their words before formatting are, and the kind of their error.

    >>> sparing = Sparing(now=lambda: 0.0)
    >>> line = logging.makeLogRecord({"msg": "no more files"})
    >>> sparing.filter(line), sparing.filter(line)
    (True, False)
    """

    def __init__(self, seconds: float = 60.0, now: Callable[[], float] = time.monotonic) -> None:
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


@contextlib.contextmanager
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


def run(server: Server, opened: socket.socket) -> None:
    """Serve until interrupted; Ctrl-C is the usual end of a server, not an error."""
    with contextlib.suppress(KeyboardInterrupt), said_sparingly(_LOGGERS):
        asyncio.run(server.serve(sockets=[opened]))
