"""A web server of the files of a folder, with ranges; it can be told to misbehave."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class WebFiles:
    """What is served, what was asked for, and what goes wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.ranges = True
        # Requests of rows that are cut off before they are answered.
        self.failures = 0
        self.url = ""


@contextmanager
def web_files(folder: Path) -> Iterator[WebFiles]:
    """Serve a folder on this machine while the block lasts."""
    files = WebFiles(folder)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(send=False)

        def do_GET(self) -> None:
            self._answer(send=True)

        def _answer(self, *, send: bool) -> None:
            name = self.path.partition("?")[0]
            files.asked.append(f"{self.command} {name}")
            if send and files.failures > 0:
                files.failures -= 1
                self.close_connection = True
                return
            path = folder / name.strip("/")
            if not path.is_file():
                self.send_error(404)
                return
            data = path.read_bytes()
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
            if asked and files.ranges:
                start, end = int(asked[1]), int(asked[2]) + 1
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
                data = data[start:end]
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
            self.end_headers()
            if send:
                self.wfile.write(data)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # whoever asked has gone

    server = Server(("127.0.0.1", 0), Handler)
    files.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
