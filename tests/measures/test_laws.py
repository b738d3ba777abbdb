"""What must not change a measure: rotation, common shift, scale, order, swapping the sides."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_pairs

# Not "from modgap import measure": that name is the function.
m = importlib.import_module("modgap.measures")

seeds = st.integers(0, 2**32 - 1)
scales = st.floats(-3, 3).map(lambda power: 10.0**power)
pair_counts = st.integers(3, 40)
dims = st.integers(2, 9)


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def cone_numbers(X):
    found = m.cone(X)
    return found.mean, found.std, found.min, found.max


def shell_numbers(X):
    found = m.shell(X)
    return found.radius, found.variance, found.sqrt_trace, found.relative_error


ONE_SIDED = {
    "uniformity": m.uniformity,
    "cone": cone_numbers,
    "conformity": m.conformity,
    "estimated conformity": lambda X: m.estimated_conformity(X).values,
}
TWO_SIDED = {
    "gap distance": m.gap_distance,
    "margin": m.margin,
    "alignment": m.alignment,
    "wasserstein uniformity": m.wasserstein_uniformity,
    "loss": lambda X, Y: m.contrastive_loss(X, Y, 0.1),
    "loss of squared distances": lambda X, Y: m.contrastive_loss(
        X, Y, 5.0, similarity="squared_distance"
    ),
    "gap orthogonality": lambda X, Y: m.gap_orthogonality(X, Y).x.mean_abs,
    "shift landscape": lambda X, Y: m.shift_landscape(X, Y, [0.2, 1.9], [0.1]).losses[0],
    "origin landscape": lambda X, Y: m.origin_landscape(X, Y, [0.3, 0.8], temperature=0.1).loss,
}
UNIT = ["margin", "alignment", "wasserstein uniformity", "loss", "shift landscape"]
SYMMETRIC = [
    "gap distance",
    "margin",
    "alignment",
    "wasserstein uniformity",
    "loss",
    "loss of squared distances",
    "shift landscape",
    "origin landscape",
]


def same(value):
    return pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ONE_SIDED)
@given(n=pair_counts, d=dims, seed=seeds)
def test_rotating_a_modality_changes_nothing(name, n, d, seed):
    X, _ = make_pairs(n, d, seed)
    assert ONE_SIDED[name](X @ rotation(d, seed)) == same(ONE_SIDED[name](X))


@pytest.mark.parametrize("name", TWO_SIDED)
@given(n=pair_counts, d=dims, seed=seeds)
def test_rotating_both_modalities_changes_nothing(name, n, d, seed):
    X, Y = make_pairs(n, d, seed)
    Q = rotation(d, seed)
    assert TWO_SIDED[name](X @ Q, Y @ Q) == same(TWO_SIDED[name](X, Y))


@given(n=pair_counts, d=dims, seed=seeds, size=scales)
def test_a_common_shift_leaves_what_is_about_differences(n, d, seed, size):
    X, Y = make_pairs(n, d, seed)
    shift = size * np.random.default_rng(seed).normal(size=d)
    A, B = X + shift, Y + shift
    assert m.gap_distance(A, B) == same(m.gap_distance(X, Y))
    assert m.local_gaps(A, B) == same(m.local_gaps(X, Y))
    assert m.separability(A, B) == same(m.separability(X, Y))
    assert m.gap_orthogonality(A, B).y.std == same(m.gap_orthogonality(X, Y).y.std)
    assert m.off_diagonal_dominance(A) == same(m.off_diagonal_dominance(X))
    assert m.feature_variance(A).values == same(m.feature_variance(X).values)
    assert shell_numbers(A) == same(shell_numbers(X))
    squared = [
        m.contrastive_loss(*sides, 5.0, similarity="squared_distance") for sides in ((A, B), (X, Y))
    ]
    assert squared[0] == same(squared[1])


@pytest.mark.parametrize("name", UNIT)
@given(n=pair_counts, d=dims, seed=seeds, size=scales)
def test_scaling_each_row_leaves_what_is_about_unit_rows(name, n, d, seed, size):
    X, Y = make_pairs(n, d, seed)
    lengths = np.random.default_rng(seed).uniform(0.1, 10, size=(2, n, 1)) * size
    assert TWO_SIDED[name](X * lengths[0], Y * lengths[1]) == same(TWO_SIDED[name](X, Y))


@pytest.mark.parametrize("name", ["uniformity", "cone", "conformity"])
@given(n=pair_counts, d=dims, seed=seeds, size=scales)
def test_scaling_each_row_of_a_modality_leaves_its_directions(name, n, d, seed, size):
    X, _ = make_pairs(n, d, seed)
    lengths = np.random.default_rng(seed).uniform(0.1, 10, size=(n, 1)) * size
    assert ONE_SIDED[name](X * lengths) == same(ONE_SIDED[name](X))


@given(n=pair_counts, d=dims, seed=seeds, size=scales)
def test_scaling_everything_scales_what_is_about_lengths(n, d, seed, size):
    X, Y = make_pairs(n, d, seed)
    A, B = size * X, size * Y
    assert m.gap_distance(A, B) == pytest.approx(size * m.gap_distance(X, Y))
    assert m.separability(A, B) == same(m.separability(X, Y))
    assert m.feature_offset(A) == same(m.feature_offset(X))
    assert m.shell(A).radius == pytest.approx(size * m.shell(X).radius)
    assert m.shell(A).offset == same(m.shell(X).offset)
    assert m.feature_variance(A).tail == same(m.feature_variance(X).tail)
    assert m.norms(A).values == pytest.approx(size * m.norms(X).values)


@pytest.mark.parametrize("name", TWO_SIDED)
@given(n=pair_counts, d=dims, seed=seeds)
def test_reordering_the_pairs_changes_nothing(name, n, d, seed):
    X, Y = make_pairs(n, d, seed)
    order = np.random.default_rng(seed).permutation(n)
    assert TWO_SIDED[name](X[order], Y[order]) == same(TWO_SIDED[name](X, Y))


@given(n=pair_counts, d=dims, seed=seeds)
def test_reordering_the_rows_reorders_their_conformity(n, d, seed):
    X, _ = make_pairs(n, d, seed)
    order = np.random.default_rng(seed).permutation(n)
    assert m.conformity(X[order]) == same(m.conformity(X)[order])


@pytest.mark.parametrize("name", SYMMETRIC)
@given(n=pair_counts, d=dims, seed=seeds)
def test_swapping_the_modalities_changes_nothing_symmetric(name, n, d, seed):
    X, Y = make_pairs(n, d, seed)
    assert TWO_SIDED[name](Y, X) == same(TWO_SIDED[name](X, Y))


@given(n=pair_counts, d=dims, seed=seeds)
def test_swapping_the_modalities_turns_what_has_a_direction(n, d, seed):
    X, Y = make_pairs(n, d, seed)
    assert m.gap_vector(Y, X).tolist() == (-m.gap_vector(X, Y)).tolist()
    assert m.separability(Y, X) == same(m.separability(X, Y))
    assert m.conformity_difference(Y, X).tolist() == (-m.conformity_difference(X, Y)).tolist()
    assert m.gap_orthogonality(Y, X).x.mean == same(-m.gap_orthogonality(X, Y).y.mean)
    there, back = m.soft_assignments(X, Y, 3.0), m.soft_assignments(Y, X, 3.0)
    assert back.x == same(there.y)


@given(n=pair_counts, d=dims, seed=seeds)
def test_every_measure_stays_within_its_range(n, d, seed):
    X, Y = make_pairs(n, d, seed)
    found = m.cone(X)
    assert -1 <= found.min <= found.q1 <= found.median <= found.q3 <= found.max <= 1
    assert found.min - 1e-12 <= found.mean <= found.max + 1e-12
    assert -2 <= m.margin(X, Y) <= 2
    assert 0 <= m.alignment(X, Y) <= 4
    assert -8 <= m.uniformity(X) <= 0
    assert m.wasserstein_uniformity(X, Y) <= 0
    assert m.contrastive_loss(X, Y, 0.1) >= 0
    assert (m.feature_divergence(X, Y, 5) >= -1e-12).all()
    assert m.conformity_divergence(X, Y, 5) >= -1e-12
