"""FAISS: the file it writes, what plain FAISS makes of an export, approximate search."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index_services import any_correction, check_exact, corrections, rows
from modgap.core.checks import InputValueError
from modgap.corrections import Calibrate, Center, Correction
from modgap.datasets import load_digits
from modgap.index import FaissIndex, evaluate_index, open_index

faiss = pytest.importorskip("faiss", reason="faiss is not installed")
X, Y = rows()
CORRECTIONS = corrections(X, Y)
N = len(X)


@given(case=any_correction(), k=st.integers(1, 8), asking=st.sampled_from(["image", "text"]))
def test_any_correction_ranks_in_one_index_as_brute_force_does(tmp_path_factory, case, k, asking):
    correction, (images, texts) = case
    queries = images if asking == "image" else texts
    path = tmp_path_factory.mktemp("faiss") / "x.faiss"
    with open_index(path, correction, create=True) as index:
        index.write(images, "image")
        index.write(texts, "text")
    documents = {"image": (images, range(len(images))), "text": (texts, range(len(texts)))}
    with open_index(path, correction) as index:
        check_exact(index.search(queries, asking, k), correction, queries, asking, documents)


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("modality", ["image", "text"])
def test_plain_faiss_searches_an_export_with_raw_queries(tmp_path, name, modality):
    correction = CORRECTIONS[name]
    if modality not in correction.queries:
        modality = correction.queries[0]
    queries = (X if modality == "image" else Y)[:10]
    with FaissIndex(tmp_path / "x.faiss", correction).open(create=True) as index:
        index.write(X, "image", ids=np.arange(N) + 1000)
        index.write(Y, "text", ids=np.arange(N) + 5000)
        index.export(tmp_path / "for-others.index", modality)
        hits = index.search(queries, modality, 10)
    plain = faiss.read_index(str(tmp_path / "for-others.index"))
    assert type(faiss.downcast_index(plain)).__name__ == "IndexPreTransform"
    scores, ids = plain.search(queries, 10)
    np.testing.assert_array_equal(ids, hits.ids)
    sign = -1 if correction.metric == "euclidean" else 1
    np.testing.assert_allclose(sign * scores, hits.scores, rtol=1e-4, atol=1e-4)


def test_an_export_answers_with_places_where_ids_are_shared(tmp_path):
    correction = CORRECTIONS["calibrate"]
    with FaissIndex(tmp_path / "x.faiss", correction).open(create=True) as index:
        index.write(X, "image")
        index.write(Y, "text")
        index.export(tmp_path / "o.index", "text")
        hits = index.search(Y[:5], "text", 6)
        with pytest.raises(InputValueError, match="modality must be one of"):
            index.export(tmp_path / "p.index", "sound")
    _, places = faiss.read_index(str(tmp_path / "o.index")).search(Y[:5], 6)
    np.testing.assert_array_equal(places, hits.ids + N * (hits.modalities == "text"))
    assert not (tmp_path / "p.index").exists()


def test_an_empty_index_cannot_be_exported(tmp_path):
    index = FaissIndex(tmp_path / "x.faiss", CORRECTIONS["center"]).open(create=True)
    with pytest.raises(InputValueError, match="no documents to export"):
        index.export(tmp_path / "o.index", "text")


@pytest.mark.parametrize(
    ("factory", "option", "corrector"),
    [
        ("HNSW32,Flat", {"ef_search": 64}, Center()),
        ("HNSW32,Flat", {"ef_search": 128}, Calibrate(form="compromise")),
        ("IVF32,Flat", {"nprobe": 16}, Calibrate()),
        ("RR64,IVF16,Flat", {"nprobe": 16}, Center()),
    ],
    ids=str,
)
def test_approximate_search_finds_what_exact_search_does_at_this_ef_search_or_nprobe(
    tmp_path, factory, option, corrector
):
    digits = load_digits()
    documents = {"image": digits.X, "text": digits.Y}
    correction = corrector.fit(digits.X, digits.Y).correction_
    path = tmp_path / "x.faiss"
    with open_index(path, correction, create=True, factory=factory) as index:
        for name, vectors in documents.items():
            index.write(vectors, name)
    with open_index(path, correction, **option) as index:
        result = evaluate_index(index, documents, k=10, sample=100)
        only = index.search(digits.Y[:5], "text", 7, only="image")
    assert set(only.modalities.ravel()) <= {"image", ""}
    assert min(result.exact_found.values()) >= 0.99


@pytest.mark.parametrize(
    "factory",
    ["IVF99999999,Flat", "HNSW1000000,Flat", "IVF16,PQ4x40", "PCA99999999,Flat", "IMI2x30,Flat"],
)
def test_a_factory_that_would_take_all_memory_is_refused(tmp_path, factory):
    with pytest.raises(InputValueError, match="would take all memory"):
        open_index(tmp_path / "x.faiss", CORRECTIONS["center"], create=True, factory=factory)


@pytest.mark.parametrize(
    ("factory", "option", "message"),
    [
        ("HNSW8,Flat", {"nprobe": 4}, "nprobe is an option of IndexIVF, .* is an IndexHNSWFlat"),
        ("IVF4,Flat", {"ef_search": 4}, "ef_search is an option of IndexHNSW, .* IndexIVFFlat"),
        ("Flat", {"ef_search": 4}, "ef_search is an option of IndexHNSW, .* IndexFlat"),
    ],
)
def test_an_option_of_another_kind_of_index_is_refused(tmp_path, factory, option, message):
    path, correction = tmp_path / "x.faiss", CORRECTIONS["center"]
    with (
        pytest.raises(InputValueError, match=message),
        open_index(path, correction, create=True, factory=factory, **option) as index,
    ):
        index.write(X, "image")
    with open_index(path, correction, create=True, factory=factory) as index:
        index.write(np.tile(X, (3, 1)), "image")
    with pytest.raises(InputValueError, match=message):
        open_index(path, correction, **option)


def test_a_search_that_finds_fewer_than_k_says_so(tmp_path):
    with open_index(tmp_path / "x.faiss", CORRECTIONS["center"], create=True, factory="IVF8,Flat",
                    nprobe=1) as index:  # fmt: skip
        index.write(np.tile(X, (5, 1)), "image")
        hits = index.search(X, "image", 400)
    missing = np.equal(hits.ids, None)
    assert missing.any()
    assert not missing.all(axis=0).any()
    assert set(hits.scores[missing]) == {-np.inf}
    assert set(hits.modalities[missing]) == {""}
    assert any(None in line for line in hits.to_dict()["scores"])


def test_files_that_are_no_whole_index_are_refused(tmp_path):
    correction = CORRECTIONS["center"]
    path = tmp_path / "x.index"
    plain = faiss.IndexFlatIP(8)
    plain.add(X)
    faiss.write_index(plain, str(path))
    for create in (False, True):
        with pytest.raises(InputValueError, match="was not built by modgap"):
            open_index(path, correction, create=create)
    path.unlink()
    with open_index(path, correction, create=True) as index:
        index.write(X, "image")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(InputValueError, match="or is damaged"):
        open_index(path, correction)
    path.write_bytes(whole)
    (tmp_path / "x.index.ids.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputValueError, match=r"x\.index\.ids\.safetensors is not a table of ids"):
        open_index(path, correction)


def test_a_factory_that_faiss_does_not_know_is_refused(tmp_path):
    with (
        pytest.raises(InputValueError, match="cannot be used"),
        open_index(
            tmp_path / "x.faiss", CORRECTIONS["center"], create=True, factory="Best"
        ) as index,
    ):
        index.write(X, "image")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["pipe.faiss", "pipe.faiss.ids.safetensors", "t.lance"])
def test_an_index_goes_only_where_a_file_or_a_folder_may_be(tmp_path, name):
    os.mkfifo(tmp_path / name)
    place = tmp_path / name.removesuffix(".ids.safetensors")
    with pytest.raises(ValueError, match=rf"{name} is a pipe, where a (file|folder) is to be writ"):
        open_index(place, Correction.identity(4), create=True)


def test_ids_of_one_index_are_not_taken_for_those_of_another(tmp_path):
    """A kill between the renames of its two files, where both builds have as many rows."""
    for name, order in (("old", 1), ("new", -1)):
        with open_index(tmp_path / f"{name}.faiss", Correction.identity(4), create=True) as index:
            index.write(np.eye(4)[::order], "image", np.arange(4)[::order])
    (tmp_path / "new.faiss.ids.safetensors").rename(tmp_path / "old.faiss.ids.safetensors")
    with pytest.raises(ValueError, match="was not built by modgap, or is damaged"):
        open_index(tmp_path / "old.faiss", Correction.identity(4))
