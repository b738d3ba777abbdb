"""Each modality as an ellipsoid: per feature and as a whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from modgap.measures import (
    feature_divergence,
    feature_offset,
    feature_variance,
    off_diagonal_dominance,
    separability,
    shell,
    vslerp,
)


def test_separability_of_constant_features_is_zero_or_infinite():
    X, Y = np.array([[1.0, 5.0], [1.0, 5.0]]), np.array([[1.0, 7.0], [1.0, 7.0]])
    assert separability(X, Y).tolist() == [0, math.inf]


def test_feature_offset_of_constant_features_is_zero_or_infinite():
    assert feature_offset(np.array([[0.0, -2.0], [0.0, -2.0]])).tolist() == [0, math.inf]


@pytest.mark.parametrize("bins", [1, 7, 50])
def test_feature_divergence_matches_the_reference(library, pairs, bins):
    # Values are binned in float64 as they stand, so float32 rows agree bin for bin as well.
    X, Y = library(pairs[0]), library(pairs[1][:41])
    found = library.check_kind(feature_divergence(X, Y, bins))
    assert found == pytest.approx(reference.feature_divergence(X, Y, bins), abs=1e-6)


def test_feature_divergence_is_zero_for_equal_sets_and_for_constant_features(pairs):
    X = pairs[0]
    assert feature_divergence(X, X) == pytest.approx(np.zeros(12))
    assert feature_divergence(np.full((3, 1), 2.0), np.full((5, 1), 2.0)) == pytest.approx(
        [0], abs=1e-8
    )


@pytest.mark.parametrize("value", [1e30, -1e30, 1e17, 1e-30])
def test_feature_divergence_takes_a_constant_feature_of_any_size(value):
    X = np.full((3, 1), value, np.float32)
    assert feature_divergence(X, X).tolist() == [0]


def test_feature_divergence_of_separate_sets_hangs_on_the_floor():
    X, Y = np.zeros((4, 1)), np.ones((4, 1))
    # All of x in a bin where y has only its floor of 1e-10 out of 4 rows.
    assert feature_divergence(X, Y, bins=2) == pytest.approx([math.log(4 / 1e-10)], rel=1e-6)


def test_the_shell_of_two_rows_has_no_thickness():
    result = shell(np.array([[1.0, 0.0], [1.0, 2.0]]))
    assert (result.radius, result.variance, result.sqrt_trace, result.relative_error) == (
        1,
        0,
        1,
        0,
    )
    assert result.offset == pytest.approx(math.sqrt(2))


def test_isotropic_rows_lie_on_a_thin_shell_of_radius_root_d(rng):
    # Levi & Gilboa, th. 3.1: norms concentrate at sqrt(d).
    result = shell(rng.normal(size=(2000, 400)))
    assert result.radius == pytest.approx(20, rel=0.01)
    assert result.relative_error < 0.002
    assert result.variance < 1


def test_off_diagonal_dominance_is_zero_for_uncorrelated_and_for_constant_features():
    X = np.array([[1.0, 1.0, 7.0], [1.0, -1.0, 7.0], [-1.0, 1.0, 7.0], [-1.0, -1.0, 7.0]])
    assert off_diagonal_dominance(X).tolist() == [0, 0, 0]


def test_the_tail_of_an_odd_number_of_features_uses_the_middle_one(pairs):
    X = pairs[0][:, :5]
    assert feature_variance(X).tail == pytest.approx(reference.feature_variance(X)[1])


def test_the_tail_is_nan_where_most_features_are_constant():
    assert math.isnan(feature_variance(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0]])).tail)


@pytest.mark.parametrize("theta", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("alpha", [-0.5, 0.0, 1.0])
def test_vslerp_matches_the_reference(library, pairs, theta, alpha):
    X, Y = (library(A) for A in pairs)
    mean = library(pairs[0].mean(axis=0))
    found = library.check_kind(vslerp(X[:5], Y[:5], theta, alpha, mean))
    for row, a, b in zip(found, X[:5], Y[:5], strict=True):
        assert row == library.close(reference.vslerp(a, b, theta, alpha, mean))


def test_vslerp_starts_at_a_and_ends_at_b(pairs):
    a, b, mean = pairs[0][0], pairs[1][0], pairs[0].mean(axis=0)
    assert vslerp(a, b, 0, 0.7, mean) == pytest.approx(a)
    assert vslerp(a, b, 1, 0.7, mean) == pytest.approx(b)


def test_vslerp_between_parallel_vectors_is_a_straight_line():
    a, b = np.array([1.0, 2.0]), np.array([3.0, 6.0])
    assert vslerp(a, b, 0.25, 0.0, np.zeros(2)) == pytest.approx([1.5, 3.0])
