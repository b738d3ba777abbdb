"""What stands before every request: who may ask, from where, how much; and strict headers.

Written against ASGI itself, outermost, so that refusals and errors get the same headers too.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
MAX_BODY = 1_000_000
MAX_TARGET = 4_096
MAX_SECONDS = 30.0
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}

_Headers = Mapping[bytes, list[bytes]]

_log = logging.getLogger(__name__)


class _Ended(Exception):
    """The request ends here, with this answer."""

    def __init__(self, status: int, detail: str, headers: Iterable[tuple[bytes, bytes]] = ()):
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, tuple(headers)


class _Gone(Exception):
    """Whoever asked has hung up."""


class Guard:
    """Checks host, token, origin and size of each request before the app sees it.

    ``hosts`` are the names a request may be addressed to, None for any: a page elsewhere whose
    name is made to point at this machine (DNS rebinding) is refused by it. With a ``token`` every
    request must carry it, as ``Authorization: Bearer`` or by the cookie that opening
    ``/?token=…`` sets.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        hosts: frozenset[str] | None = LOOPBACK_NAMES,
        max_body: int = MAX_BODY,
        max_seconds: float = MAX_SECONDS,
    ) -> None:
        self._app, self._hosts = app, hosts
        self._max_body, self._max_seconds = max_body, max_seconds
        self._token = None if token is None else token.encode()
        # The cookie holds a key of this run, not the token; its name tells servers of one host
        # apart, since cookies know no ports.
        self._key = hmac.new(secrets.token_bytes(32), self._token or b"", hashlib.sha256)
        self._cookie = f"modgap_{self._key.hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or end it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # No route takes a WebSocket; closing before accepting refuses it.
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        answer = _Answer(send)
        try:
            headers = _headers(scope)
            self._check_target(scope)
            self._check_host(headers)
            self._check_token(scope, headers)
            self._check_origin(scope, headers)
            body = await self._body(headers, receive)
            await self._app(scope, _replay(body, receive), answer.send)
        except _Ended as end:
            await answer.end(end)
        except _Gone:
            return
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            await answer.end(_Ended(500, "The server failed on this request; its log says why."))

    def _check_target(self, scope: Scope) -> None:
        target = scope.get("raw_path") or scope["path"].encode()
        if len(target) + len(scope["query_string"]) > MAX_TARGET:
            raise _Ended(414, f"An address must have at most {MAX_TARGET:,} characters.")

    def _check_host(self, headers: _Headers) -> None:
        given = headers.get(b"host", [])
        if len(given) != 1:
            raise _Ended(400, f"A request must have one Host header, got {len(given)}.")
        if self._hosts is not None and _host_name(given[0]) not in self._hosts:
            raise _Ended(
                421,
                "This server answers to localhost and 127.0.0.1 only. Open it by one of these "
                "names, or start it with --host and --token to reach it by another.",
            )

    def _check_token(self, scope: Scope, headers: _Headers) -> None:
        if self._token is None:
            return
        if scope["path"] == "/" and scope["method"] == "GET":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
            if given is not None and self._is_token(given[0].encode()):
                cookie = (
                    f"{self._cookie}={self._key.hexdigest()}; Path=/; HttpOnly; SameSite=Strict"
                )
                # The address without the token is what stays in the history.
                raise _Ended(303, "", [(b"location", b"/"), (b"set-cookie", cookie.encode())])
        for value in headers.get(b"authorization", []):
            kind, _, given_token = value.partition(b" ")
            if kind.lower() == b"bearer" and self._is_token(given_token.strip()):
                return
        if any(self._has_cookie(value) for value in headers.get(b"cookie", [])):
            return
        raise _Ended(
            401,
            "A token is needed. Open the address that modgap serve printed, or send the token as "
            "'Authorization: Bearer'.",
            [(b"www-authenticate", b"Bearer")],
        )

    def _is_token(self, given: bytes) -> bool:
        assert self._token is not None
        # Digests, because compare_digest takes less time where the lengths differ.
        return hmac.compare_digest(
            hashlib.sha256(given).digest(), hashlib.sha256(self._token).digest()
        )

    def _has_cookie(self, header: bytes) -> bool:
        try:
            jar = SimpleCookie(header.decode("latin-1"))
        except CookieError:
            return False
        held = jar.get(self._cookie)
        return held is not None and hmac.compare_digest(
            held.value.encode(), self._key.hexdigest().encode()
        )

    @staticmethod
    def _check_origin(scope: Scope, headers: _Headers) -> None:
        """What changes something must come from a page of this server, or from no page at all."""
        if scope["method"] not in CHANGING:
            return
        host = headers[b"host"][0].lower()
        scheme = scope.get("scheme", "http").encode()
        for origin in headers.get(b"origin", []):
            if origin.lower() != scheme + b"://" + host:
                raise _Ended(403, "Requests that change something must come from this page.")
        for site in headers.get(b"sec-fetch-site", []):
            if site not in (b"same-origin", b"none"):
                raise _Ended(403, "Requests that change something must come from this page.")

    async def _body(self, headers: _Headers, receive: Receive) -> bytes:
        """The whole body, counted as it comes: what a header says of its length proves nothing."""
        too_large = _Ended(413, f"A request may hold at most {self._max_body:,} bytes.")
        for said in headers.get(b"content-length", []):
            if not said.isdigit():
                raise _Ended(400, "Content-Length must be a whole number.")
            if len(said) > 15 or int(said) > self._max_body:
                raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._max_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    body += message.get("body", b"")
                    if len(body) > self._max_body:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise _Ended(
                408, f"A request must be sent within {self._max_seconds:g} seconds."
            ) from None


class _Answer:
    """Sends what the app answers, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send, self._started = send, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            held = [(name.lower(), value) for name, value in message.get("headers", [])]
            names = {name for name, _ in held}
            held += [(name, value) for name, value in HEADERS.items() if name not in names]
            if b"cache-control" not in names:
                held.append((b"cache-control", b"no-store"))
            message = {**message, "headers": held}
        await self._send(message)

    async def end(self, end: _Ended) -> None:
        if self._started:  # too late for another answer; the server closes the connection
            raise end
        body = b"" if end.status == 303 else json.dumps({"detail": end.detail}).encode()
        head = [(b"content-length", str(len(body)).encode()), *end.headers]
        if body:
            head.append((b"content-type", b"application/json"))
        if end.status in (408, 413):
            # The rest of the body is still on its way and must not be taken for a new request.
            head.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": end.status, "headers": head})
        await self.send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def _host_name(host: bytes) -> str | None:
    """The name in a Host header, without its port."""
    try:
        parts = urlsplit(f"//{host.decode('ascii')}")
        name, _ = parts.hostname, parts.port  # a port that is no number raises
    except ValueError:
        return None
    if name is None or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return f"[{name}]" if ":" in name else name


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand the body to the app in one piece; afterwards it hears what the connection says."""
    pending: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
