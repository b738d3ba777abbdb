"""How many connections may be open and for how long, whoever holds them.

A request head, a request body (see `modgap.serve.guard`) and the reading of an answer each have a
deadline. When there are as many connections as may be, one that has not yet sent a whole head
makes room, then one without the token, then one that is idle.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from modgap.serve.server import CONNECTION, WAITING

# Connections taken in one turn of the loop. It takes three turns to read what the first of them
# sent; meanwhile there must be room, or the oldest would go unheard. A fourth closes those dropped.
TAKEN_AT_ONCE = 16
# Descriptors left for files and for what else the process opens.
SPARE_FILES = 64
# What must have been read of an answer when its deadline comes, for it to go on.
MIN_READ = 65_536


@dataclass(frozen=True)
class Limits:
    """How much the server takes on, and how long it waits.

    Parameters
    ----------
    connections : int
        Open connections at once.
    of_one_peer : int
        Those of one address, of one /64 network in IPv6. This machine's own address has no limit
        of its own: everyone on it, and everyone behind a proxy on it, shares that address.
    head_seconds : float
        From the opening of a connection, or the end of an answer, to a whole request head.
    read_seconds : float
        In this time a client reads all of an answer or at least 64 KiB of it.
    """

    connections: int = 512
    of_one_peer: int = 64
    head_seconds: float = 10.0
    read_seconds: float = 30.0

    def within_files(self) -> Limits:
        """The same with no more connections than this process may have files."""
        free = _free_files() - 4 * TAKEN_AT_ONCE - SPARE_FILES
        return replace(self, connections=min(self.connections, max(free, 8)))


class Standing(IntEnum):
    """What a connection is worth when there are too many; the lowest goes first."""

    HALF_HEAD = 0
    NO_TOKEN = 1
    IDLE = 2
    AT_WORK = 3


class Connections:
    """Every open connection: admits new ones, and ends those that are overdue."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[Connection, None] = {}  # oldest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, new: Connection) -> None:
        """Take a connection on; where there are too many, another goes, or this one."""
        near = [one for one in self._open if one.peer == new.peer]
        crowded = len(near) >= self.limits.of_one_peer and not new.is_local
        if crowded or len(self._open) >= self.limits.connections:
            other = min(near if crowded else self._open, key=lambda one: one.standing)
            if other.standing is Standing.AT_WORK:
                new.drop()
                return
            other.drop()
        self._open[new] = None
        if self._timer is None:
            self._look_again()

    def forget(self, gone: Connection) -> None:
        """A connection has ended."""
        self._open.pop(gone, None)

    def drop_half_heads(self) -> None:
        """Free the descriptors of those who have not yet asked for anything."""
        for one in [one for one in self._open if one.standing is Standing.HALF_HEAD]:
            one.drop()

    def _look_again(self) -> None:
        shortest = min(self.limits.head_seconds, self.limits.read_seconds)
        self._timer = asyncio.get_running_loop().call_later(
            min(1.0, shortest / 4), self._end_overdue
        )

    def _end_overdue(self) -> None:
        now = asyncio.get_running_loop().time()
        for one in [one for one in self._open if one.is_overdue(now)]:
            one.drop()
        self._timer = None
        if self._open:
            self._look_again()


class Connection(H11Protocol):
    """A connection that knows since when it waits, and for what."""

    def __init__(self, connections: Connections, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state={**app_state, CONNECTION: self}, **given)
        self._all = connections
        self._n_at_work, self._has_asked, self._has_token = 0, False, False
        self._waits_since = self._unread_since = self._now()
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Ask to be admitted, once uvicorn has taken note."""
        super().connection_made(transport)
        address = transport.get_extra_info("peername")
        self.peer, self.is_local = _peer(address[0] if isinstance(address, tuple) else "")
        self._all.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another."""
        self._all.forget(self)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Most of an answer was read; the next has its own time."""
        self._unread = 0
        super().resume_writing()

    def drop(self) -> None:
        """End it at once; what was not read of an answer is lost."""
        self._all.forget(self)
        self.transport.abort()

    def trust(self) -> None:
        """A request on it had the token, or needs none."""
        self._has_token = True

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A whole head has come; the next is due when its answer has ended."""
        self._n_at_work, self._has_asked = self._n_at_work + 1, True
        try:
            yield
        finally:
            self._n_at_work -= 1
            self._waits_since = self._now()

    @property
    def standing(self) -> Standing:
        """What it is worth when there are too many."""
        if not self._has_asked:
            return Standing.HALF_HEAD
        if not self._has_token:
            return Standing.NO_TOKEN
        return Standing.AT_WORK if self._n_at_work else Standing.IDLE

    def is_overdue(self, now: float) -> bool:
        """Whether the client has let a deadline pass, of a head or of reading an answer."""
        unread = self.transport.get_write_buffer_size()
        if unread:
            if not self._unread or unread <= self._unread - MIN_READ:
                self._unread, self._unread_since = unread, now
            return now - self._unread_since > self._all.limits.read_seconds
        if self._unread:  # it was read just now
            self._unread, self._waits_since = 0, now
        return not self._n_at_work and now - self._waits_since > self._all.limits.head_seconds

    def _now(self) -> float:
        return float(self.loop.time())


class Listening(uvicorn.Server):
    """Takes few connections at once and lets many wait, where uvicorn has one number for both."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn does, then let more wait."""
        await super().startup(sockets=sockets)
        for opened in sockets or ():
            opened.listen(WAITING)


def _peer(address: str) -> tuple[str, bool]:
    """Who counts as one client, and whether that is this machine."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address, True  # a socket without addresses can only be local
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.version == 6 and not ip.is_loopback:
        return str(ipaddress.ip_network((ip, 64), strict=False)), False
    return str(ip), ip.is_loopback


def _free_files() -> int:
    """How many more descriptors this process may open."""
    try:
        import resource
    except ImportError:  # Windows counts sockets apart
        return 4096
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return 4096
    try:
        return allowed - len(os.listdir("/dev/fd"))
    except OSError:
        return allowed - SPARE_FILES
