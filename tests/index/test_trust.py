"""Folders that can run code when they are opened are opened only when that is asked for."""

from __future__ import annotations

import base64
import os
import pickle
import sqlite3
import subprocess

import numpy as np
import pytest

from index_services import MODGAP, make_store, modgap, rows
from modgap.core.checks import InputValueError
from modgap.corrections import Center
from modgap.index import open_index

X, Y = rows(12, 4)
CORRECTION = Center().fit(X, Y).correction_


class Planted:
    """A pickle that makes a folder when it is read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture
def store(tmp_path):
    """A folder of Qdrant's embedded mode with an index in it; none was there before."""
    store = make_store("qdrant", tmp_path)
    with open_index(store.address, CORRECTION, create=True) as index:
        index.write(X, "image")
    return store


def plant(address: str, folder: str) -> None:
    """Put a pickle that runs code beside the points, as a stranger could."""
    (storage,) = (
        os.path.join(home, name)
        for home, _, names in os.walk(address.removeprefix("qdrant:"))
        for name in names
        if name.endswith(".sqlite")
    )
    key = base64.b64encode(pickle.dumps("planted")).decode()
    with sqlite3.connect(storage) as database:
        planted = pickle.dumps(Planted(folder))
        database.execute("INSERT INTO points (id, point) VALUES (?, ?)", (key, planted))
    database.close()


def test_a_folder_of_pickles_is_not_read_without_trust(store, tmp_path):
    plant(store.address, str(tmp_path / "ran"))
    for create in (False, True):
        with pytest.raises(InputValueError, match=r"pickles, and these can run any code.*--trust"):
            open_index(store.address, CORRECTION, create=create, replace=create)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(InputValueError, match="cannot be used"):  # it is no point
        open_index(store.address, CORRECTION, trust=True)
    assert (tmp_path / "ran").exists()  # what trust lets happen


def test_a_folder_that_is_trusted_is_searched_and_added_to(store):
    with open_index(store.address, CORRECTION, trust=True) as index:
        index.write(Y, "text")
        assert index.count() == 2 * len(X)


def test_an_empty_folder_and_memory_need_no_trust(tmp_path):
    pytest.importorskip("qdrant_client", reason="qdrant_client is not installed")
    (tmp_path / "empty").mkdir()
    for where in (tmp_path / "empty", ":memory:"):
        with open_index(f"qdrant:{where}", CORRECTION, create=True) as index:
            index.write(X[:2], "image")
            assert index.count() == 2


def test_the_command_line_asks_for_trust_and_says_so_in_the_next_command(store, tmp_path):
    CORRECTION.save(tmp_path / "c.safetensors")
    np.save(tmp_path / "image.npy", X)
    common = (store.address, tmp_path / "c.safetensors")
    documents = f"image={tmp_path / 'image.npy'}"
    commands = [
        ("search", *common, tmp_path / "image.npy", "--modality", "image"),
        ("evaluate", *common, documents),
        ("build", *common, documents, "--replace"),
    ]
    for command in commands:
        refused = modgap("index", *command, ok=False)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert "--trust" in refused.stderr
    for command in commands:
        said = modgap("index", *command, "--trust").stderr
    assert "--modality text --trust" in said


def test_a_folder_of_chroma_needs_trust_and_its_pickles_are_not_run_all_the_same(tmp_path):
    store = make_store("chroma", tmp_path)
    CORRECTION.save(tmp_path / "c.safetensors")
    np.save(tmp_path / "image.npy", np.tile(X, (100, 1)))  # so many that a graph is kept
    build = ("index", "build", store.address, tmp_path / "c.safetensors", "--ef-search", "20",
             f"image={tmp_path / 'image.npy'}")  # fmt: skip
    modgap(*build)
    search = ("index", "search", *build[2:6], tmp_path / "image.npy", "--modality", "image")
    for command in (search, (*build, "--replace")):
        refused = modgap(*command, ok=False)
        assert "and these can run any code" in refused.stderr
        assert refused.stderr.count("\n") == 1
    modgap(*search, "--row", "0", "--trust")
    (graph,) = (tmp_path / "chroma").rglob("index_metadata.pickle")
    graph.write_bytes(pickle.dumps(Planted(str(tmp_path / "ran"))))
    # In a process of its own: the one that made a graph keeps it.
    ran = subprocess.run([*MODGAP, *map(str, search), "--row", "0", "--trust"],
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 2
    assert "cannot be used" in ran.stderr
    assert not (tmp_path / "ran").exists()


def test_a_file_of_duckdb_reads_no_other_file(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    store = make_store("duckdb", tmp_path)
    with open_index(store.address, CORRECTION, create=True) as index:
        index.write(X, "image")
    secret = tmp_path / "secret.csv"
    secret.write_text("id,modality\n7,image\n")
    with open_index(store.address, CORRECTION) as index:
        index.search(Y[:1], "text", 1)
        with pytest.raises(duckdb.PermissionException, match="disabled by configuration"):
            index._connection.execute(f"FROM '{secret}'")
    with duckdb.connect(store.address.removeprefix("duckdb:")) as planted:
        (note,) = planted.execute("SELECT comment FROM duckdb_tables()").fetchone()
        planted.execute("ALTER TABLE modgap RENAME TO other")
        planted.execute(f"CREATE VIEW modgap AS SELECT *, NULL AS embedding FROM '{secret}'")
        planted.execute(f"COMMENT ON VIEW modgap IS '{note}'")
    with pytest.raises(InputValueError, match="There is no index"):
        open_index(store.address, CORRECTION)


def test_a_lance_table_that_brings_models_along_is_refused(tmp_path):
    lancedb = pytest.importorskip("lancedb", reason="lancedb is not installed")
    path = tmp_path / "x.lance"
    with open_index(path, CORRECTION, create=True) as index:
        index.write(X, "image")
    table = lancedb.connect(tmp_path).open_table("x")
    planted = table.to_arrow().replace_schema_metadata({"embedding_functions": "[]"})
    lancedb.connect(tmp_path).create_table("x", planted, mode="overwrite")
    with pytest.raises(InputValueError, match="was not built by modgap"):
        open_index(path, CORRECTION)
