"""The gradient flow of gap and temperature: Yaras' lemma, theorems and rates in numbers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import hyp0f1, ive

from modgap.measures.gap import gap_distance
from modgap.simulate.flow import gap_flow, linear_schedule, simple_flow
from modgap.simulate.flow_theory import (
    decay_rate,
    initial_growth,
    initial_growth_bound,
    inverse_temperature_along,
    log_exponential_moment,
    mean_tilted_cosine,
    separation_bound,
)

LATE = np.logspace(2, 6, 60)


def random_pairs(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(2, n, d))


# Lemma 3.1


@pytest.mark.parametrize(("separation", "beta"), [(0.5, 1.0), (0.9, 3.0), (0.1, 14.3)])
def test_the_inverse_temperature_follows_its_closed_form_along_the_simplified_flow(
    separation, beta
):
    run = simple_flow(separation, beta, [0, *np.logspace(-3, 8, 80)])
    printed = beta * np.sqrt(separation / run.separation)
    printed *= np.exp((run.separation**2 - separation**2) / 4)
    np.testing.assert_allclose(run.inverse_temperature, printed, rtol=1e-6)
    np.testing.assert_allclose(
        inverse_temperature_along(run.separation, separation, beta), printed, rtol=1e-12
    )


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": 2.0},
        {"temperature_rate": 0.1},
        {"parameterisation": "linear"},
        {"parameterisation": "linear", "temperature_rate": 3.0},
    ],
)
def test_the_lemma_holds_whatever_the_embeddings_do(free, settings):
    X, Y = random_pairs(6, 3)
    # Fixed rows must be matched, or the separation grows to 1.
    run = gap_flow(
        X,
        Y if free else X,
        0.3,
        5.0,
        [0, *np.logspace(-2, 3, 40)],
        free=free,
        embedding_rate=6.0,
        **settings,
    )
    np.testing.assert_allclose(run.inverse_temperature, run.closed_form, rtol=1e-6)
    assert run.separation[-1] < 0.5 * run.separation[0]


def test_the_ratio_of_the_rates_is_that_of_equation_5():
    X = random_pairs(5, 3)[0]
    small = 1e-5
    run = gap_flow(X, X, 0.4, 4.0, [0, small], free=False, parameterisation="softplus")
    ratio = np.diff(run.separation)[0] / np.diff(run.inverse_temperature)[0]
    slope = 1 - math.exp(-4.0)
    assert ratio == pytest.approx(-2 * 4.0 * 0.4 / (slope**2 * (1 - 0.16)), rel=1e-3)
    assert run.closed_form is None


def test_a_scale_is_a_slower_rate():
    """exp(ν/s) learns like exp(ν) with ν s² times slower."""
    one, other = (
        simple_flow(0.5, 2.0, [0, 10, 1e4], **settings)
        for settings in ({"scale": 2.0}, {"temperature_rate": 0.25})
    )
    np.testing.assert_allclose(one.log_separation, other.log_separation, rtol=1e-8)


# Theorem 3.2


@pytest.mark.parametrize(("separation", "beta", "n"), [(0.25, 20.0, 8), (0.6, 8.0, 5)])
def test_the_separation_never_falls_below_its_bound(separation, beta, n):
    times = np.array([0, *np.logspace(-2, 9, 60)])
    # Orthonormal pairs have margin 1.
    run = gap_flow(np.eye(n), np.eye(n), separation, beta, times, free=False)
    assert run.margin[0] == pytest.approx(1.0)
    bound = separation_bound(times, separation, beta, margin=1.0, n=n)
    assert np.all(run.separation >= bound.separation * (1 - 1e-9))
    assert bound.separation[0] == pytest.approx(separation, rel=1e-12)
    assert (bound.c3, bound.c4) == (55 * bound.c1 / 2, bound.c2 - 0.1)


def test_with_the_printed_constant_the_bound_would_exceed_the_start():
    bound = separation_bound([0.0], 0.05, 2.5, margin=1.0, n=2)
    printed = bound.c2 / math.log(math.exp(bound.c4 / math.sqrt(0.05))) ** 2
    assert printed > 0.05 == pytest.approx(bound.separation[0])


def test_the_gap_is_linear_in_the_inverse_squared_log_of_time():
    """R² above 0.99 from 10² to 10⁶ for β₀ of 1 to 3; a larger β₀ gets there later."""
    for separation, beta in ((0.5, 1.0), (0.9, 1.0), (0.2, 3.0)):
        run = simple_flow(separation, beta, LATE)
        assert np.corrcoef(-1 / np.log(LATE) ** 2, run.gap_distance)[0, 1] ** 2 > 0.99
        assert np.all(np.diff(run.gap_distance) < 0)


def test_the_simplified_flow_satisfies_its_equations():
    times = np.array([1.0, 1.0 + 1e-4])
    run = simple_flow(0.5, 2.0, times)
    gamma, beta = run.separation[0], run.inverse_temperature[0]
    force = math.exp(-beta * (1 - gamma**2))
    assert np.diff(run.separation)[0] / 1e-4 == pytest.approx(-2 * beta * gamma * force, rel=1e-3)
    expected = beta**2 * (1 - gamma**2) * force
    assert np.diff(run.inverse_temperature)[0] / 1e-4 == pytest.approx(expected, rel=1e-3)


# Theorem 3.3


@pytest.mark.parametrize("dim", [2, 3, 17, 64])
@pytest.mark.parametrize("a", [0.01, 1.0, 30.0])
def test_the_moments_are_those_of_the_hypergeometric_and_bessel_forms(dim, a):
    assert log_exponential_moment(dim, a) == pytest.approx(
        math.log(hyp0f1(dim / 2, a**2 / 4)), rel=1e-10, abs=1e-14
    )
    bessel = ive(dim / 2, a) / ive(dim / 2 - 1, a)
    assert mean_tilted_cosine(dim, a) == pytest.approx(bessel, rel=1e-10)


def test_three_dimensions_have_an_elementary_form():
    for a in (0.1, 0.91, 5.0, 800.0):
        assert mean_tilted_cosine(3, a) == pytest.approx(1 / math.tanh(a) - 1 / a, rel=1e-9)


def test_nothing_overflows_in_512_dimensions():
    # Var z = 1/d, so log E[exp(a z)] is a²/(2d) for small a.
    assert log_exponential_moment(512, 1.0) == pytest.approx(1 / 1024, rel=1e-4)
    # Amos 1974: a/(ρ + ½ + √(a² + (ρ + 3/2)²)) ≤ I_{ρ+1}/I_ρ ≤ a/(ρ + ½ + √(a² + (ρ + ½)²)).
    for a in (1.0, 100.0, 1000.0, 5000.0):
        low, high = (a / (r + math.sqrt(a**2 + s**2)) for r, s in ((255.5, 256.5), (255.5, 255.5)))
        assert low * (1 - 1e-9) <= mean_tilted_cosine(512, a) <= high * (1 + 1e-9)
        assert math.isfinite(initial_growth_bound(512, 0.3, a, n=1000))


def test_mismatched_random_pairs_enlarge_the_gap_at_least_as_fast_as_bounded():
    n, separation, beta = 8000, 0.3, 1.0
    bound = initial_growth_bound(3, separation, beta, n)
    assert bound == pytest.approx(0.116, abs=5e-4)
    measured = initial_growth(*random_pairs(n, 3), separation, beta)
    assert measured > bound
    # The diagonal of Z, variance 1/3, makes nearly all of the scatter: 4βγ √(1/(3n)) = 0.0077.
    scatter = 4 * beta * separation * math.sqrt(1 / (3 * n))
    assert measured == pytest.approx(0.343, abs=4 * scatter)
    assert measured == pytest.approx(initial_growth_bound(3, separation, beta), abs=4 * scatter)


def test_the_growth_is_the_first_slope_of_the_flow():
    X, Y = random_pairs(20, 4)
    small = 1e-6
    run = gap_flow(X, Y, 0.3, 2.0, [0, small], free=False)
    slope = 2 * np.diff(run.separation)[0] / small
    assert initial_growth(X, Y, 0.3, 2.0) == pytest.approx(slope, rel=1e-4)


# Appendix C: temperature set or written differently


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 4.0])
def test_at_a_constant_temperature_the_gap_closes_at_twice_the_printed_rate(beta):
    run = simple_flow(0.3, beta, [100 / beta, 200 / beta], schedule=lambda t: beta)
    measured = -np.diff(run.log_separation)[0] / np.diff(run.times)[0]
    assert measured == pytest.approx(2 * beta * math.exp(-beta), rel=0.02)
    assert decay_rate(beta) == pytest.approx(2 * beta * math.exp(-beta))


@pytest.mark.parametrize(("start", "end"), [(1.0, 3.0), (3.0, 1.0), (0.5, 6.0), (2.0, 2.0001)])
def test_under_a_linear_schedule_it_closes_at_twice_the_printed_average(start, end):
    run = simple_flow(0.05, start, [0, 200], schedule=linear_schedule(start, end, 200.0))
    measured = -np.diff(run.log_separation)[0] / 200
    printed = (start + 1) * math.exp(-start) - (end + 1) * math.exp(-end)
    assert decay_rate(start, end) == pytest.approx(2 * printed / (end - start), rel=1e-8)
    assert measured == pytest.approx(decay_rate(start, end), rel=0.02)
    np.testing.assert_allclose(run.inverse_temperature, [start, end])


@pytest.mark.parametrize("parameterisation", ["linear", "softplus"])
def test_a_temperature_written_as_its_parameter_closes_the_gap_fast(parameterisation):
    """−log γ / log² t → 1: γ as t^(−log t); log(1 + e^ν) is ν once ν is large."""
    for time, tolerance in ((1e12, 0.02), (1e100, 1e-3)):
        run = simple_flow(0.5, 1.0, [0, time], parameterisation=parameterisation)
        assert -run.log_separation[-1] / math.log(time) ** 2 == pytest.approx(1, abs=tolerance)


# Figure 2


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_first_grows_then_shrinks_with_the_temperature(seed):
    X, Y = random_pairs(12, 3, seed)
    run = gap_flow(X, Y, 0.3, 8.0, [0, *np.logspace(-2, 3, 60)], embedding_rate=12.0)
    top = int(np.argmax(run.gap_distance))
    assert run.margin[0] < 0 < run.margin[-1]
    assert 0 < top < len(run.times) - 1
    assert run.gap_distance[top] > 1.1 * run.gap_distance[0]
    assert run.gap_distance[-1] < 0.5 * run.gap_distance[top]
    # Coupled: the temperature is lowest where the separation is smallest, highest where largest.
    assert np.array_equal(np.argsort(run.separation), np.argsort(-run.inverse_temperature))
    assert np.all(run.gap_distance >= 2 * run.separation - 1e-12)
    assert run.loss[-1] < 0.01 < run.loss[0]


def test_the_embeddings_of_the_flow_are_unit_rows_with_that_gap():
    X, Y = random_pairs(5, 3)
    run = gap_flow(X, Y, 0.3, 5.0, [0, 1, 10], embedding_rate=5.0)
    assert run.X.shape == (3, 5, 4)
    np.testing.assert_allclose(np.linalg.norm(run.X, axis=2), 1, rtol=1e-12)
    for k in range(3):
        assert gap_distance(run.X[k], run.Y[k]) == pytest.approx(run.gap_distance[k])
    json.dumps(run.to_dict(), allow_nan=False)


def test_at_time_zero_nothing_has_happened():
    assert simple_flow(0.5, 2.0, [0]).separation == pytest.approx([0.5])


X2 = np.eye(2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: simple_flow(1.0, 1.0, [1]), "separation must lie strictly betw"),
        (lambda: simple_flow("a", 1.0, [1]), "separation must be a number, got str"),
        (lambda: simple_flow(0.5, -1.0, [1]), "inverse_temperature must be a fin"),
        (lambda: simple_flow(0.5, 1.0, [2, 1]), "times must be 0 or later and inc"),
        (lambda: simple_flow(0.5, 1.0, []), "times must be a non-empty list"),
        (lambda: simple_flow(0.5, 1.0, [1], parameterisation="softplu"), "Did you mean 'softplus'"),
        (
            lambda: simple_flow(0.5, 1.0, [1], schedule=lambda t: -1.0),
            "schedule must return a finite number above 0, got -1.0 at time 0",
        ),
        (lambda: simple_flow(0.5, 1.0, [1], schedule=3.0), "schedule must be a fun"),
        (lambda: gap_flow(X2, X2[:1], 0.5, 1.0, [1]), "Y needs at least 2 rows"),
        (lambda: gap_flow(X2[:, :1] + 1, X2[:, :1] + 1, 0.5, 1.0, [1]), "2 columns"),
        (lambda: gap_flow(X2 * np.nan, X2, 0.5, 1.0, [1]), "NaN or infinity"),
        (
            lambda: gap_flow(X2, X2[::-1], 0.9, 5.0, [0, 1e3], free=False),
            "The separation reached 1 near time",
        ),
        (
            lambda: separation_bound([1.0], 0.5, 1.0, margin=1.0, n=100),
            "needs an inverse temperature of at least",
        ),
        (lambda: separation_bound([1.0], 1e-4, 1.5, margin=1.0, n=2), "above 0.1, got"),
        (
            lambda: separation_bound([-1.0], 0.5, 8.0, margin=1.0, n=4),
            "times must be 0 or later, got -1",
        ),
        (lambda: mean_tilted_cosine(1, 1.0), "dimension must be at least 2, got 1"),
        (lambda: initial_growth_bound(3, 0.3, 1.0, n=0), "n must be at least 1"),
        (lambda: decay_rate(0.0), "inverse_temperature must be a finite number"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()
