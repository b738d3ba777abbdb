"""The contrastive loss, its terms, and the soft assignments it is made of."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from conftest import set_tiles
from modgap.arrays import base
from modgap.measures import contrastive_loss, loss_terms, soft_assignments

SIMILARITIES = ["cosine", "squared_distance"]


def terms(result):
    return (
        result.loss,
        result.alignment,
        result.uniformity,
        result.matched,
        result.mismatched,
        result.n_matched,
    )


@pytest.mark.parametrize("batch_size", [None, 1, 7, 20, 60, 100])
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0])
def test_loss_terms_match_the_reference(library, pairs, temperature, batch_size):
    X, Y = (library(A) for A in pairs)
    result = loss_terms(X, Y, temperature, batch_size)
    assert terms(result) == library.close(reference.loss_terms(X, Y, temperature, batch_size))
    assert result.n == 60


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_loss_terms_of_squared_distances_match_the_reference(
    library, pairs, temperature, batch_size
):
    X, Y = (library(A) for A in pairs)
    result = loss_terms(X, Y, temperature, batch_size, "squared_distance")
    expected = reference.loss_terms(X, Y, temperature, batch_size, "squared_distance")
    assert terms(result) == library.close(expected)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_contrastive_loss_is_the_loss_of_its_terms(pairs, similarity):
    X, Y = pairs
    found = contrastive_loss(X, Y, 0.2, 7, similarity)
    assert found == pytest.approx(reference.contrastive_loss(X, Y, 0.2, 7, similarity))
    assert found == loss_terms(X, Y, 0.2, 7, similarity).loss


def test_matched_is_decided_in_each_direction_by_itself():
    # By their angles x at 40° finds y at 10°, which is not its own; both y find their own x.
    X, Y = (np.column_stack([np.cos(a), np.sin(a)]) for a in np.radians([[0, 40], [10, 80]]))
    result = loss_terms(X, Y, 1.0)
    wrong, right = np.cos(np.radians([30, 40]))
    assert result.n_matched == 3
    assert result.mismatched == pytest.approx(np.log1p(np.exp(wrong - right)))
    in_batches = loss_terms(np.tile(X, (2, 1)), np.tile(Y, (2, 1)), 1.0, batch_size=2)
    assert in_batches.n_matched == 6
    assert in_batches.mismatched == pytest.approx(result.mismatched)


def test_without_matched_or_mismatched_rows_their_loss_is_nan(pairs):
    X = pairs[0]
    every, none = loss_terms(X, X, 0.1), loss_terms(np.eye(3), np.eye(3)[[1, 2, 0]], 0.1)
    assert (every.n_matched, none.n_matched) == (120, 0)
    assert math.isnan(every.mismatched)
    assert math.isnan(none.matched)
    assert every.matched == every.loss


def test_on_unit_rows_the_squared_distance_loss_is_the_cosine_loss_at_half_the_temperature(pairs):
    # −‖x − y‖² = 2 cos − 2: the constant cancels between a logit and its log-sum-exp.
    X, Y = (reference.unit(A) for A in pairs)
    squared = contrastive_loss(X, Y, 0.2, similarity="squared_distance")
    assert squared == pytest.approx(contrastive_loss(X, Y, 0.1))


def test_indistinguishable_rows_cost_the_logarithm_of_their_number():
    X = np.ones((8, 3))
    assert contrastive_loss(X, X, 0.01) == pytest.approx(math.log(8))
    assert contrastive_loss(X, X, 0.01, batch_size=2) == pytest.approx(math.log(2))


def test_a_single_pair_costs_nothing():
    X = np.array([[1.0, 2.0]])
    assert contrastive_loss(X, -X, 0.01) == 0


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_smallest_temperatures_do_not_overflow(library, pairs, similarity):
    X, Y = (library(A) for A in pairs)
    result = loss_terms(X, Y, 1e-6, similarity=similarity)
    expected = reference.loss_terms(X, Y, 1e-6, similarity=similarity)
    assert result.loss == pytest.approx(expected[0], rel=1e-4)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_loss_does_not_depend_on_the_block_size(library, pairs, similarity, monkeypatch):
    X, Y = (library(A) for A in pairs)
    whole = loss_terms(X, Y, 0.1, similarity=similarity)
    set_tiles(monkeypatch, 7, 11)
    monkeypatch.setattr(base, "rows_per_block", lambda *_, **__: 7)
    assert terms(loss_terms(X, Y, 0.1, similarity=similarity)) == library.close(terms(whole))
    batched = loss_terms(X, Y, 0.1, 9, similarity)
    assert terms(batched) == library.close(reference.loss_terms(X, Y, 0.1, 9, similarity))


def test_a_common_shift_leaves_the_squared_distance_loss_even_in_float32(library, pairs):
    # ‖x‖² + ‖y‖² − 2 x·y would cancel away the digits that matter.
    X, Y = (library(A + 1000.0) for A in pairs)
    found = contrastive_loss(X, Y, 1.0, similarity="squared_distance")
    expected = reference.contrastive_loss(X, Y, 1.0, similarity="squared_distance")
    assert found == library.close(expected)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_soft_assignments_match_the_reference(library, pairs, temperature, similarity):
    X, Y = (library(A) for A in pairs)
    Qx, Qy = reference.soft_assignments(X, Y, temperature, similarity)
    result = soft_assignments(X, Y, temperature, similarity)
    assert library.check_kind(result.y) == library.close(Qx.sum(axis=0))
    assert library.check_kind(result.x) == library.close(Qy.sum(axis=1))
    assert result.spread_x == library.close(Qy.sum(axis=1).std())
    assert result.spread_y == library.close(Qx.sum(axis=0).std())


def test_soft_assignments_do_not_depend_on_the_block_size(pairs, monkeypatch):
    whole = soft_assignments(*pairs, 2.0)
    set_tiles(monkeypatch, 7, 11)
    monkeypatch.setattr(base, "rows_per_block", lambda *_, **__: 7)
    in_blocks = soft_assignments(*pairs, 2.0)
    for name in ("x", "y"):
        assert getattr(in_blocks, name) == pytest.approx(getattr(whole, name), abs=1e-12)


def test_soft_assignments_of_tight_clusters_follow_chowers_theorem_a_1(rng):
    # S_i ≈ 1 + (2/τ)(μx − μy)·(y_i − μy) for small clusters far apart.
    X, Y = 1e-5 * rng.normal(size=(2, 50, 8))
    X[:, 0] += 3
    result = soft_assignments(X, Y, 1.0)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    predicted = 1 + 2 * (Y - Y.mean(axis=0)) @ gap
    assert result.y == pytest.approx(predicted, rel=0, abs=1e-7)
