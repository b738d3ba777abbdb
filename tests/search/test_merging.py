"""One ranking from several lists by expected wrong results, and the cut where nothing is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_pairs
from modgap.core.checks import InputError
from modgap.corrections import Background, Calibrate, ExpectedWrong
from modgap.search import Hits, merge, search_corrected
from reference_background import heights

B = 120


def lists_of(seed, n_queries=5, width=40, names=("image", "text")):
    """Hits of lists whose scores have nothing in common."""
    rng = np.random.default_rng(seed)
    found = {}
    for place, name in enumerate(names):
        scores = -np.sort(-(10.0**place) * rng.gumbel(size=(n_queries, width)), axis=1)
        ids = np.argsort(rng.random((n_queries, 200)), axis=1)[:, :width]
        found[name] = (ids, scores)
    return found


def background_of(names=("image", "text"), seed=100):
    banks = {name: found[1] for name, found in lists_of(seed, B, names=names).items()}
    return Background.of_scores(banks, dict.fromkeys(names, 200))


def slow_merge(lists, k, background):
    """One query after the other, one hit after the other."""
    answer = []
    for query in range(len(next(iter(lists.values()))[0])):
        hits = []
        for name, (ids, scores) in lists.items():
            expected = background.expected_wrong_of_scores(scores[query : query + 1], name)[0]
            for place, e in enumerate(expected):
                odds_against = e * (1 + 0.05 * sum(1 / better for better in expected[:place]))
                found = (len(lists) * e, ids[query, place], name, scores[query, place])
                hits.append((odds_against, found))
        answer.append([found for _, found in sorted(hits, key=lambda hit: hit[0])[:k]])
    return answer


@given(st.integers(0, 10_000), st.sampled_from([1, 10, 80]))
def test_hits_come_by_expected_wrong_results_and_what_is_better_in_their_list(seed, k):
    lists, background = lists_of(seed), background_of()
    found = merge(lists, k, background)
    wanted = slow_merge(lists, k, background)
    for query, line in enumerate(wanted):
        expected, ids, names, scores = zip(*line, strict=True)
        np.testing.assert_allclose(found.expected_wrong[query], expected)
        assert found.ids[query].tolist() == list(ids)
        assert found.modalities[query].tolist() == list(names)
        assert found.scores[query].tolist() == list(scores)
    assert found.least == 2 * 5 / B


@given(st.integers(0, 10_000), st.booleans())
def test_the_order_of_the_lists_is_nothing(seed, judged):
    names = ("image", "text", "words")
    lists = lists_of(seed, names=names)
    background = background_of(names) if judged else None
    one = merge(lists, 10, background)
    other = merge({name: lists[name] for name in reversed(names)}, 10, background)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.modalities, other.modalities)
    np.testing.assert_array_equal(one.expected_wrong, other.expected_wrong)
    if judged:
        np.testing.assert_array_equal(one.chance, other.chance)


@given(st.integers(0, 10_000))
def test_within_a_list_the_order_stays(seed):
    lists = lists_of(seed)
    found = merge(lists, 80, background_of())
    for name, (ids, _) in lists.items():
        kept = [
            line[names == name] for line, names in zip(found.ids, found.modalities, strict=True)
        ]
        np.testing.assert_array_equal(np.array(kept), ids)


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-5, 5))
def test_without_a_bank_it_is_a_guess_from_level_and_slope_alone(seed, scale, shift):
    lists = lists_of(seed)
    ids, scores = lists["text"]
    found = merge(lists, 10)
    other = merge({"image": lists["image"], "text": (ids, scale * scores + shift)}, 10)
    np.testing.assert_array_equal(found.ids, other.ids)
    np.testing.assert_allclose(found.expected_wrong, other.expected_wrong, rtol=1e-4)
    assert (found.chance, found.least) == (None, 0.0)


@pytest.mark.parametrize(("width", "places"), [(40, 30), (30, 30), (20, 10), (7, 6)])
def test_without_a_bank_e_is_r_at_the_level_and_falls_by_e_a_unit(width, places):
    scores = -np.sort(-np.random.default_rng(0).gumbel(size=(1, width)), axis=1)
    found = merge({"one": (np.arange(width)[None], scores)}, width)
    level, rise = sorted(scores[0], reverse=True)[places - 1], []
    for i in range(4, places + 1):
        rise.append(math.log(places / (i - 0.5)))
    best = sorted(scores[0], reverse=True)
    slope = np.mean([best[i - 1] - level for i in range(4, places + 1)]) / np.mean(rise)
    wanted = [places * math.exp(-u) for u in heights(scores[0], places, slope)]
    np.testing.assert_allclose(found.expected_wrong[0], wanted, rtol=1e-9)


def test_what_follows_a_sure_hit_comes_after_the_other_lists_best():
    lists, background = lists_of(3, 1), background_of()
    ids, scores = lists["text"]
    sure = np.where(np.arange(40) == 0, scores[0, 0] + 100, scores)
    found = merge({"image": lists["image"], "text": (ids, sure)}, 80, background)
    assert found.modalities[0, :2].tolist() == ["text", "image"]
    assert found.modalities[0, -39:].tolist() == ["text"] * 39  # E stays what it was
    np.testing.assert_array_equal(np.isfinite(found.expected_wrong), True)


def test_ids_of_every_kind_and_hits_of_a_search_are_taken():
    lists = lists_of(0)
    ids, scores = lists["text"]
    as_hits = Hits(ids.astype(str), scores, np.full(ids.shape, "text", dtype=object))
    found = merge({"image": lists["image"], "text": as_hits}, 10, background_of())
    same = merge(lists, 10, background_of())
    assert [str(key) for key in found.ids.ravel()] == [str(key) for key in same.ids.ravel()]
    assert {type(key) for key in found.ids.ravel()} == {int, str}


def test_missing_hits_come_last_and_name_no_list():
    lists = lists_of(0, 2)
    ids, scores = lists["text"]
    ids, scores = ids.astype(object), scores.copy()
    ids[1], scores[1] = None, -np.inf
    found = merge({"image": lists["image"], "text": (ids, scores)}, 80, background_of())
    assert np.all(found.modalities[1, :40] == "image")
    assert np.all(found.modalities[1, 40:] == "")
    assert found.ids[1, 40:].tolist() == [None] * 40
    assert np.all(np.isposinf(found.expected_wrong[1, 40:]))
    assert np.all(np.isfinite(found.chance))


def test_an_empty_list_is_left_out():
    lists = lists_of(0)
    empty = (np.zeros((5, 0), int), np.zeros((5, 0)))
    found = merge({"image": lists["image"], "text": empty}, 10, background_of())
    alone = merge({"image": lists["image"]}, 10, background_of())
    np.testing.assert_array_equal(found.expected_wrong, alone.expected_wrong)


def planted(n_found, seed=1):
    """Queries of one list, the first of which have a document far above all others."""
    ids, scores = lists_of(seed, 200, names=("image",))["image"]
    scores = scores.copy()
    scores[:n_found, 0] += 5
    return {"image": (ids, scores)}


def test_a_cut_leaves_out_what_is_likely_wrong_and_says_where_nothing_is_found():
    background, lists = background_of(("image",)), planted(100)
    whole, cut = merge(lists, 10, background), merge(lists, 10, background, at_most=0.1)
    assert not np.any(cut.nothing_found[:100])
    assert np.mean(cut.nothing_found[100:]) == pytest.approx(math.exp(-0.1), abs=0.06)
    kept = np.isfinite(cut.scores)
    np.testing.assert_array_equal(cut.ids[kept], whole.ids[kept])
    assert set(cut.ids[~kept].tolist()) == {None}
    assert set(cut.modalities[~kept].tolist()) == {""}
    assert np.all(cut.expected_wrong[kept & (np.arange(10) > 0)] <= 0.1)
    assert np.all(np.isposinf(cut.expected_wrong[~kept]))
    larger = merge(lists, 10, background, at_most=5.0)
    assert np.sum(np.isfinite(larger.scores)) > np.sum(kept)


def test_what_the_table_shows():
    background, lists = background_of(("image",)), planted(1)
    header, lines = merge(lists, 3, background).table()
    assert header[-1] == "expected wrong"
    assert lines[0][-1] == "< 0.042"  # five of 120 queries


@pytest.mark.parametrize(
    ("lists", "more", "message"),
    [
        ({}, {}, "merge needs the hits of at least one list"),
        ({"image": ([[1]], [[1.0, 2.0]])}, {}, r"hits of image must be ids and scores .* \(1, 1\)"),
        ({"image": ([[1]], [[np.nan]])}, {}, "The scores of image must be numbers, got NaN"),
        ({"image": ([[1, 2]], [[0.1, 0.2]])}, {}, "scores of image must come best first"),
        (
            {"image": ([[1]], [[0.1]]), "text": ([[1], [2]], [[0.1], [0.1]])},
            {},
            "Every list must have a line for each query, got 1 and 2",
        ),
        (lists_of(0), {"at_most": 1.0}, "at_most needs a background"),
        (lists_of(0), {"k": 0}, "k must be"),
        (
            lists_of(0),
            {"at_most": 0.05, "background": background_of()},
            "at_most must be at least 0.083 with a bank of 120 queries and 2 lists",
        ),
        (lists_of(0, width=9), {"background": background_of()}, "best 30 results of image, got 9"),
        (
            lists_of(0, names=("video",)),
            {"background": background_of()},
            "list must be one of 'image', 'text', got 'video'",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused(lists, more, message):
    with pytest.raises(InputError, match=message):
        merge(lists, **more)


@pytest.mark.parametrize("hubs", [0.0, 0.25])
def test_exact_search_of_corrected_documents_is_merged(hubs):
    X, Y = make_pairs(150)
    correction = ExpectedWrong(hubs).fit(X[:130], Y[:130]).correction_
    documents = {"image": correction.apply(X, "image"), "text": correction.apply(Y, "text")}
    found = search_corrected(correction, Y[130:], documents, 10)
    asked, lists = correction.apply(Y[130:], "text", "query"), {}
    for name, rows in documents.items():
        scores = asked @ rows.T
        order = np.argsort(-scores, axis=1)
        lists[name] = (order, np.take_along_axis(scores, order, axis=1))
    wanted = merge(lists, 10, correction.background)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_allclose(found.expected_wrong, wanted.expected_wrong, rtol=1e-4)
    cut = search_corrected(correction, Y[130:], documents, 10, at_most=1.0)
    assert np.sum(np.isfinite(cut.scores)) < np.sum(np.isfinite(found.scores))
    assert search_corrected(correction, Y[:1], documents, 3, modality="text").ids.shape == (1, 3)


def test_exact_search_without_a_background_ranks_by_the_corrections_score():
    X, Y = make_pairs(60)
    correction = Calibrate().fit(X, Y).correction_
    documents = {"image": correction.apply(X, "image"), "text": correction.apply(Y, "text")}
    found = search_corrected(correction, Y[:4], documents, 5)
    scores = correction.apply(Y[:4], "text", "query") @ np.vstack([*documents.values()]).T
    place = found.ids + np.where(found.modalities == "text", 60, 0)
    np.testing.assert_array_equal(place, np.argsort(-scores, axis=1)[:, :5])
    with pytest.raises(InputError, match="need a background, and this correction has none"):
        search_corrected(correction, Y[:4], documents, 5, at_most=1.0)
