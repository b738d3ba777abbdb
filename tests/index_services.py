"""What the tests of the indexes share: every database, a store in memory, exactness."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import uuid
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st

import command_line
from conftest import make_pairs
from fault_worker import Worker
from modgap.corrections import Affine, Calibrate, Center, Correction, OrthogonalShift
from modgap.index import VectorIndex, open_index
from reference_search import score, wide

MODGAP = [sys.executable, "-m", "modgap"]
# Library, and the extra that brings it, for each database.
LIBRARIES = {
    "faiss": "faiss",
    "lance": "lancedb",
    "pgvector": "psycopg",
    "qdrant": "qdrant_client",
    "milvus": "pymilvus",
    "duckdb": "duckdb",
    "sqlite": "sqlite_vec",
    "chroma": "chromadb",
}
# Real servers, which packages bring along, in the tests that are marked so: make test-integrations.
SERVERS = {"milvus-server": "milvus"}
STORES = [*sorted(LIBRARIES), *(pytest.param(kind, marks=pytest.mark.servers) for kind in SERVERS)]
# Chroma brings too much along for the environment of the other tests: make test-integrations.
INSTALLED = [kind for kind, library in LIBRARIES.items() if importlib.util.find_spec(library)]


@cache
def postgres_url() -> str:
    """A PostgreSQL server of this test process, with pgvector 0.6; it ends with the process."""
    for library in ("psycopg", "pgvector", "pgserver"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    url: str = new_server().get_uri()
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        # No test that shares this server takes it down, so nothing need wait for the disk.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET synchronous_commit = off")
        connection.execute("SELECT pg_reload_conf()")
    return url


def new_server() -> Any:
    """A server of pgserver; it ends with the process."""
    # Not in a folder of pytest: these are closed to the user that runs the server.
    folder = tempfile.TemporaryDirectory(prefix="modgap-pg-")
    atexit.register(folder.cleanup)
    runtime = Path(folder.name) / "run"
    runtime.mkdir(mode=0o700)
    # pgserver keeps its locks there, and platformdirs warns where it is not private or not set.
    with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
        import pgserver

        server = pgserver.get_server(Path(folder.name) / "data", cleanup_mode="delete")
    atexit.register(server.cleanup)
    return server


@cache
def milvus_url() -> str:
    """A server of Milvus of this test process; it ends with the process."""
    import milvus

    folder = tempfile.TemporaryDirectory(prefix="modgap-milvus-")
    atexit.register(folder.cleanup)
    server = milvus.MilvusServer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of ports that it tries
        server.set_base_dir(folder.name)
        server.start()
    atexit.register(server.stop)
    return f"milvus+http://127.0.0.1:{server.listen_port}"


def postgres_tool(name: str, *arguments: str, given: str = "", ok: bool = True) -> str:
    """Run psql or pg_dump on the server, as a user would; what it printed, or its complaint."""
    import pgserver

    path = Path(pgserver.__file__).parent / "pginstall" / "bin" / name
    ran = subprocess.run([path, *arguments], input=given, capture_output=True, text=True,
                         check=False)  # fmt: skip
    assert (ran.returncode == 0) is ok, ran.stderr
    return ran.stdout if ok else ran.stderr


def psql(sql: str, url: str | None = None, *, ok: bool = True) -> str:
    """Run SQL as its file says: ``psql -v ON_ERROR_STOP=1 -f …``."""
    options = ("-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-")
    return postgres_tool("psql", url or postgres_url(), *options, given=sql, ok=ok)


class MemoryIndex(VectorIndex):
    """Documents in a dictionary that outlives the index: all of `VectorIndex`, no database."""

    metrics: ClassVar = {name: (name, float) for name in ("cosine", "inner_product", "euclidean")}

    def __init__(self, held: dict[str, Any], correction: Any, *, batch_rows: int = 4096) -> None:
        super().__init__(correction, "the memory", batch_rows)
        self._held = held

    def _load_note(self) -> Any:
        return json.loads(self._held["note"]) if self._held else None

    def _save_note(self, note: Any) -> None:
        self._held["note"] = json.dumps(note)

    def _make(self, note: Any, id_type: str) -> None:
        self._held["documents"] = {}
        self._save_note(note)

    def _add(self, vectors: Any, modality: str, ids: Any, *, replace: bool) -> None:
        assert replace is any((modality, key) in self._held["documents"] for key in ids)
        for key, *stored in zip(ids, *vectors.values(), strict=True):
            self._held["documents"][modality, key] = dict(zip(vectors, stored, strict=True))

    def _remove(self, modality: str, ids: Any) -> None:
        for key in ids:
            del self._held["documents"][modality, key]

    def _known(self, modality: str, ids: Any) -> set[Any]:
        return {key for key in ids if (modality, key) in self._held["documents"]}

    def _ids_of(self, modality: str) -> list[Any]:
        return [key for name, key in self._held["documents"] if name == modality]

    def _nearest(self, vector: Any, queries: Any, k: int, only: str | None, exact: bool) -> Any:
        keys = [key for key in self._held["documents"] if only in (None, key[0])]
        held = np.array([self._held["documents"][key][vector.name] for key in keys], float)
        held = held.reshape(len(keys), vector.dim)
        asked = queries.astype(float)
        if self.metric == "cosine":
            held = held / np.linalg.norm(held, axis=1, keepdims=True)
            asked = asked / np.linalg.norm(asked, axis=1, keepdims=True)
        scores = asked @ held.T
        if self.metric == "euclidean":
            scores = -((asked[:, None] - held) ** 2).sum(axis=2)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return [
            [(keys[place][1], keys[place][0], line[place]) for place in places]
            for line, places in zip(scores.tolist(), best.tolist(), strict=True)
        ]

    def _count(self, only: str | None) -> int:
        return sum(only in (None, name) for name, _ in self._held["documents"])

    def _drop(self) -> None:
        self._held.clear()


# For tests of what `VectorIndex` itself does: no database need be asked.
IN_MEMORY = pytest.mark.parametrize("store", ["memory"], indirect=True)


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Store:
    """Where a test keeps an index: an address and the options that go with it."""

    kind: str
    address: str
    options: dict[str, Any]

    @property
    def words(self) -> list[str]:
        """The options on the command line."""
        table = ["--table", self.options["table"]] if "table" in self.options else []
        return table + ["--trust"] * ("trust" in self.options)

    def open(self, correction: Correction, **more: Any) -> Any:
        if self.kind == "memory":
            opening = {key: more.pop(key) for key in ("create", "replace") if key in more}
            monitor = more.pop("monitor", None)
            index = MemoryIndex(self.options["held"], correction, **more)
            index.monitor = monitor
            return index.open(**opening)
        return open_index(self.address, correction, **{**self.options, **more})


def make_store(kind: str, folder: Path) -> Store:
    if kind == "memory":
        return Store(kind, "", {"held": {}})
    library = {**LIBRARIES, **SERVERS}[kind]
    pytest.importorskip(library, reason=f"{library} is not installed")
    if kind == "pgvector":
        return Store(kind, postgres_url(), {"table": new_name()})
    if kind == "milvus-server":
        return Store(kind, milvus_url(), {"table": new_name()})
    ends = {"faiss": "x.faiss", "lance": "x.lance", "qdrant": "qdrant", "milvus": "x.db"}
    ends["chroma"] = "chroma"
    ends["duckdb"] = "x.duckdb"
    ends["sqlite"] = "x.sqlite"
    options = {"trust": True} if kind in ("qdrant", "chroma") else {}
    scheme = f"{kind}:" if kind in ("qdrant", "milvus", "duckdb", "sqlite", "chroma") else ""
    return Store(kind, f"{scheme}{folder / ends[kind]}", options)


def rows(n: int = 80, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_pairs(n, d, seed)
    return X.astype(np.float32), Y.astype(np.float32)


def make_table(
    connection: Any,
    key: str = "id bigint PRIMARY KEY",
    dim: str = "(8)",
    names: tuple[str, str] = ("image", "text"),
) -> str:
    """A table as people have them: both modalities of `rows`, mixed, raw."""
    table = new_name()
    connection.execute(f'CREATE TABLE "{table}" ({key}, modality text, embedding vector{dim})')
    columns = [c.split()[0] for c in key.split(", PRIMARY")[0].split(", ")]
    for row, pair in enumerate(zip(*rows(), strict=True)):
        for place, (name, vector) in enumerate(zip(names, pair, strict=True)):
            values = (*([2 * row + place] * len(columns)), name, vector)
            marks = ", ".join(["%s"] * len(values))
            connection.execute(
                f'INSERT INTO "{table}" ({", ".join(columns)}, modality, embedding) '
                f"VALUES ({marks})",
                values,
            )
    return table


def hand_made(d: int, seed: int = 5) -> Correction:
    """Twice as many columns come out, and every modality and role has a map of its own."""
    rng = np.random.default_rng(seed)
    maps = {
        (name, role): Affine(
            d, matrix=rng.normal(size=(2 * d, d)), scale=0.7, offset=rng.normal(size=2 * d)
        )
        for name in ("image", "text")
        for role in ("document", "query")
    }
    return Correction(("image", "text"), maps, "inner_product", {"method": "HandMade"})


def corrections(X: np.ndarray, Y: np.ndarray) -> dict[str, Correction]:
    return {
        "center": Center().fit(X, Y).correction_,
        "orthogonal": OrthogonalShift(explained_variance=0.5).fit(X, Y).correction_,
        "calibrate": Calibrate().fit(X, Y).correction_,
        "blocks": Calibrate(form="blocks").fit(X, Y).correction_,
        "given": Calibrate().fit(X, Y, rows="given", queries="image").correction_,
        "hand-made": hand_made(X.shape[1]),
    }


@st.composite
def any_correction(draw: Any) -> Any:
    """Any maps at all: with or without matrix, offset, scale, unit length, own query maps."""
    d = draw(st.integers(1, 6))
    d_out = draw(st.integers(1, 12))
    square = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def affine() -> Affine:
        return Affine(
            d,
            matrix=None if square else rng.normal(size=(d_out, d)),
            scale=draw(st.sampled_from([1.0, -0.5, 3.0])),
            offset=rng.normal(size=d if square else d_out) if draw(st.booleans()) else None,
            renormalise=draw(st.booleans()),
            normalise=draw(st.booleans()),
        )

    keys = [("image", "document"), ("text", "document")]
    keys += [(name, "query") for name in ("image", "text") if draw(st.booleans())]
    metric = draw(st.sampled_from(["cosine", "inner_product", "euclidean"]))
    correction = Correction(("image", "text"), {key: affine() for key in keys}, metric)
    counts = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    return correction, [rng.normal(size=(n, d)).astype(np.float32) for n in counts]


def check_exact(
    hits: Any,
    correction: Correction,
    queries: np.ndarray,
    modality: str,
    documents: dict[str, tuple[np.ndarray, list[Any]]],
) -> None:
    """The hits are the brute-force ranking of the corrected vectors, up to equal scores."""
    asked = wide(correction.apply(wide(queries), modality, "query"))
    held, keys = [], []
    for name, (vectors, ids) in documents.items():
        held += list(wide(correction.apply(wide(vectors), name, "document")))
        keys += [(name, key) for key in ids]
    place = {key: number for number, key in enumerate(keys)}
    k = hits.ids.shape[1]
    for line, q in enumerate(asked):
        exact = np.array([score(q, d, correction.metric) for d in held])
        best = np.argsort(-exact, kind="stable")[:k]
        tolerance = 1e-5 * max(1.0, float(np.abs(exact).max()))
        found = [
            place[name, key]
            for name, key in zip(
                hits.modalities[line].tolist(), hits.ids[line].tolist(), strict=True
            )
        ]
        assert len(set(found)) == k
        np.testing.assert_allclose(hits.scores[line], exact[best], atol=tolerance, rtol=0)
        np.testing.assert_allclose(exact[found], exact[best], atol=tolerance, rtol=0)


@cache
def _worker() -> Worker:
    libraries = [LIBRARIES[kind] for kind in INSTALLED]
    made = Worker("modgap.index.base", "modgap.corrections.files", *libraries)
    atexit.register(made.close)
    return made


def exit_status(code: str, *arguments: str) -> int:
    """How a process ends that runs the code: minus the signal that killed it."""
    return _worker()(Path.cwd(), " ".join(arguments), code=code)[0]


def modgap(*arguments: Any, ok: bool = True) -> Said:
    """Run the command line, which must end well or must not."""
    ran = command_line.modgap(*arguments)
    assert (ran.status == 0) is ok, ran.err
    return Said(ran.status, ran.out, ran.err)
