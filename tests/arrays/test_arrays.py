"""The kernels: blocks, histograms, ranks and searches, against brute force, NumPy and torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from conftest import set_tiles
from exact_ranks import brute_ranks, kinds, of_kind, seeds, small_blocks
from modgap.arrays import (
    cosine_extremes,
    histogram,
    largest_norm,
    match_ranks,
    order_statistic,
    ranks,
    row_norms,
    shared_range,
    top_k,
    unit,
    widen,
)
from modgap.arrays.cuda import full_precision, has_kernels, on_card

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


# --- Rows ----------------------------------------------------------------------------------------


def test_unit_rows_have_length_one_and_keep_their_precision(library, pairs):
    X = library(pairs[0])
    found = unit(X)
    assert found.dtype == X.dtype
    assert library.check_kind(found) == library.close(reference.unit(X))


def test_unit_leaves_rows_of_length_zero():
    assert unit(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist() == [[0, 0], [0.6, 0.8]]


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_unit_and_norms_take_tiny_and_huge_float32(library, pairs, scale):
    X = library(scale * pairs[0], "float32")
    assert library.check_kind(unit(X)) == pytest.approx(reference.unit(X), abs=1e-6)
    assert library.check_kind(row_norms(X)) == pytest.approx(reference.norms(X), rel=1e-6)


def test_widen_copies_nothing_that_is_wide_already(pairs):
    assert widen(pairs[0]) is pairs[0] or np.shares_memory(widen(pairs[0]), pairs[0])


# --- Cosines of all pairs ------------------------------------------------------------------------


@pytest.mark.parametrize("side", [2, 7, 1000])
def test_cosine_extremes_count_every_pair_once(library, pairs, side, monkeypatch):
    set_tiles(monkeypatch, side, side)
    U = unit(library(pairs[0]))
    expected = reference.cone_cosines(pairs[0])
    lowest, highest, counts = cosine_extremes(U)
    assert (lowest, highest) == library.close((expected.min(), expected.max()))
    assert counts.sum() == 60 * 59 // 2
    # Within a bin or two of the exact histogram, whose edges float32 may round across.
    cumulated = np.cumsum(counts)
    exact = np.sort(expected)[::2]
    for rank in (0, 100, 885, 1769):
        assert order_statistic(counts, rank) == pytest.approx(exact[rank], abs=1e-4)
    assert cumulated[-1] == len(exact)


def test_order_statistic_reads_the_middle_of_the_bin():
    counts = np.zeros(4, dtype=int)
    counts[1], counts[3] = 2, 1
    # Bins of width 0.5 from −1 to 1.
    assert [order_statistic(counts, rank) for rank in (0, 1, 2)] == [-0.25, -0.25, 0.75]


# --- Histograms ----------------------------------------------------------------------------------


@given(
    A=hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=finite),
    B=hnp.arrays(np.float64, st.tuples(st.integers(1, 9), st.just(3)), elements=finite),
    bins=st.integers(1, 60),
)
def test_histogram_counts_bin_for_bin_as_numpy_does(A, B, bins):
    B = B[:, : A.shape[1]]
    low, high = shared_range(A, B)
    found = histogram(A, bins, low, high)
    for k in range(A.shape[1]):
        span = (min(A[:, k].min(), B[:, k].min()), max(A[:, k].max(), B[:, k].max()))
        if span[0] == span[1]:
            assert found[k].sum() == len(A)
            assert found[k].max() == len(A)
        elif span[1] - span[0] > 1e-12 * max(map(abs, span)):  # else numpy refuses the bins
            assert found[k].tolist() == np.histogram(A[:, k], bins, span)[0].tolist()


@given(seed=seeds, size=st.floats(1e-3, 1e9), bins=st.integers(1, 60))
def test_a_narrow_column_far_from_zero_is_counted_by_its_edges(seed, size, bins):
    steps = np.random.default_rng(seed).integers(0, 1000, (200, 1))
    A = size + np.spacing(size) * steps
    low, high = shared_range(A)
    if high - low < 400 * np.spacing(size):  # bins of a few units, whose edges numpy may refuse
        return
    expected = np.histogram(A[:, 0], bins, (low[0], high[0]))[0]
    assert histogram(A, bins, low, high)[0].tolist() == expected.tolist()


@kinds
def test_values_on_an_edge_belong_to_the_bin_above_and_the_last_to_the_last(kind):
    A, low, high = of_kind(
        kind, np.array([[0.0], [0.1], [0.3], [0.7], [1.0]]), np.zeros(1), np.ones(1)
    )
    counts = np.histogram(np.asarray(A), 10, (0, 1))[0]
    assert histogram(A, 10, low, high)[0].tolist() == counts.tolist()


def test_a_constant_column_gets_the_width_of_one():
    low, high = shared_range(np.full((3, 1), 2.0))
    assert (low.tolist(), high.tolist()) == ([1.5], [2.5])


# --- Ranks and search ----------------------------------------------------------------------------


def tied_rows(seed: int, n: int = 24, m: int = 24, d: int = 4):
    """Rows of small whole numbers with many duplicates: ties are exact in every precision."""
    rng = np.random.default_rng(seed)
    X, Y = (rng.integers(-2, 3, size=(k, d)).astype(np.float64) for k in (n, m))
    Y[rng.integers(m, size=m // 3)] = Y[0]
    return X, Y


@given(seed=seeds, grouped=st.booleans(), biased=st.booleans(), precision=st.sampled_from([4, 8]))
def test_ranks_are_those_of_brute_force_with_ties(seed, grouped, biased, precision):
    rng = np.random.default_rng(seed)
    X, Y = tied_rows(seed, 24, 31 if grouped else 24)
    groups = (rng.integers(9, size=24), rng.integers(9, size=31)) if grouped else None
    bias = [rng.integers(-3, 4, size=k).astype(float) if biased else None for k in (24, len(Y))]
    dtype = np.dtype(f"f{precision}")
    found = match_ranks(X.astype(dtype), Y.astype(dtype), groups, *bias)
    gx, gy = groups or (np.arange(24), np.arange(24))
    assert found[0].tolist() == brute_ranks(X, Y, (gx, gy), bias[1])
    assert found[1].tolist() == brute_ranks(Y, X, (gy, gx), bias[0])


@kinds
@pytest.mark.parametrize("precision", ["f4", "f8"])
@pytest.mark.parametrize("side", [1, 5, 24])
def test_ranks_do_not_depend_on_library_precision_or_blocks(kind, precision, side, monkeypatch):
    X, Y = tied_rows(3)
    expected = [brute_ranks(A, B, (np.arange(24),) * 2, None) for A, B in ((X, Y), (Y, X))]
    small_blocks(monkeypatch, side)
    found = match_ranks(*of_kind(kind, X.astype(precision), Y.astype(precision)), None)
    assert [r.tolist() for r in found] == expected


@kinds
def test_rows_without_a_match_have_no_rank(kind):
    X, Y = of_kind(kind, np.eye(3), np.eye(3))
    groups = np.array([0, 1, 5]), np.array([0, 1, 7])
    assert [r.tolist() for r in match_ranks(X, Y, groups)] == [[0, 0, -1], [0, 0, -1]]


@kinds
def test_other_matches_of_the_group_do_not_count_as_rivals(kind):
    X, Y = of_kind(kind, np.array([[1.0, 0.0]]), np.array([[0.9, 0.0], [1.0, 0.0], [0.95, 0.0]]))
    groups = np.array([0]), np.array([0, 0, 1])
    assert match_ranks(X, Y, groups)[0].tolist() == [0]


@kinds
def test_near_ties_in_float32_are_settled_in_float64(kind, rng):
    # Directions that differ by less than float32 products can tell.
    base_row = rng.normal(size=64)
    X = unit((base_row + 1e-4 * rng.normal(size=(80, 64))).astype(np.float32))
    Y = unit((base_row + 1e-4 * rng.normal(size=(80, 64))).astype(np.float32))
    expected = brute_ranks(X, Y, (np.arange(80),) * 2, None)
    assert match_ranks(*of_kind(kind, X, Y), None)[0].tolist() == expected
    scores = X.astype(np.float64) @ Y.astype(np.float64).T
    indices, _ = top_k(*of_kind(kind, X, Y), 5)
    assert indices.tolist() == [reference.ranking(row)[:5] for row in scores]


@kinds
def test_a_bias_far_larger_than_the_products_is_settled_in_float64(kind, rng):
    # Euclidean search of long documents with short queries: bias −‖d‖²/2 outweighs q · d, and
    # its rounding to float32 (about 5e-4 here) is above the differences that decide.
    X = (0.01 * rng.normal(size=(50, 8))).astype(np.float32)
    Y = rng.normal(size=(50, 8))
    Y = (100 * Y / np.linalg.norm(Y, axis=1, keepdims=True)).astype(np.float32)
    bias = -0.5 * np.sum(Y.astype(np.float64) ** 2, axis=1)
    expected = brute_ranks(X, Y, (np.arange(50),) * 2, bias)
    X_, Y_, bias_ = of_kind(kind, X, Y, bias)
    assert match_ranks(X_, Y_, None, None, bias_)[0].tolist() == expected
    indices, _ = top_k(X_, Y_, 4, bias_)
    scores = X.astype(np.float64) @ Y.astype(np.float64).T + bias
    assert indices.tolist() == [reference.ranking(row)[:4] for row in scores]


@given(seed=seeds, k=st.integers(1, 40), biased=st.booleans(), precision=st.sampled_from([4, 8]))
def test_top_k_is_that_of_brute_force_with_ties(seed, k, biased, precision):
    X, Y = tied_rows(seed, 10, 31)
    bias = np.random.default_rng(seed).integers(-3, 4, size=31).astype(float) if biased else None
    scores = X @ Y.T + (0 if bias is None else bias)
    dtype = np.dtype(f"f{precision}")
    indices, values = top_k(X.astype(dtype), Y.astype(dtype), k, bias)
    expected = [reference.ranking(row)[:k] for row in scores]
    assert indices.tolist() == expected
    assert values.tolist() == np.take_along_axis(scores, np.array(expected), axis=1).tolist()


@kinds
@pytest.mark.parametrize("precision", ["f4", "f8"])
@pytest.mark.parametrize("rows", [1, 3, 24])
def test_top_k_does_not_depend_on_library_precision_or_blocks(kind, precision, rows, monkeypatch):
    X, Y = tied_rows(8)
    expected = [reference.ranking(row)[:6] for row in X @ Y.T]
    small_blocks(monkeypatch, rows)
    indices, _ = top_k(*of_kind(kind, X.astype(precision), Y.astype(precision)), 6)
    assert indices.tolist() == expected


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=seeds, n=st.integers(1, 40), m=st.integers(1, 400), k=st.integers(1, 12),
    side=st.integers(1, 90), order=st.sampled_from(["", "up", "down"]), biased=st.booleans(),
)  # fmt: skip
def test_top_k_of_blocks_is_that_of_brute_force(seed, n, m, k, side, order, biased, monkeypatch):
    small_blocks(monkeypatch, side)
    rng = np.random.default_rng(seed)
    Q, D = (rng.normal(size=(size, 6)).astype(np.float32) for size in (n, m))
    if order:  # every document is better than all before it, or worse
        D += np.linspace(*((0, 9) if order == "up" else (9, 0)), m, dtype=np.float32)[:, None]
        Q = np.abs(Q)
    bias = rng.normal(size=m) if biased else None
    indices, values = top_k(Q, D, k, bias)
    scores = Q.astype(np.float64) @ D.astype(np.float64).T + (0 if bias is None else bias)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert indices.tolist() == expected.tolist()
    np.testing.assert_allclose(values, np.take_along_axis(scores, expected, axis=1), rtol=1e-12)


def test_one_crowded_query_does_not_cost_the_others_their_results(rng):
    D = unit(rng.normal(size=(3000, 8)).astype(np.float32))
    D[500:2500] = D[500]
    Q = np.concatenate([rng.normal(size=(300, 8)), D[500:501]]).astype(np.float32)
    indices, _ = top_k(Q, D, 10)
    scores = np.sum(widen(Q)[:, None, :] * widen(D), axis=2)
    assert indices.tolist() == np.argsort(-scores, axis=1, kind="stable")[:, :10].tolist()
    assert indices[-1].tolist() == list(range(500, 510))


@pytest.mark.parametrize("size", [1e-40, 1e-20, 1.0, 1e15, 1e30])
@pytest.mark.parametrize("precision", ["f4", "f8"])
def test_the_longest_row_is_found_whatever_its_length(size, precision):
    A = (size * np.array([[3.0, 4.0], [1.0, 0.0]])).astype(precision)
    assert largest_norm(A) == pytest.approx(float(np.linalg.norm(A.astype(np.float64)[0])))
    assert largest_norm(np.zeros((2, 3), dtype=precision)) == 0


def test_the_tolerance_of_ties_is_relative_to_the_scores():
    X = np.full((2, 4), 3.0)
    assert ranks.tie_tolerance(X, 10 * X) == pytest.approx(1e-6 * 6 * 60)
    wide = np.ones((1, 4096))
    assert ranks.tie_tolerance(wide, wide) == pytest.approx(1e-6 * math.sqrt(4) * 4096)


def test_rows_in_memory_of_the_processor_take_no_kernel():
    torch = pytest.importorskip("torch")
    rows = torch.eye(3)
    assert not on_card(rows)
    assert not has_kernels(rows)
    assert not has_kernels(np.eye(3))


def test_products_are_in_float32_whatever_was_set_before():
    torch = pytest.importorskip("torch")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with full_precision(torch.eye(2)):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
