"""Indexes rank by expected wrong results: the same number for the same hit, everywhere."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index_services import IN_MEMORY, modgap
from modgap import Embeddings
from modgap.core.checks import InputValueError
from modgap.corrections import Background, Correction, ExpectedWrong, own_keys
from modgap.corrections.background import FewQueriesWarning, ForeignQueriesWarning
from modgap.index import FaissIndex, evaluate_index
from modgap.index.quantised import QuantisedIndex
from modgap.search import Hits, merge, search_corrected

D, N_PAIRS, N_FOREIGN = 12, 120, 90
pytestmark = pytest.mark.filterwarnings(
    "ignore::modgap.corrections.background.ForeignQueriesWarning"
)


def pairs_among_others(seed: int = 0, n: int = N_PAIRS, foreign: int = N_FOREIGN, d: int = D):
    """Pairs, and behind the images others that nobody asks for."""
    rng = np.random.default_rng(seed)
    topic = rng.normal(size=(n, d))
    X, Y = (topic + 0.4 * rng.normal(size=(n, d)) + side for side in (1.0, -1.0))
    others = rng.normal(size=(foreign, d)) * 0.6 + 1.5
    return np.vstack([X, others]).astype(np.float32), Y.astype(np.float32)


def fitted(X: np.ndarray, Y: np.ndarray, hubs: float = 0.25, bank: np.ndarray | None = None):
    return ExpectedWrong(hubs).fit({"image": X, "text": Y}, queries="text", bank=bank).correction_


X, Y = pairs_among_others()
BANK = pairs_among_others(1)[1]
CORRECTION = fitted(X, Y, bank=BANK)
DOCUMENTS = {"image": X, "text": Y}
STORED = {name: CORRECTION.apply(rows, name) for name, rows in DOCUMENTS.items()}
QUERIES = pairs_among_others(2)[1][:9]


def by_document(hits: Hits) -> list[dict[tuple[str, object], float]]:
    """E of each hit of each query."""
    assert hits.expected_wrong is not None
    return [
        {(name, key): e for key, name, e in zip(*line, strict=True) if key is not None}
        for line in zip(hits.ids, hits.modalities, hits.expected_wrong, strict=True)
    ]


def agrees(hits: Hits, other: Hits, rtol: float = 1e-4) -> None:
    """Two searches give one document one E; only those at the end of a list may differ."""
    for one, two in zip(by_document(hits), by_document(other), strict=True):
        shared = sorted(one.keys() & two.keys())
        assert len(shared) >= len(one) - 1
        np.testing.assert_allclose(
            [one[key] for key in shared], [two[key] for key in shared], rtol=rtol
        )
    for names, expected in zip(hits.modalities, hits.expected_wrong, strict=True):
        for name in ("image", "text"):
            assert np.all(np.diff(expected[names == name]) >= 0)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(25, 90),
    foreign=st.integers(0, 60),
    d=st.integers(4, 20),
    hubs=st.sampled_from([0.0, 0.25, 0.5]),
    k=st.integers(1, 50),
)
def test_exact_search_merge_and_faiss_agree(tmp_path_factory, seed, n, foreign, d, hubs, k):
    X, Y = pairs_among_others(seed, n, foreign, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewQueriesWarning)
        correction = fitted(X, Y, hubs)
    stored = {
        name: correction.apply(
            rows, name, keys=own_keys(correction, Embeddings.of(rows, name), name)
        )
        for name, rows in (("image", X), ("text", Y))
    }
    queries = pairs_among_others(seed + 1, 5, 0, d)[1]
    exact = search_corrected(correction, queries, stored, k, modality="text")
    asked = correction.apply(queries, "text", "query")
    lists = {}
    for name, rows in stored.items():
        scores = asked @ rows.T
        order = np.argsort(-scores, axis=1, kind="stable")[:, : max(k, 30)]
        lists[name] = order, np.take_along_axis(scores, order, axis=1)
    merged = merge(lists, k, correction.background)
    agrees(exact, merged)
    np.testing.assert_allclose(exact.chance, merged.chance, rtol=1e-3)
    place = tmp_path_factory.mktemp("faiss") / "x.faiss"
    with FaissIndex(place, correction).open(create=True) as index:
        index.write_all({"image": X, "text": Y})
        agrees(index.search(queries, k=k), exact)


@IN_MEMORY
def test_an_index_gives_a_hit_the_expected_wrong_results_of_exact_search(store):
    with store.open(CORRECTION, create=True, batch_rows=64) as index:
        index.write_all(DOCUMENTS)
    exact = search_corrected(CORRECTION, QUERIES, STORED, 40, modality="text")
    with store.open(CORRECTION.without_bank()) as index:
        hits = index.search(QUERIES, k=40)
        agrees(hits, exact)
        np.testing.assert_allclose(hits.chance, exact.chance, rtol=1e-3)
        assert hits.least == pytest.approx(2 * 5 / len(BANK))
        images = index.search(QUERIES, k=12, only="image")
        assert set(images.modalities.ravel()) == {"image"}
        alone = search_corrected(
            CORRECTION, QUERIES, {"image": STORED["image"]}, 12, modality="text"
        )
        agrees(images, alone)
        texts = index.search(QUERIES, k=40, only="text")
        again = merge(
            {"image": index.search(QUERIES, k=40, only="image"), "text": texts},
            40,
            CORRECTION.background,
        )
        agrees(again, hits, rtol=1e-9)
        cut = index.search(QUERIES, k=40, at_most=1.0)
    kept = search_corrected(CORRECTION, QUERIES, STORED, 40, modality="text", at_most=1.0)
    np.testing.assert_array_equal(cut.nothing_found, kept.nothing_found)
    agrees(cut, kept)
    with store.open(CORRECTION) as index:
        assert evaluate_index(index, DOCUMENTS, sample=20).exact_found == {"text": 1.0}


@IN_MEMORY
def test_documents_that_come_later_move_only_the_level(store):
    with store.open(CORRECTION, create=True) as index:
        index.write_all(DOCUMENTS)
    before = CORRECTION.background.list_of("image").n_documents
    more = pairs_among_others(3, 5, 400)[0]
    with store.open(CORRECTION) as index:
        index.write(more, "image")
        hits = index.search(QUERIES, k=10)
    assert CORRECTION.background.list_of("image").n_documents == before == len(X)
    stored = {**STORED, "image": CORRECTION.apply(np.vstack([X, more]), "image")}
    agrees(hits, search_corrected(CORRECTION, QUERIES, stored, 10, modality="text"), rtol=1e-3)


@IN_MEMORY
@pytest.mark.parametrize("n", [0, 3, 20])
def test_an_index_may_hold_fewer_documents_than_the_bank_was_searched_in(store, n):
    with store.open(CORRECTION, create=True) as index:
        index.write(Y, "text")
        if n:
            index.write(X[:n], "image")
        hits = index.search(QUERIES, k=200)
        none = index.search(QUERIES, k=5, only="image", at_most=5.0)
    assert hits.ids.shape == (len(QUERIES), len(Y) + n)
    assert np.all(np.isfinite(hits.expected_wrong))
    assert none.ids.shape[1] <= n
    if not n:
        assert none.nothing_found.all()
        assert none.table(labels=["?"] * len(QUERIES))[1][0][2] == "nothing found"
        # One list alone: nothing is multiplied.
        alone = {"text": STORED["text"]}
        agrees(hits, search_corrected(CORRECTION, QUERIES, alone, 200, modality="text"), rtol=1e-3)


def test_a_quantised_index_estimates_expected_wrong_results_too():
    index = QuantisedIndex("int8").fit(DOCUMENTS, correction=CORRECTION)
    exact = search_corrected(CORRECTION, QUERIES, STORED, 40, modality="text")
    agrees(index.search(QUERIES, 10), exact, rtol=0.5)
    pooled = index.search(QUERIES, 10, pool=200)
    agrees(pooled, index.search(QUERIES, 40), rtol=1e-3)
    cut = index.search(QUERIES, 10, at_most=1.0, only="image")
    assert set(cut.modalities.ravel()) <= {"image", ""}
    plain = QuantisedIndex("int8").fit(DOCUMENTS)
    with pytest.raises(InputValueError, match=r"correction has none\. Fit one that has"):
        plain.search(QUERIES, 3, at_most=1.0)


def test_a_cut_off_keeps_what_may_be_a_match_and_says_where_there_is_none():
    rng = np.random.default_rng(1)
    matched, foreign = X[:40] - 2.0, 0.3 * rng.normal(size=(40, D)) - 1.0
    # Of queries without a match 39 % may pass at 0.5.
    for asked, share in ((matched, (0.85, 1.0)), (foreign, (0.0, 0.39))):
        hits = search_corrected(CORRECTION, asked, STORED, 10, modality="text", at_most=0.5)
        found = 1 - hits.nothing_found.mean()
        assert share[0] <= found <= share[1]
        passed = ~hits.nothing_found
        assert np.all(hits.chance[passed] <= 1 - np.exp(-0.5))
        assert np.all(hits.chance[~passed] > 1 - np.exp(-0.5))
        later = np.isfinite(hits.scores[:, 1:])
        assert np.all(hits.expected_wrong[:, 1:][later] <= 0.5)
    with pytest.raises(InputValueError, match=r"at least 0\.083 with a bank of 120 queries and 2"):
        search_corrected(CORRECTION, Y[:1], STORED, 3, modality="text", at_most=0.05)


@IN_MEMORY
def test_what_cannot_be_judged_or_cut_is_refused(store):
    plain = Correction(CORRECTION.names, CORRECTION.maps, "inner_product", queries=("text",))
    with store.open(plain, create=True) as index:
        index.write_all(DOCUMENTS)
        with pytest.raises(InputValueError, match="Expected wrong results need a background"):
            index.search(QUERIES, at_most=1.0)
    short = {name: (np.zeros((2, 9), int), np.zeros((2, 9))) for name in DOCUMENTS}
    with pytest.raises(InputValueError, match="need the best 30 results of image, got 9"):
        merge(short, 5, CORRECTION.background)
    with pytest.raises(InputValueError, match="at_most needs a background"):
        merge(short, 5, at_most=1.0)


def test_one_graph_is_refused_where_each_modality_is_searched(tmp_path):
    with pytest.raises(InputValueError, match="searches each modality on its own"):
        FaissIndex(tmp_path / "x.faiss", CORRECTION, factory="HNSW8,Flat", one_graph=True).open(
            create=True
        )


def test_faiss_keeps_a_list_for_each_modality(tmp_path):
    with FaissIndex(tmp_path / "x.faiss", CORRECTION).open(create=True) as index:
        index.write_all(DOCUMENTS)
        index.finish()
        assert "lists      one for each modality" in index.demands()[-1]
        with pytest.raises(InputValueError, match=r"modgap\.search\.merge, with correction"):
            index.export(tmp_path / "o.index", "text")
        index.export(tmp_path / "o.index", "text", "image")


def test_recent_queries_of_another_kind_are_noticed():
    many = np.random.default_rng(1).normal(size=(60, D))  # of no modality
    with pytest.warns(ForeignQueriesWarning, match="unlike the queries of the bank"):
        search_corrected(CORRECTION, many, STORED, 5, modality="text")


def test_the_command_line_cuts_and_says_nothing_found(tmp_path):
    for name, rows in DOCUMENTS.items():
        np.save(tmp_path / f"{name}.npy", rows)
    CORRECTION.save(tmp_path / "c.safetensors", bank=False)
    CORRECTION.save(tmp_path / "whole.safetensors")
    asked = np.vstack([Y[:3], pairs_among_others(5)[1][:20]])
    np.save(tmp_path / "asked.npy", asked)
    index, queries = tmp_path / "x.faiss", tmp_path / "asked.npy"
    files = [f"{name}={tmp_path / name}.npy" for name in ("image", "text")]
    modgap("index", "build", index, tmp_path / "whole.safetensors", *files)
    search = ("index", "search", index, tmp_path / "c.safetensors", queries)
    said = modgap(*search, "-k", 4).stdout
    assert "expected wrong" in said.splitlines()[0]
    assert "nothing found" not in said
    cut = modgap(*search, "-k", 4, "--at-most", 0.5)
    exact = search_corrected(CORRECTION, asked, STORED, 4, modality="text", at_most=0.5)
    assert cut.stdout.count("nothing found") == exact.nothing_found.sum() > 3
    found = json.loads(modgap(*search, "-k", 4, "--at-most", 0.5, "--json").stdout)
    assert found["least"] == pytest.approx(2 * 5 / len(BANK))
    np.testing.assert_allclose(found["chance"], exact.chance, rtol=1e-3)
    given = np.array(found["expected_wrong"], dtype=float)  # None becomes NaN
    np.testing.assert_array_equal(np.isfinite(given), np.isfinite(exact.expected_wrong))
    shown = np.isfinite(given)
    np.testing.assert_allclose(given[shown], exact.expected_wrong[shown], rtol=1e-4)
    refused = modgap(*search, "--at-most", 0.01, ok=False)
    assert "Give a larger bank" in refused.stderr


def test_a_background_of_documents_gives_what_the_index_gives():
    background = Background.fit(DOCUMENTS, BANK, may_match=True)
    whole = {name: background.expected_wrong(QUERIES, name) for name in DOCUMENTS}
    hits = search_corrected(CORRECTION, QUERIES, STORED, 30, modality="text")
    for line, found in enumerate(by_document(hits)):
        for (name, key), e in found.items():
            # The correction's bank was mapped in float32, this one too: half precision in both.
            assert e == pytest.approx(2 * whole[name][line, int(key)], rel=5e-3)
