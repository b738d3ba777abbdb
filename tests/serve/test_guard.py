"""Who may ask, from where and how much; strict headers; no way to files of the machine."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient

from modgap.serve import Explorer
from modgap.serve.guard import HEADERS, Guard
from serving import HOME, NASTY, PNG, make_client, make_data

TOKEN = "correct horse/battery?"
SEARCH = {"modality": "text", "row": 0}


@pytest.fixture(scope="module")
def client():
    return make_client(Explorer(make_data(pictures=lambda _: PNG)))


@pytest.fixture
def locked():
    return make_client(token=TOKEN)


# -- headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "address", "options", "status"),
    [
        ("GET", "/", {}, 200),
        ("GET", "/static/app.js", {}, 200),
        ("GET", "/docs", {}, 200),
        ("GET", "/api/info", {}, 200),
        ("GET", "/api/thumbnails/image/1", {}, 200),
        ("GET", "/nothing", {}, 404),
        ("GET", "/api/search", {}, 405),
        ("POST", "/api/search", {"json": {}}, 422),
        ("POST", "/api/search", {"content": b"x" * 1_000_001}, 413),
        ("POST", "/api/search", {"json": SEARCH, "headers": {"origin": "http://evil"}}, 403),
        ("GET", "/api/info", {"headers": {"host": "evil.example"}}, 421),
        ("GET", "/api/items?contains=" + "x" * 5_000, {}, 414),
    ],
)
def test_every_answer_has_the_strict_headers(client, method, address, options, status):
    answer = client.request(method, address, **options)
    assert answer.status_code == status
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "frame-ancestors 'none'" in policy
    cached = address in ("/", "/static/app.js")
    assert answer.headers["cache-control"] == ("no-cache" if cached else "no-store")


def test_a_failing_route_is_500_in_json_with_the_same_headers(caplog, monkeypatch):
    def broken(**given: object) -> None:
        raise RuntimeError("secret place")

    explorer = Explorer(make_data())
    client = make_client(explorer)
    monkeypatch.setattr(explorer, "search", broken)
    with caplog.at_level(logging.ERROR):
        answer = client.post("/api/search", json={"modality": "text", "row": 0})
    assert answer.status_code == 500
    assert answer.json() == {"detail": "The server failed on this request; its log says why."}
    assert "secret place" in caplog.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/info").status_code == 200


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "..", "../app.py", "..%2fapp.py", "%2e%2e/%2e%2e/etc/passwd", "..%5c..%5cwin.ini", "%00",
        "app.js%00.png", "/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd", "C:%5cboot.ini",
        "app.js/", "./app.js", "index.html", "", "APP.JS", "~", "%c0%ae%c0%ae/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", ["/static/", "/api/thumbnails/image/", "/api/thumbnails/"])
def test_no_path_leads_to_a_file(client, folder, name):
    answer = raw_get(client, folder + name)
    # "../app.py" is walked by no one: the address is looked up as it is.
    assert answer[0] == 404, answer
    assert b"root:" not in answer[1]


def raw_get(client: TestClient, path: str) -> tuple[int, bytes]:
    """GET without the client's tidying of `..`, decoded once as a server does."""
    from urllib.parse import unquote_to_bytes

    target, _, query = path.partition("?")
    decoded = unquote_to_bytes(target).decode("utf-8", "replace")
    answer = asgi(client.app, "GET", decoded, raw_path=target.encode(), query=query.encode())
    return answer.status, answer.body


# -- token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["/", "/static/app.js", "/docs", "/openapi.json", "/healthz", "/api/info", "/none"]
)
def test_with_a_token_nothing_is_answered_without_it(locked, address):
    answer = locked.get(address)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "A token is needed" in answer.json()["detail"]


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {TOKEN}",
        f"bearer {TOKEN}x",
        TOKEN,
        "Bearer \xff",
    ],
)
def test_a_wrong_token_is_refused(locked, value):
    answer = locked.get("/api/info", headers={"authorization": value.encode("latin-1")})
    assert answer.status_code == 401


def test_the_right_token_is_let_in_as_bearer(locked):
    answer = locked.get("/api/info", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


def test_a_token_may_hold_any_printable_characters():
    client = make_client(token="schlüssel für π")
    header = {"authorization": "Bearer schlüssel für π".encode()}
    assert client.get("/api/info", headers=header).status_code == 200
    opened = client.get("/", params={"token": "schlüssel für π"}, follow_redirects=False)
    assert opened.status_code == 303


def test_opening_the_address_sets_a_cookie_and_strips_the_token(locked):
    first = locked.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert locked.get("/").status_code == 200
    assert locked.post("/api/search", json=SEARCH).status_code == 200
    locked.cookies.clear()
    assert locked.get("/").status_code == 401


@pytest.mark.parametrize("address", ["/?token=wrong", "/?token=", "/api/info?token={}"])
def test_a_token_in_the_address_counts_only_if_right_and_only_for_the_page(locked, address):
    answer = locked.get(address.format(TOKEN), follow_redirects=False)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_cookie_of_another_run_is_refused(locked):
    other = make_client(token=TOKEN)
    cookie = other.get("/", params={"token": TOKEN}, follow_redirects=False).headers["set-cookie"]
    name_and_value = cookie.partition(";")[0]
    assert locked.get("/", headers={"cookie": name_and_value}).status_code == 401
    own = locked.get("/", params={"token": TOKEN}, follow_redirects=False).headers["set-cookie"]
    name = own.partition("=")[0]
    for value in ("", "x", '"', "\\", name_and_value.partition("=")[2]):
        assert locked.get("/", headers={"cookie": f"{name}={value}"}).status_code == 401


# -- host and origin ------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost", "LOCALHOST:80", "[::1]:8321"])
def test_loopback_names_are_answered(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8321", "127.0.0.1.evil.example", "localhost.evil.example",
        "localhost@evil.example", "evil.example@localhost", "127.0.0.2", "192.168.0.1", "0.0.0.0",
        "", "localhost:port", "localhost/evil", "[::1", "loc\xe4lhost",
    ],
)  # fmt: skip
def test_a_name_made_to_point_here_is_refused(client, host):
    answer = client.get("/healthz", headers={"host": host.encode("latin-1")})
    assert answer.status_code == 421


def test_a_request_without_or_with_two_hosts_is_refused(client):
    for hosts in ([], [(b"host", b"localhost"), (b"host", b"evil.example")]):
        assert asgi(client.app, "GET", "/healthz", headers=hosts).status == 400


def test_any_name_is_answered_where_the_server_is_open_to_others():
    client = make_client(token=TOKEN, hosts=None)
    headers = {"host": "gpu.lab:8321", "authorization": f"Bearer {TOKEN}"}
    assert client.get("/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": HOME}, 200),
        ({"origin": HOME, "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "https://127.0.0.1:8321"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_only_the_page_itself_may_change_something(client, headers, status):
    assert client.post("/api/search", json=SEARCH, headers=headers).status_code == status
    deleted = client.delete("/api/jobs/none", headers=headers).status_code
    assert deleted == (404 if status == 200 else 403)
    assert client.get("/api/info", headers=headers).status_code == 200


def test_what_a_form_of_another_page_can_send_is_not_taken_for_json(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.post(
            "/api/search", content=json.dumps(SEARCH), headers={"content-type": kind}
        )
        assert answer.status_code == 422
        assert isinstance(answer.json()["detail"], str)


# -- size -----------------------------------------------------------------------------------------


def test_a_body_of_the_largest_size_is_read_and_one_byte_more_is_not(client):
    head = {"content-type": "application/json"}
    body = json.dumps(SEARCH).encode()
    padded = body + b" " * (1_000_000 - len(body))
    assert client.post("/api/search", content=padded, headers=head).status_code == 200
    assert client.post("/api/search", content=padded + b" ", headers=head).status_code == 413


def test_a_body_in_pieces_is_counted_and_not_read_to_its_end(client):
    sent = []

    def pieces() -> Iterator[dict[str, Any]]:
        for _ in range(100):
            sent.append(1)
            yield {"type": "http.request", "body": b" " * 100_000, "more_body": True}

    for said in ([], [(b"content-length", b"10")]):
        sent.clear()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), *said]
        answer = asgi(client.app, "POST", "/api/search", headers=headers, messages=pieces())
        assert answer.status == 413
        assert len(sent) == 11


@pytest.mark.parametrize("said", [b"-1", b"1e3", b"many", b"", b"9" * 40])
def test_a_length_that_is_none_or_too_large_is_refused(client, said):
    headers = [(b"host", b"localhost"), (b"content-length", said)]
    answer = asgi(client.app, "POST", "/api/search", headers=headers)
    assert answer.status == (413 if said.isdigit() else 400)


def test_whoever_hangs_up_gets_no_answer(client):
    answer = asgi(client.app, "POST", "/api/search", messages=iter([{"type": "http.disconnect"}]))
    assert answer.status == 0


def test_a_body_that_never_ends_is_given_up():
    async def silent() -> dict[str, Any]:
        await asyncio.sleep(30)
        raise AssertionError

    answer = Answer()
    guard = Guard(lambda *_: None, max_seconds=0.05)
    in_a_loop(guard, scope("POST", "/api/search"), silent, answer.send)
    assert answer.status == 408


def test_a_websocket_is_refused(client):
    answer = asgi(client.app, "GET", "/", kind="websocket")
    assert answer.closed


def test_names_in_errors_are_text(client):
    answer = client.post("/api/search", json={"modality": NASTY[:40], "row": 0})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/json"
    assert NASTY[:20] in answer.json()["detail"]


# -- ASGI by hand ---------------------------------------------------------------------------------


class Answer:
    """What an app sent."""

    def __init__(self) -> None:
        self.status, self.body, self.closed = 0, b"", False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "websocket.close":
            self.closed = True
        else:
            self.body += message.get("body", b"")


def in_a_loop(work: Any, *given: Any) -> None:
    """Run it in a loop of its own: that of the browser may run in this thread."""
    with start_blocking_portal() as portal:
        portal.call(work, *given)


def scope(method: str, path: str, **more: Any) -> dict[str, Any]:
    made = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "root_path": "",
        "raw_path": path.encode(), "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"localhost")], "asgi": {"version": "3.0"},
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    return {**made, **more}


def asgi(
    app: Any,
    method: str,
    path: str,
    *,
    headers: list[tuple[bytes, bytes]] | None = None,
    messages: Iterator[dict[str, Any]] | None = None,
    raw_path: bytes | None = None,
    query: bytes = b"",
    kind: str = "http",
) -> Answer:
    """Ask an app directly, as no client would."""
    incoming = messages or iter([{"type": "http.request", "body": b"", "more_body": False}])
    answer = Answer()
    asked = scope(method, path, query_string=query, type=kind, raw_path=raw_path or path.encode())
    if headers is not None:
        asked["headers"] = headers

    async def receive() -> dict[str, Any]:
        return next(incoming, {"type": "http.disconnect"})

    in_a_loop(app, asked, receive, answer.send)
    return answer
