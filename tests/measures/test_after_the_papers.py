"""Quantities that came after the four papers: pairs, concepts and joint clustering."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

import reference
from modgap.evaluation import driving_dimensions, retrieval
from modgap.measures import (
    alignment,
    concept_conformity,
    concept_frequency,
    conformity,
    gap_distance,
    gap_parts,
    joint_clustering,
    pair_cosine,
    relative_gap,
)


def slow_relative_gap(X, Y, gx, gy):
    """Loops over all rows, as the definition says."""
    U, V = reference.unit(X), reference.unit(Y)

    def far(a, b):
        return (1 - float(a @ b)) / 2

    matched = [far(u, v) for u, i in zip(U, gx, strict=True) for v, j in zip(V, gy, strict=True)
               if i == j]  # fmt: skip
    within = [
        np.mean([far(a, b) for i, a in enumerate(W) for j, b in enumerate(W) if i != j])
        for W in (U, V)
    ]
    m = np.mean(matched)
    return m / (m + np.mean(within)), 1 - 2 * m


def grouped(rng):
    X, Y = rng.normal(size=(9, 5)) + 1, rng.normal(size=(12, 5)) - 1
    return (
        X,
        Y,
        np.array([0, 0, 1, 1, 2, 3, 4, 5, 9]),
        np.array([0, 1, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8]),
    )


def test_relative_gap_and_pair_cosine_are_those_of_the_loops(rng, library):
    X, Y, gx, gy = grouped(rng)
    gap, cosine = slow_relative_gap(X, Y, gx, gy)
    A, B = library(X), library(Y)
    assert relative_gap(A, B, groups=(gx, gy)) == pytest.approx(gap, abs=1e-5)
    assert pair_cosine(A, B, groups=(gx, gy)) == pytest.approx(cosine, abs=1e-5)
    gap, cosine = slow_relative_gap(X, Y[:9], range(9), range(9))
    assert relative_gap(A, B[:9]) == pytest.approx(gap, abs=1e-5)
    assert pair_cosine(A, B[:9]) == pytest.approx(cosine, abs=1e-5)


def test_pairs_row_by_row_are_groups_of_two(pairs):
    X, Y = pairs
    own = np.arange(len(X))
    assert relative_gap(X, Y, groups=(own, own)) == pytest.approx(relative_gap(X, Y), abs=1e-12)


def test_relative_gap_is_0_for_equal_sides_half_for_strangers_and_near_1_for_narrow_cones(rng):
    X = rng.normal(size=(2000, 64))
    assert relative_gap(X, X) == pytest.approx(0, abs=1e-12)
    assert relative_gap(X, rng.normal(size=X.shape)) == pytest.approx(0.5, abs=0.01)
    axis = np.eye(64)[0] * 100
    assert relative_gap(X + axis, X - axis) > 0.98


def test_a_rotation_and_the_order_of_the_sides_change_nothing(pairs, rng):
    X, Y = pairs
    turn = np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0]
    assert relative_gap(X @ turn, Y @ turn) == pytest.approx(relative_gap(Y, X), abs=1e-10)
    turned, swapped = gap_parts(X @ turn, Y @ turn), gap_parts(Y, X)
    assert turned.to_dict()["raw"] == pytest.approx(swapped.raw, abs=1e-10)


def test_parts_of_the_gap_are_those_of_the_loops(pairs, library):
    U, V = (reference.unit(side) for side in pairs)
    gap = U.mean(axis=0) - V.mean(axis=0)
    found = gap_parts(*map(library, pairs))
    raw = np.mean([math.dist(u, v) for u, v in zip(U, V, strict=True)])
    centred = np.mean([math.dist(u, v + gap) for u, v in zip(U, V, strict=True)])
    assert [found.raw, found.centroid, found.centred] == pytest.approx(
        [raw, np.linalg.norm(gap), centred], abs=1e-5
    )


def test_pairs_a_common_shift_apart_have_nothing_left_once_centred():
    angles = np.linspace(0, 1, 50)
    X = np.stack([np.cos(angles), np.sin(angles), np.full(50, 1.0)], axis=1)
    found = gap_parts(X, X * [1, 1, -1])
    assert found.centred == pytest.approx(0, abs=1e-12)
    assert found.raw == pytest.approx(found.centroid)


def test_alignment_is_two_minus_twice_the_cosine_of_pairs(pairs):
    assert alignment(*pairs) == pytest.approx(2 - 2 * pair_cosine(*pairs))


def test_classes_are_found_where_they_lie_apart_and_lost_where_the_modalities_do(rng):
    labels = np.arange(60) % 3
    classes = np.eye(8)[labels] * 4
    X, Y = (classes + 0.2 * rng.normal(size=classes.shape) for _ in range(2))
    found = joint_clustering(X, Y, labels=(labels, labels))
    assert found.v_measure == pytest.approx(1)
    assert found.adjusted_rand == pytest.approx(1)
    gap = np.eye(8)[7] * 12
    apart = joint_clustering(X + gap, Y - gap, labels=(labels, labels))
    assert apart.v_measure < 0.8
    assert "3 clusters, 5 starts" in repr(apart)
    strangers = joint_clustering(X, Y, labels=(rng.permutation(labels), rng.permutation(labels)))
    assert abs(strangers.adjusted_rand) < 0.2


def test_clusters_hang_on_directions_alone_and_a_seed_gives_them_again(rng):
    X, Y = rng.normal(size=(40, 6)), rng.normal(size=(50, 6))
    labels = np.arange(40) % 4, np.arange(50) % 4
    once = joint_clustering(X, Y, labels=labels, seed=3)
    assert joint_clustering(5 * X, Y, labels=labels, seed=3) == once


def test_frequent_concepts_near_the_mean_correlate_with_conformity(rng):
    # Each row is its concept's direction, drawn toward the mean by how frequent the concept is.
    share = np.array([0.5, 0.25, 0.15, 0.1])
    concept = rng.choice(4, 300, p=share)
    X = share[concept][:, None] * 6 * np.ones(20) + rng.normal(size=(300, 20))
    words = [[f"concept {one}"] for one in concept]
    found = concept_conformity(X, words, draws=200)
    frequency = np.log(np.bincount(concept)[concept] / 300)
    assert found.correlation == pytest.approx(spearmanr(frequency, conformity(X)).statistic)
    assert 0.3 < found.low < found.correlation < found.high
    shuffled = concept_conformity(X, [words[i] for i in rng.permutation(300)], draws=200)
    assert shuffled.low < 0 < shuffled.high or abs(shuffled.correlation) < 0.15


def test_rows_without_concepts_are_left_out_and_a_concept_counts_once_a_row(rng):
    X = rng.normal(size=(6, 4))
    words = [["a", "a"], ["a", "b"], [], ["a"], ["b", "c"], ["d"]]
    assert concept_frequency(words)[0] == pytest.approx(math.log(3 / 6))
    assert concept_conformity(X, words, draws=20).n == 5


def test_without_the_dimensions_that_drive_the_gap_it_closes_and_recall_stays(rng):
    Z = rng.normal(size=(200, 32))
    X, Y = Z + 0.1 * rng.normal(size=Z.shape), Z + 0.1 * rng.normal(size=Z.shape)
    Y[:, [3, 17]] -= 8
    for by in ("separability", "difference"):
        found = driving_dimensions(X, Y, by=by)
        assert set(found.order[:2]) == {3, 17}
        assert found.removed == (0, 1, 2, 4, 8, 16)
        unit_rows = reference.unit(X), reference.unit(Y)
        assert found.gap[0] == pytest.approx(gap_distance(*unit_rows))
        assert found.gap[0] > 0.5 > 0.1 > found.gap[2]
        raw = retrieval(X, Y, 1).recall()
        assert {name: values[0] for name, values in found.recall.items()} == raw
        assert all(values[2] > 0.99 for values in found.recall.values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: relative_gap(X, X[:3]), "must hold the same pairs row by row"),
        (lambda X: relative_gap(X[:1], X[:1]), "at least 2 rows"),
        (lambda X: relative_gap(X[[0, 0]], X[[0, 0]]), "All rows of X and Y point the same way"),
        (lambda X: pair_cosine(X, X, groups=(range(5), range(5, 10))), "so no row has a match"),
        (lambda X: gap_parts(X * 0, X), "zero"),
        (lambda X: joint_clustering(X, X, labels=([1] * 5, [1] * 5)), "at least two classes"),
        (lambda X: joint_clustering(X, X, labels=(range(5), range(5)), starts=0), "starts"),
        (lambda X: concept_conformity(X, [["a"]]), "one entry for each row of X, got 1 for 5"),
        (lambda X: concept_conformity(X, list("abcde")), "must be a list of concepts"),
        (lambda X: concept_conformity(X, [["a"]] * 5), "must differ in frequency"),
        (lambda X: driving_dimensions(X, X, by="size"), "by must be"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message, rng):
    with pytest.raises((ValueError, TypeError), match=message):
        call(rng.normal(size=(5, 4)))
