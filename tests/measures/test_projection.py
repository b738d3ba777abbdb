from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD

import modgap
from conftest import make_many, make_pairs


@pytest.mark.parametrize(
    ("method", "reference"),
    [("pca", PCA(3, svd_solver="full")), ("svd", TruncatedSVD(3, algorithm="arpack"))],
)
def test_projection_of_equal_sides_is_that_of_the_stacked_rows(pairs, method, reference):
    X, Y = pairs
    found = modgap.measures.projection(X, Y, method, 3)
    expected = reference.fit_transform(np.vstack([X, Y]))
    drawn = np.vstack([found.x, found.y])
    signs = np.sign(np.sum(drawn * expected, axis=0))
    np.testing.assert_allclose(drawn, expected * signs, atol=1e-8)


def test_share_is_the_share_of_the_variance(pairs):
    X, Y = pairs
    found = modgap.measures.projection(X, Y, "pca", 12)
    assert found.share.sum() == pytest.approx(1)
    expected = PCA().fit(np.vstack([X, Y])).explained_variance_ratio_
    np.testing.assert_allclose(found.share, expected, atol=1e-10)


def test_each_modality_counts_one_half_whatever_its_rows():
    X, Y = make_pairs(50)
    once = modgap.measures.projection(X, Y, "pca")
    thrice = modgap.measures.projection(X, np.vstack([Y, Y, Y]), "pca")
    np.testing.assert_allclose(once.x, thrice.x, atol=1e-8)


def test_axes_and_origin_say_where_a_row_is_drawn(pairs):
    X, Y = pairs
    for method in ("pca", "svd"):
        found = modgap.measures.projection(X, Y, method, 2)
        np.testing.assert_allclose(found.x, X @ found.axes.T - found.origin, atol=1e-10)


def test_rotating_the_space_turns_or_flips_the_picture_and_no_more(pairs, rng):
    X, Y = pairs
    turn, _ = np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))
    before, after = modgap.measures.projection(X, Y), modgap.measures.projection(X @ turn, Y @ turn)
    np.testing.assert_allclose(np.abs(before.x), np.abs(after.x), atol=1e-8)


def test_moments_of_all_rows_place_a_sample(pairs):
    X, Y = pairs
    moments = modgap.moments.PairMoments.from_batch(X, Y)
    few = modgap.measures.projection(X[:5], Y[:5], moments=moments)
    np.testing.assert_allclose(few.x, modgap.measures.projection(X, Y).x[:5], atol=1e-10)


def test_no_more_dimensions_are_drawn_than_there_are():
    X, Y = make_pairs(20, d=2)
    assert modgap.measures.projection(X, Y, "pca", 3).dims == 2


@pytest.mark.long  # UMAP compiles itself for half a minute
def test_umap_is_the_same_for_the_same_seed():
    pytest.importorskip("umap")
    X, Y = make_pairs(40)
    first, again = (modgap.measures.projection(X, Y, "umap", seed=4) for _ in range(2))
    assert first.x.shape == (40, 2)
    assert first.axes is None
    np.testing.assert_array_equal(first.y, again.y)


@pytest.mark.parametrize("method", ["pca", "svd"])
def test_three_modalities_are_placed_together_and_count_the_same(method):
    rows = {name: side.rows() for name, side in make_many(40).sides.items()}
    found = modgap.measures.projection(rows, method=method, dims=2)
    reference = {"pca": PCA(2, svd_solver="full"), "svd": TruncatedSVD(2, algorithm="arpack")}
    expected = reference[method].fit_transform(np.vstack(list(rows.values())))
    drawn = np.vstack(found.sides)
    signs = np.sign(np.sum(drawn * expected, axis=0))
    np.testing.assert_allclose(drawn, expected * signs, atol=1e-8)
    more = {**rows, "audio": np.vstack([rows["audio"]] * 3)}
    again = modgap.measures.projection(more, method=method, dims=2)
    np.testing.assert_allclose(again.x, found.x, atol=1e-8)
    assert len(found.to_dict()["sides"]) == 3
