"""``measure`` makes one pass over each product: its numbers are those of the single functions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conftest import make_pairs, set_tiles
from modgap.measures import (
    alignment,
    cone,
    conformity,
    estimated_conformity,
    loss_terms,
    margin,
    measure,
    shell,
    soft_assignments,
    uniformity,
)


def unit_pairs(dtype="float32", n=60):
    return tuple((A / np.linalg.norm(A, axis=1, keepdims=True)).astype(dtype)
                 for A in make_pairs(n=n))  # fmt: skip


def scaled_pairs(dtype="float32"):
    """Rows whose lengths run from 1e-8 to 1e8."""
    lengths = 10.0 ** np.linspace(-8, 8, 60)[:, None]
    return tuple((A * lengths).astype(dtype) for A in make_pairs())


def same_rows(dtype="float32"):
    return (np.tile(np.array([[0.6, 0.8]], dtype), (5, 1)),) * 2


KINDS = {
    "unit": unit_pairs,
    "as given": lambda dtype: tuple(A.astype(dtype) for A in make_pairs()),
    "other lengths": scaled_pairs,
    "all the same": same_rows,
    "two": lambda dtype: unit_pairs(dtype, 2),
    "three": lambda dtype: unit_pairs(dtype, 3),
}


def close(found):
    return pytest.approx(vars(found), rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_the_single_functions(library, kind, monkeypatch):
    set_tiles(monkeypatch, 32, 25)
    X, Y = (library(A) for A in KINDS[kind](library.precision))
    found = measure(X, Y)
    pairs = found.pairs
    assert vars(pairs.loss) == close(loss_terms(X, Y))
    assert pairs.margin == margin(X, Y)
    assert pairs.alignment == alignment(X, Y)
    soft = soft_assignments(X, Y)
    assert pairs.soft_assignment_spread == (soft.spread_x, soft.spread_y)
    for side, rows in zip(found.modalities, (X, Y), strict=True):
        assert vars(side.cone) == close(cone(rows))
        assert side.uniformity == uniformity(rows)
        if kind != "all the same":
            assert vars(side.shell) == close(shell(rows))
            assert side.conformity_mean == pytest.approx(float(conformity(rows).mean()), rel=1e-6)
            estimate = estimated_conformity(rows).pearson
            assert side.conformity_pearson == pytest.approx(estimate, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_and_torch_give_what_float64_gives(kind):
    torch = pytest.importorskip("torch")
    X, Y = KINDS[kind]("float32")
    exact, single = measure(X.astype("float64"), Y.astype("float64")), measure(X, Y)
    tensors = measure(torch.from_numpy(X.copy()), torch.from_numpy(Y.copy()))
    json.dumps(tensors.to_dict(), allow_nan=False)
    for found in (single, tensors):
        assert found.pairs.loss.loss == pytest.approx(exact.pairs.loss.loss, rel=1e-5, abs=1e-6)
        assert found.pairs.margin == pytest.approx(exact.pairs.margin, abs=1e-6)
        for side, expected in zip(found.modalities, exact.modalities, strict=True):
            assert side.uniformity == pytest.approx(expected.uniformity, abs=1e-6)
            assert side.cone.mean == pytest.approx(expected.cone.mean, abs=1e-6)
            assert side.cone.median == pytest.approx(expected.cone.median, abs=1.3e-4)
        first, expected = found.between[0], exact.between[0]
        assert first.linear_separability == expected.linear_separability


def test_half_precision_is_measured_as_float32():
    X, Y = (A.astype("float16") for A in make_pairs())
    found, wide = measure(X, Y), measure(X.astype("float32"), Y.astype("float32"))
    assert vars(found.pairs.loss) == close(wide.pairs.loss)
    assert vars(found.modalities[0].cone) == close(wide.modalities[0].cone)


def test_a_cone_of_a_sample_has_a_standard_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6)) + np.eye(6)[0]
    whole = cone(X).mean
    assert measure(X, X, paired=False).modalities[0].cone.standard_error is None
    off = []
    for seed in range(40):
        sampled = measure(X, X, paired=False, sample=100, seed=seed).modalities[0].cone
        off.append((sampled.mean - whole) / sampled.standard_error)
    assert 0.7 < np.std(off) < 1.4
    assert abs(np.mean(off)) < 0.6
