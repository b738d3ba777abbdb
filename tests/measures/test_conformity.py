"""Conformity: how typical a row is of its modality."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from modgap.measures import (
    blur,
    conformity,
    conformity_divergence,
    estimated_conformity,
)
from modgap.measures.ellipsoid import BIN_FLOOR


def test_one_row_has_a_conformity_to_a_reference_set():
    assert conformity(np.array([[2.0, 0.0]]), np.eye(2)).tolist() == [0.5]


def test_conformity_of_identical_rows_is_one_and_of_two_opposite_rows_minus_one():
    assert conformity(np.full((4, 3), 0.3)) == pytest.approx(np.ones(4))
    assert conformity(np.array([[1.0, 0.0], [-2.0, 0.0]])).tolist() == [-1, -1]


def test_estimated_conformity_is_perfectly_correlated_on_unit_rows(pairs):
    # Every unit row has the same distance to the line: both are affine in u · sum of unit rows.
    assert estimated_conformity(reference.unit(pairs[0])).pearson == pytest.approx(1, abs=1e-12)


def test_proposition_1_holds_on_a_thin_shell(rng):
    # Levi & Gilboa, prop. 1 with A not inverted: conformity is about A · cosine to the mean.
    X = rng.normal(size=(400, 600)) + 0.8
    result = estimated_conformity(X)
    assert result.inverse_slope == pytest.approx(result.predicted, rel=0.01)
    assert conformity(X) == pytest.approx(result.predicted * result.values, abs=0.005)
    assert result.pearson > 0.99


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize(
    "X",
    [
        np.outer([1.0, 2.0, 3.7], [0.3, 0.7, 0.1]),
        np.array([[0.3, 0.7, 0.1], [0.9, -0.2, 0.4]]),
        np.array([[1.0, 0.0], [-1.0, 0.0]]),
    ],
    ids=["one direction", "two rows", "mean zero"],
)
def test_lines_are_nan_where_conformity_does_not_vary(X, precision):
    result = estimated_conformity(X.astype(precision))
    for value in (result.slope, result.intercept, result.inverse_slope, result.pearson):
        assert math.isnan(value)


@pytest.mark.parametrize("bins", [20, 50])
def test_conformity_divergence_matches_the_reference(library, pairs, bins):
    X, Y = library(pairs[0]), library(pairs[1])
    found, expected = conformity_divergence(X, Y, bins), reference.conformity_divergence(X, Y, bins)
    if library.precision == "float64":
        assert found == pytest.approx(expected, abs=1e-6)
    else:
        # A row within rounding of an edge may change bins: one or two of sixty rows, each of
        # which can meet an empty bin and then weighs log(1 / floor) / 60.
        assert abs(found - expected) <= 2 / 60 * math.log(60 / BIN_FLOOR)


def test_conformity_divergence_is_zero_between_equal_sets(pairs):
    assert conformity_divergence(pairs[0], pairs[0]) == pytest.approx(0)


def test_off_the_origin_the_mean_is_close_to_every_row():
    # Levi & Gilboa, sec. 6, fig. 7: 1,000 draws of N(c, I) in R^512.
    noise = np.random.default_rng(0).normal(size=(1000, 512))
    centre = np.zeros(512)
    centre[:3] = 10, 5, 5
    around, off = blur(noise), blur(noise + centre)
    assert abs(around.to_outlier.mean()) < 0.01
    assert around.to_mean.mean() < 0.1
    assert off.to_mean.mean() > 0.4
    assert off.to_mean.min() > 0.25
    assert off.to_mean.mean() > off.to_outlier.mean() + 0.2
