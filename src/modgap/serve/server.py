"""Where the server listens, who may reach it there, and how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from modgap._validate import InputValueError, require
from modgap.serve.logs import said_sparingly

if TYPE_CHECKING:
    from fastapi import FastAPI

    from modgap.serve.connections import Limits

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
MIN_TOKEN = 8
MAX_HEAD = 16_384
KEEP_ALIVE_SECONDS = 5
# Connections that wait in the system until they are taken.
WAITING = 512
_ANYWHERE = ("0.0.0.0", "::", "")
# Where a request's scope has its connection, among the server's state.
CONNECTION = "modgap_connection"
_LOGGERS = ("asyncio", "uvicorn.error", "modgap.serve.guard", __name__)
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


def check_installed() -> None:
    """Refuse in good words where the web libraries are missing."""
    for module in ("fastapi", "uvicorn"):
        require(module, "serve", "modgap serve")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_for(host: str) -> frozenset[str] | None:
    """The names a server on this address answers to; None for any."""
    return LOOPBACK_NAMES if is_loopback(host) else None


def check_exposed(host: str, token: str | None) -> None:
    """Other machines may reach the server only with a token."""
    if token is not None and (len(token) < MIN_TOKEN or not token.isprintable()):
        raise InputValueError(
            f"A token must have at least {MIN_TOKEN} printable characters, got {len(token)}. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if token is None and not is_loopback(host):
        raise InputValueError(
            f"--host {host} lets other machines in, so a token is needed. "
            "Give one with --token or MODGAP_TOKEN, or leave --host out to serve this machine only."
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; refused in words where something else does."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputValueError(f"--host {host!r} is no address of this machine: {error}.") from error
    family, kind, protocol, _, address = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(WAITING)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise InputValueError(
                f"Port {port} of {host} is in use. Choose another with --port, or --port 0 for any "
                "that is free."
            ) from error
        raise InputValueError(
            f"{host} port {port} cannot be listened on: {error.strerror}."
        ) from error
    return opened


def address_of(opened: socket.socket, host: str, token: str | None) -> str:
    """What to open in a browser."""
    port = opened.getsockname()[1]
    name = socket.gethostname() if host in _ANYWHERE else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def run(app: FastAPI, opened: socket.socket) -> None:
    """Serve until interrupted; Ctrl-C is how a server ends, and no mistake."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Server(app).serve(opened))


class Server:
    """Serves an app within limits; those of this process's files when none are given."""

    def __init__(self, app: FastAPI, limits: Limits | None = None) -> None:
        import uvicorn

        from modgap.serve.connections import (
            TAKEN_AT_ONCE,
            Connection,
            Connections,
            Limits,
            Listening,
        )

        self.connections = Connections(limits or Limits().within_files())
        config = uvicorn.Config(
            app,
            http=partial(Connection, self.connections),
            h11_max_incomplete_event_size=MAX_HEAD,
            backlog=TAKEN_AT_ONCE,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
        )
        self._server = Listening(config)

    async def serve(self, opened: socket.socket) -> None:
        """Answer until interrupted, or told to stop."""
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        with said_sparingly(_LOGGERS):
            await self._server.serve(sockets=[opened])

    def stop(self) -> None:
        """End soon; may be called from any thread."""
        self._server.should_exit = True

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NO_MORE_FILES:
            loop.default_exception_handler(context)
            return
        # The loop itself tries again a second later.
        self.connections.drop_half_heads()
        _log.warning(
            "No connection could be taken: %s. Those that asked nothing were dropped.",
            error.strerror,
        )
