"""Search in one index of both modalities, against loops; rows, captions and samples."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from modgap.arrays import top_k
from modgap.core.checks import InputError
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    Corrector,
    ExpectedWrong,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    in_one_sentence,
    row_length,
)
from modgap.corrections.background import FewQueriesWarning
from modgap.io import Embeddings, Modalities
from modgap.search import search, search_corrected
from modgap.search.scores import document_bias, rows_to_multiply
from modgap.serve import Explorer, MixedIndex
from modgap.serve.mapped_rows import MappedRows
from modgap.serve.models import SearchHit
from modgap.serve.workbench import Fitted
from serving import DIM, N_X, NASTY, make_data, slow_search

CORRECTORS: tuple[Corrector, ...] = (
    Shift(0.4),
    Center(),
    Whiten(0.2),
    Procrustes(),
    OrthogonalShift("y", 0.6),
    OrthogonalShift("x", 0.6),
    Calibrate("keep"),
    Calibrate("mixed"),
    Calibrate("keep", "blocks"),
    Calibrate("mixed", "blocks"),
    Calibrate("keep", "compromise"),
)


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def explorer(data):
    return Explorer(data)


def keep(explorer: Explorer, corrector: Corrector, name: str = "c") -> dict[str, Correction]:
    """Fit on everything and let the explorer search with it: a correction for each query's side."""
    data = explorer.data
    rows = row_length(explorer.metric)
    fitted = {
        asking: clone(corrector).fit(data, queries=asking, rows=rows).correction_
        for asking in data.names
    }
    kept = Fitted(name, fitted, ("text",), 0, None, None, id=name)
    explorer.corrections.add(kept)
    return fitted


def check(found: list[SearchHit] | None, expected: list[tuple[str, int, float]]) -> None:
    assert found is not None
    assert [(hit.modality, hit.row) for hit in found] == [e[:2] for e in expected]
    assert [hit.score for hit in found] == pytest.approx([e[2] for e in expected], abs=2e-5)


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
@pytest.mark.parametrize(("modality", "row"), [("image", 3), ("text", 55)])
def test_raw_search_is_that_of_the_loops(data, metric, modality, row):
    explorer = Explorer(data, metric=metric)
    side = data.x if modality == "image" else data.y
    as_is = Correction.identity(DIM, metric=metric)
    expected = slow_search(data, side.take([row])[0], modality, 12, as_is, (modality, row))
    answer = explorer.search(modality, row=row, k=12)
    check(answer.raw, expected)
    assert (answer.metric, answer.corrected) == (metric, None)


@pytest.mark.parametrize("corrector", CORRECTORS, ids=repr)
@pytest.mark.parametrize(("modality", "row"), [("image", 7), ("text", 0)])
def test_corrected_search_is_that_of_the_loops(explorer, corrector, modality, row):
    data = explorer.data
    correction = keep(explorer, corrector)[modality]
    side = data.x if modality == "image" else data.y
    query = side.take([row])[0]
    answer = explorer.search(modality, row=row, k=15, correction="c")
    check(answer.corrected, slow_search(data, query, modality, 15, correction, (modality, row)))
    assert answer.corrected_metric == correction.metric
    # A vector is no row of the data, so the row itself is found.
    as_vector = explorer.search(modality, vector=query.tolist(), k=15, correction="c")
    check(as_vector.corrected, slow_search(data, query, modality, 15, correction))
    assert as_vector.query is None
    assert answer.corrected_demands == in_one_sentence(correction, [modality])


def test_a_query_that_the_correction_does_not_serve_is_refused_in_its_words(data):
    explorer = Explorer(data)
    correction = Calibrate().fit(data).correction_
    only = Fitted("c", {"text": correction}, ("text",), 0, None, None, id="c")
    explorer.corrections.add(only)
    assert explorer.search("text", row=0, correction="c").corrected
    with pytest.raises(InputError, match="serves text queries, not image queries"):
        explorer.search("image", row=0, correction="c")


def test_documents_of_one_correction_are_kept_apart_by_who_asks(data):
    explorer = Explorer(data)
    keep(explorer, Calibrate())
    first = explorer.search("text", row=3, correction="c").corrected
    explorer.search("image", row=3, correction="c")
    assert explorer.search("text", row=3, correction="c").corrected == first
    assert explorer.index._remembered.cache_info()[:2] == (1, 2)  # hits, misses


def test_a_correction_brings_both_modalities_into_the_results(explorer):
    keep(explorer, Calibrate("mixed"))
    answer = explorer.search("text", row=4, k=10, correction="c")
    assert {hit.modality for hit in answer.raw} == {"text"}
    assert {hit.modality for hit in answer.corrected or ()} == {"image", "text"}


def test_a_match_is_a_row_of_the_same_group_of_either_modality(explorer):
    answer = explorer.search("text", row=4, k=100)
    matches = {(hit.modality, hit.row) for hit in answer.raw if hit.match}
    assert matches == {("image", 4), ("text", 44), ("text", 84)}
    of_vector = explorer.search("text", vector=np.ones(DIM).tolist(), k=5)
    assert {hit.match for hit in of_vector.raw} == {None}


def test_without_pairs_nothing_is_said_of_matches():
    answer = Explorer(make_data(paired=False)).search("image", row=0, k=5)
    assert {hit.match for hit in answer.raw} == {None}


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
@pytest.mark.parametrize(("modality", "row"), [("image", 3), ("image", 4), ("text", 55)])
def test_with_one_side_per_group_the_match_is_of_the_other_modality(metric, modality, row):
    data = make_data()
    explorer = Explorer(data, metric=metric)
    keep(explorer, Calibrate("mixed"))
    answer = explorer.search(modality, row=row, k=500, correction="c", index="one_side")
    groups = dict(zip(data.names, data.groups, strict=True))
    asked = groups[modality][row]
    for found in (answer.raw, answer.corrected or ()):
        there = {(hit.modality, hit.row) for hit in found}
        side_of = {}
        for name in data.names:
            for number, group in enumerate(groups[name]):
                if (name, number) in there:
                    assert side_of.setdefault(group, name) == name
        assert side_of[asked] != modality
        assert sorted(side_of) == sorted(set(groups["image"]))
        # All rows of a group are there, half of the groups as each side.
        assert len(there) == sum(np.sum(groups[name] == g) for g, name in side_of.items())
        assert sum(name == "image" for name in side_of.values()) == len(side_of) // 2
    # Leaving rows out changes neither the order nor the scores of the others.
    whole = explorer.search(modality, row=row, k=500, correction="c")
    for few, many in ((answer.raw, whole.raw), (answer.corrected, whole.corrected)):
        kept = {(hit.modality, hit.row) for hit in few or ()}
        assert [hit for hit in many or () if (hit.modality, hit.row) in kept] == few


def test_one_side_per_group_needs_pairs_and_takes_a_vector():
    with pytest.raises(InputError, match="needs pairs"):
        Explorer(make_data(paired=False)).search("text", row=0, index="one_side")
    found = Explorer(make_data()).search("text", vector=[1.0] * DIM, k=500, index="one_side").raw
    assert N_X <= len(found) < N_X + 90


def test_rows_without_a_match_are_always_there():
    data = make_data(30, 20)  # groups 20 to 29 have no text
    found = Explorer(data).search("text", row=0, k=100, index="one_side").raw
    images = {hit.row for hit in found if hit.modality == "image"}
    assert {0, *range(20, 30)} <= images


def test_equal_scores_go_to_the_earlier_row_and_to_the_first_modality():
    X = np.tile(np.eye(3, dtype="float32")[:1], (4, 1))
    data = Modalities.of(X, X[:2], paired=False)
    found = Explorer(data).search("image", row=1, k=10).raw
    assert [(hit.modality, hit.row) for hit in found] == [
        ("image", 0), ("image", 2), ("image", 3), ("text", 0), ("text", 1)
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_near_ties_beyond_float32_are_ordered_as_top_k_orders_them(metric):
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(1, 40)) + 1e-6 * rng.normal(size=(3_000, 40))).astype("float32")
    data = Modalities.of(X, -X[:5], paired=False)
    found = Explorer(data, metric=metric).search("image", row=0, k=9).raw
    queries, documents = rows_to_multiply(X[:1], X, metric)
    best, _ = top_k(queries, documents, 10, document_bias(documents, metric))
    assert [hit.row for hit in found] == [row for row in best[0].tolist() if row != 0][:9]


def test_an_index_smaller_than_k_gives_all_it_has(explorer):
    assert len(explorer.search("image", row=0, k=100_000).raw) == N_X + 90 - 1


def test_a_larger_modality_is_sampled_by_seed_and_rows_outside_can_still_ask():
    data = make_data()
    small, same, other = (Explorer(data, rows=30, seed=seed) for seed in (5, 5, 6))
    numbers = small.index.live["text"].numbers
    assert len(numbers) == 30
    assert len(set(numbers.tolist())) == 30
    assert np.array_equal(numbers, same.index.live["text"].numbers)
    assert not np.array_equal(numbers, other.index.live["text"].numbers)
    outside = next(row for row in range(90) if row not in numbers)
    found = small.search("text", row=outside, k=100).raw
    assert len(found) == 60
    assert {hit.row for hit in found if hit.modality == "text"} == set(numbers.tolist())
    whole = Explorer(data).search("text", row=outside, k=130).raw
    scores = {(hit.modality, hit.row): hit.score for hit in whole}
    for hit in found:
        assert hit.score == pytest.approx(scores[hit.modality, hit.row])
    assert small.rows.find("text").total == 30


def test_a_query_that_the_api_would_not_let_through_is_refused_in_words(explorer):
    with pytest.raises(InputError, match="from 0 to 39, got -1"):
        explorer.search("image", row=-1)
    with pytest.raises(InputError, match="finite"):
        explorer.search("image", vector=[float("nan")] * DIM)


def test_rows_that_cannot_be_searched_are_refused_at_the_start():
    X = np.ones((9, 3), dtype="float32")
    X[4] = 0
    data = Modalities.of(X, X[:3], paired=False)
    with pytest.raises(InputError, match="image has 1 row with length zero, the first at row 4"):
        Explorer(data)
    Explorer(data, metric="euclidean")


def test_items_are_found_by_part_of_their_caption_or_id(explorer):
    find = explorer.rows.find
    found = find("text", "THING 7")
    assert [item.row for item in found.items] == [7, 47, 87]
    assert found.total == 3
    assert find("text", "thing 7", offset=2, limit=5).items[0].row == 87
    assert [item.row for item in find("image", "scan-12.").items] == [12]
    nothing = find("text", "no such thing")
    assert (nothing.total, nothing.items) == (0, [])
    last = find("image", offset=38, limit=100)
    assert (last.total, [i.id for i in last.items]) == (N_X, ["scan-38.png", "scan-39.png"])


def test_captions_come_as_they_are_but_can_always_be_sent():
    X = np.eye(4, 6, dtype="float32")
    captions = np.array([NASTY, "lone \ud800", None, "x" * 5_000], dtype=object)
    y = Embeddings.from_array(X, captions=captions)
    explorer = Explorer(Modalities.of(X, y))
    shown = [explorer.rows.item("text", row).caption for row in range(4)]
    assert shown[:3] == [NASTY, "lone ?", None]
    assert shown[3] is not None
    assert len(shown[3]) == 2_000
    shown[1].encode()
    assert explorer.rows.find("text", "onerror").total == 1


def test_rows_are_mapped_once_for_each_of_the_last_corrections(monkeypatch):
    explorer = Explorer(make_data())
    explorer.index = MixedIndex(explorer.data, kept=2)
    made = []
    real = MappedRows.of
    monkeypatch.setattr(
        MappedRows, "of", lambda live, *more: made.append(live.name) or real(live, *more)
    )
    for name in "abc":
        keep(explorer, Shift(0.1 * ord(name) / 97), name)
    threads = [
        threading.Thread(target=explorer.search, args=("text",), kwargs={"row": 1, "correction": n})
        for n in "aaaa"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["image", "text"]
    for name in "abab":
        explorer.search("text", row=1, correction=name)
    assert len(made) == 4
    explorer.search("text", row=1, correction="c")  # a gives way
    explorer.search("text", row=1, correction="b")
    assert len(made) == 6
    explorer.search("text", row=1, correction="a")
    assert len(made) == 8


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_rows_of_the_data_are_the_only_ones_in_memory(dtype):
    n, dim = 3_000, 64
    rng = np.random.default_rng(6)
    X, Y = (rng.normal(size=(n, dim)).astype(dtype) + 0.5 for _ in range(2))
    data = Modalities.of(X.astype(dtype), (-Y).astype(dtype))
    explorer = Explorer(data)
    for name, rows in (("image", data.X), ("text", data.Y)):
        assert explorer.index.live[name].rows.dtype == dtype
        assert np.shares_memory(explorer.index.live[name].rows, rows)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for place, corrector in enumerate((Whiten(0.2), Calibrate("mixed", "blocks"), Shift(0.4))):
            keep(explorer, corrector, f"c{place}")
            explorer.search("text", row=1, correction=f"c{place}")
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # Five numbers of each document, and a map of each modality and kind of query.
    assert kept < 3 * 2 * n * 5 * 8 + 3 * 6 * dim * dim * 8 + 200_000 < X.size * 8


def test_half_precision_is_searched_as_its_rows_in_float32_are(data):
    halves = [rows.astype("float16") for rows in (data.X, data.Y)]
    half = Explorer(Modalities.of(*halves, groups=data.groups))
    wide = Explorer(Modalities.of(*(rows.astype("float32") for rows in halves), groups=data.groups))
    for explorer in (half, wide):
        keep(explorer, Whiten(0.2))
    found, expected = (one.search("text", row=3, k=20, correction="c") for one in (half, wide))
    assert (found.raw, found.corrected) == (expected.raw, expected.corrected)


def test_candidates_on_which_float32_fails_are_told_apart():
    """Rows that a map brings near to the origin, stretched again: rounding is large there."""
    rng = np.random.default_rng(8)
    X = (5 + 1e-4 * rng.normal(size=(400, 16))).astype("float32")
    Y = (-5 + 1e-4 * rng.normal(size=(300, 16))).astype("float32")
    explorer = Explorer(Modalities.of(X, Y, paired=False), metric="inner_product")
    correction = keep(explorer, Center())["text"]
    found = explorer.index.search(Y[:4], "text", 12, correction=correction)
    documents = np.concatenate([correction.x(X), correction.y(Y)])
    asked = correction.apply(Y[:4], "text", "query")
    rows, scores = search(asked, documents, 12, correction.metric)
    assert (
        np.where(found.modalities == "text", found.ids + 400, found.ids).tolist() == rows.tolist()
    )
    np.testing.assert_allclose(found.scores, scores, rtol=1e-6)


def test_results_of_lists_are_judged_and_cut_as_the_library_does(explorer):
    data = explorer.data
    with pytest.warns(FewQueriesWarning, match="90 queries"):
        fitted = ExpectedWrong().fit(data, queries="text").correction_
    explorer.corrections.add(
        Fitted("e", {"text": fitted}, ("text",), 0, None, None, id="expected-wrong")
    )
    stored = {
        name: fitted.apply(side.rows(), name, keys=data.keys_of(name))
        for name, side in data.sides.items()
    }
    asked = np.random.default_rng(3).normal(size=(12, DIM))
    found = 0
    for query in asked:
        for at_most in (None, 1.0):
            hits = search_corrected(
                fitted, query[None], stored, 8, modality="text", at_most=at_most
            )
            answer = explorer.search(
                "text", vector=query.tolist(), k=8, correction="expected-wrong", at_most=at_most
            )
            kept = np.isfinite(hits.scores[0])
            columns = (part[0][kept] for part in (hits.modalities, hits.ids, hits.scores))
            check(answer.corrected, list(zip(*columns, strict=True)))
            assert [hit.expected_wrong for hit in answer.corrected] == pytest.approx(
                hits.expected_wrong[0][kept].tolist(), rel=1e-3
            )
            assert answer.chance == pytest.approx(hits.chance[0])
            assert answer.least == hits.least
            assert {hit.expected_wrong for hit in answer.raw} == {None}
            found += bool(answer.corrected)
    assert 12 < found < 24
    half = explorer.search("text", row=3, correction="expected-wrong", index="one_side")
    assert all(hit.expected_wrong > 0 for hit in half.corrected)
    for options in ({}, {"correction": None}):
        with pytest.raises(InputError, match=r"at_most cuts corrected results\. Name a correction"):
            explorer.search("text", row=3, at_most=1.0, **options)
    keep(explorer, Shift(0.4), "moved")
    with pytest.raises(InputError, match="Expected wrong results need a background"):
        explorer.search("text", row=3, at_most=1.0, correction="moved")
