"""Checks every request before the app sees it, and adds strict headers to every answer.

It is plain ASGI and outermost, so refusals and errors get the same headers too.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from modgap.serve.server import LOOPBACK_NAMES, MAX_HEAD

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
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

# A name or an address, and perhaps a port.
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?")
_log = logging.getLogger(__name__)


class _Ended(Exception):
    """The request ends here, with this answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class _Gone(Exception):
    """The client has disconnected."""


def _refusal(status: int, detail: str, headers: Mapping[str, str] | None = None) -> _Ended:
    return _Ended(JSONResponse({"detail": detail}, status, headers))


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
        self._key = secrets.token_hex(32)
        self._cookie = f"modgap_{self._key[:8]}"

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
            request = Request(scope)
            self._check_head(scope)
            self._check_host(request)
            self._check_token(request)
            self._check_origin(request)
            body = await self._body(request, receive)
            await self._app(scope, _replay(body, receive), answer.send)
        except _Ended as end:
            await answer.end(end, scope, receive)
        except _Gone:
            return
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            failed = _refusal(500, "The server failed on this request; its log says why.")
            await answer.end(failed, scope, receive)

    def _check_head(self, scope: Scope) -> None:
        target = scope.get("raw_path") or scope["path"].encode()
        if len(target) + len(scope["query_string"]) > MAX_TARGET:
            raise _refusal(414, f"An address must have at most {MAX_TARGET:,} characters.")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD:
            raise _refusal(431, f"The headers of a request may hold {MAX_HEAD:,} bytes at most.")

    def _check_host(self, request: Request) -> None:
        given = request.headers.getlist("host")
        if len(given) != 1:
            raise _refusal(400, f"A request must have one Host header, got {len(given)}.")
        host = _HOST.fullmatch(given[0].lower())
        if self._hosts is not None and (host is None or host[1] not in self._hosts):
            raise _refusal(
                421,
                "This server answers to localhost and 127.0.0.1 only. Open it by one of these "
                "names, or start it with --host and --token to reach it by another.",
            )

    def _check_token(self, request: Request) -> None:
        if self._token is None:
            return
        given = request.query_params.get("token", "")
        opening = request.scope["path"] == "/" and request.method == "GET"
        if opening and _same(given.encode("utf-8", "replace"), self._token):
            # The address without the token is what stays in the history.
            home = RedirectResponse("/", 303)
            home.set_cookie(self._cookie, self._key, httponly=True, samesite="strict")
            raise _Ended(home)
        for value in request.headers.getlist("authorization"):
            kind, _, token = value.partition(" ")
            if kind.lower() == "bearer" and _same(token.strip().encode("latin-1"), self._token):
                return
        held = request.cookies.get(self._cookie, "")
        if _same(held.encode("utf-8", "replace"), self._key.encode()):
            return
        raise _refusal(
            401,
            "A token is needed. Open the address that modgap serve printed, or send the token as "
            "'Authorization: Bearer'.",
            {"www-authenticate": "Bearer"},
        )

    @staticmethod
    def _check_origin(request: Request) -> None:
        """Requests that change something must come from this server's page, or from no page."""
        if request.method not in CHANGING:
            return
        own = f"{request.scope.get('scheme', 'http')}://{request.headers['host']}".lower()
        elsewhere = any(o.lower() != own for o in request.headers.getlist("origin"))
        sites = request.headers.getlist("sec-fetch-site")
        if elsewhere or any(site not in ("same-origin", "none") for site in sites):
            raise _refusal(403, "Requests that change something must come from this page.")

    async def _body(self, request: Request, receive: Receive) -> bytes:
        """The whole body, counted as it comes: its Content-Length proves nothing."""
        # The rest of the body is still on its way and must not be taken for a new request.
        close = {"connection": "close"}
        too_large = _refusal(413, f"A request may hold at most {self._max_body:,} bytes.", close)
        for said in request.headers.getlist("content-length"):
            if not (said.isascii() and said.isdigit()):
                raise _refusal(400, "Content-Length must be a whole number.")
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
            late = f"A request must be sent within {self._max_seconds:g} seconds."
            raise _refusal(408, late, close) from None


class _Answer:
    """Sends what the app answers, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send, self._started = send, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = MutableHeaders(scope=message)
            for name, value in {**HEADERS, "cache-control": "no-store"}.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def end(self, end: _Ended, scope: Scope, receive: Receive) -> None:
        if self._started:  # too late for another answer; the server closes the connection
            raise end
        await end.response(scope, receive, self.send)


def _same(given: bytes, known: bytes) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    # Digests, because compare_digest takes less time where the lengths differ.
    digests = (hashlib.sha256(secret).digest() for secret in (given, known))
    return hmac.compare_digest(*digests)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand the body to the app in one piece; afterwards it hears what the connection says."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
