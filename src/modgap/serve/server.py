"""Where the server listens, and who may reach it there."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from urllib.parse import quote

from modgap.core.checks import InputValueError, require

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
MIN_TOKEN = 8
MAX_HEAD = 16_384
# Connections that wait in the system until the server accepts them.
BACKLOG = 512
_ANYWHERE = ("0.0.0.0", "::", "")


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
    family, *_, address = found[0]
    try:
        opened = socket.create_server(
            address, family=family, backlog=BACKLOG,
            dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
        )  # fmt: skip
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputValueError(
                f"Port {port} of {host} is in use. Choose another with --port, or --port 0 for any "
                "that is free."
            ) from error
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InputValueError(f"{host} port {port} cannot be listened on: {why}.") from error
    # Connections inherit it: else the body of an answer waits 40 ms until its head is acknowledged.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def address_of(opened: socket.socket, host: str, token: str | None) -> str:
    """What to open in a browser."""
    port = opened.getsockname()[1]
    name = socket.gethostname() if host in _ANYWHERE else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")
