"""The one exact search, against looking at every document by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modgap.search import search

METRICS = ("cosine", "inner_product", "euclidean")


def slow_scores(query: np.ndarray, documents: np.ndarray, metric: str) -> np.ndarray:
    if metric == "euclidean":
        return -np.sum((documents - query) ** 2, axis=1)
    products = documents @ query
    if metric == "inner_product":
        return products
    return products / (np.linalg.norm(query) * np.linalg.norm(documents, axis=1))


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(METRICS), st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 30),
    st.booleans(),
)  # fmt: skip
def test_it_finds_the_best_documents_and_gives_their_scores(metric, seed, k, m, leaving):
    rng = np.random.default_rng(seed)
    queries, documents = rng.normal(size=(4, 5)), rng.normal(size=(m, 5))
    own = rng.integers(-1, m, 4) if leaving else None
    found, scores = search(queries, documents, k, metric, leave_out=own)
    assert found.shape == scores.shape == (4, min(k, m))
    for line in range(4):
        real = slow_scores(queries[line], documents, metric)
        order = [j for j in np.argsort(-real, kind="stable") if own is None or j != own[line]][:k]
        there = found[line][found[line] >= 0].tolist()
        assert there == order[: len(there)]
        assert len(there) == min(len(order), found.shape[1])
        np.testing.assert_allclose(scores[line][: len(there)], real[there], atol=1e-12)
        assert np.all(np.isneginf(scores[line][len(there) :]))


@pytest.mark.parametrize("metric", METRICS)
def test_a_row_finds_itself_first_and_at_no_distance(metric):
    rows = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found, scores = search(rows, rows, 1, metric)
    assert found[:, 0].tolist() == list(range(20))
    np.testing.assert_allclose(scores[:, 0], 0.0 if metric == "euclidean" else 1.0, atol=1e-6)
    assert metric != "euclidean" or np.all(scores == 0)


def test_tensors_give_what_arrays_give():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    Q, D = (rng.normal(size=(n, 6)).astype(np.float32) for n in (5, 40))
    for metric in METRICS:
        arrays = search(Q, D, 3, metric)
        tensors = search(torch.from_numpy(Q), torch.from_numpy(D), 3, metric)
        assert arrays[0].tolist() == tensors[0].tolist()
        np.testing.assert_allclose(arrays[1], tensors[1], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1"),
        ({"metric": "dot"}, "metric must be one of"),
        ({"leave_out": [1, 2]}, "one row number per query: 3 queries"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        search(np.eye(3), np.eye(3), **options)
