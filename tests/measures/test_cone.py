"""The cone: cosines over all ordered pairs of one modality, and how little sphere they cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from conftest import set_tiles
from modgap.measures import cone, log10_cap_fraction


def test_cone_matches_the_reference(library, pairs):
    X = library(pairs[0])
    expected = reference.cone_cosines(X)
    result = cone(X)
    assert result.mean == library.close(expected.mean())
    assert result.std == library.close(expected.std())
    assert (result.min, result.max) == library.close((expected.min(), expected.max()))
    quartiles = (result.q1, result.median, result.q3)
    assert quartiles == pytest.approx(np.percentile(expected, [25, 50, 75]), abs=1e-4)
    assert result.count == 60 * 59


@pytest.mark.parametrize("n", [2, 3, 4, 5, 9])
def test_quartiles_interpolate_between_few_cosines(rng, n):
    X = rng.normal(size=(n, 3))
    result = cone(X)
    expected = np.percentile(reference.cone_cosines(X), [25, 50, 75])
    assert (result.q1, result.median, result.q3) == pytest.approx(expected, abs=1e-4)


def test_cone_does_not_depend_on_the_block_size(library, pairs, monkeypatch):
    X = library(pairs[0])
    whole = cone(X)
    set_tiles(monkeypatch, 7, 11)
    in_blocks = cone(X)
    assert in_blocks.min == pytest.approx(whole.min, abs=1e-6)
    assert in_blocks.max == pytest.approx(whole.max, abs=1e-6)
    assert in_blocks.median == pytest.approx(whole.median, abs=1.3e-4)
    assert (in_blocks.mean, in_blocks.std, in_blocks.count) == (whole.mean, whole.std, whole.count)


def test_the_count_is_over_ordered_pairs_as_in_the_table_of_liang_figure_6():
    X = np.ones((5_000, 2), np.float32)
    assert cone(X).count == 24_995_000


def test_the_cone_of_one_direction_is_a_point(library):
    X = library(np.outer([1.0, 2.0, 0.3, 5.0], [0.3, -0.7, 0.2]))
    result = cone(X)
    assert (result.mean, result.min, result.median, result.max) == pytest.approx(
        (1, 1, 1, 1), abs=1e-4
    )
    assert result.mean == library.close(1)
    assert result.std == pytest.approx(0, abs=1e-6)
    assert result.max <= 1


def test_the_cone_of_opposite_rows_reaches_minus_one():
    result = cone(np.array([[2.0, 0.0], [-3.0, 0.0]]))
    assert (result.mean, result.min, result.max, result.count) == (-1, -1, -1, 2)
    assert result.std == pytest.approx(0, abs=1e-6)
    assert result.median == pytest.approx(-1, abs=1e-4)


def test_orthogonal_rows_have_cosine_zero():
    result = cone(np.eye(7))
    assert (result.mean, result.std, result.min, result.max) == pytest.approx((0,) * 4, abs=1e-7)


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 20])
@pytest.mark.parametrize("cosine", [-1, -0.5, 0.0, 0.56, 0.9])
def test_cap_fraction_is_the_share_of_the_sphere_by_integration(cosine, dim):
    assert 10 ** log10_cap_fraction(cosine, dim) == pytest.approx(
        reference.log10_cap_fraction(cosine, dim), rel=1e-3
    )


def test_cap_fraction_gives_the_figures_of_liang_section_2():
    # Liang et al. 2022, sec. 2, "How narrow is the cone": arccos(0.56) = 55.94 degrees.
    # 2-D: printed 15.53 % (55.94/360 = 15.54 %). 3-D: printed 3.34 %, but the formula printed
    # beside it, (1 - cos(55.94°/2))/2, is 5.84 %. 512-D: "less than 2^-512".
    assert 10 ** log10_cap_fraction(0.56, 2) == pytest.approx(math.acos(0.56) / (2 * math.pi))
    assert round(100 * 10 ** log10_cap_fraction(0.56, 2), 2) == 15.54
    assert 10 ** log10_cap_fraction(0.56, 3) == pytest.approx(
        (1 - math.cos(math.acos(0.56) / 2)) / 2
    )
    assert round(100 * 10 ** log10_cap_fraction(0.56, 3), 2) == 5.84
    assert log10_cap_fraction(0.56, 512) == pytest.approx(-169.7, abs=0.05)
    assert log10_cap_fraction(0.56, 512) < 512 * math.log10(0.5)


def test_cap_fraction_of_the_opposite_cosine_is_half_the_sphere():
    assert log10_cap_fraction(-1.0, 9) == pytest.approx(math.log10(0.5))


def test_cap_fraction_does_not_underflow():
    # The two ways of computing it meet near 1e-250.
    dims = [700, 740, 750, 760, 800, 10_000]
    values = [log10_cap_fraction(0.56, dim) for dim in dims]
    slopes = np.diff(values) / np.diff(dims)
    # Each dimension multiplies the share by sqrt((1 - cosine) / 2), nearly.
    assert slopes == pytest.approx(math.log10(math.sqrt(0.22)), rel=2e-3)
