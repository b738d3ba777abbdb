"""Indexes in files of SQL, DuckDB's and SQLite's: several processes, foreign tables, damage."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from index_services import check_exact, exit_status, make_store, rows
from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Calibrate, Center, Correction
from modgap.index import open_index, sqlite_index

X, Y = rows()
N = len(X)
CENTER, CALIBRATED = Center().fit(X, Y).correction_, Calibrate().fit(X, Y).correction_
KINDS = pytest.mark.parametrize("kind", ["duckdb", "sqlite"])


def build(store, correction=CENTER):
    with store.open(correction, create=True) as index:
        index.write_all({"image": X, "text": Y})


@KINDS
def test_a_file_is_searched_by_many_and_changed_by_one(kind, tmp_path):
    """SQLite lets others search meanwhile; DuckDB lets them only where nobody changes it."""
    store = make_store(kind, tmp_path)
    build(store)
    CENTER.save(tmp_path / "c.safetensors")
    code = (
        "import sys\nimport numpy as np\nfrom modgap.core.checks import InputError\n"
        "from modgap.index import open_index\n"
        "rows = np.ones((2, 8), dtype=np.float32)\n"
        "with open(sys.argv[3], 'w') as file:\n"
        "    try:\n"
        "        with open_index(*sys.argv[1:3]) as index:\n"
        "            print(index.search(rows, 'image', 3).ids.shape, file=file)\n"
        "            index.write(rows, 'text', range(2), upsert=True, trust_rows=True)\n"
        "    except InputError as error: print(error, file=file)"
    )

    def by_another_process():
        arguments = (store.address, tmp_path / "c.safetensors", tmp_path / "printed")
        assert exit_status(code, *map(str, arguments)) == 0
        return (tmp_path / "printed").read_text().splitlines()

    with store.open(CENTER) as index:
        found = index.search(X[:2], "image", 3)
        shown, *refused = by_another_process()
        assert shown == "(2, 3)"
        assert bool(refused) == (kind == "duckdb")
        assert all(" cannot be used: " in line and "lock" in line for line in refused)
        assert np.array_equal(index.search(X[:2], "image", 3).ids, found.ids)
        index.write(X[:2], "image", range(2), upsert=True)  # now for writing
        *shown, refused = by_another_process()
        assert shown == ([] if kind == "duckdb" else ["(2, 3)"])
        assert ("lock" if kind == "duckdb" else "Another process is writing to") in refused
    assert by_another_process() == ["(2, 3)"]


@KINDS
def test_threads_share_an_index(kind, tmp_path):
    store = make_store(kind, tmp_path)
    build(store)
    with store.open(CENTER) as index, ThreadPoolExecutor(4) as pool:
        index.write(X[:1], "image", ids=[0], upsert=True)  # opens the file for writing
        wanted = index.search(Y, "text", 3, only="text").ids
        adding = pool.submit(index.write, X, "image", [*range(100, 100 + N)])
        for found in pool.map(lambda _: index.search(Y, "text", 3, only="text").ids, range(8)):
            assert np.array_equal(found, wanted)
        assert adding.result() == N
        assert index.count() == 3 * N


@KINDS
def test_a_table_that_is_not_ours_is_left_alone(kind, tmp_path):
    library = importlib.import_module({"duckdb": "duckdb", "sqlite": "sqlite3"}[kind])
    store = make_store(kind, tmp_path)
    with contextlib.closing(library.connect(tmp_path / f"x.{kind}")) as connection:
        connection.execute("CREATE TABLE modgap AS SELECT 42 AS answer")
        connection.commit()
    for more in ({}, {"create": True}, {"create": True, "replace": True}):
        with pytest.raises(InputValueError, match="was not built by modgap"):
            store.open(CENTER, **more)
    build(make_store(kind, tmp_path / "other"))
    with store.open(CENTER, create=True, table="ours") as index:
        index.write(X, "image")
        index.drop()
    with contextlib.closing(library.connect(tmp_path / f"x.{kind}")) as connection:
        assert connection.execute("SELECT * FROM modgap").fetchall() == [(42,)]
        tables = "SELECT table_name FROM information_schema.tables"
        if kind == "sqlite":
            tables = "SELECT name FROM sqlite_schema"
        assert connection.execute(tables).fetchall() == [("modgap",)]


@KINDS
@pytest.mark.parametrize("content", [b"no database" * 900, None])
def test_what_is_no_database_is_refused_in_a_sentence(kind, content, tmp_path):
    store = make_store(kind, tmp_path)
    path = tmp_path / f"x.{kind}"
    path.mkdir() if content is None else path.write_bytes(content)
    for create in (False, True):
        with pytest.raises(InputValueError, match=rf"x\.{kind} (cannot be|is a folder)") as it:
            store.open(CENTER, create=create)
        assert "\n" not in str(it.value)
    if content is not None:
        assert path.read_bytes() == content


def test_an_empty_file_is_no_database_of_duckdb_and_an_empty_one_of_sqlite(tmp_path):
    for kind, message in (("duckdb", "cannot be used"), ("sqlite", "There is no index at")):
        store = make_store(kind, tmp_path)
        (tmp_path / f"x.{kind}").touch()
        with pytest.raises(InputValueError, match=message):
            store.open(CENTER)
    build(store)
    with store.open(CENTER) as index:
        assert index.count() == 2 * N


@KINDS
def test_a_file_that_was_cut_short_never_answers(kind, tmp_path):
    store = make_store(kind, tmp_path)
    build(store)
    path = tmp_path / f"x.{kind}"
    whole = path.read_bytes()
    for size in np.linspace(100, len(whole) - 1, 12).astype(int):
        path.write_bytes(whole[:size])
        with (
            pytest.raises(InputValueError, match=rf"x\.{kind} .+ (used: |or is damaged)[^\n]+$"),
            store.open(CENTER) as index,
        ):
            index.search(Y[:2], "text", 5)


def test_a_file_of_sqlite_that_is_locked_is_waited_for_and_then_refused(tmp_path, monkeypatch):
    # Not by the sqlite3 of Python: in one process, it and apsw do not see each other's locks.
    apsw = pytest.importorskip("apsw", reason="apsw is not installed")
    monkeypatch.setattr(sqlite_index, "_WAIT_MS", 50)
    store = make_store("sqlite", tmp_path)
    build(store)
    path = str(tmp_path / "x.sqlite")
    with store.open(CENTER) as index, contextlib.closing(apsw.Connection(path)) as other:
        other.execute("BEGIN IMMEDIATE")  # as another program that is about to write
        assert index.search(Y[:2], "text", 5).ids.shape == (2, 5)
        with pytest.raises(InputValueError, match=r"x\.sqlite cannot be used: .*is locked"):
            index.write(X[:2], "image")
        other.execute("COMMIT")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputValueError, match=r"x\.sqlite cannot be used: .*is locked"):
            index.search(Y[:2], "text", 5)
        other.execute("COMMIT")
        assert index.write(X[:2], "image") == 2
        assert index.count() == 2 * N + 2


def test_a_transaction_of_sqlite_that_was_killed_is_undone_by_the_next_search(tmp_path):
    store = make_store("sqlite", tmp_path)
    build(store, CALIBRATED)
    CALIBRATED.save(tmp_path / "c.safetensors")
    with store.open(CALIBRATED) as index:
        wanted = index.search(Y[:4], "text", 20)
    code = (
        "import os, sys\nfrom modgap.index import open_index\n"
        "index = open_index(*sys.argv[1:3])\n"
        "index._lock()\n"
        "index._connection.execute('PRAGMA cache_size = 1')\n"
        "with index._whole():\n"
        "    index._run('DELETE FROM modgap')\n"
        "    index._run('CREATE TABLE more AS SELECT zeroblob(9000000)')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert exit_status(code, store.address, str(tmp_path / "c.safetensors")) == -9
    assert (tmp_path / "x.sqlite-journal").stat().st_size > 0
    assert (tmp_path / "x.sqlite").stat().st_size > 9_000_000
    with store.open(CALIBRATED) as index:
        found = index.search(Y[:4], "text", 20)
        assert index.count() == 2 * N
    assert np.array_equal(found.ids, wanted.ids)
    assert np.array_equal(found.scores, wanted.scores)


def plain(metric):
    """A correction that leaves rows as they are."""
    maps = {(name, "document"): Affine(X.shape[1]) for name in ("image", "text")}
    return Correction(("image", "text"), maps, metric)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("metric", ["inner_product", "cosine"])
def test_scores_of_sqlite_are_exact_for_rows_of_any_length(metric, size, tmp_path):
    correction, store = plain(metric), make_store("sqlite", tmp_path)
    rows = X * np.logspace(-12, 12, N, dtype=np.float32)[:, None]
    rows[5] *= metric == "cosine"  # a row of zeros has no cosine
    queries = Y[:3] * np.float32(size)
    with store.open(correction, create=True) as index:
        index.write(rows, "image")
        found = index.search(queries, "text", N)
        half = index.search(queries, "text", N // 2)
        zeros = [] if metric == "cosine" else index.search(0 * Y[:1], "text", 3).scores.tolist()
    assert zeros in ([], [[0, 0, 0]])
    check_exact(half, correction, queries, "text", {"image": (rows, range(N))})
    lengths = [np.linalg.norm(side.astype(float), axis=1) for side in (queries, rows)]
    for line, query in enumerate(queries.astype(float)):
        scale = lengths[0][line] * lengths[1][found.ids[line]]
        exact = rows[found.ids[line]].astype(float) @ query
        if metric == "cosine":
            exact, scale = exact / scale, 1.0
        np.testing.assert_array_less(np.abs(found.scores[line] - exact), 1e-6 * scale + 1e-300)


@KINDS
def test_a_query_whose_distances_leave_float32_is_refused(kind, tmp_path):
    correction, store = plain("euclidean"), make_store(kind, tmp_path)
    build(store, correction)
    with store.open(correction) as index:
        documents = {"image": (X, range(N)), "text": (Y, range(N))}
        check_exact(index.search(Y[:3], "text", 9), correction, Y[:3], "text", documents)
        for size in (1e25, 1e38):
            queries = Y[:2] * np.array([[1], [size]], np.float32)
            with pytest.raises(InputValueError, match="of query 1 leave the range of float32"):
                index.search(queries, "text")


def test_a_file_of_sqlite_runs_nothing_that_it_holds(tmp_path):
    """A trigger or a view that calls a function with effects outside of the file is refused."""
    store = make_store("sqlite", tmp_path)
    build(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite")) as other:
        other.execute(
            "CREATE TRIGGER planted AFTER INSERT ON modgap BEGIN "
            "SELECT load_extension('/tmp/planted.so'); END"
        )
        other.commit()
    index = store.open(CENTER)
    with pytest.raises(InputValueError, match="cannot be used: "):
        index.write(X[:1], "image")
    index.close()
    with store.open(CENTER) as index:
        assert index.count() == 2 * N


def test_an_address_of_sqlite_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    make_store("sqlite", tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:x?mode=memory", "größe 50%.db"):
        with open_index(f"sqlite:{name}", CENTER, create=True) as index:
            index.write(X[:3], "image")
        with open_index(f"sqlite:{name}", CENTER) as index:
            assert index.count() == 3
        assert (tmp_path / name).is_file()
