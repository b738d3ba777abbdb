"""The contract of a store, on each real database; what they share, on a store in memory."""

from __future__ import annotations

import contextlib
import gc
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from index_services import (
    IN_MEMORY,
    LIBRARIES,
    check_exact,
    corrections,
    exit_status,
    make_store,
    rows,
)
from modgap import GapMonitor
from modgap.core.checks import InputTypeError, InputValueError, MissingExtraError
from modgap.corrections import Center
from modgap.index import evaluate_index, open_index
from modgap.index.changing import _MARKS
from modgap.index.metadata import FORMAT
from modgap.io import Embeddings

X, Y = rows()
CORRECTIONS = corrections(X, Y)
N = len(X)


class PowerCut(Exception):
    """What keeps an index from being finished."""


def build(store, correction, **more):
    with store.open(correction, create=True, **more) as index:
        index.write(X, "image")
        index.write(Y, "text")


@pytest.mark.parametrize(
    ("store", "name"),
    [("memory", name) for name in CORRECTIONS]
    + [(kind, name) for kind in sorted(LIBRARIES) for name in ("center", "hand-made")]
    + [pytest.param("milvus-server", name, marks=pytest.mark.servers) for name in CORRECTIONS],
    indirect=["store"],
)
def test_one_index_ranks_as_brute_force_over_the_corrected_vectors(store, name):
    correction = CORRECTIONS[name]
    build(store, correction)
    documents = {"image": (X, list(range(N))), "text": (Y, list(range(N)))}
    with store.open(correction) as index:
        assert index.count() == 2 * N
        for modality, queries in (("image", X[:6]), ("text", Y[:6])):
            if modality not in correction.queries:
                with pytest.raises(InputValueError, match=f"fit … --queries {modality}"):
                    index.search(queries, modality)
                continue
            hits = index.search(queries, modality, 9)
            check_exact(hits, correction, queries, modality, documents)
            for only in documents:
                hits = index.search(queries, modality, 5, only=only)
                assert set(hits.modalities.ravel()) == {only}
                check_exact(hits, correction, queries, modality, {only: documents[only]})
        result = evaluate_index(index, {"image": X, "text": Y}, k=10, sample=20)
    assert result.exact_found == dict.fromkeys(correction.queries, 1.0)
    assert result.corpus_share == {"image": 0.5, "text": 0.5}
    for share in result.share.values():
        assert sum(share.values()) == pytest.approx(1)


@IN_MEMORY
def test_a_monitor_is_told_of_documents_and_queries(store):
    correction = CORRECTIONS["center"]
    monitor = GapMonitor({"image": X, "text": Y}, correction, least_rows=50)
    with store.open(correction, create=True, monitor=monitor) as index:
        index.write(X, "image")
        index.write(Y, "text")
        hits = index.search(Y[:7], "text", 3)
        index.search(Y[7], "text", 3)
    held = monitor.live()
    assert monitor.counts() == ({"image": N, "text": N, "text queries": 8}, {})
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    assert held["image"].moments.mean == pytest.approx((X / lengths).mean(axis=0), abs=1e-6)
    with store.open(correction) as index:
        assert np.array_equal(index.search(Y[:7], "text", 3).ids, hits.ids)
    monitor.live()
    assert monitor.counts()[0]["text queries"] == 8


def test_ids_may_be_text_and_belong_to_their_modality(store):
    correction = CORRECTIONS["center"]
    names = [f'it\'s "{i}" é' for i in range(N)]
    source = Embeddings.from_array(X, ids=names)
    with store.open(correction, create=True) as index:
        index.write(source, "image")
        index.write(Y, "text", ids=np.array(names))
    with store.open(correction) as index:
        hits = index.search(X[3], "image", 4)
        assert hits.ids.shape == (1, 4)
        check_exact(hits, correction, X[3:4], "image", {"image": (X, names), "text": (Y, names)})
        with pytest.raises(InputTypeError, match="are text, got whole numbers"):
            index.write(X, "image", ids=np.arange(N))
        with pytest.raises(InputValueError, match=f"holds {N} of these ids of text already"):
            index.write(Y, "text", ids=names)


def test_rows_added_later_go_on_with_the_numbers(store):
    correction = CORRECTIONS["center"]
    with store.open(correction, create=True) as index:
        assert index.write(X[:30], "image") == 30
        assert index.write(X[30:50], "image") == 20
    with store.open(correction) as index:
        assert index.write(X[50:].astype(np.float16), "image") == N - 50
        assert index.write(Y[:5].astype(np.float64), "text") == 5
    with store.open(correction) as index:
        assert (index.count(), index.count("image"), index.count("text")) == (N + 5, N, 5)
        best = index.search(X, "image", 1)
        assert best.ids.ravel().tolist() == list(range(N))
        assert index.search(Y[0], "text", 10**8).ids.shape == (1, N + 5)
        assert index.search(Y[0], "text", 10**8, only="text").ids.shape == (1, 5)


def test_what_is_to_be_replaced_stays_until_the_new_rows_are_known_to_be_good(store):
    correction = CORRECTIONS["center"]
    build(store, correction)
    bad = X.copy()
    bad[3] = np.nan
    with (
        pytest.raises(InputValueError, match="1 row with NaN"),
        store.open(correction, create=True, replace=True) as index,
    ):
        index.write(bad, "image")
    gc.collect()
    with store.open(correction) as index:
        assert index.count() == 2 * N
    with store.open(correction, create=True, replace=True) as index:
        assert index.write(X[:7], "image") == 7
    with store.open(correction) as index:
        assert index.count() == 7


def test_results_that_are_missing_count_against_recall(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    correction = CORRECTIONS["center"]
    path = tmp_path / "few.faiss"
    with open_index(path, correction, create=True, factory="IVF16,Flat", nprobe=1) as index:
        index.write(X, "image")
        index.write(Y, "text")
    with open_index(path, correction, nprobe=1) as index:
        found = index.search(X[:10], "image", N)
        result = evaluate_index(index, {"image": X, "text": Y}, k=N, sample=10)
    most = found.ids.shape[1] / N
    assert result.exact_found["image"] <= most < 1


def test_an_index_that_was_not_finished_is_resumed_and_finishes(store):
    correction = CORRECTIONS["calibrate"]

    def cut(step: str, done: int, total: int) -> None:
        if (step, done) == ("storing text", 32):
            raise PowerCut

    with contextlib.suppress(PowerCut), store.open(correction, create=True, batch_rows=16) as index:
        index.write(X, "image")
        index.write(Y, "text", progress=cut)
    message = "no index" if store.kind == "faiss" else "was not finished"  # in memory until then
    with pytest.raises(InputValueError, match=message):
        store.open(correction)
    if store.kind != "faiss":
        with (
            pytest.raises(InputValueError, match="documents of other rows of text by these ids"),
            store.open(correction, create=True) as index,
        ):
            index.write_all({"image": X, "text": Y[::-1]})
    with store.open(correction, create=True, batch_rows=16) as index:
        assert index.write(X, "image") == (N if store.kind == "faiss" else 0)
        assert index.write(Y, "text") == (N if store.kind == "faiss" else N - 32)
    with store.open(correction) as index:
        assert index.count() == 2 * N
        result = evaluate_index(index, {"image": X, "text": Y}, sample=10)
        assert set(result.exact_found.values()) == {1.0}


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_a_build_in_many_writes_is_resumed_from_its_first_one(store):
    rows = np.resize(X, (2 * _MARKS, X.shape[1]))

    def writes(index, n):
        return [index.write(rows[k : k + 1], "image", ids=[k]) for k in range(n)]

    correction = CORRECTIONS["calibrate"]
    with contextlib.suppress(PowerCut), store.open(correction, create=True) as index:
        writes(index, len(rows) - 3)
        raise PowerCut
    with store.open(correction, create=True) as index:
        assert writes(index, len(rows)) == [0] * (len(rows) - 3) + [1] * 3


def test_an_index_that_exists_is_refused_replaced_or_dropped(store):
    correction = CORRECTIONS["center"]
    build(store, correction)
    with pytest.raises(InputValueError, match=r"exists already.*--replace"):
        store.open(correction, create=True)
    with store.open(CORRECTIONS["orthogonal"], create=True, replace=True) as index:
        index.write(X[:5], "image")
    with store.open(CORRECTIONS["orthogonal"]) as index:
        assert index.count() == 5
        index.drop()
        assert index.count() == 0
    with pytest.raises(InputValueError, match=r"There is no index at .*modgap index build"):
        store.open(correction)


@pytest.mark.parametrize("store", ["memory", "pgvector"], indirect=True)
def test_another_correction_is_refused(store):
    build(store, CORRECTIONS["center"])
    with pytest.raises(InputValueError, match="another correction"):
        store.open(CORRECTIONS["orthogonal"])
    with pytest.raises(InputValueError, match="another correction: dim 8, this one has 16"):
        store.open(CORRECTIONS["hand-made"])
    named = Center().fit(X, Y, names=("photo", "text")).correction_
    with pytest.raises(InputValueError, match=r"names \['image', 'text'\], this one has \['photo'"):
        store.open(named)


@pytest.mark.parametrize("store", ["memory", "faiss", "pgvector"], indirect=True)
def test_an_index_of_an_older_format_is_refused_in_words_and_replaced(store):
    correction = CORRECTIONS["calibrate"]
    build(store, correction)
    with store.open(correction) as index:
        note = {k: v for k, v in index._note.items() if k not in ("vectors", "graphs")}
        vectors = dict.fromkeys(index.vectors) if store.kind == "pgvector" else None
        index._save_note({**note, "format": 2, **({"vectors": vectors} if vectors else {})})
    gc.collect()
    with pytest.raises(InputValueError, match=f"in format 2, and this one reads {FORMAT}"):
        store.open(correction)
    gc.collect()
    with store.open(correction, create=True, replace=True) as index:
        index.write(X[:5], "image")
    with store.open(correction) as index:
        assert index.count() == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modality": "sound"}, "modality must be one of 'image', 'text', got 'sound'"),
        ({"modality": "imag"}, "Did you mean 'image'"),
        ({"vectors": X[:, :5]}, "for rows of 8 columns, but image has 5"),
        ({"vectors": np.where(np.arange(N)[:, None] == 70, np.nan, X)}, "NaN.*at row 70"),
        ({"vectors": X.astype(int)}, "must hold float16, float32 or float64"),
        ({"vectors": X[0]}, "must be a matrix"),
        ({"ids": [0] * N}, "ids must be unique within image, but 0 comes more than once"),
        ({"ids": range(3)}, "one entry per row of image: 80 rows, got shape"),
        ({"ids": np.arange(N) + 0.5}, "all be whole numbers or all be text"),
        ({"ids": np.arange(N, dtype=np.uint64) + 2**63}, "below 2"),
    ],
)
@IN_MEMORY
def test_documents_that_cannot_be_used_are_refused_and_nothing_is_written(
    store, arguments, message
):
    correction = CORRECTIONS["center"]
    given = {"vectors": X, "modality": "image", **arguments}
    with (
        pytest.raises((InputValueError, InputTypeError), match=message),
        store.open(correction, create=True, batch_rows=16) as index,
    ):
        index.write(**given)
    with pytest.raises(InputValueError, match="There is no index"):
        store.open(correction)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modality": None}, "A query needs its modality, 'image' or 'text'"),
        ({"modality": "sound"}, "modality must be one of"),
        ({"only": "sound"}, "only must be one of"),
        ({"k": 0}, "k must be at least 1"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"queries": X[:2, :3]}, "for rows of 8 columns, got 3"),
        ({"queries": np.full((1, 8), np.inf)}, "1 row with NaN or infinity"),
        ({"queries": np.zeros((0, 8))}, "at least one row"),
    ],
)
@IN_MEMORY
def test_queries_that_cannot_be_used_are_refused(store, arguments, message):
    build(store, CORRECTIONS["center"])
    given = {"queries": X[:2], "modality": "image", "k": 3, **arguments}
    with (
        store.open(CORRECTIONS["center"]) as index,
        pytest.raises((InputValueError, InputTypeError), match=message),
    ):
        index.search(**given)


@IN_MEMORY
def test_torch_queries_are_searched_like_arrays(store):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    build(store, CORRECTIONS["center"])
    with store.open(CORRECTIONS["center"]) as index:
        ours = index.search(Y[:4], "text", 3)
        theirs = index.search(torch.from_numpy(Y[:4]), "text", 3)
    np.testing.assert_array_equal(ours.ids, theirs.ids)


# The client of Qdrant leaves its lock file open when the folder is in use.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", sorted({*LIBRARIES} - {"milvus"}))
def test_two_builds_at_once_are_kept_apart(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.index.postgres._LOCK_TRIES", 2)
    store = make_store(kind, tmp_path)
    correction = CORRECTIONS["center"]
    with store.open(correction, create=True) as index:
        index.write(X, "image")
        with pytest.raises(InputValueError, match=r"Another process is writing|already accessed"):
            store.open(correction, create=True)
    gc.collect()
    with store.open(correction) as index:
        assert index.count() == N


def test_a_file_of_milvus_lite_in_use_by_another_process_is_refused(tmp_path):
    store = make_store("milvus", tmp_path)
    correction = CORRECTIONS["center"]
    correction.save(tmp_path / "c.safetensors")
    code = (
        "import sys\nfrom modgap.core.checks import InputError\n"
        "from modgap.index import open_index\n"
        "try: open_index(*sys.argv[1:], create=True)\n"
        "except InputError as error: print(error)"
    )
    with store.open(correction, create=True) as index:
        index.write(X, "image")
        other = subprocess.run(
            [sys.executable, "-c", code, store.address, str(tmp_path / "c.safetensors")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert "cannot be used: Open local milvus failed." in other.stdout


STEPS = {
    "duckdb": ("modgap.index", "DuckdbIndex", "_save_note _make _add _count"),
    "sqlite": ("modgap.index", "SqliteIndex", "_create _add _count"),
    "chroma": ("modgap.index", "ChromaIndex", "_make_room _make _add _count"),
    "milvus": (
        "pymilvus",
        "MilvusClient",
        "create_collection create_index load_collection upsert",
    ),
}


# A second each, most of which is the start of a server.
LONG_STEPS = ("create_index", "load_collection")


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        pytest.param(kind, step, marks=[pytest.mark.long] * (step in LONG_STEPS))
        for kind in STEPS
        for step in STEPS[kind][2].split()
    ],
)
def test_a_build_killed_at_any_step_is_built_again(tmp_path, kind, step):
    module, name, _ = STEPS[kind]
    (tmp_path / "killed").mkdir()
    store, correction = make_store(kind, tmp_path / "killed"), CORRECTIONS["center"]
    correction.save(tmp_path / "c.safetensors")
    np.savez(tmp_path / "rows.npz", image=X, text=Y)
    code = (
        "import os, sys\nimport numpy as np\nfrom modgap.index import open_index\n"
        f"from {module} import {name} as Stepping\n"
        f"step = Stepping.{step}\n"
        "def killed(*given, **named):\n"
        "    step(*given, **named)\n"
        "    os.kill(os.getpid(), 9)\n"
        f"Stepping.{step} = killed\n"
        f"options = dict(create=True, batch_rows=30, **{store.options})\n"
        "with open_index(*sys.argv[1:3], **options) as index:\n"
        "    index.write_all(np.load(sys.argv[3]))\n"
        "    index.finish()\n"
        "    index.write(np.load(sys.argv[3])['text'], 'text', range(80), upsert=True)"
    )
    places = [store.address, str(tmp_path / "c.safetensors"), str(tmp_path / "rows.npz")]
    assert exit_status(code, *places) == -9
    for replace in (False, True):
        again = make_store(kind, shutil.copytree(tmp_path / "killed", tmp_path / f"{replace}"))
        build(again, correction, replace=replace)
        with again.open(correction) as index:
            documents = {"image": (X, range(N)), "text": (Y, range(N))}
            check_exact(index.search(Y[:3], "text", 9), correction, Y[:3], "text", documents)


def test_a_folder_of_qdrant_is_flushed_once_a_batch(tmp_path):
    """Each point is a commit, which with a write-ahead log waits for no disk."""
    pytest.importorskip("qdrant_client", reason="qdrant_client is not installed")
    with open_index(f"qdrant:{tmp_path}/q", CORRECTIONS["center"], create=True) as index:
        index.write(X, "image")
        (file,) = (tmp_path / "q").rglob("*.sqlite")
        with contextlib.closing(sqlite3.connect(file)) as points:
            assert points.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert points.execute("SELECT count(*) FROM points").fetchone() == (N,)


@pytest.mark.parametrize("kind", ["faiss", "lance", "pgvector", "sqlite", "chroma"])
def test_what_two_processes_add_is_all_there(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.index.postgres._LOCK_TRIES", 2)
    store = make_store(kind, tmp_path)
    correction = CORRECTIONS["center"]
    with store.open(correction, create=True) as index:
        index.write(X[:10], "image")
    with store.open(correction) as slow:
        with store.open(correction) as quick:
            quick.write(X[10:20], "image")
            with pytest.raises(InputValueError, match="Another process is writing"):
                slow.write(Y[:5], "text")
        slow.write(Y[:5], "text")
    with store.open(correction) as index:
        assert (index.count("image"), index.count("text")) == (20, 5)


@IN_MEMORY
def test_vectors_that_the_index_was_not_built_from_are_refused(store):
    build(store, CORRECTIONS["center"])
    with store.open(CORRECTIONS["center"]) as index:
        with pytest.raises(InputValueError, match="holds 160 documents, but the vectors given"):
            evaluate_index(index, {"image": X})
        with pytest.raises(InputValueError, match="but text has 5"):
            evaluate_index(index, {"image": X, "text": Y[:, :5]})


def test_an_option_the_database_does_not_know_is_refused(tmp_path):
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    message = r"An option of \.lance must be one of 'ef_search', .*got 'factory'"
    with pytest.raises(InputValueError, match=message):
        open_index(tmp_path / "x.lance", CORRECTIONS["center"], factory="Flat", create=True)


@pytest.mark.parametrize(
    ("address", "library", "extra"),
    [
        ("x.faiss", "faiss", "faiss"),
        ("x.lance", "lancedb", "lancedb"),
        ("postgresql://localhost/x", "psycopg", "pgvector"),
        ("qdrant:x", "qdrant_client", "qdrant"),
        ("milvus:x.db", "pymilvus", "milvus"),
        ("duckdb:x.db", "duckdb", "duckdb"),
        ("sqlite:x.db", "apsw", "sqlite"),
        ("chroma:x", "chromadb", "chroma"),
    ],
)
def test_a_missing_library_names_its_extra(monkeypatch, address, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"{library}.*pip install 'modgap\[{extra}\]'"):
        open_index(address, CORRECTIONS["center"], create=True)


@pytest.mark.parametrize(
    ("address", "library"),
    [
        ("postgresql://127.0.0.1:1/x", "psycopg"),
        ("qdrant+http://127.0.0.1:1", "qdrant_client"),
        ("milvus+http://127.0.0.1:1", "pymilvus"),
    ],
)
def test_a_server_that_is_down_is_one_sentence(address, library):
    pytest.importorskip(library, reason=f"{library} is not installed")
    with pytest.raises(InputValueError, match="cannot be") as error:
        open_index(address, CORRECTIONS["center"], create=True)
    assert "\n" not in str(error.value)
    assert "127.0.0.1" in str(error.value)
