"""Shifted spheres: blur, thin shells, and conformity as a cosine to the mean."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import gammaln

import reference
from modgap.core.results import to_json
from modgap.measures import conformity
from modgap.simulate.blur import (
    SHIFTED,
    blur_contrast,
    make_shifted_sphere,
    shell_conformity,
    thin_shell,
)

SIGMAS = 4.5


@pytest.fixture(scope="module")
def figure():
    return blur_contrast()


def test_around_the_origin_no_row_is_close_to_anything(figure):
    # A cosine of independent directions in R^512 has standard deviation 1/√512; 1,000 of them
    # stay within 4.5 of these, apart from each row's own share in the mean, 1/√1,000.
    bound = SIGMAS / 512**0.5
    assert abs(figure.origin.to_outlier).max() < bound
    assert abs(figure.origin.to_mean - 1 / 1000**0.5).max() < bound
    assert figure.expected_origin == pytest.approx(1 / 1000**0.5)


def test_off_the_origin_the_mean_is_close_to_all_rows(figure):
    expected = math.sqrt(150 / 662)  # ‖(10, 5, 5)‖² = 150, and 150 + 512
    assert figure.expected_shifted == pytest.approx(expected, abs=2e-3)
    # A row's cosine varies by about 1/√512 times the sine; the mean of 1,000 by that over √1,000.
    assert figure.shifted.to_mean.mean() == pytest.approx(
        figure.expected_shifted, abs=SIGMAS / 512**0.5 / 1000**0.5 + 1 / 512
    )
    assert figure.shifted.to_mean.min() > 0.3


def test_the_least_typical_row_stays_sharper_than_the_mean(figure):
    assert figure.shifted.to_outlier.max() < figure.shifted.to_mean.mean()
    shift_of_mean = figure.shifted.to_mean.mean() - figure.origin.to_mean.mean()
    shift_of_outlier = figure.shifted.to_outlier.mean() - figure.origin.to_outlier.mean()
    assert shift_of_mean > 2 * shift_of_outlier > 0


def test_the_cosines_are_those_of_the_definition(figure):
    X = make_shifted_sphere(SHIFTED)
    to_mean, to_outlier = reference.blur(X)[:2]
    np.testing.assert_allclose(figure.shifted.to_mean, to_mean, atol=1e-9)
    np.testing.assert_allclose(figure.shifted.to_outlier, to_outlier, atol=1e-9)
    assert figure.shifted.to_outlier.shape == (999,)  # itself excluded
    assert figure.shifted.outlier == int(np.argmin(to_mean))


def test_rows_have_the_asked_centre_and_unit_variance():
    X = make_shifted_sphere((3, -1), n=20_000, dimension=4)
    np.testing.assert_allclose(X.mean(0), [3, -1, 0, 0], atol=SIGMAS / 20_000**0.5)
    # The variance of a squared feature is E x⁴ − 1 = 2.
    np.testing.assert_allclose(X.var(0), 1, atol=SIGMAS * (2 / 20_000) ** 0.5)


def test_norms_concentrate_at_the_root_of_the_dimension():
    result = thin_shell((2, 8, 32, 128, 512), n=2000)
    assert result.expected_width == pytest.approx(math.sqrt((3 - 1) / 4))
    # The squared width of n rows is off by about √(2/n) of itself.
    large = result.dimensions >= 128
    ratio = result.width[large] ** 2 / result.expected_width**2
    np.testing.assert_allclose(ratio, 1, atol=SIGMAS * (2 / 2000) ** 0.5)
    # The rate: relative to the radius the width falls as 1/√d.
    slope = np.polyfit(np.log(result.dimensions[1:]), np.log(result.relative_width[1:]), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.06)


def test_the_mean_norm_of_normal_rows_is_that_of_the_chi_law():
    result = thin_shell((2, 16, 512), n=4000)
    d = result.dimensions
    expected = np.sqrt(2) * np.exp(gammaln((d + 1) / 2) - gammaln(d / 2))
    # The norm's variance is at most 1/2, reached from below as d grows.
    np.testing.assert_allclose(result.radius, expected, atol=SIGMAS * (0.5 / 4000) ** 0.5)
    assert np.all(expected < result.root_dimension)


@pytest.mark.parametrize("offset", [2.0, 12.0, 40.0])
def test_conformity_is_a_times_the_cosine_to_the_mean_on_thin_shells(offset):
    X = make_shifted_sphere((offset,), n=800, dimension=512)
    result = shell_conformity(X)
    # Norms of rows vary by about √(½ + offset²/(offset² + 512)) around √(512 + offset²): a
    # relative 5 %, and A, linear in their mean inverse, is off by the square of that.
    assert result.fitted == pytest.approx(result.predicted, rel=0.01)
    assert result.pearson > 0.99
    assert result.error < 0.2


def test_the_law_of_conformity_matches_loops():
    X = make_shifted_sphere((4, 1), n=30, dimension=10)
    mean = X.mean(axis=0)
    cosines = [reference.cosine(x, mean) for x in X]
    with_itself = np.array([np.mean([reference.cosine(x, z) for z in X]) for x in X])
    result = shell_conformity(X)
    predicted = np.linalg.norm(mean) / math.hypot(
        np.linalg.norm(mean), np.mean(np.linalg.norm(X - mean, axis=1))
    )
    assert result.predicted == pytest.approx(predicted)
    residual = with_itself - predicted * np.array(cosines)
    assert result.error == pytest.approx(np.sqrt(np.mean(residual**2)) / with_itself.std())
    # Leaving the row itself out, as definition 1 does, changes conformity by less than 1/n.
    assert abs(conformity(X) - with_itself).max() < 1 / 30


def test_a_thick_shell_breaks_the_law(rng):
    lengths = rng.lognormal(sigma=1.5, size=(800, 1))
    X = make_shifted_sphere((2.0,), n=800, dimension=512) * lengths
    assert shell_conformity(X).error > 2 * shell_conformity(X / lengths).error


def test_the_results_turn_into_json(figure):
    for result in (figure, thin_shell((4,), n=10), shell_conformity(make_shifted_sphere((1,), 9))):
        assert json.loads(to_json(result))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: blur_contrast(dimension=1), "dimension must be at least 2, got 1"),
        (lambda: blur_contrast(n=1), "n must be at least 2, got 1"),
        (lambda: blur_contrast(dimension=2), "at most dimension = 2 numbers, got 3. Raise"),
        (lambda: blur_contrast(centre=("a",)), "centre must be numbers"),
        (lambda: thin_shell((1,)), "dimensions must be at least 2, got 1"),
        (lambda: thin_shell(()), "dimensions must be a non-empty list"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
