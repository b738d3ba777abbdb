"""Conformity of generated rows against real ones: the means, the tests' level and power."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.core.checks import InputError
from modgap.tasks import conformity_task, conformity_test, sweep_task
from modgap.tasks.conformity import _apart


def rows(rng, n, spread, d=16):
    """Rows around one direction: the smaller the spread, the more common."""
    centre = np.zeros(d)
    centre[0] = 1
    return centre + spread * rng.normal(size=(n, d))


def slow_conformity(x, reference):
    cosines = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in reference]
    return sum(cosines) / len(cosines)


def test_values_and_means_equal_loops(rng, library):
    made, real, reference = rows(rng, 7, 0.3), rows(rng, 9, 0.4), rows(rng, 11, 0.4)
    found = conformity_test(library(made), library(real), library(reference), resamples=100)
    expected = [[slow_conformity(x, reference) for x in side] for side in (made, real)]
    tolerance = library.tolerance if hasattr(library, "tolerance") else 1e-6
    np.testing.assert_allclose(found.generated_values, expected[0], atol=tolerance)
    np.testing.assert_allclose(found.real_values, expected[1], atol=tolerance)
    assert found.generated.value == pytest.approx(np.mean(expected[0]), abs=tolerance)
    difference = np.mean(expected[0]) - np.mean(expected[1])
    assert found.difference.value == pytest.approx(difference, abs=tolerance)
    assert (found.n_generated, found.n_real, found.test) == (7, 9, "permutation")
    assert "generated_values" not in found.to_dict()


def test_without_a_reference_real_rows_are_compared_with_the_others(rng):
    made, real = rows(rng, 5, 0.3), rows(rng, 6, 0.3)
    found = conformity_test(made, real, resamples=100)
    others = [slow_conformity(x, np.delete(real, i, axis=0)) for i, x in enumerate(real)]
    np.testing.assert_allclose(found.real_values, others)
    np.testing.assert_allclose(found.generated_values, [slow_conformity(x, real) for x in made])


@pytest.mark.parametrize(("spread", "sign"), [(0.2, 1), (0.45, -1)])
def test_planted_common_and_unusual_rows_are_found(rng, spread, sign):
    real = rows(rng, 200, 0.3)
    found = conformity_test(rows(rng, 150, spread), real, resamples=400)
    assert sign * found.difference.value > 0
    assert (found.difference.low > 0) == (sign > 0)
    assert (found.difference.high < 0) == (sign < 0)
    assert found.p_value < 0.01


@pytest.mark.parametrize("way", ["apart", "own reference", "paired"])
def test_under_the_null_one_in_twenty_is_rejected(way):
    rng = np.random.default_rng(7)
    rejected, covered = [], []
    for seed in range(200):
        made, real = rows(rng, 40, 0.3), rows(rng, 60 if way != "paired" else 40, 0.3)
        reference = None if way == "own reference" else rows(rng, 80, 0.3)
        found = conformity_test(
            made, real, reference, paired=way == "paired", resamples=100, seed=seed
        )
        rejected.append(found.p_value <= 0.05)
        covered.append(found.difference.low <= 0 <= found.difference.high)
    margin = 3 * (0.05 * 0.95 / 200) ** 0.5
    assert np.mean(rejected) < 0.05 + margin
    assert np.mean(covered) > 0.95 - 0.02 - margin


def test_unequal_spreads_and_sizes_do_not_reject_equal_means():
    # Two normal samples of one mean stand in for conformities: only the spread differs.
    rng = np.random.default_rng(8)
    p = [
        _apart(rng.normal(size=15) * 3, rng.normal(size=90), 100, 0.95, seed)[3]
        for seed in range(300)
    ]
    assert np.mean(np.array(p) <= 0.05) < 0.05 + 3.5 * (0.05 * 0.95 / 300) ** 0.5


def test_pairs_see_a_difference_that_rows_apart_do_not(rng):
    real = rows(rng, 60, 0.3)
    made = real + np.eye(16)[0] * 0.02  # each a little more common than its own photograph
    apart = conformity_test(made, real, resamples=400)
    paired = conformity_test(made, real, paired=True, resamples=400)
    assert apart.p_value > 0.2
    assert paired.p_value < 0.01
    assert paired.difference.low > 0
    assert paired.test == "sign permutation"


def test_groups_average_what_is_of_the_same_thing(rng):
    real, made = rows(rng, 10, 0.3), rows(rng, 4, 0.3)
    gx, gy = ["a", "b", "c", "d"], ["a", "a", "b", "b", "c", "c", "d", "d", "e", "e"]
    found = conformity_test(made, real, groups=(gx, gy), resamples=100)
    means = found.real_values[:8].reshape(4, 2).mean(axis=1)
    assert found.difference.value == pytest.approx(np.mean(found.generated_values - means))


def test_only_rows_with_a_counterpart_are_counted(rng):
    made, real, reference = rows(rng, 6, 0.3), rows(rng, 4, 0.3), rows(rng, 9, 0.3)
    groups = (["a", "a", "b", "c", "x", "y"], ["a", "b", "c", "z"])
    found = conformity_test(made, real, reference, groups=groups, resamples=100)
    assert (found.n_generated, found.n_real) == (4, 3)
    assert (len(found.generated_values), len(found.real_values)) == (4, 3)


def test_a_row_is_not_compared_with_its_own_counterparts(rng):
    made, real = rows(rng, 5, 0.3), rows(rng, 6, 0.3)
    first, second = np.array([0, 0, 1, 2, 3]), np.array([0, 1, 1, 2, 3, 3])
    found = conformity_test(made, real, groups=(first, second), resamples=100)
    for values, side, own in (
        (found.generated_values, made, first),
        (found.real_values, real, second),
    ):
        expected = [slow_conformity(x, real[second != g]) for x, g in zip(side, own, strict=True)]
        np.testing.assert_allclose(values, expected)
    same = conformity_test(real, real, paired=True, resamples=100)
    assert same.difference.value == pytest.approx(0, abs=1e-12)
    assert same.p_value > 0.9


def test_equal_rows_do_not_differ():
    same = np.tile([[1.0, 0.0], [0.0, 1.0]], (5, 1))
    assert conformity_test(same, same, same, paired=True, resamples=100).p_value == 1
    flat = np.ones((5, 3))
    assert conformity_test(flat, flat, flat, resamples=100).p_value == 1


def test_the_share_of_less_common_rows_is_a_half_under_the_null_and_can_be_swept(rng):
    texts = rows(rng, 300, 0.3) * [-1, *[1] * 15]
    alike = conformity_task(rows(rng, 300, 0.3), rows(rng, 300, 0.3), texts)
    assert alike.score().outcomes.mean() == pytest.approx(0.5, abs=0.06)
    common = conformity_task(rows(rng, 300, 0.2), rows(rng, 300, 0.3), texts)
    assert common.score().outcomes.mean() > 0.75
    assert sweep_task(common, resamples=100).better == "lower"
    # Corrections are fitted on neither of the two, so that rows that are alike stay so.
    for point in sweep_task(alike, resamples=100).points:
        assert point.value.value == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"generated": np.ones((1, 3))}, "generated needs at least 2 rows, got 1"),
        ({"generated": np.ones((2, 4))}, "generated and real must have the same number of columns"),
        ({"generated": np.zeros((2, 3))}, "generated has 2 rows with length zero"),
        ({"paired": True, "generated": np.ones((2, 3))}, "must be pairs, got 2 and 4 rows"),
        ({"groups": ([0, 1, 2, 3], [9, 8, 7, 6])}, "No group has rows on both sides"),
        ({"groups": ([0, 1, 2, 3], [0, 8, 7, 6])}, "at least 2 groups that both sides have, got 1"),
        ({"resamples": 5}, "resamples must be at least 100"),
        ({"level": 1.0}, "level must be between 0 and 1"),
    ],
)
def test_bad_rows_are_refused_in_one_sentence(change, message):
    given = {"generated": np.ones((4, 3)), "real": np.ones((4, 3))} | change
    with pytest.raises(InputError, match=message):
        conformity_test(**given)
