"""The loss as the modalities are moved, from one product, against moving them row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from conftest import set_tiles
from modgap.arrays import base
from modgap.measures import loss, origin_landscape, shift_landscape

LAMBDAS = [-0.5, 0.0, 0.3, 0.5, 1.0, 2.2]
HEATS = [0.01, 0.1, 1.0]
ALPHAS = [-1.0, 0.0, 0.4, 1.0, 1.5]


@pytest.mark.parametrize("batch_size", [7, 50, None])
def test_shift_landscape_matches_moving_every_row(library, pairs, batch_size):
    X, Y = (library(A) for A in pairs)
    gaps, losses = reference.shift_landscape(X, Y, LAMBDAS, HEATS, batch_size)
    result = shift_landscape(X, Y, LAMBDAS, HEATS, batch_size)
    assert result.gaps == library.close(gaps)
    assert result.losses == library.close(losses)
    assert result.lambdas.tolist() == LAMBDAS
    assert result.temperatures.tolist() == HEATS
    assert result.batch_size == batch_size


@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_landscapes_do_not_depend_on_the_block_size(pairs, batch_size, monkeypatch):
    shifts = shift_landscape(*pairs, LAMBDAS, HEATS, batch_size)
    origins = origin_landscape(*pairs, ALPHAS, batch_size=batch_size)
    set_tiles(monkeypatch, 7, 11)
    monkeypatch.setattr(loss, "_STACK", 2 * 7**2)
    monkeypatch.setattr(base, "rows_per_block", lambda *_, **__: 7)
    in_blocks = shift_landscape(*pairs, LAMBDAS, HEATS, batch_size)
    assert in_blocks.losses == pytest.approx(shifts.losses, abs=1e-9)
    assert in_blocks.gaps == pytest.approx(shifts.gaps, abs=1e-9)
    again = origin_landscape(*pairs, ALPHAS, batch_size=batch_size)
    assert again.loss == pytest.approx(origins.loss, abs=1e-9)


def test_the_gap_is_the_gap_of_the_unit_rows_at_zero_and_negative_once_crossed(pairs):
    X, Y = pairs
    gaps = shift_landscape(X, Y, [0.0, 0.25, 2.0]).gaps
    whole = reference.gap_distance(reference.unit(X), reference.unit(Y))
    assert gaps[0] == pytest.approx(whole)
    assert 0 < gaps[1] < whole
    assert gaps[2] < 0


def test_without_a_gap_a_shift_changes_nothing(pairs):
    X = pairs[0]
    result = shift_landscape(X, X, [0.0, 1.0, 2.0], [0.1])
    assert result.gaps == pytest.approx([0, 0, 0], abs=1e-12)
    assert result.losses[0] == pytest.approx(result.losses[0, :1].repeat(3))


def test_best_names_the_gap_of_least_loss_per_temperature(pairs):
    result = shift_landscape(*pairs, LAMBDAS, HEATS)
    gaps, losses = reference.shift_landscape(*pairs, LAMBDAS, HEATS)
    best = result.best()
    assert list(best) == HEATS
    for heat, row in zip(HEATS, losses, strict=True):
        assert best[heat] == pytest.approx((gaps[row.argmin()], row.min()))


@pytest.mark.parametrize("move", ["x", "y", "both"])
@pytest.mark.parametrize("batch_size", [None, 25])
def test_origin_landscape_matches_moving_every_row(library, pairs, move, batch_size):
    X, Y = (library(A) for A in pairs)
    result = origin_landscape(X, Y, ALPHAS, move, 0.1, batch_size, bins=20)
    expected, divergences = reference.origin_landscape(X, Y, ALPHAS, move, 0.1, batch_size, 20)
    names = ("loss", "alignment", "uniformity", "matched", "mismatched")
    for name, column in zip(names, expected.T, strict=True):
        assert getattr(result, name) == library.close(column), name
    if library.precision == "float64":
        assert result.conformity_divergence == pytest.approx(divergences, abs=1e-6)
    else:  # at most two of sixty rows in another bin
        slack = 2 / 60 * math.log(60 / 1e-10)
        assert result.conformity_divergence == pytest.approx(divergences, abs=slack)
    assert (result.move, result.temperature, result.bins) == (move, 0.1, 20)


def test_origin_landscape_at_the_low_temperature_of_clip(library, pairs):
    X, Y = (library(A) for A in pairs)
    result = origin_landscape(X, Y, ALPHAS, temperature=0.01)
    expected, _ = reference.origin_landscape(X, Y, ALPHAS, "both", 0.01)
    assert result.loss == library.close(expected[:, 0])


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-3])
def test_origin_landscape_does_not_depend_on_the_scale_of_either_side(pairs, scale):
    X, Y = (A.astype(np.float32) for A in pairs)
    plain = origin_landscape(X, Y, ALPHAS, temperature=0.1)
    scaled = origin_landscape(np.float32(scale) * X, Y, ALPHAS, temperature=0.1)
    assert scaled.loss == pytest.approx(plain.loss, abs=1e-4)
    both = origin_landscape(np.float32(scale) * X, np.float32(scale) * Y, ALPHAS, temperature=0.1)
    assert both.loss == pytest.approx(plain.loss, abs=1e-4)


def test_origin_landscape_takes_rows_of_very_different_lengths(pairs):
    X, Y = pairs[0].copy(), pairs[1]
    X[3] *= 1e-9
    result = origin_landscape(X, Y, [0.0], temperature=0.1)
    expected, _ = reference.origin_landscape(X, Y, [0.0], "both", 0.1)
    assert result.loss == pytest.approx(expected[:, 0], abs=1e-6)


def test_a_single_number_is_a_list_of_one(pairs):
    assert shift_landscape(*pairs, 0.5, 0.1).losses.shape == (1, 1)
