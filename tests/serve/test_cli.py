"""``modgap serve`` as a user runs it: a process that starts, answers and stops; and refusals."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from command_line import make_files, modgap, refuse, start
from modgap.serve.server import address_of, check_exposed, is_loopback, listen

TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    make_files(folder, 60)
    return folder


@contextmanager
def serving(*words: object) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A server in a process of its own, its address, and what it said."""
    process = start("serve", *words, "--port", 0, "--no-umap")
    said: list[str] = []
    assert process.stderr is not None
    try:
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"http://\S+", line):
                break
        else:
            pytest.fail(f"the server did not start: {''.join(said)}")
        # A full pipe would stop the server.
        reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
        reader.start()
        yield process, found.group(), said
        process.wait(20)
        reader.join(20)
    finally:
        process.kill()
        process.communicate()


def get(address: str, **headers: str) -> tuple[int, Any]:
    try:
        with urlopen(Request(address, headers=headers), timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def search(address: str, **headers: str) -> Any:
    """What the row 3 of the texts finds."""
    asked = json.dumps({"modality": "text", "row": 3}).encode()
    headers["Content-Type"] = "application/json"
    with urlopen(Request(address + "api/search", asked, headers), timeout=30) as answer:
        return json.load(answer)


def test_a_server_starts_answers_and_stops_on_ctrl_c(files):
    with serving(files / "image.npy", files / "text.npy") as (process, address, said):
        assert address.startswith("http://127.0.0.1:")
        assert json.loads(get(address + "api/info")[1])["dim"] == 16
        status, page = get(address)
        assert status == 200
        for name in re.findall(rb'(?:src|href)="(static/[^"]+)"', page):
            assert get(address + name.decode())[0] == 200
        assert len(search(address)["raw"]) == 10
        assert get(address, Host="evil.example")[0] == 421
        deadline = time.monotonic() + 120
        while (got := get(address + "api/report"))[0] == 202:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        document = json.loads(got[1])
        assert (got[0], document["schema"], document["live"]) == (200, "modgap/report/2", True)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert said[-1] == "stopped.\n"
    assert "Traceback" not in "".join(said)


def test_ctrl_c_ends_a_server_that_is_at_work(tmp_path):
    make_files(tmp_path, 4_000)
    with serving(tmp_path / "image.npy", tmp_path / "text.npy") as (process, address, said):
        assert get(address + "api/report")[0] == 202
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert "Traceback" not in "".join(said)


def test_a_server_open_to_others_wants_its_token_and_saves_what_its_monitor_saw(files, tmp_path):
    pytest.importorskip("prometheus_client")
    from modgap import GapMonitor

    file = tmp_path / "monitor.safetensors"
    words = ("--monitor", "--monitor-file", file, "--host", "0.0.0.0", "--token", TOKEN)
    with serving(files / "image.npy", files / "text.npy", *words) as (process, address, said):
        port = re.search(r":(\d+)/", address).group(1)
        here, token = f"http://127.0.0.1:{port}/", {"Authorization": f"Bearer {TOKEN}"}
        assert address.endswith("/?token=…")
        assert get(here + "api/info")[0] == 401
        assert search(here, **token)
        seen = get(here + "metrics", **token)[1]
        assert b'modgap_rows_total{modality="text",role="query"} 1.0' in seen
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    assert "/metrics" in "".join(said)
    assert "some" not in "".join(said)  # the token is not printed
    assert GapMonitor.load(file).counts()[0] == {"text queries": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in, so a token is needed."),
        (["--host", "::"], "lets other machines in"),
        (["--host", "192.0.2.1", "--token", TOKEN], "cannot be listened on"),
        (["--host", "no such host", "--token", TOKEN], "is no address of this machine"),
        (["--token", "short"], "A token must have at least 8 printable characters, got 5."),
        (["--token", ""], "at least 8"),
        (["--port", "70000"], "'--port'"),
        (["--rows", "0"], "'--rows'"),
        (["--metric", "cosin"], "Did you mean 'cosine'?"),
        (["--goal", "best"], "goal must be one of"),
        (["--images", "."], "these have none"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(files, words, said):
    port = [] if "--port" in words else ["--port", "0"]
    told = refuse("serve", files / "image.npy", files / "text.npy", *words, *port)
    assert said in told
    assert len(told.strip().splitlines()) == 1


def test_the_token_may_come_from_the_environment(files, monkeypatch):
    monkeypatch.setenv("MODGAP_TOKEN", "short")
    ran = modgap("serve", files / "image.npy", files / "text.npy")
    assert "A token must have at least 8" in ran.err


def test_a_port_in_use_is_one_sentence(files):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = modgap("serve", files / "image.npy", files / "text.npy", "--port", port)
    assert ran.status == 2
    assert ran.err == (
        f"modgap: Port {port} of 127.0.0.1 is in use. Choose another with --port, or --port 0 for "
        "any that is free.\n"
    )


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_without_the_extra_it_is_named(files, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert refuse("serve", files / "image.npy", files / "text.npy", "--port", 0) == (
        f"modgap: modgap serve needs {missing}, which is not installed. "
        "Install it with: pip install 'modgap[serve]'\n"
    )


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True),
        ("0.0.0.0", False), ("::", False), ("192.168.1.4", False), ("example.org", False),
        ("", False), ("127.0.0.1.example.org", False),
    ],
)  # fmt: skip
def test_only_addresses_of_this_machine_need_no_token(host, loopback):
    assert is_loopback(host) == loopback
    if loopback:
        check_exposed(host, None)


def test_the_address_names_the_port_that_was_free():
    with listen("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        assert port > 0
        assert address_of(opened, "127.0.0.1", None) == f"http://127.0.0.1:{port}/"
        assert address_of(opened, "::1", "a b&c") == f"http://[::1]:{port}/?token=a%20b%26c"
        assert socket.gethostname() in address_of(opened, "0.0.0.0", None)
