"""Robustness against slow loops over the same draws, sweeps, shared draws, quantisers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference_search as slow
from modgap.corrections import METRICS, Affine, Correction, Shift, Whiten
from modgap.evaluation import (
    Gaussian,
    Int8,
    Laplace,
    OneBit,
    Rademacher,
    Rephrase,
    Uniform,
    UniformQuantiser,
    nearest,
    robustness,
)

NOISES = [Gaussian(0.6), Uniform(0.6), Laplace(0.6), Rademacher(0.6)]


def check(found, shares):
    """One amount, against the share kept in each draw."""
    draws = len(shares)
    assert found.draws == draws
    assert found.share[0] == pytest.approx(np.mean(shares))
    assert 0 < found.share[0] < 1
    expected = math.sqrt(sum((s - np.mean(shares)) ** 2 for s in shares) / (draws - 1) / draws)
    assert found.standard_error[0] == pytest.approx(expected)
    assert found.kept[0].mean() == pytest.approx(found.share[0])


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_share_kept_equals_a_slow_loop_over_the_same_draws(pairs, noise):
    X, Y = pairs
    found = robustness(X, Y, noise, 5, seed=3)
    assert found.metric == "euclidean"
    check(found, slow.robustness(X, Y, noise, 5, 3))


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_equals_a_slow_loop(pairs, metric, library):
    X, Y = (rows.astype("float32") for rows in pairs)
    found = robustness(library(X), library(Y), Gaussian(0.6), 4, metric=metric, seed=1)
    check(found, slow.robustness(X, Y, Gaussian(0.6), 4, 1, metric=metric))


def test_rephrasing_equals_a_slow_loop(pairs, rng, library):
    X, Y = (rows.astype("float32") for rows in pairs)
    wordings = (Y + 0.6 * rng.normal(size=(3, *Y.shape))).astype("float32")
    found = robustness(library(X), library(Y), Rephrase(library(wordings)), 4, seed=2)
    check(found, slow.robustness(X, Y, Rephrase(wordings), 4, 2))


def test_the_share_of_each_query_counts_its_draws(pairs):
    X, Y = pairs
    found = robustness(X, Y, Gaussian(0.6), 5, seed=3)
    reference = slow.nearest(X, Y)
    copies = slow.noisy_copies(Y, Gaussian(0.6), 5, 3)
    kept = np.mean([slow.nearest(X, noisy) == reference for noisy in copies], axis=0)
    np.testing.assert_allclose(found.kept[0], kept)


def test_a_sweep_equals_moving_the_candidates_by_hand(pairs, library):
    X, Y = (rows.astype("float32") for rows in pairs)
    amounts = [-0.5, 0.0, 0.4, 1.0]
    found = robustness(library(X), library(Y), Gaussian(0.6), 4, amounts, seed=5)
    toward = X.mean(axis=0, dtype=float) - Y.mean(axis=0, dtype=float)
    for place, amount in enumerate(amounts):
        step = amount * toward
        shares = slow.robustness(X, Y, Gaussian(0.6), 4, 5, change=lambda rows, s=step: rows + s)
        assert found.share[place] == pytest.approx(np.mean(shares))
    assert found.amounts.tolist() == amounts
    assert len(set(found.share.tolist())) > 1


def test_a_sweep_takes_another_direction_if_one_is_given(pairs, rng):
    X, Y = pairs
    direction = rng.normal(size=12)
    found = robustness(X, Y, Gaussian(0.6), 4, [2.0], direction=direction, seed=5)
    shares = slow.robustness(X, Y, Gaussian(0.6), 4, 5, change=lambda rows: rows + 2 * direction)
    check(found, shares)


def test_moving_orthogonally_to_the_candidates_keeps_the_reference_neighbours(rng):
    candidates = np.c_[rng.normal(size=(30, 3)), np.zeros((30, 2))]
    queries = rng.normal(size=(20, 5))
    moved = nearest(
        queries, candidates, "euclidean", np.array([0.0, 1.0, -7.0]), np.array([0, 0, 0, 1.0, 2.0])
    )
    assert (moved == slow.nearest(queries, candidates)).all()


def test_draws_are_shared_by_amounts_corrections_and_calls(pairs):
    X, Y = pairs
    alone = [robustness(X, Y, Gaussian(0.6), 4, [a], seed=9).kept[0] for a in (0.0, 0.7)]
    together = robustness(X, Y, Gaussian(0.6), 4, [0.0, 0.7], seed=9).kept
    np.testing.assert_array_equal(together, alone)
    same = robustness(
        X, Y, Gaussian(0.6), 4, correction=Correction.identity(12, metric="euclidean"), seed=9
    )
    np.testing.assert_array_equal(same.kept[0], alone[0])
    other = robustness(X, Y, Gaussian(0.6), 4, seed=10)
    assert not np.array_equal(other.kept[0], alone[0])


def test_more_draws_begin_with_the_same_ones(pairs):
    X, Y = pairs
    few = robustness(X, Y, Gaussian(0.6), 3, seed=9).kept[0] * 3
    many = robustness(X, Y, Gaussian(0.6), 5, seed=9).kept[0] * 5
    assert (many >= few - 1e-9).all()
    assert (many <= few + 2 + 1e-9).all()


def test_vanishing_noise_keeps_every_neighbour(pairs):
    found = robustness(*pairs, Gaussian(1e-9), 3, [0.0, 0.5])
    assert found.share.tolist() == [1.0, 1.0]
    assert found.standard_error.tolist() == [0.0, 0.0]


def test_drowning_noise_keeps_about_as_many_as_chance(pairs):
    found = robustness(*pairs, Gaussian(1e4), 200)
    # One of 60 candidates by luck; queries of a draw share its noise, so the error is measured.
    assert abs(found.share[0] - 1 / 60) < 5 * found.standard_error[0]


def test_the_number_of_threads_changes_nothing(pairs, monkeypatch):
    found = []
    for cores in (1, 2, 7):
        monkeypatch.setattr("modgap.core.threads.processors", lambda cores=cores: cores)
        found.append(robustness(*pairs, Gaussian(0.6), 9, [0.0, 0.5]).kept)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_one_draw_has_no_standard_error_and_progress_counts_draws(pairs):
    assert np.isnan(robustness(*pairs, Gaussian(0.6), 1).standard_error).all()
    assert robustness(*pairs, Gaussian(0.6), 1).to_dict()["standard_error"] == [None]
    seen = []
    robustness(*pairs, Gaussian(0.6), 4, progress=lambda *told: seen.append(told))
    assert seen == [("noise", done, 4) for done in (1, 2, 3, 4)]


@pytest.mark.parametrize("side", ["x", "y"])
def test_the_correction_comes_after_the_noise_in_the_roles_of_both_sides(pairs, rng, side):
    maps = {
        (name, role): Affine(12, rng.normal(size=(12, 12)), offset=rng.normal(size=12))
        for name in ("image", "text")
        for role in ("document", "query")
    }
    correction = Correction(("image", "text"), maps, "cosine")
    queries, candidates = pairs
    change = getattr(correction, side)
    asked = getattr(correction, "y" if side == "x" else "x")(queries, "query")
    found = robustness(
        queries, candidates, Gaussian(0.6), 4, correction=correction, candidate_side=side
    )
    assert found.metric == "cosine"
    check(found, slow.robustness(asked, candidates, Gaussian(0.6), 4, 0, change, metric="cosine"))


# --- Quantisers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantiser", "store", "ask"),
    [
        (UniformQuantiser(4), UniformQuantiser(4).documents, UniformQuantiser(4).documents),
        (Int8(), lambda rows: Int8().fit(rows).documents(rows), lambda rows: rows),
        (OneBit(), lambda rows: np.where(rows >= 0, 1.0, -1.0), lambda rows: rows),
    ],
    ids=["UniformQuantiser", "Int8", "OneBit"],
)
@pytest.mark.parametrize("corrected", [False, True])
def test_quantising_comes_after_the_correction_and_is_compared_with_the_unquantised(
    pairs, quantiser, store, ask, corrected
):
    X, Y = pairs
    correction = Whiten().fit(X, Y).correction_ if corrected else None
    metric = "cosine" if corrected else "euclidean"
    found = robustness(X, Y, quantiser, 100, correction=correction, metric=metric)
    queries, documents = Whiten().fit_transform(X, Y) if corrected else (X, Y)
    expected = slow.nearest(ask(queries), store(documents), metric) == slow.nearest(
        queries, documents, metric
    )
    assert found.draws == 1
    assert found.kept[0].tolist() == expected.tolist()
    assert np.isnan(found.standard_error[0])


def test_coarser_levels_keep_fewer_neighbours_and_a_sweep_stores_what_has_moved(pairs):
    X, Y = pairs
    shares = [
        robustness(X, Y, UniformQuantiser(levels, -9, 9)).share[0] for levels in (1000, 30, 4)
    ]
    assert shares[0] > shares[1] > shares[2]
    found = robustness(X, Y, UniformQuantiser(4), amounts=[0.0, 1.0])
    moved = Y + (X.mean(axis=0) - Y.mean(axis=0))
    at = UniformQuantiser(4).documents
    for place, rows in enumerate((Y, moved)):
        same = slow.nearest(at(X), at(rows)) == slow.nearest(X, rows)
        assert found.kept[place].tolist() == same.tolist()


def test_int8_ranges_fitted_beforehand_are_used(pairs):
    X, Y = pairs
    narrow = Int8(np.full(12, -0.5), np.full(12, 0.5))
    stored = np.clip(np.round((Y + 0.5) * 255), 0, 255) / 255 - 0.5
    expected = slow.nearest(X, stored) == slow.nearest(X, Y)
    assert robustness(X, Y, narrow).kept[0].tolist() == expected.tolist()
    assert expected.mean() < robustness(X, Y, Int8()).share[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws must be at least 1"),
        ({"draws": 1.5}, "draws must be a whole number"),
        ({"amounts": []}, "amounts must be a non-empty list"),
        ({"amounts": [0.0, np.nan]}, "amounts must be finite"),
        ({"amounts": [0.5], "metric": "cosine"}, "takes no correction and no other metric"),
        ({"amounts": [0.5], "correction": Correction.identity(12)}, "takes no correction"),
        ({"candidate_side": "z"}, "candidate_side must be one of"),
        ({"metric": "dot"}, "metric must be one of"),
        ({"direction": np.ones(3), "amounts": [1.0]}, "one vector of 12 numbers, got shape"),
        ({"noise": 0.1}, "noise must be a noise or a quantiser"),
        ({"noise": Rephrase(np.ones((1, 2, 12)))}, "wordings must be"),
        ({"correction": Correction.identity(5)}, "for rows of 5 columns, got 12"),
    ],
)
def test_bad_arguments_are_refused(pairs, options, message):
    options = {"noise": Gaussian(0.1), "draws": 2, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        robustness(*pairs, **options)


def test_bad_rows_are_refused_by_name(pairs):
    X, Y = pairs
    with pytest.raises(ValueError, match="candidates has 60 rows with NaN"):
        robustness(X, Y * np.nan, Gaussian(0.1))
    with pytest.raises(ValueError, match="queries and candidates must have the same number"):
        robustness(X[:, :5], Y, Gaussian(0.1))


def test_half_precision_is_searched_in_float32(pairs):
    X, Y = (rows.astype("float16") for rows in pairs)
    wide = [rows.astype("float32") for rows in (X, Y)]
    found, expected = (robustness(*sides, Gaussian(0.6), 3) for sides in ((X, Y), wide))
    np.testing.assert_array_equal(found.kept, expected.kept)


def test_closing_the_gap_by_a_shift_is_reported_against_its_own_reference(pairs):
    X, Y = pairs
    correction = Shift(0.5).fit(X, Y).correction_
    found = robustness(X, Y, Gaussian(1e-9), 2, correction=correction)
    # Neighbours differ from the uncorrected ones, yet nothing changed through noise.
    assert found.share[0] == 1.0
    moved = slow.nearest(*Shift(0.5).fit_transform(X, Y), "cosine")
    assert (moved != slow.nearest(X, Y, "cosine")).any()
