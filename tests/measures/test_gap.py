"""The gap: its vector, its size, how orthogonal it is, and how cleanly the modalities part."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from modgap.measures import (
    gap_distance,
    gap_orthogonality,
    gap_vector,
    linear_separability,
    local_gaps,
    margin,
    norms,
)


def test_gap_distance_is_zero_when_the_means_coincide(pairs):
    X = pairs[0]
    assert gap_distance(X, X) == 0
    assert gap_distance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros((1, 2))) == 0


def test_gap_distance_is_two_between_opposite_unit_rows():
    X = np.array([[1.0, 0.0, 0.0]])
    assert gap_distance(X, -X) == 2


def test_float16_rows_whose_sum_would_overflow_have_an_exact_mean():
    # 300 rows of 60,000: their float16 sum is infinite from the second row on.
    X, Y = np.full((300, 2), 60_000, np.float16), np.zeros((5, 2), np.float16)
    assert gap_vector(X, Y).tolist() == [60_000, 60_000]


@pytest.mark.parametrize("given", ["float16", "float32", "float64"])
def test_local_gaps_keep_the_precision_of_the_rows_but_half(pairs, given):
    X, Y = (A.astype(given) for A in pairs)
    assert local_gaps(X, Y).dtype == ("float32" if given == "float16" else given)


def test_gap_orthogonality_matches_the_reference(library, pairs):
    X, Y = (library(A) for A in pairs)
    gap = reference.gap_vector(X, Y)
    result = gap_orthogonality(X, Y, bins=20)
    for found, A in ((result.x, X), (result.y, Y)):
        cosines = reference.gap_cosines(A, gap)
        assert found.mean == library.close(cosines.mean())
        assert found.mean_abs == library.close(np.abs(cosines).mean())
        assert found.std == library.close(cosines.std())
        counts, edges = np.histogram(cosines, 20, (-1, 1))
        assert found.counts.tolist() == counts.tolist()
        assert found.edges == pytest.approx(edges)
        assert found.n == len(cosines)


def test_gap_orthogonality_is_zero_when_the_gap_has_a_feature_of_its_own(pairs):
    X, Y = (
        np.column_stack([A - A.mean(axis=0), np.full(len(A), v)])
        for A, v in zip(pairs, (1, 4), strict=True)
    )
    result = gap_orthogonality(X, Y)
    assert result.x.mean_abs == pytest.approx(0, abs=1e-12)
    assert result.y.mean_abs == pytest.approx(0, abs=1e-12)


def test_gap_orthogonality_is_one_when_all_variance_lies_along_the_gap():
    X, Y = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[-1.0, 0.0], [-5.0, 0.0]])
    result = gap_orthogonality(X, Y, bins=4)
    assert (result.x.mean, result.x.mean_abs, result.x.std) == (0, 1, 1)
    assert result.y.counts.tolist() == [1, 0, 0, 1]


def test_gap_orthogonality_leaves_out_rows_on_the_mean():
    X = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])
    result = gap_orthogonality(X, np.array([[5.0, 0.0]]))
    assert result.x.n == 2
    assert result.y.n == 0
    assert math.isnan(result.y.mean)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_gap_orthogonality_is_nan_without_a_gap(pairs, order):
    # In another order the same rows have the same mean up to rounding, and still no gap.
    result = gap_orthogonality(pairs[0], pairs[0][order])
    assert math.isnan(result.x.mean_abs)
    assert result.x.counts.sum() == 0


def test_linear_separability_is_one_for_modalities_far_apart(library, rng):
    X, Y = library(rng.normal(size=(40, 3)) + 20), library(rng.normal(size=(60, 3)))
    result = linear_separability(X, Y)
    assert (result.all_features, result.two_features) == (1, 1)
    assert (result.n_fit, result.n_held_out) == (50, 50)


def test_linear_separability_picks_the_two_features_that_part_most(rng):
    X, Y = rng.normal(size=(2, 200, 6))
    X[:, 4] += 9
    X[:, 1] += 5
    result = linear_separability(X, Y)
    assert result.features == (4, 1)
    assert result.two_features == 1


def test_linear_separability_is_seeded(rng):
    X, Y = rng.normal(size=(900, 2)), rng.normal(size=(60, 2))
    first = linear_separability(X, Y, seed=3)
    assert first == linear_separability(X, Y, seed=3)
    assert first != linear_separability(X, Y, seed=4)


@pytest.mark.parametrize(("n", "m", "d", "gap"), [(300, 200, 20, 0.2), (90, 70, 30, 0.5)])
def test_linear_separability_is_the_balanced_accuracy_of_scikit_learns_svm(library, n, m, d, gap):
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(n)
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) * np.linspace(0.5, 2, d) + gap
    X[:, -1] = Y[:, -1] = 3.0  # a feature that says nothing
    X, Y = library(X), library(Y)
    found = linear_separability(X, Y, seed=2)
    shuffle = np.random.default_rng(2)
    rows, sides, fit = [], [], []
    for side, A in enumerate((X, Y)):
        rows.append(np.asarray(A, np.float64))
        sides.append(np.full(len(A), side))
        fit.append(np.isin(np.arange(len(A)), shuffle.permutation(len(A))[: (len(A) + 1) // 2]))
    rows, sides, fit = (np.concatenate(part) for part in (rows, sides, fit))
    model = make_pipeline(StandardScaler(), LinearSVC(dual=False, class_weight="balanced"))
    for features, accuracy in (
        (range(d), found.all_features),
        (found.features, found.two_features),
    ):
        model.fit(rows[fit][:, features], sides[fit])
        told = model.predict(rows[~fit][:, features])
        assert accuracy == pytest.approx(balanced_accuracy_score(sides[~fit], told))
        assert 0.5 < accuracy < 1


def test_linear_separability_leaves_the_rows_and_the_global_generator_alone(rng):
    X, Y = rng.normal(size=(2, 60, 8))
    copies = X.copy(), Y.copy()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    linear_separability(X, Y)
    assert np.array_equal((X, Y), copies)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_margin_is_positive_exactly_when_every_nearest_row_is_the_pair(pairs):
    X = pairs[0]
    assert margin(X, X) > 0
    swapped = X.copy()
    swapped[[0, 1]] = X[[1, 0]]
    assert margin(X, swapped) < 0


def test_margin_looks_both_ways():
    # Every x is nearest to its own y, but y_1 is nearer to x_0 than to x_1.
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    Y = np.array([[1.0, 0.1], [1.0, 0.6]])
    Z = reference.unit(X) @ reference.unit(Y).T
    assert (Z.argmax(axis=1) == [0, 1]).all()
    assert margin(X, Y) == pytest.approx(reference.margin(X, Y))
    assert margin(X, Y) < 0


def test_margin_reaches_two_for_opposite_pairs():
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert margin(X, X) == 2
    assert margin(X, -X) == -2


def test_norms_match_the_reference_longest_first(library, pairs):
    X = library(pairs[0])
    expected = reference.norms(X)
    result = norms(X, top=3)
    assert library.check_kind(result.values) == library.close(expected)
    assert result.largest.tolist() == np.argsort(-expected)[:3].tolist()
    assert result.mean == library.close(expected.mean())
    assert result.std == library.close(expected.std())
    assert (result.min, result.max) == library.close((expected.min(), expected.max()))


def test_norms_take_a_zero_row_and_name_equal_rows_in_order():
    result = norms(np.array([[0.0, 0.0], [3.0, 4.0], [4.0, 3.0]]), top=10)
    assert result.values.tolist() == [0, 5, 5]
    assert result.largest.tolist() == [1, 2, 0]
