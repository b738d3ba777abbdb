"""The benchmark of hybrid lists: its rivals and metrics by hand, its table from its figures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("bm25s", reason="bm25s is not installed")
import hybrid

ROOT = Path(__file__).parents[2]
SCORES = np.array([[3.0, 1.0, 0.0, -np.inf], [2.0, 2.0, -np.inf, -np.inf]])


def test_rivals_are_their_definitions():
    np.testing.assert_allclose(hybrid.rrf(SCORES)[0], [1 / 60, 1 / 61, 1 / 62, 1 / 63])
    spread = math.sqrt(14 / 9)  # of 3, 1 and 0, whose mean is 4/3
    wanted = [(s - (4 / 3 - 3 * spread)) / (6 * spread) for s in (3, 1, 0)]
    np.testing.assert_allclose(hybrid.dbsf(SCORES)[0, :3], wanted)
    np.testing.assert_allclose(hybrid.dbsf(SCORES)[1, :2], 0.5)
    np.testing.assert_allclose(hybrid.min_max(SCORES)[0, :3], [1, 1 / 3, 0])
    np.testing.assert_allclose(hybrid.min_max(SCORES)[1, :2], 1)
    long = np.arange(30.0, 0, -1)[None]
    ten = hybrid.of_ten(hybrid.dbsf, long)
    np.testing.assert_allclose(ten[:, :10], hybrid.dbsf(long[:, :10]))
    assert np.all(np.isneginf(ten[:, 10:]))


def test_equal_values_are_broken_by_chance_and_missing_results_are_no_match():
    n = 4000
    lists = {
        "image": (np.zeros((n, 1), int), np.ones((n, 1))),
        "caption": (np.tile([1, 0], (n, 1)), np.tile([1.0, -np.inf], (n, 1))),
    }
    values = {"image": np.ones((n, 1)), "caption": np.ones((n, 2))}
    found = hybrid.first_ten(lists, values, np.zeros(n, int), np.random.default_rng(0))
    assert found[:, 0].mean() == pytest.approx(0.5, abs=0.03)
    assert np.all(found.sum(axis=1) == 1)
    right = np.tile([True, False], (n, 1))
    gains = hybrid.ndcg(found, right)
    assert sorted(set(gains.round(6))) == [round(1 / math.log2(3), 6), 1.0]
    both = hybrid.ndcg(np.array([[False, True, True]]), np.array([[True, True]]))
    wanted = (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3))
    assert both[0] == pytest.approx(wanted)


def test_means_count_lists_or_documents_alike():
    means = hybrid.Means(3)
    means.count(np.array([0, 1, 2]), np.array([0, 0, 1]))
    means.add("E", np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([1.0, 0.0, 0.2]))
    means.add("RRF", np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0.5, 0.0, 0.2]))
    assert means.of("E", each="lists") == pytest.approx((0.5 + 0.2) / 2)
    assert means.of("E", each="documents") == pytest.approx(1.2 / 3)
    assert means.of("E", "RRF", each="documents") == pytest.approx(0.5 / 3)
    low, high = means.interval("E", "RRF", "documents")
    assert low == 0.0
    assert high == pytest.approx(0.5)


def test_the_table_of_the_page_is_that_of_the_results():
    rows = json.loads((ROOT / "benchmarks" / "results" / "hybrid.json").read_text())["rows"]
    page = (ROOT / "docs" / "evidence" / "scores.md").read_text(encoding="utf-8")
    made = hybrid.table(rows)
    assert made.count("\n") == 9
    assert made in page
