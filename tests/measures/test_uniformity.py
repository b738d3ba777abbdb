"""Alignment of pairs and uniformity on the sphere."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from conftest import set_tiles
from modgap.measures import alignment, uniformity, wasserstein_uniformity


def test_uniformity_does_not_depend_on_the_block_size(pairs, monkeypatch):
    whole = uniformity(pairs[0])
    set_tiles(monkeypatch, 11, 7)
    assert uniformity(pairs[0]) == pytest.approx(whole, abs=1e-12)


def test_alignment_is_zero_for_equal_directions_and_four_for_opposite_ones(pairs):
    X = pairs[0]
    assert alignment(X, 3 * X) == pytest.approx(0, abs=1e-12)
    assert alignment(X, -X) == pytest.approx(4)


def test_uniformity_is_zero_when_all_rows_point_one_way():
    assert uniformity(np.ones((5, 3))) == pytest.approx(0, abs=1e-12)


def test_uniformity_of_two_opposite_rows_is_minus_eight():
    assert uniformity(np.array([[1.0, 0.0], [-1.0, 0.0]])) == pytest.approx(-8)


def test_wasserstein_uniformity_is_zero_for_a_perfectly_spread_set():
    # ± each axis: mean 0, covariance I/d.
    X = np.eye(4)
    assert wasserstein_uniformity(X, -X) == pytest.approx(0, abs=1e-7)


def test_wasserstein_uniformity_of_one_point_is_minus_root_two():
    X = np.array([[1.0, 0.0, 0.0]])
    assert wasserstein_uniformity(X, X) == pytest.approx(-math.sqrt(2))


def test_wasserstein_uniformity_copes_with_fewer_rows_than_dimensions(rng):
    X, Y = rng.normal(size=(2, 5, 40))
    assert wasserstein_uniformity(X, Y) == pytest.approx(
        reference.wasserstein_uniformity(X, Y), abs=1e-6
    )
