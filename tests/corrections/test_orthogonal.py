"""The orthogonal shift of rows as given: Chowers' theorem 3.5, equation 11 and algorithm 1."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.base
from hypothesis import given
from hypothesis import strategies as st

import reference
import reference_search
from modgap.corrections import Correction, NothingMovesWarning, OrthogonalShift
from modgap.moments import PairMoments


def low_rank(n=30, m=25, d=10, rank=4, seed=0):
    """Queries anywhere; candidates that vary in a few directions only, away from the origin."""
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n, d)) + rng.normal(size=d)
    candidates = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, d)) + 2 * rng.normal(size=d)
    return queries, candidates


def principal_directions(candidates):
    """Directions and variances, largest first, from the covariance."""
    values, vectors = np.linalg.eigh(np.cov(candidates.T, bias=True))
    return values[::-1], vectors[:, ::-1].T


def fitted(queries, candidates, move, *parameters):
    sides = (queries, candidates) if move == "y" else (candidates, queries)
    return OrthogonalShift(move, *parameters).fit(*sides, rows="given")


def offset_of(shift):
    return shift.correction_.map("text" if shift.move == "y" else "image").offset


@pytest.mark.parametrize("move", ["x", "y"])
def test_with_every_direction_kept_the_step_is_the_gaps_orthogonal_part(move):
    queries, candidates = low_rank()
    gap = queries.mean(axis=0) - candidates.mean(axis=0)
    _, directions = principal_directions(candidates)
    expected = gap - sum((d @ gap) * d for d in directions[:4])
    shift = fitted(queries, candidates, move, 1.0)
    np.testing.assert_allclose(offset_of(shift), expected, atol=1e-10)
    spread = candidates - candidates.mean(axis=0)
    np.testing.assert_allclose(spread @ offset_of(shift), 0, atol=1e-12)
    assert shift.closed_ == pytest.approx(np.linalg.norm(expected) / np.linalg.norm(gap))


@pytest.mark.parametrize("explained_variance", [0.3, 0.6, 0.95])
def test_with_less_explained_only_the_leading_directions_are_respected(pairs, explained_variance):
    X, Y = pairs
    gap = reference.gap_vector(X, Y)
    variances, directions = principal_directions(Y)
    n_kept, share = 0, 0.0
    while share < explained_variance:
        share += variances[n_kept] / variances.sum()
        n_kept += 1
    assert 0 < n_kept < 12
    expected = gap - sum((d @ gap) * d for d in directions[:n_kept])
    shift = fitted(X, Y, "y", explained_variance)
    np.testing.assert_allclose(offset_of(shift), expected, atol=1e-10)


@pytest.mark.parametrize("explained_variance", [0.7, 0.85, 0.9, 0.95])
def test_with_a_threshold_for_each_directions_count_by_their_own_share(pairs, explained_variance):
    X, Y = pairs
    expected = reference.gap_vector(X, Y)
    variances, directions = principal_directions(Y)
    respected = 0
    for variance, direction in zip(variances, directions, strict=True):
        if variance / variances.sum() > 1 - explained_variance:
            expected = expected - (direction @ expected) * direction
            respected += 1
    shift = fitted(X, Y, "y", explained_variance, 1.0, "each")
    np.testing.assert_allclose(offset_of(shift), expected, atol=1e-10)
    assert 0 <= respected < 12


@pytest.mark.parametrize("rows", [low_rank(), low_rank(rank=1)], ids=["four", "one"])
@pytest.mark.parametrize("explained_variance", [0.0, 1.0])
def test_at_both_ends_the_two_thresholds_are_the_same(rows, explained_variance):
    together, each = (
        offset_of(fitted(*rows, "y", explained_variance, 1.0, threshold))
        for threshold in ("cumulative", "each")
    )
    np.testing.assert_array_equal(each, together)


@pytest.mark.parametrize("move", ["x", "y"])
def test_explained_zero_is_the_plain_gap_and_the_means_meet(pairs, move):
    queries, candidates = pairs
    shift = fitted(queries, candidates, move, 0.0)
    gap = queries.mean(axis=0) - candidates.mean(axis=0)
    np.testing.assert_allclose(offset_of(shift), gap, atol=1e-14)
    assert shift.closed_ == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("threshold", "shares"),
    [("cumulative", (0.0, 0.3, 0.6, 0.95)), ("each", (0.0, 0.85, 0.9, 0.95))],
)
def test_smaller_shares_close_more_of_the_gap(pairs, threshold, shares):
    closed = [fitted(*pairs, "y", share, 1.0, threshold).closed_ for share in shares]
    assert closed == sorted(closed, reverse=True)
    assert len(set(closed)) == 4


def test_the_amount_is_the_share_of_the_step_that_is_taken():
    queries, candidates = low_rank()
    whole = offset_of(fitted(queries, candidates, "y", 1.0, 1.0))
    np.testing.assert_allclose(
        offset_of(fitted(queries, candidates, "y", 1.0, 0.3)), 0.3 * whole, atol=1e-14
    )


def test_only_the_candidates_as_documents_move_and_nothing_is_renormalised():
    queries, candidates = low_rank()
    correction = fitted(queries, candidates, "y", 1.0).correction_
    assert correction.metric == "euclidean"
    np.testing.assert_array_equal(correction.x(queries), queries)
    np.testing.assert_array_equal(correction.x(queries, "query"), queries)
    np.testing.assert_array_equal(correction.y(candidates, "query"), candidates)
    step = correction.y(candidates) - candidates
    np.testing.assert_allclose(step, np.tile(step[0], (25, 1)), atol=1e-12)
    assert np.linalg.norm(step[0]) > 0.1
    mirrored = fitted(queries, candidates, "x", 1.0).correction_
    np.testing.assert_array_equal(mirrored.y(queries), queries)
    np.testing.assert_array_equal(mirrored.x(candidates, "query"), candidates)
    np.testing.assert_allclose(mirrored.x(candidates), correction.y(candidates), atol=1e-12)


@given(
    rank=st.integers(1, 5),
    extra=st.integers(1, 5),
    n=st.integers(1, 12),
    m=st.integers(2, 12),
    move=st.sampled_from(["x", "y"]),
    amount=st.floats(-2, 3),
    seed=st.integers(0, 10**6),
)
def test_no_nearest_neighbour_changes_for_the_candidates_it_was_fitted_on(
    rank, extra, n, m, move, amount, seed
):
    queries, candidates = low_rank(n, m, rank + extra, rank, seed)
    shift = fitted(queries, candidates, move, 1.0, amount)
    moved = getattr(shift.correction_, move)(candidates)
    before = reference_search.nearest(queries, candidates)
    np.testing.assert_array_equal(reference_search.nearest(queries, moved), before)
    # Not only the nearest: every distance changes by the same for all candidates of a query.
    squares = [((queries[:, None] - rows[None]) ** 2).sum(axis=2) for rows in (candidates, moved)]
    change = squares[1] - squares[0]
    np.testing.assert_allclose(change, np.tile(change[:, :1], (1, m)), atol=1e-8)


def test_new_candidates_outside_the_fitted_directions_are_not_covered():
    queries, candidates = low_rank(n=200, m=40)
    correction = fitted(queries, candidates[:3], "y", 1.0).correction_
    new = candidates[3:]
    before, after = (reference_search.nearest(queries, rows) for rows in (new, correction.y(new)))
    assert 0 < np.mean(before == after) < 1


def test_more_candidates_than_dimensions_and_full_rank_move_nothing_and_warn(pairs):
    X, Y = pairs
    with pytest.warns(
        NothingMovesWarning, match=r"all 12 dimensions.*Use explained_variance=0.95"
    ) as seen:
        shift = OrthogonalShift("y", 1.0).fit(X, Y, rows="given")
    assert seen[0].filename == __file__
    assert shift.closed_ == 0.0
    np.testing.assert_array_equal(shift.transform_y(Y), Y)
    with pytest.warns(NothingMovesWarning):
        OrthogonalShift("y", 1.0).fit_moments(PairMoments.from_batch(X, Y), rows="given")


def test_a_smaller_share_that_still_takes_every_direction_does_not_advise_itself(rng):
    even = np.vstack([np.eye(3), -np.eye(3)])
    with pytest.warns(
        NothingMovesWarning, match="Use a smaller explained_variance, or fewer candidates"
    ):
        OrthogonalShift("y", 0.95).fit(rng.normal(size=(5, 3)) + 2, even, rows="given")


def test_as_few_candidates_as_dimensions_leave_a_direction_and_do_not_warn(pairs):
    X, Y = pairs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # 12 centred rows span 11 of the 12 dimensions.
        assert OrthogonalShift("y", 1.0).fit(X, Y[:12], rows="given").closed_ > 0
    with pytest.warns(NothingMovesWarning):
        OrthogonalShift("y", 1.0).fit(X, Y[:13], rows="given")


@pytest.mark.parametrize(("size", "moves"), [(1e-17, True), (1e-10, False)])
def test_a_direction_counts_from_the_rank_rule_on(size, moves):
    rng = np.random.default_rng(1)
    # Exact zeros beyond the first three columns, so nothing but ``size`` is in the fourth.
    candidates = np.zeros((20, 4))
    candidates[:, :3] = rng.normal(size=(20, 3))
    candidates[:, 3] = size * np.where(np.arange(20) % 2, 1, -1)
    queries = rng.normal(size=(5, 4)) + 3
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        shift = OrthogonalShift("y", 1.0).fit(queries, candidates, rows="given")
    assert (shift.closed_ > 0) is moves
    assert [w.category for w in seen] == ([] if moves else [NothingMovesWarning])


def test_candidates_that_are_all_the_same_move_by_the_whole_gap(rng):
    queries = rng.normal(size=(6, 3))
    shift = OrthogonalShift("y", 1.0).fit(queries, np.ones((4, 3)), rows="given")
    np.testing.assert_allclose(offset_of(shift), queries.mean(axis=0) - 1, atol=1e-14)


def test_many_candidates_give_the_same_step_as_their_covariance(rng):
    candidates = rng.normal(size=(9000, 5)) @ np.diag([3.0, 2.0, 1.0, 0.5, 0.1])
    queries = rng.normal(size=(50, 5)) + 1
    blocks = OrthogonalShift("y", 0.9).fit(queries, candidates, rows="given")
    moments = OrthogonalShift("y", 0.9).fit_moments(
        PairMoments.from_batch(queries, candidates), rows="given"
    )
    np.testing.assert_allclose(offset_of(blocks), offset_of(moments), atol=1e-10)


def test_torch_rows_give_the_same_step(library):
    queries, candidates = low_rank()
    expected = offset_of(fitted(queries, candidates, "y", 0.9))
    shift = OrthogonalShift("y", 0.9).fit(library(queries), library(candidates), rows="given")
    np.testing.assert_allclose(offset_of(shift), expected, atol=library.tolerance)
    library.check_kind(shift.transform_y(library(candidates)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (("z",), "move must be one of 'x', 'y'"),
        (("both",), "move must be one of"),
        (("y", 1.5), "explained_variance must be between 0 and 1"),
        (("y", -0.1), "explained_variance must be between 0 and 1"),
        (("y", 1.0, float("nan")), "amount must be finite"),
        (("y", 1.0, 1.0, "every"), "threshold must be one of 'cumulative', 'each'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(pairs, parameters, message):
    with pytest.raises(ValueError, match=message):
        OrthogonalShift(*parameters).fit(*pairs)


def noise_covariance(d: int, seed: int = 5) -> np.ndarray:
    """Of noise whose coordinates move together, most along one direction."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d)) / d**0.5
    root[0] *= 4
    return root.T @ root


@pytest.mark.parametrize("explained_variance", [0.5, 1.0])
@pytest.mark.parametrize("move", ["x", "y"])
def test_of_all_steps_across_the_candidates_one_has_the_least_noise(move, explained_variance):
    queries, candidates = few_candidates()
    C = noise_covariance(queries.shape[1])
    parameters = (explained_variance, 1.0, "cumulative")
    plain = fitted(queries, candidates, move, *parameters)
    aware = fitted(queries, candidates, move, *parameters, C)
    gap = queries.mean(0) - candidates.mean(0)
    steps = [offset_of(plain), offset_of(aware)]
    noises = [(gap - step) @ C @ (gap - step) for step in steps]
    assert noises[1] < noises[0]
    v = -steps[1]
    assert 2 * v @ C @ gap + v @ C @ v <= 0  # eq. 42
    if explained_variance == 1.0:
        np.testing.assert_allclose((candidates - candidates.mean(0)) @ v, 0, atol=1e-9)
    # No small change that stays across the same directions does better.
    centred = candidates - candidates.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    share = np.cumsum(sizes**2) / np.sum(sizes**2)
    k = int(np.sum(sizes > 1e-9))
    if explained_variance < 1:
        k = int(np.searchsorted(share, explained_variance)) + 1
    for seed in range(20):
        other = np.random.default_rng(seed).normal(size=len(gap)) * 0.1
        other -= directions[:k].T @ (directions[:k] @ other)
        step = steps[1] + other
        assert (gap - step) @ C @ (gap - step) >= noises[1] - 1e-12


def test_alike_and_independent_noise_asks_for_the_orthogonal_part_of_the_gap():
    X, Y = few_candidates()
    plain = OrthogonalShift("y").fit(X, Y)
    aware = OrthogonalShift("y", noise_covariance=0.3 * np.eye(X.shape[1])).fit(X, Y)
    np.testing.assert_allclose(
        aware.correction_.map("text").offset, plain.correction_.map("text").offset, atol=1e-9
    )


def test_knowing_the_noise_keeps_more_neighbours_of_noisy_candidates():
    X, Y = few_candidates()
    C = noise_covariance(X.shape[1])
    root = np.linalg.cholesky(C + 1e-12 * np.eye(len(C)))
    kept = []
    for shift in (OrthogonalShift("y"), OrthogonalShift("y", noise_covariance=C)):
        step = shift.fit(X, Y, rows="given").correction_.map("text").offset
        still = nearest_rows(X, Y + step)
        drawn = np.random.default_rng(1)
        noisy = [
            nearest_rows(X, Y + step + 0.2 * drawn.normal(size=Y.shape) @ root.T)
            for _ in range(200)
        ]
        kept.append(np.mean([found == still for found in noisy]))
    assert kept[1] > kept[0]


def nearest_rows(X, Y):
    return np.argmin(((X[:, None] - Y[None]) ** 2).sum(-1), axis=1)


@pytest.mark.parametrize(
    ("C", "message"),
    [
        (np.eye(3), "as wide as the rows"),
        (np.ones(12), "symmetric"),
        (np.triu(np.ones((12, 12))), "symmetric"),
        (np.full((12, 12), np.nan), "finite"),
    ],
)
def test_a_covariance_that_is_none_is_refused(C, message):
    X, Y = few_candidates()
    with pytest.raises(ValueError, match=message):
        OrthogonalShift("y", noise_covariance=C).fit(X, Y)


def test_a_correction_says_that_it_knew_the_noise_and_is_saved(tmp_path):
    X, Y = few_candidates()
    shift = OrthogonalShift("y", noise_covariance=np.eye(X.shape[1]))
    assert shift.label == "OrthogonalShift(move='y', noise_covariance=<array (12, 12)>)"
    shift.fit(X, Y).correction_.save(tmp_path / "c.safetensors")
    again = Correction.load(tmp_path / "c.safetensors")
    assert again.about["parameters"]["noise_covariance"] == "<array (12, 12)>"
    assert sklearn.base.clone(shift).noise_covariance.shape == (12, 12)


def few_candidates(n=40, m=5, d=12):
    """Many queries and fewer candidates than dimensions, a gap apart."""
    rng = np.random.default_rng(3)
    Y = rng.normal(size=(m, d))
    X = Y[np.arange(n) % m] + 0.3 * rng.normal(size=(n, d)) + 2 * rng.normal(size=d)
    return X, Y
