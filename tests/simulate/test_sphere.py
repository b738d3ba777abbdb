"""Pairs on the sphere: where the loss is least, and the barrier that mismatches raise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from modgap.measures.loss import contrastive_loss
from modgap.simulate.sphere import critical_temperature, make_sphere_pairs

# The other side of the equator mirrors it.
ANGLES = np.linspace(0, 90, 181)


def losses_along(temperature, **pairs):
    """The loss of pairs on the sphere at each angle; the gap is closed at the last."""
    rows = [make_sphere_pairs(angle, **pairs) for angle in ANGLES.tolist()]
    return np.array([contrastive_loss(X, Y, temperature) for X, Y in rows])


def test_the_barrier_of_two_crossed_pairs_has_its_known_height():
    losses = losses_along(0.01)
    assert losses[-1] == pytest.approx(1.189, abs=5e-4)
    assert losses.min() == pytest.approx(0.81, abs=0.005)
    assert ANGLES[np.argmin(losses)] == pytest.approx(22, abs=0.5)


def test_the_barrier_is_gone_above_the_critical_temperature():
    assert 0.02 < critical_temperature() < 0.05
    assert np.argmin(losses_along(0.02)) < 180
    assert [int(np.argmin(losses_along(t))) for t in (0.05, 0.1, 1.0)] == [180, 180, 180]


@pytest.mark.parametrize("temperature", [0.001, 0.01, 0.1, 1.0])
def test_there_is_no_barrier_without_mismatches(temperature):
    assert critical_temperature(mismatches=0) == 0
    assert np.all(np.diff(losses_along(temperature, mismatches=0)) <= 1e-12)


@pytest.mark.parametrize(
    ("n_pairs", "spacing", "mismatches"), [(6, 15, 2), (6, 15, 3), (10, 20, 4), (24, 15, 2)]
)
def test_what_is_said_of_the_least_loss_agrees_with_a_fine_grid(n_pairs, spacing, mismatches):
    pairs = {"n_pairs": n_pairs, "spacing": spacing, "mismatches": mismatches}
    tau = critical_temperature(**pairs)
    best = math.degrees(math.asin(1 / 3))
    cold, warm = (losses_along(factor * tau, **pairs) for factor in (1 / 3, 3))
    assert cold.min() >= contrastive_loss(*make_sphere_pairs(best, **pairs), tau / 3) - 1e-12
    assert ANGLES[np.argmin(cold)] == pytest.approx(best, abs=0.5)
    assert np.argmin(warm) == 180


def test_below_the_critical_temperature_the_least_loss_is_always_the_same():
    temperatures, tau = np.array([0.001, 0.005, 0.01, 0.02]), critical_temperature()
    angles = np.degrees(np.arcsin(temperatures / tau))
    least = [
        contrastive_loss(*make_sphere_pairs(angle), t)
        for angle, t in zip(angles.tolist(), temperatures.tolist(), strict=True)
    ]
    assert least == pytest.approx([least[0]] * 4, abs=1e-9)


@pytest.mark.parametrize("angle", [0.0, 22.0, 90.0])
def test_both_sides_of_the_equator_mirror_each_other(angle):
    here, there = (make_sphere_pairs(one) for one in (angle, 180 - angle))
    for temperature in (0.01, 1.0):
        expected = reference.contrastive_loss(*here, temperature)
        assert contrastive_loss(*there, temperature) == pytest.approx(expected, rel=1e-9)


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
    alone = losses_along(0.1, n_pairs=2)
    assert np.argmin(alone) == 0
    assert alone[-1] > alone[0]


def test_the_critical_temperature_scales_with_small_spacings():
    # Cosines of small angles differ by the square of the angle.
    coarse, fine = (critical_temperature(spacing=degrees) for degrees in (0.2, 0.1))
    assert coarse / fine == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mismatches": 7}, "mismatches must be at most the number of pairs, 6, got 7. Ask for"),
        ({"mismatches": 1}, "mismatches must be 0 or at least 2, got 1: one text alone"),
        ({"mismatches": -1}, "mismatches must be at least 0, got -1"),
        ({"n_pairs": 1}, "n_pairs must be at least 2, got 1"),
        ({"spacing": 0}, "spacing must be a finite number above 0, got 0"),
        ({"spacing": 90}, "6 pairs 90 degrees apart do not fit .* spacing be at most 60"),
        ({"angle": float("nan")}, "angle must be finite, got nan"),
        ({"dimension": 1}, "dimension must be at least 3, got 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        make_sphere_pairs(**{"angle": 30.0, **options})
