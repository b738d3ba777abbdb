"""Graphs: one for each modality, merged; one of all on request; how much they find."""

from __future__ import annotations

import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given

from conftest import load_published, load_published_tensors
from index_services import (
    LIBRARIES,
    any_correction,
    check_exact,
    corrections,
    make_store,
    modgap,
    rows,
)
from modgap.core.checks import InputValueError
from modgap.corrections import Calibrate, Center, Correction
from modgap.datasets import load_digits
from modgap.index import LowRecallWarning, evaluate_index, open_index
from modgap.index.equal_lengths import lift_documents, lift_queries, lifted_lengths, longest_row
from modgap.search import search

X, Y = rows()
N = len(X)
CORRECTIONS = corrections(X, Y)
# What a store is told so that it builds and searches graphs.
GRAPHS = {"faiss": {"factory": "HNSW32,Flat"}, "pgvector": {"ef_search": 64},
          "lance": {"ef_search": 64}, "chroma": {"ef_search": 64}}  # fmt: skip


def searching(options):
    """The options of a search: a factory is for building."""
    return {key: value for key, value in options.items() if key == "ef_search"}


def clip_like(n: int, d: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Made-up unit rows of two modalities with a wide gap."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 12)) @ rng.normal(size=(12, d)) / 3.5
    sides = [shared + 0.5 * rng.normal(size=(n, d)) + offset for offset in rng.normal(size=(2, d))]
    return tuple((s / np.linalg.norm(s, axis=1, keepdims=True)).astype(np.float32) for s in sides)  # type: ignore[return-value]


def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "digits":
        digits = load_digits()
        return digits.X, digits.Y[digits.wording == 0]
    if name == "clip":
        return load_published("features_clip.npy")
    held = load_published_tensors("unsplash-clip-b32")
    return held["image"], held["text"]


@pytest.mark.parametrize(
    ("name", "hubs"),
    [
        ("clip", 0.0),
        ("digits", 0.5),
        *(
            pytest.param(name, hubs, marks=pytest.mark.long)
            for name, hubs in [("clip", 0.5), ("digits", 0.0), ("unsplash", 0.0), ("unsplash", 0.5)]
        ),
    ],
)
@pytest.mark.parametrize("kind", ["flat", *GRAPHS])
def test_the_default_correction_is_found_in_every_index_at_its_default_settings(
    tmp_path, kind, name, hubs
):
    images, texts = real(name)
    store = make_store("faiss" if kind == "flat" else kind, tmp_path)
    options = GRAPHS.get(kind, {})
    correction = Calibrate(hubs=hubs).fit(images, texts).correction_
    documents = {"image": images, "text": texts}
    with store.open(correction, create=True, **options) as index:
        index.write_all(documents)
    with store.open(correction, **searching(options)) as index:
        assert index.graphs == (None if kind == "flat" else "each")
        result = evaluate_index(index, documents, k=10, sample=100)
    assert result.exact_found["text"] >= (1.0 if kind == "flat" else 0.97)


@pytest.mark.parametrize("name", ["calibrate", "blocks", "center", "given", "hand-made"])
@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_graphs_searched_widely_rank_as_brute_force_whatever_the_correction(tmp_path, kind, name):
    correction, store = CORRECTIONS[name], make_store(kind, tmp_path)
    documents = {"image": (X, range(N)), "text": (Y, range(N))}
    wide = {"ef_search": 200}
    with store.open(correction, create=True, **(GRAPHS[kind] | wide)) as index:
        index.write(X[:50], "image")
        index.write(Y, "text")
        index.write(X[50:], "image")
    asking = correction.queries[-1]
    queries = documents[asking][0][:6]
    with store.open(correction, **wide) as index:
        check_exact(index.search(queries, asking, 9), correction, queries, asking, documents)
        for only, held in documents.items():
            hits = index.search(queries, asking, 5, only=only)
            check_exact(hits, correction, queries, asking, {only: held})
        assert index.search(queries, asking, 500).ids.shape == (6, 2 * N)


@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_graphs_hold_rows_added_later_and_modalities_without_rows(tmp_path, kind):
    correction, store = CORRECTIONS["calibrate"], make_store(kind, tmp_path)
    options = searching(GRAPHS[kind])
    with store.open(correction, create=True, **GRAPHS[kind]) as index:
        index.write(X[:40], "image")
        assert set(index.search(Y[:3], "text", 4).modalities.ravel()) == {"image"}
    with store.open(correction, **options) as index:
        index.write(Y, "text")
        index.write(X[40:], "image")
    documents = {"image": (X, range(N)), "text": (Y, range(N))}
    with store.open(correction, **options) as index:
        assert (index.count("image"), index.count("text")) == (N, N)
        check_exact(index.search(Y[:5], "text", 3), correction, Y[:5], "text", documents)


def test_a_graph_of_one_modality_knows_nothing_of_the_other(tmp_path):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    correction, path = CORRECTIONS["calibrate"], tmp_path / "x.faiss"
    with open_index(path, correction, create=True, factory="HNSW8,Flat") as index:
        index.write(X, "image")
        index.write(Y[:30], "text")
    reader = faiss.FileIOReader(str(path))
    held = [faiss.read_index(reader).ntotal for _ in correction.names]
    assert held == [N, 30]


def test_a_graph_by_inner_product_holds_documents_of_one_length(tmp_path):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    for name, lifted in (("calibrate", True), ("center", False), ("given", False)):
        correction, path = CORRECTIONS[name], tmp_path / f"{name}.faiss"
        with open_index(path, correction, create=True, factory="HNSW8,Flat") as index:
            index.write(X, "image")
        graph = faiss.read_index(faiss.FileIOReader(str(path)))
        assert graph.d == 8 + lifted
        stored = faiss.downcast_index(graph.storage).reconstruct_n(0, N)
        lengths = np.linalg.norm(stored, axis=1)
        assert bool(np.ptp(lengths) < 1e-4 * lengths.mean()) is (name != "given")


def test_lifted_rows_are_bounded_by_what_the_maps_can_give():
    for name, correction in CORRECTIONS.items():
        lengths = lifted_lengths(correction)
        if correction.metric != "inner_product" or not correction.unit_rows:
            assert lengths is None, name
            continue
        for modality, vectors in (("image", X), ("text", Y)):
            stored = correction.apply(vectors, modality)
            lifted = lift_documents(stored, lengths[modality])
            np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), lengths[modality], rtol=1e-5)
            asked = correction.apply(vectors, correction.queries[-1], "query")
            np.testing.assert_allclose(lift_queries(asked) @ lifted.T, asked @ stored.T, atol=1e-4)
        assert len(set(lifted_lengths(correction, one_graph=True).values())) == 1
    assert lifted_lengths(Correction.identity(4, metric="inner_product")) is None


@given(case=any_correction())
def test_no_map_gives_a_row_that_is_longer_than_its_bound(case):
    correction, (images, texts) = case
    for name, given_rows in (("image", images), ("text", texts)):
        for role in ("document", "query"):
            affine = correction.map(name, role)
            bound = longest_row(affine)
            assert (bound is None) is not (affine.normalise or affine.renormalise)
            if bound is not None:
                assert np.linalg.norm(affine(given_rows), axis=1).max() <= bound


def test_calibrated_graphs_find_as_much_of_a_modality_as_raw_ones(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    images, texts = clip_like(4000)
    documents = {"image": images[:3800], "text": texts[:3800]}
    # Calibration changes no ranking within a modality, so both have the same exact best.
    best = {name: search(texts[3800:], rows, 10, "cosine")[0] for name, rows in documents.items()}
    found = {}
    for kind, correction in {
        "raw": Correction.identity(64, metric="cosine"),
        "calibrated": Calibrate().fit(*documents.values()).correction_,
    }.items():
        path = tmp_path / f"{kind}.faiss"
        with open_index(path, correction, create=True, factory="HNSW16,Flat") as index:
            index.write_all(documents)
        with open_index(path, correction, ef_search=16) as index:
            for name, ids in best.items():
                hits = index.search(texts[3800:], "text", 10, only=name).ids
                same = [len({*a} & {*b}) for a, b in zip(hits.tolist(), ids.tolist(), strict=True)]
                found[kind, name] = np.mean(same) / 10
    for name in documents:
        assert found["raw", name] < 0.995  # else the search is too wide to show a difference
        assert found["calibrated", name] > found["raw", name] - 0.02


@pytest.mark.parametrize("kind", sorted({*GRAPHS} - {"chroma"}))
def test_one_graph_of_all_is_measured_and_warned_of_where_it_misses_much(tmp_path, kind):
    images, texts = clip_like(700, 32)
    blocks = Calibrate(form="blocks").fit(images, texts).correction_
    store = make_store(kind, tmp_path)
    narrow = {**GRAPHS[kind], "ef_search": 10, "one_graph": True}
    if kind == "faiss":
        narrow["factory"] = "HNSW4,Flat"
    with store.open(blocks, create=True, **narrow) as index:
        index.write(images, "image")
        index.write(texts, "text")
        with pytest.warns(LowRecallWarning, match=r"low recall@10 against exact search: 0\.\d\d"):
            index.finish()
        assert set(index.graph_recall) == {"image", "text"}
        documents = {"image": images, "text": texts}
        real = evaluate_index(index, documents, sample=200).exact_found
        assert index.graph_recall == pytest.approx(real, abs=0.08)
        index.drop()
    center = Center().fit(X, Y).correction_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = {**GRAPHS[kind], "ef_search": 200, "one_graph": True}
        with store.open(center, create=True, **wide) as index:
            index.write(X, "image")
            index.write(Y, "text")
            index.finish()
            assert index.graph_recall == {"image": 1.0, "text": 1.0}
            only = index.search(Y[:4], "text", 7, only="image")
            assert set(only.modalities.ravel()) == {"image"}
    with store.open(center, ef_search=200) as index:
        assert index.graphs == "one"
        check_exact(
            index.search(Y[:4], "text", 7), center, Y[:4], "text",
            {"image": (X, range(N)), "text": (Y, range(N))},
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["lance", "pgvector"])
def test_graphs_that_are_not_there_are_not_searched(tmp_path, kind):
    correction, store = CORRECTIONS["calibrate"], make_store(kind, tmp_path)
    with pytest.raises(InputValueError, match="one_graph needs ef_search"):
        store.open(correction, create=True, one_graph=True)
    with store.open(correction, create=True) as index:
        index.write(X, "image")
    with pytest.raises(InputValueError, match="has no graph to search with ef_search"):
        store.open(correction, ef_search=40)


def test_one_graph_is_asked_for_on_the_command_line_and_its_recall_is_printed(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    images, texts = clip_like(1500, 32)
    np.save(tmp_path / "image.npy", images)
    np.save(tmp_path / "text.npy", texts)
    Calibrate(form="blocks").fit(images, texts).correction_.save(tmp_path / "c.safetensors")
    build = ("index", "build", tmp_path / "x.faiss", tmp_path / "c.safetensors",
             f"image={tmp_path / 'image.npy'}", f"text={tmp_path / 'text.npy'}",
             "--factory", "HNSW4,Flat", "--ef-search", "10")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = modgap(*build, "--one-graph").stderr
    assert "modgap: warning: The one graph of all modalities in" in said
    assert "one graph of all modalities: recall@10 0." in said
    assert "graphs     one of all modalities" in said
    said = modgap(*build, "--replace").stderr
    assert "recall@10" not in said
    assert "graphs     one for each modality" in said
    flat = (*build[:-4], "--one-graph", "--replace")
    assert "one_graph is an option of IndexHNSW" in modgap(*flat, ok=False).stderr


class Server:
    """Qdrant's embedded mode behind the address of a server; keeps what the client was asked."""

    def __init__(self, **target):
        import qdrant_client

        assert target["url"] == "http://somewhere:6333"
        self.real, self.asked = SERVERS.setdefault("one", (OriginalClient(":memory:"), []))
        self.models = qdrant_client.models

    def __getattr__(self, name):
        method = getattr(self.real, name)

        def call(*arguments, **more):
            self.asked.append((name, arguments, more))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it says that it has no payload indexes
                return method(*arguments, **more)

        return call

    def close(self):
        """The real one goes on."""


SERVERS: dict = {}
try:
    from qdrant_client import QdrantClient as OriginalClient
except ImportError:  # its test is skipped
    OriginalClient = None


@pytest.mark.parametrize("one_graph", [False, True])
def test_a_qdrant_server_is_told_to_keep_a_graph_for_each_modality(one_graph):
    pytest.importorskip("qdrant_client", reason="qdrant_client is not installed")
    SERVERS.clear()
    correction = CORRECTIONS["calibrate"]
    options = {"ef_search": 40, "one_graph": one_graph}
    with mock.patch("qdrant_client.QdrantClient", Server):
        address = "qdrant+http://somewhere:6333"
        with open_index(address, correction, create=True, **options) as index:
            index.write(X, "image")
            index.write(Y, "text")
            hits = index.search(Y[:4], "text", 6)
    documents = {"image": (X, range(N)), "text": (Y, range(N))}
    check_exact(hits, correction, Y[:4], "text", documents)
    _, asked = SERVERS["one"]
    (made,) = [more for name, _, more in asked if name == "create_collection"]
    (tenant,) = [given[2] for name, given, _ in asked if name == "create_payload_index"]
    searches = [more["requests"] for name, _, more in asked if name == "query_batch_points"]
    assert made["vectors_config"]["embedding"].size == 9  # one more column for graphs
    approximate = [batch for batch in searches if not batch[0].params.exact]
    assert {batch[0].params.hnsw_ef for batch in searches} == {40}
    if one_graph:
        assert made["hnsw_config"] is None
        assert tenant.is_tenant is False
        assert [batch[0].filter for batch in approximate] == [None, None]
        assert len(searches) == 3  # one more by exact search, to measure the graph
    else:
        assert (made["hnsw_config"].m, made["hnsw_config"].payload_m) == (0, 16)
        assert tenant.is_tenant is True
        values = [batch[0].filter.must[0].match.value for batch in searches]
        assert values == ["image", "text"]


@pytest.mark.parametrize("kind", sorted(set(LIBRARIES) - {*GRAPHS}))
def test_stores_without_graphs_search_exactly(tmp_path, kind):
    correction, store = CORRECTIONS["calibrate"], make_store(kind, tmp_path)
    with store.open(correction, create=True) as index:
        index.write(X[:20], "image")
        assert index.graphs is None
        assert index.vectors["embedding"].dim == 8
