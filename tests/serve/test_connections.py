"""What holds while others hold on to connections: deadlines, limits, a quiet log, flat memory."""

from __future__ import annotations

import errno
import gc
import http.client
import json
import logging
import os
import re
import resource
import signal
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from command_line import make_files, start
from modgap.core.checks import InputValueError
from modgap.io import Embeddings, Modalities, open_embeddings
from modgap.serve import Explorer
from modgap.serve.app import Asset, make_app
from modgap.serve.connections import Limits, Sparing
from modgap.serve.server import MAX_HEAD, listen
from serving import ASSETS, make_client, make_data, served, tiny_document

TOKEN = "a token of some length"
HALF_HEAD = b"GET /api/info HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
BIG = 8_000_000  # more than the kernel holds for a client that does not read


@contextmanager
def serving(
    limits: Limits | None = None, opened: socket.socket | None = None
) -> Iterator[SimpleNamespace]:
    """The port of a server, and its connections."""
    assets = {**ASSETS, "big.js": Asset(bytes(BIG), "text/javascript")}
    app = make_app(Explorer(make_data()), tiny_document, assets=assets, token=TOKEN)
    with served(app, limits, opened) as (server, port):
        yield SimpleNamespace(port=port, connections=server.server_state.connections)


def ask(port: int, path: str = "/api/info", **headers: str) -> tuple[int, bytes]:
    """One request with the token, on a connection of its own."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        client.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", **headers})
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def half_heads(port: int, n: int, held: ExitStack) -> list[socket.socket]:
    made = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(n)]
    for one in made:
        one.sendall(HALF_HEAD)
    return made


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def is_closed(one: socket.socket) -> bool:
    """Whether the other side has ended a connection, within a while."""
    one.settimeout(20)
    try:
        while one.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


@contextmanager
def dripping(one: socket.socket) -> Iterator[None]:
    """Send a byte now and then while the block runs."""
    stop = threading.Event()

    def drip() -> None:
        with suppress(OSError):
            while not stop.wait(0.05):
                one.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_a_new_connection_is_closed_while_there_are_as_many_as_may_be():
    with serving(Limits(connections=20)) as server, ExitStack() as held:
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        held.callback(kept.close)
        kept.connect()
        made = half_heads(server.port, 19, held)
        assert eventually(lambda: len(server.connections) == 20)
        for _ in range(3):
            with pytest.raises(ConnectionError):
                ask(server.port)
            assert len(server.connections) <= 20
        kept.request("GET", "/healthz", headers={"Authorization": f"Bearer {TOKEN}"})
        assert kept.getresponse().read() == b'{"status":"ok"}'  # those who are in stay
        made[0].close()
        assert eventually(lambda: len(server.connections) < 20)
        assert ask(server.port)[0] == 200


def test_half_heads_give_their_places_back_at_their_deadline():
    with serving(Limits(connections=20, head_seconds=0.2)) as server, ExitStack() as held:
        made = half_heads(server.port, 20, held)
        with dripping(made[0]):  # a byte now and then does not move the deadline
            assert all(is_closed(one) for one in made)
        assert eventually(lambda: len(server.connections) == 0)
        assert ask(server.port)[0] == 200


def test_the_next_head_of_a_kept_connection_has_a_deadline_too():
    with (
        serving(Limits(head_seconds=0.2)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as one,
    ):
        one.sendall(HALF_HEAD + b"\r\n\r\n" + HALF_HEAD)
        said = b""
        while part := one.recv(1 << 16):
            said += part
        assert said.startswith(b"HTTP/1.1 401")
        assert said.count(b"HTTP/1.1") == 1


def test_a_body_that_drips_on_after_its_refusal_is_not_waited_for():
    head = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"
    with (
        serving(Limits(head_seconds=0.2)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as one,
    ):
        one.sendall(head)
        assert one.recv(1 << 16).startswith(b"HTTP/1.1 401")
        with dripping(one):
            assert is_closed(one)


def test_an_answer_that_is_not_read_is_given_up_and_one_that_is_read_slowly_is_not():
    request = (
        f"GET /static/big.js HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )
    # A slow reader that the system does not let run for a while must not be given up.
    limits = Limits(head_seconds=0.2, read_seconds=2.0)
    with serving(limits) as server, ExitStack() as held:
        asleep, slow = (
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for _ in range(2)
        )
        for one in (asleep, slow):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            one.sendall(request.encode())
        got, begun = 0, time.monotonic()
        while part := slow.recv(1 << 16):
            got += len(part)
            time.sleep(0.013)
        assert got > BIG
        assert time.monotonic() - begun > limits.read_seconds  # or it says nothing
        assert eventually(lambda: len(server.connections) == 0)
        assert is_closed(asleep)


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged():
    """On a connection that is kept that would take 40 ms each time."""
    with (
        listen("127.0.0.1", 0) as opened,
        socket.create_connection(opened.getsockname()),
        opened.accept()[0] as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_log_and_the_loop_stay_quiet_when_no_connection_can_be_taken(caplog):
    class Exhausted(socket.socket):
        """Has no descriptor left for the first connections."""

        refused = 0

        def accept(self) -> Any:
            if self.refused < 15:
                self.refused += 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    opened = Exhausted(socket.AF_INET, socket.SOCK_STREAM)
    opened.bind(("127.0.0.1", 0))
    opened.listen(128)
    with serving(opened=opened) as server:
        assert ask(server.port)[0] == 200
    assert opened.refused == 15
    [said] = caplog.messages
    assert said.startswith("socket.accept() out of system resource")


def test_what_cannot_be_understood_is_logged_once(capfd):
    with serving() as server:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", server.port)) as one:
                one.sendall(b"\x00 nonsense\r\n\r\n")
                assert one.recv(1 << 16).startswith(b"HTTP/1.1 400")
            assert ask(server.port, Upgrade="h2c", Connection="Upgrade")[0] == 200
    assert len(capfd.readouterr().err.splitlines()) <= 3


def test_heads_have_a_largest_size():
    with serving() as server:
        assert ask(server.port, X="x" * (MAX_HEAD - 1000))[0] == 200
        status, said = ask(server.port, X="x" * MAX_HEAD)
        assert status in (400, 431), said
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.sendall(HALF_HEAD + b"x" * MAX_HEAD)
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 400")
    answer = make_client().get("/healthz", headers={"x": "x" * MAX_HEAD})
    assert answer.status_code == 431
    assert answer.json()["detail"] == "The headers of a request may hold 16,384 bytes at most."


def test_there_are_no_more_connections_than_descriptors(monkeypatch):
    unlimited = resource.RLIM_INFINITY
    for allowed, connections in ((unlimited, 512), (4096, 512), (400, 200), (64, 32)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, n=allowed: (n, n))
        assert Limits().connections == connections


def test_what_is_held_back_is_counted():
    clock = [0.0]
    sparing = Sparing(seconds=60, now=lambda: clock[0])

    def said(message: str) -> str | None:
        line = logging.makeLogRecord({"msg": message, "name": "server"})
        return line.getMessage() if sparing.filter(line) else None

    assert [said("full") for _ in range(3)] == ["full", None, None]
    assert said("other") == "other"
    clock[0] = 61
    assert said("full") == "full (2 times more since last said)"
    for number in range(1_000):  # words that differ each time
        said(f"peer {number}")
    assert len(sparing._said) <= 101


def open_sockets(process: int) -> int:
    found = 0
    for one in Path(f"/proc/{process}/fd").iterdir():
        try:
            found += os.readlink(one).startswith("socket:")
        except FileNotFoundError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_300_half_heads_do_not_exhaust_a_server_of_few_descriptors(tmp_path):
    make_files(tmp_path, 60)
    files = [tmp_path / "image.npy", tmp_path / "text.npy"]

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    words = (*files, "--port", 0, "--no-umap", "--token", TOKEN)
    log = tmp_path / "log"
    with log.open("w") as err, ExitStack() as held:
        process = start("serve", *words, stderr=err, preexec_fn=few_files)
        held.callback(process.communicate)
        held.callback(process.kill)
        assert eventually(lambda: "http://" in log.read_text())
        port = int(re.search(r":(\d+)/", log.read_text()).group(1))
        with ExitStack() as attack:
            with suppress(ConnectionError):  # those beyond the limit are closed
                half_heads(port, 300, attack)
            # Those beyond the limit are accepted, and closed at once.
            assert eventually(lambda: open_sockets(process.pid) < 150)
        assert eventually(lambda: open_sockets(process.pid) < 20)
        assert [ask(port)[0] for _ in range(5)] == [200] * 5
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert len(log.read_bytes()) < 4_000


def test_searches_leave_memory_flat():
    with serving() as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        body = json.dumps({"modality": "text", "row": 3})
        headers = {"Authorization": f"Bearer {TOKEN}", "content-type": "application/json"}

        def search(times: int) -> int:
            for _ in range(times):
                client.request("POST", "/api/search", body, headers)
                answer = client.getresponse()
                assert (answer.status, len(json.load(answer)["raw"])) == (200, 10)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        search(10)
        tracemalloc.start()
        try:
            before = search(10)
            assert search(40) - before < 20_000
        finally:
            tracemalloc.stop()
            client.close()


def test_the_live_rows_stay_when_their_files_shrink_and_go(tmp_path):
    make_files(tmp_path, 60)
    paths = [tmp_path / "image.npy", tmp_path / "text.npy"]
    data = Modalities.of(*(open_embeddings(path) for path in paths))
    client = make_client(Explorer(data, rows=60))
    asked = {"modality": "text", "row": 59}
    before = client.post("/api/search", json=asked).json()
    for path in paths:
        with path.open("r+b") as file:
            file.truncate(128)
    assert client.post("/api/search", json=asked).json() == before
    assert np.isfinite(client.app.state.explorer.data.X).all()


def test_rows_outside_the_index_are_refused_in_words_once_their_file_changed():
    class Changed(Embeddings):
        """Rows whose reader says that the file is no longer the one it opened."""

        def take(self, indices: Any) -> np.ndarray:
            if len(indices) == 1:
                raise InputValueError("image.npy changed while it was read.")
            return super().take(indices)

    data = make_data()
    sides = {name: Changed(s.source, s.matrix, s.columns) for name, s in data.sides.items()}
    client = make_client(Explorer(replace(data, sides=sides), rows=10))
    live = set(client.app.state.explorer.index.live["image"].numbers)
    row = next(row for row in range(40) if row not in live)
    answer = client.post("/api/search", json={"modality": "image", "row": row})
    assert (answer.status_code, answer.json()) == (
        422,
        {"detail": "image.npy changed while it was read."},
    )
