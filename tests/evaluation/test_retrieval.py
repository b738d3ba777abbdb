"""Retrieval both ways against brute force: metrics, groups, ties, roles, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import reference_search as slow
from modgap.corrections import METRICS, Affine, Correction, Whiten
from modgap.evaluation import Retrieval, retrieval


def check(found, X, Y, gx, gy, metric):
    np.testing.assert_array_equal(found.ranks_x, slow.ranks(X, Y, gx, gy, metric))
    np.testing.assert_array_equal(found.ranks_y, slow.ranks(Y, X, gy, gx, metric))


@pytest.mark.parametrize("metric", METRICS)
def test_ranks_and_recall_equal_brute_force(pairs, metric, library):
    X, Y = (rows.astype("float32") for rows in pairs)
    found = retrieval(library(X), library(Y), (1, 5, 10), metric)
    check(found, X, Y, range(60), range(60), metric)
    recall = found.recall()
    for k in (1, 5, 10):
        assert recall[f"image_retrieval_recall@{k}"] == slow.recall(found.ranks_y, k)
        assert recall[f"text_retrieval_recall@{k}"] == slow.recall(found.ranks_x, k)
    assert 0 < recall["image_retrieval_recall@1"] < recall["image_retrieval_recall@10"]


@pytest.mark.parametrize("metric", METRICS)
def test_groups_may_have_several_matches_or_none(pairs, metric):
    X, Y = pairs[0], pairs[1][:50]
    rng = np.random.default_rng(4)
    gx = [f"g{g}" for g in rng.integers(0, 20, 60)]
    gy = [f"g{g}" for g in rng.integers(5, 25, 50)]
    found = retrieval(X, Y, (1, 3), metric, (gx, gy))
    check(found, X, Y, gx, gy, metric)
    assert (found.ranks_x == -1).any()
    assert (found.ranks_y == -1).any()
    figures = found.to_dict()
    assert figures["n_queries_image"] == np.sum(found.ranks_x >= 0) < 60
    assert figures["text_retrieval_recall@3"] == slow.recall(found.ranks_x, 3)
    assert figures["image_retrieval_recall@1"] == slow.recall(found.ranks_y, 1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_equal_scores_go_to_the_earlier_row(rng, metric, precision):
    # Rows of length 4 with entries of 2: every score is exact, so ties are ties in any precision.
    entries = np.tile([2.0, -2.0, 2.0, -2.0, 0.0, 0.0], (8, 1))
    base = rng.permuted(entries, axis=1).astype(precision)
    X = base[rng.integers(0, 8, 40)]
    Y = base[rng.integers(0, 8, 40)]
    apart = {"group_duplicates": False}
    check(retrieval(X, Y, 1, metric, **apart), X, Y, range(40), range(40), metric)
    gx, gy = rng.integers(0, 9, 40), rng.integers(0, 9, 40)
    check(retrieval(X, Y, 1, metric, (gx, gy), **apart), X, Y, gx, gy, metric)


def test_of_copies_of_one_row_only_the_first_finds_itself():
    X = np.ones((5, 3))
    found = retrieval(X, X, 1)
    assert found.ranks_x.tolist() == found.ranks_y.tolist() == [0, 1, 2, 3, 4]
    assert found.recall() == {"image_retrieval_recall@1": 0.2, "text_retrieval_recall@1": 0.2}


def test_scaling_rows_changes_inner_products_but_no_cosines(pairs):
    X, Y = pairs
    scales = np.random.default_rng(0).uniform(0.1, 10, size=(60, 1))
    same = retrieval(X, Y, 1).recall()
    assert retrieval(X * scales, Y, 1).recall() == same
    inner = [retrieval(X * s, Y, 1, "inner_product").recall() for s in (1, scales)]
    assert inner[0] != inner[1]


def test_the_correction_is_applied_in_the_role_each_row_has(pairs, rng):
    X, Y = pairs
    maps = {
        (name, role): Affine(12, offset=rng.normal(size=12))
        for name in ("image", "text")
        for role in ("document", "query")
    }
    correction = Correction(("image", "text"), maps, "euclidean")
    found = retrieval(X, Y, 1, correction=correction)
    assert found.metric == "euclidean"
    x, y = correction.x, correction.y
    expected_x = slow.ranks(x(X, "query"), y(Y), range(60), range(60), "euclidean")
    expected_y = slow.ranks(y(Y, "query"), x(X), range(60), range(60), "euclidean")
    np.testing.assert_array_equal(found.ranks_x, expected_x)
    np.testing.assert_array_equal(found.ranks_y, expected_y)
    assert not np.array_equal(found.ranks_x, slow.ranks(x(X), y(Y), range(60), range(60), "cosine"))


def test_a_correction_without_roles_is_applied_to_both_sides(pairs):
    X, Y = pairs
    corrector = Whiten().fit(X, Y)
    found = retrieval(X, Y, 1, correction=corrector.correction_)
    check(found, *corrector.transform(X, Y), range(60), range(60), "cosine")


def test_an_explicit_metric_goes_before_the_corrections(pairs):
    correction = Correction.identity(12, metric="euclidean")
    assert retrieval(*pairs, correction=correction).metric == "euclidean"
    assert retrieval(*pairs, metric="inner_product", correction=correction).metric == (
        "inner_product"
    )
    assert retrieval(*pairs).metric == "cosine"


def test_torch_sides_of_differing_precision_are_searched_in_the_wider(pairs):
    torch = pytest.importorskip("torch")
    X, Y = torch.from_numpy(pairs[0].astype("float32")), torch.from_numpy(pairs[1])
    found = retrieval(X, Y, 1)
    check(found, X.numpy(), pairs[1], range(60), range(60), "cosine")


def test_the_median_rank_counts_from_one():
    found = Retrieval(
        ("image", "text"), "cosine", (1,), np.array([0, 3, -1, 5]), np.array([0, 0, 1])
    )
    assert found.median_rank() == {
        "image_retrieval_median_rank": 1.0,
        "text_retrieval_median_rank": 4.0,
    }


def test_k_defaults_to_what_the_rows_allow(pairs):
    X, Y = pairs
    assert retrieval(X, Y).k == (1, 5, 10)
    assert retrieval(X[:7], Y[:7]).k == (1, 5)
    assert retrieval(X[:3], Y[:3]).k == (1,)
    assert retrieval(X, Y, np.array([2, 3])).k == (2, 3)


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "k must be between 1 and 60, got 0"),
        (61, "k must be between 1 and 60, got 61"),
        (2.0, "k must be a whole number"),
        (True, "k must be a whole number"),
        ([1, -1], "k must be between 1 and 60"),
        ([], "k must be a whole number or several, got none"),
        ("5", "k must be a whole number"),
    ],
)
def test_a_k_that_makes_no_sense_is_refused(pairs, k, message):
    with pytest.raises((ValueError, TypeError), match=message):
        retrieval(*pairs, k)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "manhattan"}, "metric must be one of"),
        ({"groups": ([1] * 60, [2] * 60)}, "no row has a match"),
        ({"groups": ([1] * 59, [1] * 60)}, "one label per row of image"),
        ({"names": ("image", "image")}, "must differ"),
        ({"correction": Correction.identity(5)}, "for rows of 5 columns, got 12"),
    ],
)
def test_bad_options_are_refused(pairs, options, message):
    with pytest.raises(ValueError, match=message):
        retrieval(*pairs, **options)


def test_other_numbers_of_rows_need_groups_and_rows_of_zeros_another_metric(pairs):
    X, Y = pairs
    with pytest.raises(ValueError, match="Pass groups"):
        retrieval(X, Y[:-1])
    assert retrieval(X * 0, Y, 1, "euclidean").recall()["text_retrieval_recall@1"] <= 1 / 60


@pytest.mark.published
def test_recall_on_the_published_clip_embeddings_is_as_documented(published_clip):
    X, Y = published_clip
    expected = {"cosine": (0.552, 0.506), "euclidean": (0.554, 0.504)}
    for metric, (image_to_text, text_to_image) in expected.items():
        found = retrieval(X, Y, 1, metric).recall()
        assert found["text_retrieval_recall@1"] == image_to_text
        assert found["image_retrieval_recall@1"] == text_to_image
