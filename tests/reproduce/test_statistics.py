"""Statistics that checks of several papers use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr, ttest_1samp

from modgap.reproduce.statistics import mean_interval, rank_correlation_interval

NUMBERS = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=8)


@given(NUMBERS)
def test_the_interval_of_a_mean_is_that_of_the_t_test(values) -> None:
    found = mean_interval(values)
    assert found.low <= found.value <= found.high
    if np.std(values) > 1e-6:
        low, high = ttest_1samp(values, 0).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_one_value_says_nothing_about_its_spread() -> None:
    assert mean_interval([0.3]).low == -np.inf
    assert mean_interval([0.3]).high == np.inf


def test_an_interval_of_a_mean_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    found = [mean_interval(rng.normal(2.0, 1.0, 3)) for _ in range(2000)]
    covered = np.mean([each.low <= 2.0 <= each.high for each in found])
    assert covered == pytest.approx(0.95, abs=0.02)


def settings(noise: float, seed: int, n: int = 6) -> tuple[list, list]:
    """Three repetitions of n settings whose y falls with x."""
    rng = np.random.default_rng(seed)
    x = [k + noise * rng.normal(size=3) for k in range(n)]
    y = [-k + noise * rng.normal(size=3) for k in range(n)]
    return x, y


def test_a_correlation_is_spearmans_of_the_means_and_sure_without_noise() -> None:
    x, y = settings(0.7, seed=1)
    found = rank_correlation_interval(x, y)
    expected = spearmanr([v.mean() for v in x], [v.mean() for v in y]).statistic
    assert found.value == pytest.approx(expected)
    still = rank_correlation_interval(*settings(1e-6, seed=1))
    assert (still.low, still.value, still.high) == pytest.approx((-1, -1, -1))


def test_more_noise_widens_the_interval_of_a_correlation() -> None:
    widths = []
    for noise in (0.1, 1.0, 5.0):
        found = rank_correlation_interval(*settings(noise, seed=2))
        widths.append(found.high - found.low)
    assert widths == sorted(widths)
    assert widths[-1] > 0.5


def test_a_setting_with_one_repetition_takes_the_noise_of_the_others() -> None:
    x, y = settings(2.0, seed=3)
    x[2], y[2] = x[2][:1], y[2][:1]
    found = rank_correlation_interval(x, y)
    assert found.low < found.high
