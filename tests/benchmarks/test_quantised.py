"""The experiments behind quantised.md: recall kept in few bits, the quantised gap, HNSW."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import make_pairs

pytest.importorskip("faiss", reason="faiss is not installed")

from hnsw import hnsw_recall
from modgap.corrections import Center, Correction
from modgap.evaluation import UniformQuantiser, close_quantised_gap, robustness
from modgap.index.equal_lengths import lift_documents, lift_queries
from quantised_recall import recall_retained


def gapped(n: int = 120, d: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    sides = make_pairs(n, d, seed)
    return tuple(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sides)  # type: ignore[return-value]


@pytest.mark.published
def test_one_bit_documents_keep_086_of_the_float_recall_on_clip(published_clip):
    # Fitted on one half of the pairs; documents and queries are the other half; 10 splits.
    found = recall_retained(*published_clip, ("1bit",), settings=("raw", "corrected"))
    assert found.code("1bit", "raw").retained["recall@1"] == pytest.approx(0.78, abs=0.01)
    corrected = found.code("1bit", "corrected")
    assert corrected.retained["recall@1"] >= 0.86
    assert corrected.retained["recall@1"] == pytest.approx(0.885, abs=0.01)
    assert corrected.bytes_per_vector == 512 // 8 + 2 * 2 + 2
    assert found.n_queries == {"image": 250, "text": 250}


@pytest.mark.published
def test_closing_the_quantised_gap_on_clip_is_closing_the_gap(published_clip):
    # Published: better to close it in the quantised space. With 64 levels or more of this file
    # the least quantised gap is at amount 1 itself.
    X, Y = published_clip
    for found in close_quantised_gap(X, Y, (64, 256)):
        assert found.amount == pytest.approx(1.0, abs=0.06)


def test_recall_retained_measures_what_float_search_finds():
    X, Y = gapped()
    found = recall_retained(X, Y, ("int8", "1bit"), n_splits=2)
    assert [(c.bits, c.setting) for c in found.codes] == [
        ("int8", "raw"),
        ("int8", "corrected"),
        ("1bit", "raw"),
        ("1bit", "corrected"),
    ]
    assert found.float_bytes == 64
    assert found.code("int8", "corrected").retained["recall@1"] == pytest.approx(1, abs=0.1)
    assert 0 <= found.code("1bit", "raw").agreement <= 1
    recall = found.to_dict()["codes"][0]["recall"]
    assert set(recall) == {
        f"{name}_retrieval_recall@{k}" for name in ("image", "text") for k in (1, 10)
    }


def test_recall_retained_with_several_captions_per_image_splits_by_group():
    X, Y = gapped(60)
    groups = (np.arange(60), np.repeat(np.arange(60), 2))
    found = recall_retained(X, np.repeat(Y, 2, axis=0), ("4bit",), groups=groups, n_splits=2)
    assert found.n_queries == {"image": 30, "text": 60}
    with pytest.raises(ValueError, match="Nothing was measured"):
        found.code("1bit", "raw")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": ("8bit",)}, "bits must be one of"),
        ({"settings": ("centred",)}, "settings must be one of"),
        ({"k": (61,)}, "k must be between 1 and 60"),
        ({"groups": (np.arange(120) // 60, np.arange(120) // 60)}, "at least 4 groups, got 2"),
    ],
)
def test_bad_options_of_recall_retained_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        recall_retained(*gapped(), **options)


@pytest.mark.parametrize("direction", ["gap", "orthogonal"])
def test_the_quantised_gap_is_least_where_it_is_reported(direction):
    X, Y = gapped()
    for found in close_quantised_gap(X, Y, (8, 64), direction=direction):
        assert found.gaps.min() == found.gaps[found.amounts == found.amount]
        q = UniformQuantiser(found.levels)
        opened = np.linalg.norm(q.queries(X).mean(0) - q.documents(Y).mean(0))
        assert found.gaps[found.amounts == 0] == pytest.approx(opened)
        plain = robustness(X, Y, UniformQuantiser(found.levels), draws=1)
        assert found.robustness_open == plain.share[0]


def test_with_many_levels_the_quantised_gap_is_least_when_the_gap_is_closed():
    X, Y = gapped()
    found = close_quantised_gap(X, Y, (100_000,))[0]
    assert found.amount == pytest.approx(1.0)
    assert found.gaps.min() < 1e-4
    assert found.robustness_least > 0.98


def test_lifting_gives_all_documents_one_length_and_changes_no_inner_product(rng):
    rows, queries = rng.normal(size=(50, 6)), rng.normal(size=(4, 6))
    lifted, asked = lift_documents(rows), lift_queries(queries)
    longest = np.linalg.norm(rows, axis=1).max()
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), longest)
    np.testing.assert_allclose(asked @ lifted.T, queries @ rows.T)
    distances = np.linalg.norm(asked[:, None] - lifted[None], axis=2)
    np.testing.assert_array_equal(np.argsort(distances), np.argsort(-queries @ rows.T))
    assert lift_documents(rows, 99.0).shape == (50, 7)
    with pytest.raises(ValueError, match="at least that of the longest row"):
        lift_documents(rows, 0.1)


def test_hnsw_with_a_large_ef_search_is_exact_search():
    X, Y = gapped(200)
    found = hnsw_recall(X, Y, n_queries=30, ef_search=(10, 200))
    kinds = {"raw", "Center", "Calibrate", "Calibrate, lifted"}
    assert {r.correction for r in found} == kinds
    assert {(r.documents, r.queries) for r in found} == {
        ("image", "text"),
        ("text", "image"),
        ("mixed", "image"),
        ("mixed", "text"),
    }
    for r in found:
        assert r.n_documents == (340 if r.documents == "mixed" else 170)
        assert r.comparisons[0] < r.comparisons[1]
        if r.correction != "Calibrate":  # the one whose graph may leave rows out
            assert r.recall[1] > 0.99


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_queries": 120}, "n_queries must be between 1 and 119"),
        ({"n_queries": 100, "k": 30}, "k must be between 1 and 20"),
        ({"ef_search": (0,), "n_queries": 10}, "ef_search must be at least 1"),
        (
            {"corrections": {"a": Correction.identity(16, ("audio", "text"))}, "n_queries": 10},
            "is for \\('audio', 'text'\\)",
        ),
    ],
)
def test_bad_options_of_hnsw_recall_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        hnsw_recall(*gapped(), **options)


def test_hnsw_takes_corrections_of_ones_own():
    X, Y = gapped()
    fitted = Center().fit(X, Y).correction_
    found = hnsw_recall(X, Y, {"mine": fitted}, n_queries=20, ef_search=(64,))
    assert {r.correction for r in found} == {"mine"}
