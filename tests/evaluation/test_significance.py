"""Paired tests and intervals: McNemar by hand, coverage by simulation, Liang's table 5."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modgap.corrections import Calibrate, Center, Shift, Whiten
from modgap.diagnosis import diagnose
from modgap.evaluation import GroupBootstrap, chi_squared, compare
from modgap.evaluation.metrics import GapSample, resample


def exact_mcnemar(better, worse):
    """Two-sided exact binomial at one half: both tails, by counting."""
    n = better + worse
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1)) / 2**n
    return min(1.0, 2 * tail)


@pytest.mark.parametrize(("better", "worse"), [(7, 2), (2, 7), (5, 5), (1, 0), (30, 12)])
def test_mcnemar_is_the_exact_binomial_of_the_queries_that_changed(better, worse):
    before = [0] * better + [1] * worse + [1] * 9 + [0] * 4
    after = [1] * better + [0] * worse + [1] * 9 + [0] * 4
    found = compare(before, after)
    assert found.test == "mcnemar"
    assert found.p_value == pytest.approx(exact_mcnemar(better, worse), rel=1e-12)
    n = len(before)
    assert found.before.value == pytest.approx((worse + 9) / n)
    assert found.after.value == pytest.approx((better + 9) / n)
    assert found.difference.value == pytest.approx((better - worse) / n)
    assert found.n_groups == n


@pytest.mark.parametrize("test", ["mcnemar", "bootstrap"])
def test_the_same_outcomes_differ_by_nothing_with_p_one(rng, test):
    hits = rng.integers(0, 2, 50)
    found = compare(hits, hits, test=test)
    assert found.p_value == 1.0
    difference = found.difference
    assert (difference.value, difference.low, difference.high) == (0.0, 0.0, 0.0)


def test_numbers_or_groups_are_tested_by_the_bootstrap(rng):
    values = rng.normal(size=60)
    assert compare(values, values + 1).test == "bootstrap"
    hits = rng.integers(0, 2, 60)
    assert compare(hits, 1 - hits, groups=np.arange(60) // 3).test == "bootstrap"
    assert compare(hits, 1 - hits, groups=np.arange(60) // 3).n_groups == 20


def test_a_constant_gain_has_an_interval_of_one_point_and_the_smallest_p(rng):
    values = rng.normal(size=60)
    found = compare(values, values + 0.25, resamples=500)
    assert found.difference.low == pytest.approx(0.25)
    assert found.difference.high == pytest.approx(0.25)
    assert found.p_value == pytest.approx(2 / 501)


def test_the_interval_covers_the_true_difference_about_as_often_as_promised():
    rng = np.random.default_rng(0)
    covered = 0
    trials = 400
    for trial in range(trials):
        before = rng.normal(size=80)
        after = before + 0.2 + 0.5 * rng.normal(size=80)
        found = compare(before, after, resamples=200, seed=trial).difference
        covered += found.low <= 0.2 <= found.high
    # Three standard errors of a share of 0.95 over 400 trials, and the percentile
    # interval's known shortness: sqrt(79/80) and 200 resamples cost about 0.01.
    spread = 3 * math.sqrt(0.95 * 0.05 / trials)
    assert 0.94 - spread < covered / trials < 0.95 + spread


def test_whole_groups_are_resampled_so_copies_add_no_certainty(rng):
    before, after = rng.normal(size=40), rng.normal(size=40)
    single = compare(before, after, test="bootstrap")
    copies = compare(np.repeat(before, 5), np.repeat(after, 5), groups=np.repeat(np.arange(40), 5))
    assert copies.difference.low == pytest.approx(single.difference.low)
    assert copies.difference.high == pytest.approx(single.difference.high)
    assert copies.p_value == single.p_value
    ungrouped = compare(np.repeat(before, 5), np.repeat(after, 5)).difference
    width = single.difference.high - single.difference.low
    assert ungrouped.high - ungrouped.low == pytest.approx(width / 5**0.5, rel=0.15)


def test_the_seed_decides_the_interval_and_the_level_its_width(rng):
    before, after = rng.normal(size=(2, 50))
    assert compare(before, after, seed=1) == compare(before, after, seed=1)
    assert compare(before, after, seed=1) != compare(before, after, seed=2)
    narrow, wide = (compare(before, after, level=level).difference for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert compare(before, after, level=0.5).level == 0.5


def test_a_ratio_of_sums_is_resampled_by_group():
    groups = np.array([2, 2, 5, 9])
    bootstrap = GroupBootstrap(groups, resamples=100)
    values, weights = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 1.0, 2.0, 4.0])
    whole, drawn = bootstrap.ratios(values, groups, weights)
    assert whole == 10 / 8
    sums, sizes = np.array([3.0, 3.0, 4.0]), np.array([2.0, 2.0, 4.0])
    assert bootstrap.counts.sum(axis=1).tolist() == [3] * 100
    expected = [(count @ sums) / (count @ sizes) for count in bootstrap.counts]
    np.testing.assert_allclose(drawn, expected)


def test_a_resample_without_any_weight_is_left_out_of_the_interval():
    groups = np.array([0, 1])
    bootstrap = GroupBootstrap(groups, resamples=200)
    whole, drawn = bootstrap.ratios(np.array([3.0, 0.0]), groups, np.array([4.0, 0.0]))
    assert whole == 0.75
    assert np.isnan(drawn).any()
    found = bootstrap.interval(whole, drawn)
    assert (found.low, found.high) == (0.75, 0.75)


@pytest.mark.parametrize(
    ("before", "after", "options", "message"),
    [
        ([0, 1], [0, 1, 1], {}, "one number for each of the same queries"),
        ([], [], {}, "one number for each of the same queries"),
        ([0.0, np.nan], [1.0, 1.0], {}, "must be finite"),
        ([0, 1], [1, 1], {"groups": [1]}, "one label per query"),
        ([0.5, 1], [1, 1], {"test": "mcnemar"}, "McNemar's test is for hits"),
        ([0, 1], [1, 1], {"test": "student"}, "test must be one of"),
        ([0, 1], [1, 1], {"level": 1.0}, "level must be between 0 and 1"),
        ([0, 1], [1, 1], {"resamples": 99}, "resamples must be at least 100"),
    ],
)
def test_bad_input_is_refused(before, after, options, message):
    with pytest.raises(ValueError, match=message):
        compare(before, after, **options)


@pytest.mark.parametrize(
    ("before", "after", "n", "printed"),
    [
        (0.9026, 0.9104, 60_000, "3.476e-06"),
        (0.6705, 0.6776, 60_000, "8.701e-03"),
        (0.5494, 0.5686, 27_000, "7.020e-06"),
    ],
)
def test_chi_squared_gives_the_p_values_of_liangs_table_5(before, after, n, printed):
    assert f"{chi_squared(before, after, n):.3e}" == printed


def test_chi_squared_of_equal_accuracies_is_one_and_shares_must_be_shares():
    assert chi_squared(0.3, 0.3, 100) == chi_squared(0.0, 0.0, 100) == 1.0
    assert chi_squared(0.4, 0.5, 100) == pytest.approx(chi_squared(0.5, 0.4, 100))
    with pytest.raises(ValueError, match="after must be a share between 0 and 1"):
        chi_squared(0.4, 1.5, 100)
    with pytest.raises(ValueError, match="n must be at least 1"):
        chi_squared(0.4, 0.5, 0)


def test_an_interval_holds_its_figure_even_where_every_resample_is_larger():
    bootstrap = GroupBootstrap(np.arange(30))
    found = bootstrap.interval(0.0, np.linspace(0.1, 0.2, 1000))
    assert (found.low, found.value) == (0.0, 0.0)
    assert found.high == pytest.approx(0.2, abs=0.005)


def drawn_gap(rng, n, dim, gap, seed):
    """The gap of n pairs drawn from two clouds that far apart, and its interval."""
    scales = np.linspace(0.2, 1.8, dim)
    X, Y = (rng.normal(size=(n, dim)) * scales for _ in range(2))
    X[:, 0] += gap
    bootstrap = GroupBootstrap(np.arange(n), 200, seed)
    sample = GapSample((X, Y), (np.arange(n),) * 2)
    return bootstrap.interval(*resample(bootstrap, sample))


@pytest.mark.parametrize("gap", [0.0, 1.0, 4.0])
def test_the_interval_of_a_gap_covers_the_true_gap_and_the_one_measured_on_as_many(gap):
    rng, trials = np.random.default_rng(1), 150
    found = [drawn_gap(rng, 60, 32, gap, seed) for seed in range(trials)]
    average = np.mean([one.value for one in found])
    assert average > gap  # chance lengthens a distance
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)
    for truth in (gap, average):
        assert np.mean([one.low <= truth <= one.high for one in found]) > least
    assert all(one.low < one.value < one.high for one in found)
    # It tells a gap from none where there is one.
    assert (np.mean([one.low > 0.5 for one in found]) > 0.9) == (gap == 4)


def test_resamples_of_a_gap_are_those_of_its_groups_less_what_chance_adds(rng):
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(30, 3))
    gx, gy = np.arange(20) // 2, np.arange(30) // 3
    bootstrap = GroupBootstrap(gx, resamples=100)
    value, draws = resample(bootstrap, GapSample((X, Y), (gx, gy)))
    gap = X.mean(axis=0) - Y.mean(axis=0)
    assert value == pytest.approx(np.linalg.norm(gap), rel=1e-12)
    moved = np.array(
        [
            np.average(X, axis=0, weights=count[gx]) - np.average(Y, axis=0, weights=count[gy])
            for count in bootstrap.counts
        ]
    )
    added = np.mean(np.sum((moved - gap) ** 2, axis=1))
    for times, way in zip((1, 2), draws, strict=True):
        squares = np.maximum(np.sum(moved**2, axis=1) - times * added, 0)
        np.testing.assert_allclose(way, np.sqrt(squares), atol=1e-12)


def test_an_interval_of_several_ways_spans_them_all():
    bootstrap = GroupBootstrap(np.arange(30))
    ways = np.stack([np.linspace(1, 2, 1000), np.linspace(0, 1.5, 1000)])
    found = bootstrap.interval(1.2, ways)
    assert (found.low, found.high) == pytest.approx((0.0375, 1.975))


@pytest.mark.parametrize("seed", range(4))
def test_every_interval_of_a_diagnosis_holds_its_estimate(seed):
    rng = np.random.default_rng(seed)
    n, dim = rng.integers(40, 90), rng.integers(4, 40)
    shared = rng.normal(size=(n, dim))
    X, Y = (shared + rng.normal(size=(n, dim)) + rng.normal(size=dim) for _ in range(2))
    tried = [Shift(0.5), Center(), Whiten(0.5), Calibrate("keep"), Calibrate("mixed")]
    found = diagnose(X, Y, correctors=tried, seed=seed)
    scores = [found.raw, *(trial.confirm for trial in found.trials)]
    held = 0
    for name, one in ((name, one) for each in scores for name, one in each.metrics.items()):
        for interval in (one.value, one.change):
            if interval is not None and not math.isnan(interval.value):
                held += 1
                assert interval.low <= interval.value <= interval.high
        if name == "gap":
            assert one.value.low < one.value.value < one.value.high
    assert held >= 8 * (1 + 2 * len(tried))
