"""The snippets of docs/guides/search/databases.md and the example run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from index_services import LIBRARIES, modgap, postgres_url
from modgap.corrections import Calibrate
from modgap.datasets import load_digits
from modgap.index import add_column, open_index

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "search" / "databases.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
SQL = [text for language, text in BLOCKS if language == "sql"]


def make_items(url: str) -> None:
    """The table that the page says the reader has."""
    import psycopg
    from pgvector.psycopg import register_vector

    digits = load_digits()
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        connection.execute("DROP TABLE IF EXISTS items, documents")
        connection.execute(
            "CREATE TABLE items (id bigserial PRIMARY KEY, modality text, embedding vector(64))"
        )
        for name, vectors in (("image", digits.X[:50]), ("text", digits.Y[:50])):
            for vector in vectors:
                connection.execute(
                    "INSERT INTO items (modality, embedding) VALUES (%s, %s)", (name, vector)
                )


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    for library in {*LIBRARIES.values()} - {"chromadb"}:
        pytest.importorskip(library, reason=f"{library} is not installed")
    url = postgres_url()
    make_items(url)
    monkeypatch.chdir(tmp_path)
    code = "\n".join(text for language, text in BLOCKS if language == "python")
    # Embedded Qdrant waits for the disk after every point.
    code = code.replace("postgresql://user:password@host/database", url)
    exec(compile(code.replace("qdrant:points", "qdrant::memory:"), "databases.md", "exec"), {})
    shapes = ["['image', 'text']", "(1, 3) (1, 10)", *["(1, 3)"] * 5]
    assert capsys.readouterr().out.splitlines() == shapes


def test_the_sql_of_the_page_finds_what_the_index_finds():
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    from pgvector.psycopg import register_vector

    url = postgres_url()
    make_items(url)
    digits = load_digits()
    correction = Calibrate().fit(digits.X, digits.Y[digits.wording == 0]).correction_
    query = digits.Y[3]
    add_column(url, "items", correction)
    with open_index(url, correction, table="items") as index:
        hits = index.search(query, "text", k=5)
    block, _ = SQL
    *graphs, select = [part for part in block.split(";") if part.strip()]
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        for graph in graphs:
            connection.execute(graph)
        unit = query / np.linalg.norm(query)
        found = connection.execute(select, {"query": unit}).fetchall()
    np.testing.assert_allclose([score for *_, score in found], hits.scores[0], rtol=1e-5)
    listed = zip(hits.ids[0].tolist(), hits.modalities[0].tolist(), strict=True)
    assert {(key, name) for key, name, _ in found} == {*listed}


def test_the_sql_of_the_page_finds_what_an_index_of_sqlite_finds(tmp_path):
    apsw = pytest.importorskip("apsw", reason="apsw is not installed")
    sqlite_vec = pytest.importorskip("sqlite_vec", reason="sqlite_vec is not installed")
    digits = load_digits()
    correction = Calibrate().fit(digits.X, digits.Y[digits.wording == 0]).correction_
    with open_index(f"sqlite:{tmp_path}/x.db", correction, create=True) as index:
        index.write(digits.X[:300], "image")
        index.write(digits.Y[:100], "text")
        hits = index.search(digits.Y[3], "text", k=10)
    query = correction.apply(digits.Y[3:4], "text", "query").astype(np.float32).tobytes()
    connection = apsw.Connection(str(tmp_path / "x.db"))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    found = connection.execute(SQL[1], {"query": query}).fetchall()
    connection.close()
    assert found == [*zip(hits.ids[0].tolist(), hits.modalities[0].tolist(), strict=True)]


def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    digits = load_digits()
    np.save(tmp_path / "image.npy", digits.X)
    np.save(tmp_path / "text.npy", digits.Y[digits.wording == 0])
    monkeypatch.chdir(tmp_path)
    for name, side in (("image", digits.X), ("text", digits.Y[digits.wording == 0])):
        np.save(f"{name}-now.npy", side[100:])
    np.save("new.npy", digits.X[:3])
    (tmp_path / "ids.txt").write_text("1\n1799\n1900\n")
    blocks = [text for language, text in BLOCKS if language == ""]
    said = [modgap(*line.split()[1:]) for block in blocks for line in block.splitlines()]
    assert len(said) == 10
    assert len(said[2].stdout.splitlines()) == 6
    assert "1.0000" in said[3].stdout
    assert "stored 3 documents of image" in said[4].stderr
    assert "holds 2,005 documents" in said[5].stderr
    assert "deleted 3 of 3 ids of image" in said[6].stderr
    assert "still fits: where it says 1 expected wrong result there are" in said[7].stdout
    assert len(said[9].stdout.splitlines()) == 11


def test_the_example_brings_both_modalities_into_the_results():
    pytest.importorskip("pgserver", reason="pgserver is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "mixed_search.py"],
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    raw, calibrated = done.stdout.split("Vectors calibrated")
    assert "text 0 finds" in raw
    (line,) = [line for line in calibrated.splitlines() if line.startswith("  text 0 finds")]
    assert "image 0 " in f"{line} "
    assert "text 0 " in line.partition("finds")[2]
