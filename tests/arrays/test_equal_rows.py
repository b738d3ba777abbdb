"""Equal rows, which are common: ranked as brute force does, and without work for every two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from exact_ranks import brute_ranks, kinds, of_kind, seeds, small_blocks
from modgap.arrays import match_ranks, ranks, search, top_k, top_mean, unit
from modgap.arrays.equal_rows import equal_rows

N, M = 60, 80
precisions, libraries = st.sampled_from(["f4", "f8"]), st.sampled_from(["numpy", "torch"])


def few_kinds(seed: int, n: int, n_kinds: int = 6, d: int = 4) -> np.ndarray:
    """Rows of whole numbers, most of them of a few kinds: ties are exact in every precision."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(n_kinds, d)).astype(np.float64)[rng.integers(n_kinds, size=n)]
    rows[rng.integers(n, size=n // 8)] += 1.0
    return rows


@pytest.fixture
def scored(monkeypatch):
    """How many pairs of rows were scored one by one."""
    found = []
    pair_scores = ranks.pair_scores

    def counted(X, Y, i, j, bias=None):
        found.append(len(i))
        return pair_scores(X, Y, i, j, bias)

    monkeypatch.setattr(ranks, "pair_scores", counted)
    monkeypatch.setattr(search, "pair_scores", counted)
    return found


@settings(max_examples=20, deadline=None)
@given(
    seed=seeds, grouped=st.booleans(), biased=st.sampled_from(["", "of rows", "at random"]),
    precision=precisions, kind=libraries,
)  # fmt: skip
def test_ranks_among_equal_rows_are_those_of_brute_force(seed, grouped, biased, precision, kind):
    rng = np.random.default_rng(seed)
    X, Y = few_kinds(seed, N), few_kinds(seed + 1, M if grouped else N)
    groups = (rng.integers(9, size=N), rng.integers(9, size=M)) if grouped else None
    bias = [None, None]
    if biased == "of rows":
        bias = [-0.5 * np.sum(A**2, axis=1) for A in (X, Y)]
    elif biased:
        bias = [rng.integers(-3, 4, size=len(A)).astype(float) for A in (X, Y)]
    rows = of_kind(kind, X.astype(precision), Y.astype(precision))
    given_bias = [None if one is None else of_kind(kind, one)[0] for one in bias]
    found = match_ranks(*rows, groups, *given_bias)
    gx, gy = groups or (np.arange(N), np.arange(N))
    assert found[0].tolist() == brute_ranks(X, Y, (gx, gy), bias[1])
    assert found[1].tolist() == brute_ranks(Y, X, (gy, gx), bias[0])


@settings(max_examples=20, deadline=None)
@given(seed=seeds, k=st.integers(1, 90), biased=st.booleans(), precision=precisions, kind=libraries)
def test_top_k_among_equal_rows_is_that_of_brute_force(seed, k, biased, precision, kind):
    X, Y = few_kinds(seed, 10), few_kinds(seed + 1, M)
    bias = -0.5 * np.sum(Y**2, axis=1) if biased else None
    scores = X @ Y.T + (0 if bias is None else bias)
    rows = of_kind(kind, X.astype(precision), Y.astype(precision))
    indices, values = top_k(*rows, k, None if bias is None else of_kind(kind, bias)[0])
    expected = [reference.ranking(row)[:k] for row in scores]
    assert indices.tolist() == expected
    assert values.tolist() == np.take_along_axis(scores, np.array(expected), axis=1).tolist()


@kinds
@pytest.mark.parametrize("side", [2, 7, 50])
def test_blocks_change_nothing_among_equal_rows(kind, side, monkeypatch):
    X, Y = few_kinds(1, N), few_kinds(2, N)
    small_blocks(monkeypatch, side)
    rows = of_kind(kind, X, Y)
    groups = np.arange(N) // 3, np.arange(N) // 3
    assert match_ranks(*rows, groups)[1].tolist() == brute_ranks(Y, X, groups[::-1], None)
    assert top_k(*rows, 4)[0].tolist() == [reference.ranking(row)[:4] for row in X @ Y.T]


@kinds
@pytest.mark.parametrize("precision", ["f4", "f8"])
def test_equal_rows_are_scored_once_and_not_every_two(kind, precision, scored):
    n = 400
    rows = of_kind(kind, *(np.ones((n, 8), dtype=precision) * factor for factor in (1, 2)))
    one_group = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    assert match_ranks(*rows, None)[0].tolist() == list(range(n))
    assert match_ranks(*rows, one_group)[0].tolist() == [0] * n
    assert top_k(*rows, 10)[0].tolist() == [list(range(10))] * n
    assert sum(scored) <= 20 * n  # every two would be n · n five times


@kinds
def test_nearly_equal_rows_are_told_apart_in_blocks(kind, scored, rng):
    n = 400
    base = rng.normal(size=32)
    X, Y = (unit((base + 1e-5 * rng.normal(size=(n, 32))).astype(np.float32)) for _ in range(2))
    rows = of_kind(kind, X, Y)
    assert match_ranks(*rows, None)[0].tolist() == brute_ranks(X, Y, (np.arange(n),) * 2, None)
    scores = X.astype(np.float64) @ Y.astype(np.float64).T
    assert top_k(*rows, 5)[0].tolist() == [reference.ranking(row)[:5] for row in scores]
    assert sum(scored) <= 20 * n


@kinds
def test_the_mean_of_the_best_of_a_bank_of_equal_queries(kind, rng):
    bank = rng.normal(size=(3, 8))[rng.integers(3, size=200)]
    rows = rng.normal(size=(30, 8))
    expected = np.sort(rows @ bank.T, axis=1)[:, -5:].mean(axis=1)
    np.testing.assert_allclose(np.asarray(top_mean(*of_kind(kind, rows, bank), 5)), expected)


def test_rows_of_one_sum_that_differ_are_kept_apart(monkeypatch):
    rows = np.repeat(np.eye(4), 30, axis=0)
    monkeypatch.setattr("modgap.arrays.equal_rows.along", lambda A, weights: A.sum(axis=1))
    found = equal_rows(rows)
    assert found.first.tolist()[0] == 0
    for kind in range(len(found.first)):
        assert len(np.unique(rows[found.kind == kind], axis=0)) == 1


def test_a_few_equal_rows_are_not_worth_the_trouble():
    rows = np.arange(40.0).reshape(20, 2)
    rows[7] = rows[3]
    assert equal_rows(rows).all_apart
