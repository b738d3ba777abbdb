"""Each corrector against its definition, written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import reference
from modgap.corrections import Center, OriginShift, Procrustes, Shift, Whiten
from modgap.evaluation import correction_scorer, mixed_retrieval
from modgap.moments import PairMoments


@pytest.mark.parametrize("amount", [0.0, 0.25, 0.5, 1.0, -0.7])
def test_shift_moves_both_sides_by_a_share_of_the_gap_and_renormalises(pairs, amount, library):
    X, Y = pairs
    gap = reference.gap_vector(X, Y)
    moved = (
        Shift(amount).fit(library(X), library(Y), rows="given").transform(library(X), library(Y))
    )
    expected = reference.unit(X - amount * gap), reference.unit(Y + amount * gap)
    for rows, wanted in zip(moved, expected, strict=True):
        np.testing.assert_allclose(library.check_kind(rows), wanted, atol=library.tolerance)


@pytest.mark.parametrize("move", ["x", "y", "both"])
@pytest.mark.parametrize("amount", [0.5, 1.0])
def test_origin_shift_subtracts_a_share_of_the_mean_from_the_chosen_sides(pairs, move, amount):
    moved = OriginShift(amount, move).fit_transform(*pairs, rows="given")
    for side, rows, out in zip("xy", pairs, moved, strict=True):
        share = amount if move in (side, "both") else 0.0
        expected = reference.unit(rows - share * rows.mean(axis=0))
        np.testing.assert_allclose(out, expected, atol=1e-12)


def test_center_subtracts_each_modalitys_own_mean_and_equals_the_full_origin_shift(pairs):
    centred = Center().fit_transform(*pairs, rows="given")
    shifted = OriginShift().fit_transform(*pairs, rows="given")
    for rows, out, same in zip(pairs, centred, shifted, strict=True):
        np.testing.assert_allclose(out, reference.unit(rows - rows.mean(axis=0)), atol=1e-12)
        np.testing.assert_array_equal(out, same)


def mapped_before_renormalising(correction, name, rows):
    affine = correction.map(name)
    assert affine.renormalise
    return affine.scale * rows @ affine.matrix.T + affine.offset


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 0.5, 1.0])
def test_whitening_is_the_symmetric_inverse_root_of_the_shrunk_covariance(pairs, shrinkage):
    correction = Whiten(shrinkage).fit(*pairs, rows="given").correction_
    for rows, name in zip(pairs, correction.names, strict=True):
        C = np.cov(rows.T, bias=True)
        shrunk = (1 - shrinkage) * C + shrinkage * np.trace(C) / 12 * np.eye(12)
        matrix = correction.map(name).matrix
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
        np.testing.assert_allclose(matrix @ shrunk @ matrix, np.eye(12), atol=1e-10)
        white = mapped_before_renormalising(correction, name, rows)
        np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(correction.apply(rows, name), reference.unit(white), atol=1e-12)


def test_whitening_fewer_rows_than_dimensions_leaves_out_what_does_not_vary(rng):
    X, Y = rng.normal(size=(6, 12)), rng.normal(size=(6, 12))
    correction = Whiten(0.0).fit(X, Y, rows="given").correction_
    white = mapped_before_renormalising(correction, "image", X)
    spectrum = np.linalg.eigvalsh(np.cov(white.T, bias=True))
    np.testing.assert_allclose(spectrum, [0] * 7 + [1] * 5, atol=1e-8)


def test_procrustes_is_scipys_orthogonal_map_of_y_onto_x(pairs):
    X, Y = pairs
    correction = Procrustes().fit(X, Y, rows="given").correction_
    matrix = correction.map("text").matrix
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(12), atol=1e-12)
    R, _ = scipy.linalg.orthogonal_procrustes(Y, X)
    np.testing.assert_allclose(correction.y(Y), Y @ R, atol=1e-10)
    np.testing.assert_array_equal(correction.x(X), X)


def test_procrustes_without_pairs_says_what_needs_none(pairs):
    with pytest.raises(ValueError, match="The other correctors need none"):
        Procrustes().fit_moments(PairMoments.from_batch(*pairs, paired=False))


@pytest.mark.parametrize(
    ("corrector", "message"),
    [
        (Shift(float("nan")), "amount must be finite"),
        (Shift(float("inf")), "amount must be finite"),
        (Shift("half"), "amount must be a number"),
        (OriginShift(1.0, "z"), "move must be one of 'x', 'y', 'both'"),
        (Whiten(-0.1), "shrinkage must be between 0 and 1"),
        (Whiten(1.1), "shrinkage must be between 0 and 1"),
    ],
    ids=repr,
)
def test_parameters_that_make_no_sense_are_refused_at_fit(pairs, corrector, message):
    with pytest.raises((ValueError, TypeError), match=message):
        corrector.fit(*pairs)
    with pytest.raises((ValueError, TypeError), match=message):
        corrector.fit_moments(PairMoments.from_batch(*pairs))


@pytest.mark.parametrize(
    ("corrector", "X", "Y", "message"),
    [
        (Center(), np.ones((3, 2)), np.ones((3, 4)), "same number of columns"),
        (Center(), np.full((3, 2), np.nan), np.ones((3, 2)), "image has 3 rows with NaN"),
        (Center(), np.ones((0, 2)), np.ones((3, 2)), "at least one row"),
        (Center(), np.ones(3), np.ones((3, 2)), "must be a matrix"),
        (Whiten(), np.ones((5, 3)), np.eye(5, 3) + 1, "all rows of a side are the same"),
        (Procrustes(), np.eye(4), np.eye(4)[:3], "Procrustes needs pairs: row i of X"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_at_fit(corrector, X, Y, message):
    with pytest.raises(ValueError, match=message):
        corrector.fit(X, Y)


def test_grid_search_finds_the_amount_that_serves_a_mixed_index_best():
    from sklearn.model_selection import GridSearchCV

    rng = np.random.default_rng(3)
    shared = rng.normal(size=(120, 6))
    X = shared + 0.3 * rng.normal(size=shared.shape) + 2.0
    Y = shared + 0.3 * rng.normal(size=shared.shape) - 2.0

    def by_hand(estimator, X, Y):
        return mixed_retrieval(X, Y, correction=estimator.correction_).ndcg

    amounts = {"amount": [-0.5, 0.0, 0.25, 0.5]}
    found = [
        GridSearchCV(Shift(), amounts, scoring=scorer, cv=3).fit(X, Y)
        for scorer in (by_hand, correction_scorer())
    ]
    assert found[0].best_params_ == {"amount": 0.5}
    scores = [search.cv_results_["mean_test_score"] for search in found]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert scores[0][-1] > scores[0][1] + 0.3
    assert found[0].best_estimator_.correction_.about["parameters"] == {"amount": 0.5}
