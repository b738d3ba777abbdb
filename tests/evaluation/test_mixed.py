"""One index for both modalities, against brute force; NDCG against scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import reference_search as slow
from modgap.corrections import METRICS, Affine, Center, Correction
from modgap.evaluation import mixed_retrieval, ndcg


@pytest.fixture
def near_pairs(rng):
    """Pairs with a gap small enough for some matches to be found across it."""
    shared = rng.normal(size=(40, 6))
    sides = [shared + 0.4 * rng.normal(size=shared.shape) + 0.3 * s for s in (1, -1)]
    return sides[0], sides[1]


def asked_groups(found):
    """The groups asked by queries of X, and by queries of Y, over all repeats."""
    return [q.group.tolist() for q in found.queries]


def check_one_repeat(found, X, Y, gx, gy, k, metric):
    """Compare with brute force; which groups were in the index as X follows from who asks."""
    in_x = set(found.queries[1].group.tolist())
    *expected, share_of_corpus = slow.mixed_search(X, Y, gx, gy, in_x, k, metric)
    for queries, lines in zip(found.queries, expected, strict=True):
        assert queries.group.tolist() == [line[0] for line in lines]
        np.testing.assert_allclose(queries.ndcg, [line[1] for line in lines], atol=1e-12)
        assert queries.hit.tolist() == [line[2] for line in lines]
        assert queries.non_relevant.tolist() == [line[3] for line in lines]
        assert queries.non_relevant_by[:, 0].tolist() == [line[4] for line in lines]
        np.testing.assert_allclose(queries.corpus_share[:, 0], share_of_corpus)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 5, 12])
def test_every_query_gets_what_brute_force_gives_it(near_pairs, metric, k, library):
    X, Y = (rows.astype("float32") for rows in near_pairs)
    found = mixed_retrieval(library(X), library(Y), k, metric, repeats=1)
    check_one_repeat(found, X, Y, range(40), range(40), k, metric)
    assert 0 < found.ndcg < 1


def test_groups_with_several_rows_or_one_side_only_are_searched_too(near_pairs, rng):
    X, Y = near_pairs
    gx, gy = rng.integers(0, 12, 40), rng.integers(4, 16, 40)
    found = mixed_retrieval(X, Y, 5, groups=(gx, gy), repeats=1, seed=3)
    # Groups come back as codes of the sorted labels.
    codes = {label: code for code, label in enumerate(np.unique([gx, gy]).tolist())}
    gx, gy = ([codes[g] for g in side.tolist()] for side in (gx, gy))
    assert set(gx) - set(gy)
    assert set(gy) - set(gx)
    check_one_repeat(found, X, Y, gx, gy, 5, "cosine")


def test_exact_ties_go_to_the_earlier_row_of_the_index():
    X = np.tile(np.eye(3)[:1], (30, 1))
    found = mixed_retrieval(X, X, 10, repeats=1)
    check_one_repeat(found, X, X, range(30), range(30), 10, "cosine")
    # X stands first in the index, so the ten best are X for every query.
    assert found.queries[0].non_relevant_by[:, 0].tolist() == [10] * 15


def test_the_second_repeat_asks_every_group_from_its_other_side(near_pairs):
    found = mixed_retrieval(*near_pairs, repeats=2)
    of_x, of_y = asked_groups(found)
    assert sorted(of_x) == sorted(of_y) == list(range(40))
    assert set(of_x[:20]) == set(of_y[20:])
    once = asked_groups(mixed_retrieval(*near_pairs, repeats=1))
    assert of_x[:20] == once[0]
    # A third repeat is a new assignment.
    assert set(asked_groups(mixed_retrieval(*near_pairs, repeats=3))[0][40:]) != set(of_x[:20])


@pytest.mark.parametrize(("x_share", "asking_x"), [(0.0, 40), (1.0, 0), (0.3, 28)])
def test_x_share_says_how_many_items_the_index_holds_as_x(near_pairs, x_share, asking_x):
    found = mixed_retrieval(*near_pairs, x_share=x_share, repeats=1)
    of_x, of_y = asked_groups(found)
    assert (len(of_x), len(of_y)) == (asking_x, 40 - asking_x)
    assert sorted(of_x + of_y) == list(range(40))
    check_one_repeat(found, *near_pairs, range(40), range(40), 10, "cosine")
    for queries in found.queries:
        np.testing.assert_allclose(queries.corpus_share[:, 0], x_share)
    assert found.to_dict()["queries"]["image"]["n_queries"] == asking_x
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_uneven_share_is_drawn_anew_for_each_repeat(near_pairs):
    of_x, _ = asked_groups(mixed_retrieval(*near_pairs, x_share=0.3, repeats=2))
    assert set(of_x[:28]) != set(of_x[28:])


def test_the_figures_are_means_over_the_queries(near_pairs):
    found = mixed_retrieval(*near_pairs, k=5, names=("photo", "word"))
    figures = found.to_dict()
    for queries in found.queries:
        told = figures["queries"][queries.modality]
        assert told["recall@5"] == pytest.approx(np.mean(queries.hit))
        assert told["ndcg@10"] == pytest.approx(np.mean(queries.ndcg))
        share = queries.non_relevant_by[:, 0].sum() / queries.non_relevant.sum()
        assert told["photo_share@5"] == pytest.approx(share)
        assert told["share_off"] == pytest.approx(abs(share - 0.5))
    both = np.concatenate([q.ndcg for q in found.queries])
    assert figures["ndcg@10"] == found.ndcg == pytest.approx(both.mean())
    off = [figures["queries"][name]["share_off"] for name in ("photo", "word")]
    assert found.share_off == max(off)


def test_a_wide_gap_returns_one_modality_only_and_centring_mends_it(rng):
    shared = rng.normal(size=(60, 8))
    X, Y = shared + 5, shared - 5
    raw = mixed_retrieval(X, Y)
    assert raw.ndcg == 0.0
    assert raw.share_off == 0.5
    mended = mixed_retrieval(X, Y, correction=Center().fit(X, Y).correction_)
    assert mended.ndcg == 1.0
    assert mended.share_off < 0.1


def test_queries_and_documents_get_the_maps_of_their_roles(near_pairs, rng):
    X, Y = near_pairs
    maps = {
        (name, role): Affine(6, offset=rng.normal(size=6))
        for name in ("image", "text")
        for role in ("document", "query")
    }
    correction = Correction(("image", "text"), maps, "euclidean")
    found = mixed_retrieval(X, Y, 5, correction=correction, repeats=1)
    assert found.metric == "euclidean"
    in_x = found.queries[1].group
    index = np.vstack([correction.x(X)[in_x], correction.y(Y)[np.setdiff1d(range(40), in_x)]])
    labels = [*in_x, *np.setdiff1d(range(40), in_x)]
    for queries, rows in zip(
        found.queries, (correction.x(X, "query"), correction.y(Y, "query")), strict=True
    ):
        ranks = slow.ranks(rows[queries.group], index, queries.group, labels, "euclidean")
        gain = np.where(ranks < 10, 1 / np.log2(ranks + 2), 0.0)
        np.testing.assert_allclose(queries.ndcg, gain, atol=1e-12)
        assert queries.hit.tolist() == (ranks < 5).tolist()
        assert 0 < gain.mean() < 1


def test_the_seed_alone_decides_the_assignment(near_pairs):
    first, again, other = (mixed_retrieval(*near_pairs, seed=s) for s in (1, 1, 2))
    assert asked_groups(first) == asked_groups(again)
    assert asked_groups(first) != asked_groups(other)


def test_an_index_without_wrong_results_has_no_share(rng):
    X = rng.normal(size=(1, 4))
    found = mixed_retrieval(X, X, 1)
    assert found.ndcg == 1.0
    assert np.isnan(found.share_off)
    assert found.to_dict()["queries"]["image"]["share_off"] is None


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6))
def test_ndcg_is_scikit_learns(places, n_documents, seed):
    rng = np.random.default_rng(seed)
    relevance = rng.random((4, n_documents)) < 0.4
    relevance[:, 0] = True
    scores = rng.permuted(np.tile(np.arange(n_documents), (4, 1)), axis=1)
    ranked = np.take_along_axis(relevance, np.argsort(-scores, axis=1), axis=1)[:, :places]
    found = ndcg(ranked, relevance.sum(axis=1))
    for line, truth, given_scores in zip(found, relevance, scores, strict=True):
        if n_documents > 1:  # scikit-learn refuses to rank a single document
            expected = ndcg_score(truth[None].astype(float), given_scores[None], k=places)
            assert line == pytest.approx(expected)
        else:
            assert line == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"x_share": 1.5}, "x_share must be between 0 and 1"),
        ({"x_share": float("nan")}, "x_share must be finite"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"metric": "dot"}, "metric must be one of"),
        ({"groups": ([0] * 40, [1] * 40)}, "no row has a match"),
    ],
)
def test_bad_options_are_refused(near_pairs, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mixed_retrieval(*near_pairs, **options)


@pytest.mark.published
def test_raw_clip_in_one_index_finds_no_match_and_only_its_own_modality(published_clip):
    found = mixed_retrieval(*published_clip)
    assert found.ndcg == 0.0
    queries = found.to_dict()["queries"]
    assert queries["image"]["image_share@10"] == 1.0
    assert queries["text"]["image_share@10"] == 0.0
