"""Peak memory of ``modgap serve``: start, report, searches, and fits in the workbench.

    python benchmarks/serve_memory.py [--write] [--rows 100000] [--dim 512]

Starts the server on two new files as a user would, waits for the report, searches as it is and
corrected in both kinds of index with queries of both modalities, fits corrections in the workbench,
searches with each, and cancels a fit while it runs. Peak memory is the whole process's (VmHWM),
libraries included. Fails when the limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from mixed import write_into
from page import make_files

HERE = Path(__file__).parent
LIMIT = 1.5
FITS = (("Calibrate", {"mode": "mixed"}), ("Shift", {"amount": 1.0}), ("Whiten", {}))


class Served:
    """A server in a process of its own, asked over HTTP."""

    def __init__(self, folder: Path, rows: int, dim: int) -> None:
        log = folder / "log"
        words = ["serve", *make_files(folder, rows, dim), "--port", "0"]
        with log.open("w") as err:
            self.process = subprocess.Popen([sys.executable, "-m", "modgap", *words], stderr=err)
        while not (found := re.search(r":(\d+)/", log.read_text())):
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.1)
        self.port = int(found.group(1))

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        client = HTTPConnection("127.0.0.1", self.port, timeout=600)
        words = None if body is None else json.dumps(body)
        client.request(method, path, words, {"content-type": "application/json"})
        answer = client.getresponse()
        said = json.loads(answer.read())
        client.close()
        assert answer.status < 400, said
        return answer.status, said

    def memory(self) -> tuple[float, float]:
        """Gigabytes now and at most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        now, most = (re.search(rf"{key}:\s+(\d+)", status).group(1) for key in ("VmRSS", "VmHWM"))
        return int(now) * 1024 / 1e9, int(most) * 1024 / 1e9

    def report(self) -> None:
        """Wait for it."""
        while self.ask("GET", "/api/report")[0] == 202:
            time.sleep(0.5)

    def search(self, correction: str | None) -> None:
        """Queries of both modalities, in both kinds of index."""
        for modality in ("image", "text"):
            for index in ("all", "one_side"):
                asked = {"modality": modality, "row": 7, "index": index, "correction": correction}
                self.ask("POST", "/api/search", asked)

    def start_fit(self, method: str, parameters: dict[str, float]) -> str:
        asked = {"method": method, "parameters": parameters}
        return str(self.ask("POST", "/api/corrections", asked)[1]["job"])

    def ended(self, job: str) -> dict[str, Any]:
        """The job once it has ended."""
        while (now := self.ask("GET", f"/api/jobs/{job}")[1])["state"] in ("queued", "running"):
            time.sleep(0.1)
        return dict(now)

    def fit(self, method: str, parameters: dict[str, float]) -> None:
        """Fit, evaluate, and search with what was fitted."""
        job = self.ended(self.start_fit(method, parameters))
        assert job["state"] == "done", job["error"]
        self.search(job["result"]["id"])

    def cancel(self) -> None:
        """Cancel a fit that runs, in the middle of a step."""
        job = self.start_fit("Calibrate", {"hubs": 0.5})
        while self.ask("GET", f"/api/jobs/{job}")[1]["state"] == "queued":
            time.sleep(0.05)
        time.sleep(1)
        state = self.ask("DELETE", f"/api/jobs/{job}")[1]["state"]
        assert state in ("cancelled", "done")  # few rows are fitted by then


def measure(rows: int, dim: int) -> list[tuple[str, float, float, float]]:
    """Every stage: seconds it took, gigabytes after it, and the peak so far."""
    stages = []
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        server = Served(Path(folder), rows, dim)

        def stage(what: str, work: Callable[..., Any], *given: Any) -> None:
            begin = time.perf_counter()
            work(*given)
            stages.append((what, time.perf_counter() - begin, *server.memory()))
            print(f"{what}: {stages[-1][1]:.1f} s", file=sys.stderr)

        try:
            stages.append(("started", time.perf_counter() - start, *server.memory()))
            stage("searched as it is", server.search, None)
            stage("report made", server.report)
            found = server.ask("GET", "/api/corrections")[1]["corrections"]
            for one in found:
                stage(f"searched with {one['name']}", server.search, "recommended")
            for method, parameters in FITS:
                stage(f"fitted and searched {method}", server.fit, method, parameters)
            stage("a fit cancelled while it ran", server.cancel)
        finally:
            server.process.terminate()
            server.process.wait()
    return stages


def main() -> None:
    """Measure, print and compare with the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    given = parser.parse_args()
    stages = measure(given.rows, given.dim)
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    table = [f"{date.today()}: {machine}. {given.rows:,} pairs × {given.dim}, float32."]
    table += ["", "| stage | GB after it | peak GB so far |", "|---|--:|--:|"]
    table += [f"| {what} | {now:.2f} | **{most:.2f}** |" for what, _, now, most in stages]
    print("\n".join(table))
    if given.write:
        write_into(HERE / "README.md", "memory", "\n".join(table))
    if stages[-1][3] > LIMIT:
        sys.exit(f"over the limit of {LIMIT} GB")


if __name__ == "__main__":
    main()
