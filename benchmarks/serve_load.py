"""Clients of ``modgap serve`` while others hold half-sent requests, and its memory over searches.

    python benchmarks/serve_load.py [--write]

Ten clients with the token search in turns without and with an attack: 300 sockets that send half
a request head, a byte of it a second, and connect again a second after they are closed. The
ratio is of the best medians of five turns each. Server, attack and clients share this machine.
Fails when a limit is passed.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from mixed import write_into
from page import make_files

HERE = Path(__file__).parent
TOKEN = "a token of some length"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
N_CLIENTS, N_SOCKETS, TURNS, SEARCHES = 10, 300, 5, 2_000
ROWS, DIM = 10_000, 128


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        words = [*make_files(folder, ROWS, DIM), "--port", "0", "--no-umap"]
        with self.log.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "modgap", "serve", *words],
                stderr=err,
                env={**os.environ, "MODGAP_TOKEN": TOKEN},
            )
        while not (found := re.search(r":(\d+)/", self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        self.port = int(found.group(1))
        while self.ask("GET", "/api/report").status == 202:
            time.sleep(0.5)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str, path: str) -> http.client.HTTPResponse:
        client = self.connect()
        client.request(method, path, headers=HEADERS)
        return client.getresponse()

    def searches(self, times: int, kept: bool) -> list[float]:
        """Milliseconds of searches by one client, on one connection or on one for each."""
        took, client = [], self.connect()
        for number in range(times):
            start = time.perf_counter()
            asked = json.dumps({"modality": "text", "row": number % ROWS})
            client.request("POST", "/api/search", asked, HEADERS)
            answer = client.getresponse()
            answer.read()
            assert answer.status == 200
            took.append(1_000 * (time.perf_counter() - start))
            if not kept:
                client.close()
                client = self.connect()
        client.close()
        return took

    def by_all_clients(self, times: int, kept: bool) -> list[float]:
        took: list[list[float]] = []
        threads = [
            threading.Thread(target=lambda: took.append(self.searches(times, kept)))
            for _ in range(N_CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(took) == N_CLIENTS, "a client was not served"
        return [each for client in took for each in client]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) / 1024

    def sockets(self) -> int:
        found = Path(f"/proc/{self.process.pid}/fd").iterdir()
        return sum(os.readlink(one).startswith("socket:") for one in found if one.is_symlink())


async def attack(port: int) -> None:
    """Hold half heads until killed; say when all were sent once."""
    first = asyncio.Semaphore(0)

    async def hold(number: int) -> None:
        await asyncio.sleep(number / N_SOCKETS)
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(HALF_HEAD)
                first.release()
                while not writer.is_closing():
                    await asyncio.sleep(1)
                    writer.write(b"x")
                    await writer.drain()
            except OSError:
                await asyncio.sleep(1)

    held = [asyncio.create_task(hold(number)) for number in range(N_SOCKETS)]
    for _ in held:
        await first.acquire()
    print("all sent", flush=True)
    await asyncio.gather(*held)


@contextmanager
def under_attack(port: int) -> Iterator[None]:
    command = [sys.executable, __file__, "--attack", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout.readline() == "all sent\n"
        try:
            yield
        finally:
            attacker.kill()


def latencies(server: Served, kept: bool) -> tuple[float, float]:
    """The best median of the turns, without and with the attack."""
    calm, attacked = [], []
    for _ in range(TURNS):
        calm.append(statistics.median(server.by_all_clients(30, kept)))
        with under_attack(server.port):
            attacked.append(statistics.median(server.by_all_clients(30, kept)))
    return min(calm), min(attacked)


def idle_attack(server: Served) -> tuple[float, int]:
    """The share of a core that an attack alone takes, and how many sockets it holds at most."""
    with under_attack(server.port):
        start, used, sockets = time.perf_counter(), server.cpu_seconds(), 0
        while time.perf_counter() - start < 15:
            sockets = max(sockets, server.sockets())
            time.sleep(0.5)
        return (server.cpu_seconds() - used) / (time.perf_counter() - start), sockets


def measure() -> list[tuple[str, str, str, bool]]:
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder))
        try:
            server.by_all_clients(20, True)
            kept, new = latencies(server, True), latencies(server, False)
            share, sockets = idle_attack(server)
            server.searches(200, True)
            before = server.megabytes()
            server.searches(SEARCHES, True)
            grown = server.megabytes() - before
            log = server.log.stat().st_size / 1_000
        finally:
            server.process.terminate()
            server.process.wait()
    lines = []
    for what, (calm, attacked) in (("one connection", kept), ("one for each search", new)):
        ratio = attacked / calm
        said = f"**{ratio:.2f}** ({attacked:.1f} against {calm:.1f} ms)"
        lines.append((f"latency of {N_CLIENTS} clients, {what}", said, "3.00", ratio <= 3))
    lines += [
        ("a core's time, the attack alone", f"**{share:.2f}**", "0.25", share <= 0.25),
        ("sockets then", f"**{sockets}**", "520", sockets <= 520),
        (f"memory after {SEARCHES:,} searches", f"**{grown:+.1f}** MB", "5 MB", grown <= 5),
        ("log in all", f"**{log:.1f}** kB", "10 kB", log <= 10),
    ]
    return lines


def main() -> None:
    """Measure, print and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--attack", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        asyncio.run(attack(given.attack))
    lines = measure()
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    table = [f"{date.today()}: {machine}.", "", "| what | measured | limit |", "|---|--:|--:|"]
    table += [f"| {what} | {said} | {limit} |" for what, said, limit, _ in lines]
    print("\n".join(table))
    if given.write:
        write_into(HERE / "README.md", "load", "\n".join(table))
    over = [what for what, _, _, held in lines if not held]
    if over:
        sys.exit(f"over the limit: {', '.join(over)}")


if __name__ == "__main__":
    main()
