"""What the tests of the live explorer share: small data, an app in this process, a slow search."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from fastapi.testclient import TestClient

from modgap.arrays import row_blocks
from modgap.corrections import Correction
from modgap.evaluation import Evaluator
from modgap.io import Embeddings, Modalities
from modgap.serve import Explorer
from modgap.serve.app import Asset, make_app
from modgap.serve.connections import Limits, Server, run
from modgap.serve.server import listen

DIM = 8
N_X, N_Y = 40, 90
HOME = "http://127.0.0.1:8321"
NASTY = "<img src=x onerror=alert(1)>\"'&amp;\u2028"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)

ASSETS = {
    "index.html": Asset(b"<!doctype html><title>page</title>", "text/html"),
    "app.js": Asset(b"'use strict';", "text/javascript"),
    "plotly.js": Asset(b"// plotly", "text/javascript"),
    "app.css": Asset(b"body {}", "text/css"),
}


def make_rows(n: int, m: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Rows with a gap; group g of X has about m / n rows of Y."""
    rng = np.random.default_rng(11)
    latent = rng.normal(size=(n, DIM))
    offsets = 1.2 * rng.normal(size=(2, DIM))
    gx, gy = np.arange(n), np.arange(m) % n
    X = latent + offsets[0] + 0.3 * rng.normal(size=(n, DIM))
    Y = latent[gy] + offsets[1] + 0.3 * rng.normal(size=(m, DIM))
    return X.astype("float32"), Y.astype("float32"), (gx, gy)


def make_data(
    n: int = N_X,
    m: int = N_Y,
    *,
    paired: bool = True,
    pictures: Callable[[int], bytes | None] | None = None,
) -> Modalities:
    """Images with ids and texts with captions; ``pictures`` are those of the images."""
    X, Y, groups = make_rows(n, m)
    said = [f"Caption {row} of thing {row % n}" for row in range(m)]
    said[1] = NASTY
    x = Embeddings.from_array(X, ids=[f"scan-{row}.png" for row in range(n)], source="image.npy")
    y = Embeddings.from_array(Y, captions=said, source="text.npy")
    data = Modalities.of(x, y, groups=groups if paired else None, paired=paired)
    return data if pictures is None else replace(data, thumbnails={"image": pictures})


def tiny_document(progress: Any) -> dict[str, Any]:
    progress("measuring", 0, 1)
    return {"schema": "modgap/report/2", "title": NASTY, "gap": float("nan")}


class HeldReport:
    """A report that waits to be let go, in one long step, and is then what ``made`` gives."""

    def __init__(self, made: Callable[[Any], Mapping[str, Any]]) -> None:
        self.made, self.go, self.begun = made, threading.Event(), threading.Event()

    def __call__(self, progress: Any) -> Mapping[str, Any]:
        progress("diagnosing (hubs)", 20, 100)
        self.begun.set()
        for _ in row_blocks(10**15, 1):
            if self.go.wait(0.01):
                break
        return self.made(progress)


def make_client(
    explorer: Explorer | None = None, document: Any = tiny_document, **options: Any
) -> TestClient:
    """A client of an app in this process; its document is being made, as at the start."""
    explorer = explorer or Explorer(make_data())
    app = make_app(explorer, document, assets=ASSETS, **options)
    return TestClient(app, base_url=HOME, raise_server_exceptions=False)


@contextmanager
def served(
    app: Any, limits: Limits | None = None, opened: socket.socket | None = None
) -> Iterator[tuple[Server, int]]:
    """A server in a thread of this process, and its port."""
    with opened or listen("127.0.0.1", 0) as held:
        server = Server(app, limits)
        thread = threading.Thread(target=run, args=(server, held))
        thread.start()
        try:
            yield server, held.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)


@contextmanager
def endless_evaluation() -> Iterator[threading.Event]:
    """Evaluating a correction never ends; the event says that it has begun."""
    begun = threading.Event()

    def endless(self: Evaluator, correction: Correction) -> None:
        for _ in row_blocks(10**15, 1):
            begun.set()

    with mock.patch.object(Evaluator, "evaluate", endless):
        yield begun


def finished(client: TestClient, job: str) -> dict[str, Any]:
    """A job once it has ended."""
    client.app.state.jobs.wait(job, 60)  # type: ignore[attr-defined]
    return client.get(f"/api/jobs/{job}").json()


def fit(client: TestClient, method: str, **parameters: Any) -> dict[str, Any]:
    """The correction that the server fits."""
    started = client.post("/api/corrections", json={"method": method, "parameters": parameters})
    assert started.status_code == 202, started.text
    job = finished(client, started.json()["job"])
    assert job["state"] == "done", job
    return job["result"]


def slow_search(
    data: Modalities,
    query: np.ndarray,
    modality: str,
    k: int,
    correction: Correction,
    without: tuple[str, int] | None = None,
) -> list[tuple[str, int, float]]:
    """Every document, one by one, in float64: (modality, row, score), best first."""
    asked = correction.apply(query[None].astype("float64"), modality, "query")[0]
    found = []
    for name, side in data.sides.items():
        for row in range(side.n_rows):
            if (name, row) == without:
                continue
            document = correction.apply(side.take([row]).astype("float64"), name)[0]
            product = math.fsum(a * b for a, b in zip(asked, document, strict=True))
            if correction.metric == "cosine":
                lengths = math.hypot(*asked) * math.hypot(*document)
                found.append((-product / lengths, len(found), name, row, product / lengths))
            elif correction.metric == "inner_product":
                found.append((-product, len(found), name, row, product))
            else:
                far = math.dist(asked, document) ** 2
                found.append((far, len(found), name, row, -far))
    found.sort(key=lambda hit: hit[:2])
    return [(name, row, score) for _, _, name, row, score in found[:k]]


def brief(hits: list[Mapping[str, Any]]) -> list[tuple[str, int]]:
    return [(hit["modality"], hit["row"]) for hit in hits]
