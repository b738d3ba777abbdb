"""A set of embeddings in twelve numbers."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from conftest import make_pairs, unit
from modgap.evaluation import SetRow, retrieval, set_row
from modgap.measures import conformity_divergence, gap_distance, wasserstein_uniformity


def test_its_numbers_are_those_of_the_single_functions():
    X, Y = map(unit, make_pairs(120, 12))
    found = set_row(X, Y)
    assert (found.n, found.dimension) == (120, 12)
    assert found.gap == pytest.approx(gap_distance(X, Y))
    assert found.conformity == pytest.approx(conformity_divergence(X, Y))
    assert found.uniformity == pytest.approx(wasserstein_uniformity(X, Y))
    recall = retrieval(X, Y, k=1).recall()
    assert found.recall_x == pytest.approx(recall["image_retrieval_recall@1"])
    assert found.recall_y == pytest.approx(recall["text_retrieval_recall@1"])
    inner = [(S.sum() - len(S)) / (len(S) * (len(S) - 1)) for S in (X @ X.T, Y @ Y.T)]
    assert found.cone == pytest.approx(np.mean(inner))
    matching = np.mean((1 - (X * Y).sum(axis=1)) / 2)
    within = np.mean([(1 - mean) / 2 for mean in inner])
    assert found.relative_gap == pytest.approx(matching / (matching + within))


def test_lengths_do_not_matter_and_a_gap_is_what_the_fix_closes():
    X, Y = make_pairs(200, 12)
    Y = Y + 4 * np.eye(12)[0]
    found, scaled = set_row(X, Y), set_row(3 * X, Y * np.linspace(1, 2, 200)[:, None])
    assert astuple(scaled) == pytest.approx(astuple(found))
    assert found.mixed_fixed > found.mixed


def test_groups_say_what_matches_and_many_are_drawn_from():
    X, Y = make_pairs(60, 8)
    several = np.repeat(Y, 2, axis=0) + 0.01 * np.random.default_rng(0).normal(size=(120, 8))
    found = set_row(X, several, groups=(np.arange(60), np.repeat(np.arange(60), 2)))
    assert found.n == 60
    many = set_row(*make_pairs(2500, 4), seed=1)
    assert many.n == 2500


def test_a_line_fits_under_the_head_of_the_table():
    found = set_row(*make_pairs(60, 8))
    line, (head, rule) = found.markdown("mine"), SetRow.header().split("\n")
    assert line.startswith("| mine | 60 | 8 | ")
    assert line.count("|") == head.count("|") == rule.count("|") == 14


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda: make_pairs(19, 8), "at least 20 groups that match"),
        (lambda: (make_pairs(60, 8)[0], make_pairs(30, 8)[1]), "got 2 with no pairs"),
    ],
)
def test_too_few_pairs_or_none_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        set_row(*rows())
