"""Closed forms of robustness, against draws of the noise."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import ndtr

from modgap.core.results import to_json
from modgap.evaluation import robustness
from modgap.evaluation.noise import Gaussian
from modgap.simulate import noise
from modgap.simulate.noise import expected_robustness, pair_robustness

SIGMAS = 4.5
DRAWS = 40_000
# Standard error of a share over the draws, at its largest.
ERROR = 0.5 / DRAWS**0.5


def make_three(d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A query off to one side, with its nearest of two candidates first."""
    rng = np.random.default_rng(seed)
    x1, x2, y = rng.normal(size=(3, d)) / d**0.5
    y = y + 0.5 * (x1 - y)
    near, far = sorted((x1, x2), key=lambda x: float(np.sum((x - y) ** 2)))
    return y, near, far


def drawn(y, x1, x2, covariance, mean=0.0, centred=False, k=2, seed=1) -> float:
    """Share of draws in which x1 stays nearer to y; noise falls on k candidates."""
    rng = np.random.default_rng(seed)
    d = len(y)
    values, axes = np.linalg.eigh(covariance)
    kept = 0
    for _ in range(10):
        noise = rng.normal(size=(DRAWS // 10, k, d)) * np.sqrt(values) @ axes.T + mean
        if centred:
            noise -= noise.mean(axis=1, keepdims=True)
        first, second = (np.sum((y - x - noise[:, i]) ** 2, 1) for i, x in enumerate((x1, x2)))
        kept += int(np.sum(first < second))
    return kept / DRAWS


def make_covariance(d: int, scale: float, seed: int = 3) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(d, 2 * d))
    return scale**2 * A @ A.T / (2 * d)


# -- two candidates (Chowers, theorem 3.4 and A.4) ----------------------------------------------


def test_centred_noise_has_the_closed_form_of_theorem_3_4():
    y, x1, x2 = make_three(16)
    middle = (x1 + x2) / 2
    far = y - middle
    expected = ndtr((x1 - x2) @ far / (math.sqrt(2) * 0.3 * np.linalg.norm(far)))
    for method in ("exact", "normal"):
        found = pair_robustness(y, x1, x2, 0.3, centred=True, method=method)
        assert found == pytest.approx(expected, abs=1e-12)


def test_plain_noise_has_the_closed_form_for_many_dimensions():
    y, x1, x2 = make_three(300)
    a, b, s = np.sum((y - x1) ** 2), np.sum((y - x2) ** 2), 0.1
    expected = ndtr((b - a) / math.sqrt(4 * s**2 * (a + b) + 4 * 300 * s**4))
    assert pair_robustness(y, x1, x2, s, method="normal") == pytest.approx(expected, abs=1e-12)
    # What is left out is the skewness of chi-squares, of the order of 1/√d times a small tail.
    assert pair_robustness(y, x1, x2, s) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize("centred", [False, True])
def test_white_noise_agrees_with_draws(d, centred):
    y, x1, x2 = make_three(d)
    found = pair_robustness(y, x1, x2, 0.4, centred=centred)
    expected = drawn(y, x1, x2, 0.16 * np.eye(d), centred=centred)
    assert found == pytest.approx(expected, abs=SIGMAS * ERROR)


@pytest.mark.parametrize("d", [2, 5, 40])
@pytest.mark.parametrize("centred", [False, True])
def test_noise_of_any_covariance_and_mean_agrees_with_draws(d, centred):
    y, x1, x2 = make_three(d)
    C, mean = make_covariance(d, 0.4), 0.5 * (x2 - x1)  # a mean that pushes against x1
    found = pair_robustness(y, x1, x2, covariance=C, mean=mean, centred=centred)
    expected = drawn(y, x1, x2, C, mean, centred)
    assert found == pytest.approx(expected, abs=SIGMAS * ERROR)
    without = pair_robustness(y, x1, x2, covariance=C, centred=centred)
    assert (found == without) if centred else (abs(found - without) > SIGMAS * ERROR)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_mean_taken_away_may_be_over_more_candidates(k):
    y, x1, x2 = make_three(8)
    found = pair_robustness(y, x1, x2, 0.4, centred=True, n_candidates=k)
    expected = drawn(y, x1, x2, 0.16 * np.eye(8), centred=True, k=k)
    assert found == pytest.approx(expected, abs=SIGMAS * ERROR)


def test_centring_over_many_candidates_tends_to_plain_noise():
    y, x1, x2 = make_three(8)
    many = pair_robustness(y, x1, x2, 0.4, centred=True, n_candidates=10**9)
    assert many == pytest.approx(pair_robustness(y, x1, x2, 0.4), abs=1e-8)


def test_the_normal_form_is_far_off_only_in_few_dimensions():
    errors = []
    for d in (2, 512):
        y, x1, x2 = make_three(d, seed=4)
        forms = [pair_robustness(y, x1, x2, 0.5, method=m) for m in ("exact", "normal")]
        errors.append(abs(forms[0] - forms[1]))
    assert errors[1] < 1e-4 < errors[0]


def test_variances_are_a_diagonal_covariance():
    y, x1, x2 = make_three(4)
    v = np.array([0.1, 0.2, 0.0, 0.4])
    one = pair_robustness(y, x1, x2, covariance=v)
    assert one == pytest.approx(pair_robustness(y, x1, x2, covariance=np.diag(v)), abs=1e-10)
    white = pair_robustness(y, x1, x2, covariance=np.full(4, 0.09))
    assert white == pytest.approx(pair_robustness(y, x1, x2, 0.3), abs=1e-10)


def test_closing_the_gap_along_an_orthogonal_direction_is_safer():
    y, x1, x2 = make_three(6)
    gap = np.zeros(7)
    gap[6] = 1.0
    y, x1, x2 = (np.append(v, 0.0) for v in (y, x1, x2))
    for centred in (False, True):
        for method in ("exact", "normal"):
            chances = [
                pair_robustness(y + g * gap, x1, x2, 0.2, centred=centred, method=method)
                for g in (0.0, 0.5, 1.0, 3.0)
            ]
            assert all(np.diff(chances) < 0)


def test_the_chance_survives_rotation_and_scale(rng):
    y, x1, x2 = make_three(5)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    expected = pair_robustness(y, x1, x2, 0.3)
    moved = [7 * (v @ turn) + 11 for v in (y, x1, x2)]
    assert pair_robustness(*moved, std=2.1) == pytest.approx(expected, abs=1e-9)


def test_candidates_equally_near_are_a_toss():
    assert pair_robustness([0, 1], [1, 0], [-1, 0], 0.3) == pytest.approx(0.5, abs=1e-9)
    assert pair_robustness([0, 0], [1, 0], [-1, 0], 0.3, centred=True) == 0.5


def test_certain_outcomes_need_no_integral():
    rows = [0, 0, 0], [0.1, 0, 0], [9, 0, 0]
    assert pair_robustness(*rows, 1e-4) == 1
    assert pair_robustness(*rows, 1e-4, mean=[50, 0, 0]) == 1  # both move away, to 50.1 and 59
    assert pair_robustness(*rows, 1e-4, mean=[-20, 0, 0]) == 0  # to −19.9 and −11


# -- many candidates ----------------------------------------------------------------------------


def make_search(n: int, d: int, n_queries: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    candidates = rng.normal(size=(n, d)) / d**0.5
    queries = candidates[:n_queries] + 0.5 * rng.normal(size=(n_queries, d)) / d**0.5 + 0.1
    return queries, candidates


@pytest.fixture(params=["exact", "fast"])
def law(request, monkeypatch):
    """Either law of the distances, whatever the dimension."""
    monkeypatch.setattr(noise, "_MANY", 10**9 if request.param == "exact" else 0)
    return request.param


@pytest.mark.parametrize(("n", "d", "std"), [(5, 2, 0.3), (40, 8, 0.2), (100, 64, 0.25)])
def test_the_expected_share_is_what_draws_of_noise_give(law, n, d, std):
    queries, candidates = make_search(n, d, min(n, 30))
    result = expected_robustness(queries, candidates, std)
    measured = robustness(queries, candidates, Gaussian(std), draws=1000)
    # Sankaran's approximation adds an error of its own, below 0.005 in two dimensions.
    own = 0.0 if law == "exact" else 0.005
    assert 0.1 < measured.share[0] < 0.99
    assert abs(result.share - measured.share[0]) < SIGMAS * measured.standard_error[0] + own
    allowed = 5 * 0.5 / 1000**0.5 + own  # each query's share over 1,000 draws
    assert abs(result.kept - measured.kept[0]).max() < allowed


def test_two_candidates_give_the_chance_of_the_pair():
    y, x1, x2 = make_three(5)
    result = expected_robustness(y[None], np.stack([x2, x1]), 0.4)
    expected = pair_robustness(y, x1, x2, 0.4)
    for chance in (result.share, result.product_share, result.union_share):
        assert chance == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("std", [0.05, 0.2, 0.5])
def test_both_bounds_are_below_and_the_product_is_the_better(std):
    result = expected_robustness(*make_search(40, 8, 30), std)
    assert np.all(result.product_bound <= result.kept + 1e-12)
    assert np.all(result.union_bound <= result.product_bound + 1e-12)
    assert result.product_share < result.share
    assert result.union_share < result.product_share


def test_the_product_bound_is_that_of_the_pairs():
    queries, candidates = make_search(6, 4, 1)
    order = np.argsort(np.sum((candidates - queries[0]) ** 2, axis=1))
    near, *others = candidates[order]
    pairs = [pair_robustness(queries[0], near, other, 0.3) for other in others]
    result = expected_robustness(queries, candidates, 0.3)
    assert result.product_bound[0] == pytest.approx(np.prod(pairs), abs=1e-9)
    assert result.union_bound[0] == pytest.approx(max(0, 1 - np.sum(1 - np.array(pairs))), abs=1e-9)


@pytest.mark.parametrize(("d", "fast"), [(64, True), (63, False)])
def test_the_fast_law_is_close_and_taken_from_64_dimensions_on(d, fast, monkeypatch):
    queries, candidates = make_search(100, d, 20)
    found = expected_robustness(queries, candidates, 0.25)
    monkeypatch.setattr(noise, "_MANY", 10**9)
    exact = expected_robustness(queries, candidates, 0.25)
    assert abs(exact.kept - found.kept).max() < 1e-3
    assert np.any(exact.kept != found.kept) == fast


def test_tiny_noise_changes_nothing_and_huge_noise_leaves_chance(law):
    queries, candidates = make_search(20, 6, 5)
    assert expected_robustness(queries, candidates, 1e-7).share == 1
    huge = expected_robustness(queries, candidates, 1e3)
    assert huge.share == pytest.approx(1 / 20, abs=1e-3)


def test_far_away_pairs_meet_the_normal_law():
    # Two candidates a hair apart, far from the query: distances over the noise beyond 1e4.
    query, near, far = np.array([[0.0, 0.0]]), [1.0, 0.0], [1.0 + 1e-5, 0.0]
    result = expected_robustness(query, np.array([near, far]), 1e-5)
    assert result.share == pytest.approx(ndtr(1 / math.sqrt(2)), abs=1e-6)
    below = expected_robustness(query, np.array([near, far]) / 2, 1e-5)
    assert below.share == pytest.approx(ndtr(0.5 / math.sqrt(2)), abs=1e-6)


def test_torch_rows_give_the_same():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    queries, candidates = make_search(10, 4, 3)
    both = [
        expected_robustness(convert(queries), convert(candidates), 0.3).kept
        for convert in (np.asarray, torch.from_numpy)
    ]
    np.testing.assert_allclose(*both, atol=1e-12)


def test_the_result_turns_into_json():
    figures = json.loads(to_json(expected_robustness(*make_search(5, 3, 2), 0.3)))
    assert set(figures) == {"share", "product_share", "union_share", "std"}


# -- refusals -----------------------------------------------------------------------------------

Y, NEAR, FAR = [0.0, 0.0], [1.0, 0.0], [2.0, 0.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pair_robustness(Y, FAR, NEAR, 0.1), "nearest must be nearer .* Swap the two"),
        (lambda: pair_robustness(Y, NEAR, FAR, -0.1), "std must be a finite number above 0"),
        (lambda: pair_robustness(Y, NEAR, FAR), "Give either std or covariance"),
        (lambda: pair_robustness(Y, NEAR, FAR, 1.0, covariance=np.eye(2)), "exactly one"),
        (lambda: pair_robustness(Y, NEAR, [1.0], 0.1), "same dimension, got 2, 2 and 1"),
        (lambda: pair_robustness(Y, NEAR, FAR, 0.1, mean=[1.0]), "mean must have the dimension"),
        (lambda: pair_robustness([Y], NEAR, FAR, 0.1), "query must be a non-empty list"),
        (lambda: pair_robustness(["a", 0], NEAR, FAR, 0.1), "query must be numbers"),
        (lambda: pair_robustness(Y, NEAR, FAR, covariance=np.eye(3)), r"matrix \(2, 2\), got"),
        (
            lambda: pair_robustness(Y, NEAR, FAR, covariance=[[1, 0.5], [0, 1]]),
            "covariance must be finite and symmetric",
        ),
        (
            lambda: pair_robustness(Y, NEAR, FAR, covariance=[[1, 2], [2, 1]]),
            "covariance must have no negative variance .* got a least of -1",
        ),
        (lambda: pair_robustness(Y, NEAR, FAR, covariance=[0, 0]), "at least one above 0"),
        (lambda: pair_robustness(Y, NEAR, FAR, 0.1, method="exakt"), "Did you mean 'exact'"),
        (
            lambda: pair_robustness(Y, NEAR, FAR, 0.1, n_candidates=1),
            "n_candidates must be at least 2, got 1",
        ),
        (lambda: expected_robustness(np.eye(2), np.eye(3), 0.1), "the same number of columns"),
        (lambda: expected_robustness(np.eye(2), np.eye(2), 0), "std must be a finite number"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
