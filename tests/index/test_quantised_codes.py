"""Rotations, ranges and codes: what each promises, against slow references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modgap.index.quantised.rotation import learned_rotation, random_rotation

faiss = pytest.importorskip("faiss", reason="faiss is not installed")

from modgap.index.quantised.codes import fit_ranges, train_codes  # noqa: E402


@given(seed=st.integers(0, 100), dim=st.integers(1, 12))
def test_a_rotation_changes_no_float_score(seed, dim):
    rng = np.random.default_rng(seed)
    queries, rows = rng.normal(size=(4, dim)), rng.normal(size=(dim + 5, dim))
    for rotation in (random_rotation(dim, seed), learned_rotation(rows, "1bit", seed=seed)):
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(dim), atol=1e-10)
        turned = (queries @ rotation.T) @ (rows @ rotation.T).T
        np.testing.assert_allclose(turned, queries @ rows.T, atol=1e-10)


def test_a_rotation_learned_for_product_quantisation_changes_no_float_score(rng):
    rows = rng.normal(size=(200, 8)) * np.linspace(0.1, 2, 8)
    rotation = learned_rotation(rows, "pq", subspaces=2)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(8), atol=1e-10)


def test_a_learned_rotation_keeps_more_in_the_signs_than_its_start(rng):
    rows = rng.normal(size=(300, 10)) @ rng.normal(size=(10, 10))
    kept = [np.abs(rows @ R.T).sum() for R in (random_rotation(10), learned_rotation(rows, "1bit"))]
    assert kept[1] > kept[0]


@pytest.mark.parametrize(("kind", "levels"), [("int8", 256), ("4bit", 16)])
def test_every_code_stands_for_a_cell_of_the_fitted_range(kind, levels, rng):
    rows = rng.uniform(-2, 3, size=(5000, 3)).astype(np.float32)
    low, high = fit_ranges(rows, levels)
    index = train_codes(kind, rows)
    decoded = index.sa_decode(index.sa_encode(rows))
    step = (high - low) / levels
    inside = (rows >= low) & (rows <= high)
    assert (np.abs(decoded - rows) <= 0.51 * step)[inside].all()
    assert [len(np.unique(column)) for column in decoded.T] == [levels] * 3


def test_ranges_clip_the_tails_when_levels_are_few(rng):
    rows = rng.normal(size=(4000, 2)).astype(np.float32)
    rows[0] = 30  # one outlier
    low, high = fit_ranges(rows, 16)
    assert (high < 6).all()
    assert (low > -6).all()
    error = {}
    for name, (a, b) in {"fitted": (low, high), "whole": (rows.min(0), rows.max(0))}.items():
        cell = np.clip(np.floor((rows - a) / (b - a) * 16), 0, 15)
        error[name] = np.mean((a + (cell + 0.5) * (b - a) / 16 - rows) ** 2)
    assert error["fitted"] < 0.6 * error["whole"]


def test_a_column_without_spread_keeps_its_value():
    rows = np.tile(np.array([[0.0, 3.0, -5.0]], dtype=np.float32), (10, 1))
    for kind in ("int8", "4bit"):
        index = train_codes(kind, rows)
        np.testing.assert_allclose(index.sa_decode(index.sa_encode(rows)), rows, atol=1e-4)


def test_learning_from_too_few_rows_is_refused():
    with pytest.raises(ValueError, match="at least as many rows as columns, 4, got 3"):
        learned_rotation(np.ones((3, 4)), "1bit")
    with pytest.raises(ValueError, match="needs at least 64 rows"):
        train_codes("pq", np.ones((10, 4)))
