"""Two corrections, one for each query modality: two vectors a document, in every database."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from index_services import (
    IN_MEMORY,
    check_exact,
    make_store,
    make_table,
    modgap,
    rows,
)
from modgap.core.checks import InputTypeError, InputValueError
from modgap.corrections import Calibrate, Center, load_corrections, save_corrections
from modgap.index import add_column, drop_column, evaluate_index, open_index

X, Y = rows()
N = len(X)
TWO = {name: Calibrate().fit(X, Y, queries=name).correction_ for name in ("text", "image")}
DOCUMENTS = {"image": (X, range(N)), "text": (Y, range(N))}


def build(store, **more):
    with store.open(TWO, create=True, **more) as index:
        index.write(X, "image")
        index.write(Y, "text")


def check_both(index):
    for name, correction in TWO.items():
        queries = DOCUMENTS[name][0][:5]
        check_exact(index.search(queries, name, 9), correction, queries, name, DOCUMENTS)


def test_a_query_searches_the_vectors_made_for_its_modality(store):
    if store.kind == "milvus-server":  # of version 2.3; several vectors came with 2.4
        with pytest.raises(InputValueError, match="multiple vector fields is not supported"):
            build(store)
        return
    build(store)
    with store.open([TWO["image"], TWO["text"]]) as index:
        assert set(index.vectors) == {"embedding_text", "embedding_image"}
        check_both(index)
        assert evaluate_index(index, {"image": X, "text": Y}, sample=20).exact_found == {
            "image": 1.0,
            "text": 1.0,
        }
        with pytest.raises(InputValueError, match="A query needs its modality"):
            index.search(X[:1])


@pytest.mark.parametrize("kind", ["faiss", "lance", "pgvector", "chroma"])
def test_two_vectors_have_graphs_of_their_own(tmp_path, kind):
    store = make_store(kind, tmp_path)
    build(store, **({"factory": "HNSW32,Flat"} if kind == "faiss" else {"ef_search": 100}))
    with store.open(TWO, ef_search=200) as index:
        assert index.graphs == "each"
        check_both(index)


@IN_MEMORY
def test_one_of_the_two_is_enough_to_search_and_both_are_needed_to_add(store):
    build(store)
    with store.open(TWO["image"]) as index:
        check_exact(index.search(X[:3], k=4), TWO["image"], X[:3], "image", DOCUMENTS)
        with pytest.raises(InputValueError, match="serves image queries, not text queries"):
            index.search(Y[:3], "text")
        with pytest.raises(InputValueError, match="Rows are added with the corrections of all"):
            index.write(X, "image", ids=np.arange(N) + 1000)
    gc.collect()
    with store.open(TWO) as index:
        index.write(X[:4], "image", ids=np.arange(4) + 1000)
        assert index.count() == 2 * N + 4


@IN_MEMORY
def test_an_index_of_one_vector_takes_the_folder_of_both(store, tmp_path):
    save_corrections(TWO, tmp_path / "correction.safetensors")
    with store.open(TWO["text"], create=True) as index:
        index.write(X, "image")
        index.write(Y, "text")
    with store.open(load_corrections(tmp_path)) as index:
        assert list(index.vectors) == ["embedding"]
        check_exact(index.search(Y[:3], "text", 4), TWO["text"], Y[:3], "text", DOCUMENTS)
        with pytest.raises(InputValueError, match="fit … --queries image"):
            index.search(X[:3], "image")
    gc.collect()
    other = Calibrate("mixed").fit(X, Y, queries="text").correction_
    with pytest.raises(InputValueError, match="built with another correction: its maps differ"):
        store.open({"text": other, "image": TWO["image"]})


def test_corrections_that_do_not_belong_together_are_refused(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    path = tmp_path / "x.faiss"
    center = Center().fit(X, Y).correction_
    named = Calibrate().fit(X, Y, names=("photo", "text")).correction_
    for given, message in (
        ([TWO["text"], TWO["text"], Calibrate("mixed").fit(X, Y).correction_], "different queries"),
        ([TWO["text"], center], "the same metric, got inner_product and cosine"),
        ([TWO["image"], named], "the same names"),
    ):
        with pytest.raises(InputValueError, match=message):
            open_index(path, given, create=True)
    for nothing in ([], {}, 7, [3]):
        with pytest.raises((InputTypeError, TypeError)):
            open_index(path, nothing, create=True)
    assert not path.exists()


def test_one_correction_that_serves_all_is_one_vector(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    center = Center().fit(X, Y).correction_
    given = dict.fromkeys(("image", "text"), center)
    with open_index(tmp_path / "x.faiss", given, create=True) as index:
        index.write(X, "image")
        assert list(index.vectors) == ["embedding"]
        assert set(index.corrections) == {"image", "text"}


def test_faiss_exports_the_vectors_made_for_the_queries(tmp_path):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    for factory, only in (("Flat", None), ("HNSW32,Flat", "image")):
        path = tmp_path / f"{factory}.faiss"
        with open_index(path, TWO, create=True, factory=factory, ef_search=only and 200) as index:
            index.write(X, "image")
            index.write(Y, "text", ids=np.arange(N) + 1000)
            for name in TWO:
                queries = DOCUMENTS[name][0][:6]
                index.export(tmp_path / "o.index", name, only)
                hits = index.search(queries, name, 5, only)
                raw = faiss.read_index(str(tmp_path / "o.index"))
                # Other programs get vectors of any length.
                scores, ids = raw.search(queries * np.float32(3), 5)
                np.testing.assert_array_equal(ids, hits.ids)
                np.testing.assert_allclose(scores, hits.scores, rtol=1e-4, atol=1e-4)
            with pytest.raises(InputValueError, match="only" if only else "Leave only out"):
                index.export(tmp_path / "o.index", "text", None if only else "image")


def test_a_table_of_yours_gets_a_column_for_each(url, connection):
    table = make_table(connection)
    assert add_column(url, table, TWO) == 2 * N
    documents = {"image": (X, range(0, 2 * N, 2)), "text": (Y, range(1, 2 * N, 2))}
    with open_index(url, TWO, table=table) as index:
        assert set(index.vectors) == {"embedding_text", "embedding_image"}
        for name, correction in TWO.items():
            queries = documents[name][0][:5]
            check_exact(index.search(queries, name, 7), correction, queries, name, documents)
    drop_column(url, table, "embedding_image")
    with open_index(url, TWO, table=table) as index:
        assert list(index.vectors) == ["embedding_text"]


def test_both_are_built_and_searched_from_the_command_line(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    np.save(tmp_path / "image.npy", X)
    np.save(tmp_path / "text.npy", Y)
    save_corrections(TWO, tmp_path / "correction.safetensors")
    files = (f"image={tmp_path / 'image.npy'}", f"text={tmp_path / 'text.npy'}")
    address = tmp_path / "both.faiss"
    said = modgap("index", "build", address, tmp_path, *files, "--queries", "both").stderr
    assert "embedding_text, 8 columns" in said
    assert "embedding_image, 8 columns" in said
    commands = [line[6:] for line in said.splitlines() if line.startswith("next: ")]
    assert len(commands) == 2
    for name, command in zip(("image", "text"), commands, strict=True):
        command = command.replace("QUERIES.npy", str(tmp_path / f"{name}.npy"))
        assert len(modgap(*command.split()[1:], "--row", "0", "-k", "3").stdout.splitlines()) == 4
    checked = modgap("index", "evaluate", address, tmp_path, *files).stdout
    assert checked.count("1.0000") == 2
    one = tmp_path / "one.faiss"
    said = modgap("index", "build", one, tmp_path, *files, "--queries", "image").stderr
    assert "embedding, 8 columns" in said
    found = modgap("index", "search", one, tmp_path, tmp_path / "text.npy", "--modality", "text",
                   ok=False)  # fmt: skip
    assert "serves image queries, not text queries" in found.stderr
    (tmp_path / "correction-image.safetensors").unlink()
    refused = modgap("index", "build", one, tmp_path, *files, "--queries", "both", ok=False)
    assert "serves text queries only" in refused.stderr
