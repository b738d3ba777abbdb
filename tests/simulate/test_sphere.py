"""Pairs on the sphere: where the loss is least, and the barrier that mismatches raise."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import reference
from modgap._results import to_json
from modgap.simulate.sphere import critical_temperature, make_sphere_pairs, sphere_landscape

ANGLES = tuple(np.linspace(0, 180, 361).tolist())


@pytest.fixture(scope="module")
def crossed():
    return sphere_landscape(ANGLES, (0.01, 0.02, 0.05, 0.1, 1.0))


def test_the_barrier_of_two_crossed_pairs_has_its_known_height(crossed):
    at = {angle: place for place, angle in enumerate(ANGLES)}
    assert crossed.losses[0, at[90.0]] == pytest.approx(1.189, abs=5e-4)
    assert crossed.least_loss[0] == pytest.approx(0.81, abs=0.005)
    assert crossed.best_angle[0] == pytest.approx(22, abs=0.5)
    assert crossed.barrier_angle[0] == 90
    assert crossed.barrier[0] == pytest.approx(1.189 - 0.809, abs=1e-3)


def test_the_barrier_is_gone_at_high_temperatures(crossed):
    assert crossed.barrier[1] > 0  # 0.02 is still below the critical temperature
    assert crossed.barrier[2:].tolist() == [0, 0, 0]
    assert np.all(np.isnan(crossed.barrier_angle[2:]))
    assert crossed.best_angle[2:].tolist() == [90, 90, 90]
    assert 0.02 < crossed.critical_temperature < 0.05


def test_there_is_no_barrier_without_mismatches():
    matched = sphere_landscape(ANGLES, (0.001, 0.01, 0.1, 1.0), mismatches=0)
    assert matched.critical_temperature == 0
    assert matched.barrier.tolist() == [0, 0, 0, 0]
    half = matched.losses[:, : len(ANGLES) // 2 + 1]
    assert np.all(np.diff(half, axis=1) <= 1e-12)


@pytest.mark.parametrize(
    ("n_pairs", "spacing", "mismatches"), [(6, 15, 2), (6, 15, 3), (10, 20, 4), (24, 15, 2)]
)
def test_what_is_said_of_the_least_loss_agrees_with_a_fine_grid(n_pairs, spacing, mismatches):
    tau = critical_temperature(n_pairs, spacing, mismatches)
    result = sphere_landscape(ANGLES, (tau / 3, tau * 3), n_pairs, spacing, mismatches)
    for row in range(2):
        lowest = int(np.argmin(result.losses[row, :181]))
        assert result.losses[row, lowest] >= result.least_loss[row] - 1e-12
        assert ANGLES[lowest] == pytest.approx(result.best_angle[row], abs=0.5)
    equator = result.losses[:, 180]
    assert result.barrier == pytest.approx(equator - result.least_loss, abs=1e-12)
    assert math.sin(math.radians(result.best_angle[0])) == pytest.approx(1 / 3, rel=1e-6)


def test_below_the_critical_temperature_the_least_loss_is_always_the_same():
    result = sphere_landscape((90,), (0.001, 0.005, 0.01, 0.02))
    assert result.least_loss == pytest.approx([result.least_loss[0]] * 4, abs=1e-9)


def test_the_losses_are_those_of_the_definition(crossed):
    for place in (0, 44, 180):
        X, Y = make_sphere_pairs(ANGLES[place])
        expected = [reference.contrastive_loss(X, Y, t) for t in crossed.temperatures]
        assert crossed.losses[:, place] == pytest.approx(expected, rel=1e-9)
        assert crossed.gaps[place] == pytest.approx(reference.gap_distance(X, Y))


def test_both_sides_of_the_equator_mirror_each_other(crossed):
    np.testing.assert_allclose(crossed.losses, crossed.losses[:, ::-1], rtol=1e-9)


def test_rows_are_unit_and_crossed_texts_lie_nearest_their_neighbours_image():
    X, Y = make_sphere_pairs(60, n_pairs=6, spacing=15, mismatches=2, dimension=5)
    assert X.shape == Y.shape == (6, 5)
    np.testing.assert_allclose(np.linalg.norm(np.concatenate([X, Y]), axis=1), 1)
    assert np.argmax(Y @ X.T, axis=1).tolist() == [1, 0, 2, 3, 4, 5]
    assert np.degrees(np.arccos(X[0] @ X[1])) == pytest.approx(15)
    assert not X[:, 2:].any()


def test_more_mismatches_raise_the_barrier():
    critical = [critical_temperature(mismatches=k) for k in (0, 2, 3, 4, 6)]
    assert critical == sorted(critical)
    assert critical_temperature(n_pairs=2, mismatches=2) == math.inf
    alone = sphere_landscape((0, 90), (0.1,), n_pairs=2)
    assert alone.best_angle[0] == 0
    assert alone.barrier[0] > 0


def test_the_critical_temperature_scales_with_small_spacings():
    # Cosines of small angles differ by the square of the angle.
    coarse, fine = (critical_temperature(spacing=degrees) for degrees in (0.2, 0.1))
    assert coarse / fine == pytest.approx(4, rel=1e-3)


def test_the_landscape_turns_into_json(crossed):
    figures = json.loads(to_json(crossed))
    assert figures["barrier_angle"][0] == 90
    assert figures["barrier_angle"][2] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mismatches": 7}, "mismatches must be at most the number of pairs, 6, got 7. Ask for"),
        ({"mismatches": 1}, "mismatches must be 0 or at least 2, got 1: one text alone"),
        ({"mismatches": -1}, "mismatches must be at least 0, got -1"),
        ({"n_pairs": 1}, "n_pairs must be at least 2, got 1"),
        ({"spacing": 0}, "spacing must be a finite number above 0, got 0"),
        ({"spacing": 90}, "6 pairs 90 degrees apart do not fit .* spacing be at most 60"),
        ({"temperatures": (0.1, -1)}, "temperatures must be finite numbers above 0"),
        ({"temperatures": ()}, "temperatures must be a non-empty list"),
        ({"angles": (float("nan"),)}, "angles must be finite numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        sphere_landscape(**options)


def test_a_sphere_needs_three_dimensions():
    with pytest.raises(ValueError, match="dimension must be at least 3, got 1"):
        make_sphere_pairs(30, dimension=1)
