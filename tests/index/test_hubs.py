"""Corrections with hubs in every store: stored and found as ``correction.apply`` gives."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

from hub_rows import DATA, FOREIGN, KEYED, N, X, Y, ranked, stored
from index_services import IN_MEMORY
from modgap import Embeddings
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Calibrate,
    Correction,
    OwnQueriesWarning,
    own_keys,
)
from modgap.index import FaissIndex, evaluate_index, open_index
from modgap.index.equal_lengths import lift_documents, lift_queries, lifted_lengths
from modgap.index.metadata import fingerprint
from modgap.search import merge_corrected


def test_the_fitted_keys_say_what_they_are_made_from():
    assert {name: one.hubs.keyed_by for name, one in KEYED.items()} == {n: n for n in DATA}
    assert FOREIGN.hubs.keys is None
    columns = {n: stored(c, DATA[n], "image")[:, -1] for n, c in KEYED.items()}
    assert np.abs(columns["row"] - columns["own row"]).max() > 0.01  # an image's own text counts
    np.testing.assert_array_equal(columns["row"], columns["id"])


@IN_MEMORY
@pytest.mark.parametrize("name", [*DATA, "foreign"])
def test_an_index_ranks_as_exact_search_over_what_the_correction_gives(store, name):
    correction, data = KEYED.get(name, FOREIGN), DATA.get(name, DATA["row"])
    with store.open(correction, create=True, batch_rows=16) as index:
        index.write_all(data.sides)
    with store.open(correction) as index:
        assert index.vectors["embedding"].dim == 9
        ranked(index.search(Y[:7] * 3, k=9), correction, data, Y[:7], 9)
        assert evaluate_index(index, data.sides, sample=20).exact_found == {"text": 1.0}
        one = index.search(Y[3], "text", 4, only="image")
        assert set(one.modalities.ravel()) == {"image"}


@IN_MEMORY
def test_rows_that_come_later_and_rows_after_a_kill_have_their_own_numbers(store):
    correction, data = KEYED["row"], DATA["row"]
    with store.open(correction, create=True) as index:
        index.write(X[:30], "image")
        index.write(X[30:50], "image")
    with contextlib.suppress(KeyboardInterrupt), store.open(correction, batch_rows=8) as index:

        def cut(step, done, total):
            if done >= 8:
                raise KeyboardInterrupt

        index.write(X[50:], "image", progress=cut)
    with store.open(correction) as index:
        assert index.write(X[50:], "image") == N - 58
    with store.open(correction) as index:
        index.write(Y, "text")
        assert index.count() == 2 * N
    with store.open(correction) as index:
        ranked(index.search(Y[:9], k=12), correction, data, Y[:9], 12)


def test_lifted_rows_are_equally_long_and_scores_stay():
    for mode in ("keep", "mixed"):
        correction = Calibrate(mode, hubs=0.75).fit(X, Y).correction_
        lengths = lifted_lengths(correction)
        for name, given in (("image", X), ("text", Y)):
            documents = stored(correction, DATA["row"], name)
            lifted = lift_documents(documents, lengths[name])
            assert np.ptp(np.linalg.norm(lifted, axis=1)) < 1e-4 * lengths[name]
            asked = correction.apply(given, "text", "query")
            np.testing.assert_allclose(
                lift_queries(asked) @ lifted.T, asked @ documents.T, atol=1e-4
            )
            plain = lifted_lengths(Calibrate("keep").fit(X, Y).correction_)[name]
            assert mode == "mixed" or plain < lengths[name] < 1.26 * plain


@pytest.mark.parametrize("mode", ["keep", "mixed"])
@pytest.mark.parametrize("factory", ["Flat", "HNSW16,Flat"])
def test_plain_faiss_appends_the_one_to_raw_queries(tmp_path, mode, factory):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    correction = Calibrate(mode, hubs=0.5).fit(X, Y).correction_
    only = None if factory == "Flat" else "image"
    with FaissIndex(tmp_path / "x.faiss", correction, factory=factory).open(create=True) as index:
        index.write(X, "image", ids=np.arange(N) + 1000)
        index.export(tmp_path / "plain.index", "text", only=only)
        hits = index.search(Y[:6], "text", 5)
    scores, ids = faiss.read_index(str(tmp_path / "plain.index")).search(3 * Y[:6], 5)
    np.testing.assert_array_equal(ids, hits.ids)
    np.testing.assert_allclose(scores, hits.scores, rtol=1e-4, atol=1e-4)


@IN_MEMORY
def test_without_its_bank_a_correction_searches_and_deletes_and_stores_nothing(store, tmp_path):
    correction = KEYED["row"]
    correction.save(tmp_path / "whole.safetensors")
    correction.save(tmp_path / "bare.safetensors", bank=False)
    bare = Correction.load(tmp_path / "bare.safetensors")
    with store.open(tmp_path / "whole.safetensors", create=True) as index:
        index.write_all(DATA["row"].sides)
    with store.open(bare) as index:
        ranked(index.search(Y[:7], k=9), correction, DATA["row"], Y[:7], 9)
        with pytest.raises(InputValueError, match="bank of queries was removed from this") as said:
            index.write(X[:3], "image", ids=[900, 901, 902])
        assert "\n" not in str(said.value)
        with pytest.raises(InputValueError, match="bank of queries was removed"):
            evaluate_index(index, DATA["row"].sides)
        assert index.delete([4], "text") == 1
    with (
        pytest.raises(InputValueError, match="bank of queries was removed"),
        store.open(bare, create=True, replace=True) as index,
    ):
        index.write(X, "image")
    with store.open(correction) as index:
        assert index.count() == 2 * N - 1
        assert index.write(Y[4:5], "text", ids=[4]) == 1


def test_another_weight_count_or_bank_is_another_correction(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    others = {
        "plain": Calibrate().fit(X, Y).correction_,
        "weight": Calibrate(hubs=0.25, neighbours=5).fit(X, Y).correction_,
        "neighbours": Calibrate(hubs=0.5, neighbours=6).fit(X, Y).correction_,
        "bank": FOREIGN,
        "keys": KEYED["id"],
    }
    marks = {fingerprint(one) for one in (KEYED["row"], *others.values())}
    assert len(marks) == 1 + len(others)
    with open_index(tmp_path / "x.faiss", KEYED["row"], create=True) as index:
        index.write(X, "image")
    for name, one in others.items():
        with pytest.raises(InputValueError, match="built with another correction"):
            open_index(tmp_path / "x.faiss", one)
        if name in ("weight", "neighbours"):
            with pytest.raises(InputValueError, match="built with another correction"):
                open_index(tmp_path / "x.faiss", one.without_bank())


def test_rows_that_do_not_say_whose_they_are_are_pointed_out():
    for name, what in (("id", "no ids"), ("group", "no labels of groups")):
        with pytest.warns(OwnQueriesWarning, match=f"The image rows have {what}"):
            assert own_keys(KEYED[name], Embeddings.of(X, "image"), "image") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_keys(FOREIGN, Embeddings.of(X, "image"), "image") is None
        later = own_keys(KEYED["row"], Embeddings.of(X[:3], "image"), "image", first_row=7)
    assert later.tolist() == [7, 8, 9]


def test_hubs_cannot_be_merged_from_raw_searches():
    hits = (np.zeros((1, 2), int), np.zeros((1, 2)))
    with pytest.raises(InputValueError, match=r"hubs changes rankings .*Store corrected vectors"):
        merge_corrected(KEYED["row"], Y[:1], "text", {"image": hits}, 2)
