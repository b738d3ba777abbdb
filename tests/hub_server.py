"""A hub on this machine: the few endpoints that huggingface_hub calls for one file and its card."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Files = dict[str, bytes]


class Hub:
    """Repositories: their commits, oldest first, each with all its files."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, Files]] = {}
        self.asked: list[str] = []
        self.may_write = True
        self.url = ""

    def commit(self, name: str, files: Files) -> str:
        """A commit that adds or replaces files; its name."""
        commits = self.repositories.setdefault(name, {})
        held = {**(list(commits.values())[-1] if commits else {}), **files}
        sha = hashlib.sha1(repr((name, len(commits), sorted(held.items()))).encode()).hexdigest()
        commits[sha] = held
        return sha

    def at(self, name: str, revision: str) -> tuple[str, Files] | str:
        """The commit and its files, or the hub's name for what is wrong."""
        commits = self.repositories.get(name)
        if commits is None:
            return "RepoNotFound"
        sha = [*commits][-1] if revision == "main" else revision
        return (sha, commits[sha]) if sha in commits else "RevisionNotFound"


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _say(self, found: Any) -> None:
            self._send(200, json.dumps(found).encode(), Content_Type="application/json")

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append(f"{self.command} {path}")
            of_file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            of_model = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path)
            found = of_file or of_model
            if found is None:
                self._send(404)
                return
            held = hub.at(found[1], found[2] or "main")
            if isinstance(held, str):
                self._send(404 if held != "RepoNotFound" else 401, X_Error_Code=held)
                return
            sha, files = held
            if of_model:
                siblings = [{"rfilename": name} for name in files]
                self._say({"id": found[1], "sha": sha, "siblings": siblings})
            elif found[3] not in files:
                self._send(404, X_Error_Code="EntryNotFound", X_Repo_Commit=sha)
            else:
                data = files[found[3]]
                etag = f'"{hashlib.sha1(data).hexdigest()}"'
                self._send(200, data, ETag=etag, X_Repo_Commit=sha)

        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append(f"POST {path}")
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not hub.may_write:
                self._send(403, b'{"error": "You may not write here."}')
                return
            if path == "/api/repos/create":
                made = json.loads(body)
                name = f"{made['organization']}/{made['name']}"
                if not hub.repositories.get(name):
                    hub.commit(name, {".gitattributes": b""})
                self._say({"url": f"{hub.url}/{name}"})
            elif path == "/api/validate-yaml":
                self._say({"errors": [], "warnings": []})
            elif "/preupload/" in path:
                files = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                         for one in json.loads(body)["files"]]  # fmt: skip
                self._say({"files": files})
            else:
                found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path)
                assert found is not None, path
                entries = [json.loads(line) for line in body.decode().splitlines()]
                files = {one["value"]["path"]: base64.b64decode(one["value"]["content"])
                         for one in entries if one["key"] == "file"}  # fmt: skip
                sha = hub.commit(found[1], files)
                self._say(
                    {"commitUrl": f"{hub.url}/{found[1]}/commit/{sha}", "commitOid": sha,
                     "success": True}
                )  # fmt: skip

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def call_instead(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Let huggingface_hub call this address instead of the one everybody knows."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@contextmanager
def own_hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Hub]:
    """A hub that huggingface_hub calls, with an empty cache."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    from huggingface_hub import constants, utils

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    utils.disable_progress_bars()
    with hub_server() as hub:
        call_instead(monkeypatch, hub.url)
        yield hub
    utils.enable_progress_bars()
