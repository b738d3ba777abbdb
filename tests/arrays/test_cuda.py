"""On an NVIDIA GPU everything is as on the processor: large blocks and kernels change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from modgap.arrays import cosine_extremes, like, match_ranks, top_k
from modgap.evaluation import Gaussian, Laplace, Rademacher, Uniform, retrieval, robustness
from modgap.io import open_embeddings
from modgap.measures import cone, measure

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)


def made(n: int, d: int, seed: int = 0, shift: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(99).normal(size=(n, d))
    return (shared + rng.normal(size=(n, d)) + shift).astype(np.float32)


def card(A: np.ndarray | None) -> torch.Tensor | None:
    return None if A is None else torch.from_numpy(A).cuda()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_ranks_are_those_of_numpy(dtype, biased, grouped):
    X, Y = (made(1500, 24, seed).astype(dtype) for seed in (1, 2))
    Y[700:720] = Y[3] + np.float32(1e-7)  # near ties
    Y[800] = Y[801]
    biases = [np.random.default_rng(5).normal(size=1500) if biased else None] * 2
    groups = None
    if grouped:
        groups = np.arange(1500) // 4, np.r_[np.arange(1400) // 4, np.full(100, -1)]
    expected = match_ranks(X, Y, groups, *biases)
    found = match_ranks(card(X), card(Y), groups, *map(card, biases))
    for ours, numpys in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, numpys)


def test_ranks_of_rows_that_are_all_near_each_other_are_those_of_numpy():
    rng = np.random.default_rng(0)
    X = (1 + 1e-7 * rng.normal(size=(3000, 8))).astype(np.float32)
    Y = (1 + 1e-7 * rng.normal(size=(3000, 8))).astype(np.float32)
    expected, found = match_ranks(X, Y, None), match_ranks(card(X), card(Y), None)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", [1, 10])
def test_the_nearest_are_those_of_numpy(k):
    Q, D = made(500, 24, 1), made(30_000, 24, 2)
    D[7] = D[9]
    ours, numpys = top_k(card(Q), card(D), k), top_k(Q, D, k)
    np.testing.assert_array_equal(ours[0], numpys[0])
    np.testing.assert_allclose(ours[1], numpys[1], rtol=1e-12)


def test_rows_of_a_file_reach_the_card_whole(tmp_path):
    X = made(30_000, 600).astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    rows = open_embeddings(tmp_path / "x.npy").to("cuda").rows()
    np.testing.assert_array_equal(rows.cpu().numpy(), X)


def test_recall_in_tf32_is_that_of_float32():
    X, Y = made(2000, 64, 1), made(2000, 64, 2)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        found = retrieval(card(X), card(Y))
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_array_equal(found.ranks_x, retrieval(X, Y).ranks_x)


@pytest.mark.parametrize("shift", [0.0, 0.3, 5.0])
def test_the_cone_of_many_rows_is_that_of_numpy(shift):
    X = made(34_000, 8, shift=shift)
    ours, numpys = cone(card(X)), cone(X)
    for name in ("mean", "std", "min", "max"):
        assert getattr(ours, name) == pytest.approx(getattr(numpys, name), abs=1e-6)
    for name in ("q1", "median", "q3"):
        assert getattr(ours, name) == pytest.approx(getattr(numpys, name), abs=1.3e-4)
    assert ours.count == numpys.count


def test_a_sample_that_misleads_about_the_quartiles_costs_time_alone():
    X = made(40_000, 8, shift=4.0)
    some = np.linspace(0, 39_999, 8_192).astype(int)
    X[some] = np.random.default_rng(0).normal(size=(8_192, 8)).astype(np.float32)
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    counts = cosine_extremes(card(U), (0.25, 0.5, 0.75))[2]
    expected = cosine_extremes(U)[2]
    np.testing.assert_allclose(np.cumsum(counts), np.cumsum(expected), atol=expected.sum() * 1e-5)


class NumpyNoise:
    """Normal noise of NumPy on any device, which draws other numbers itself."""

    def perturb(self, candidates, rng):
        drawn = 0.3 * rng.standard_normal(tuple(candidates.shape), dtype=np.float32)
        return candidates + like(drawn, candidates)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
def test_a_sweep_is_that_of_numpy(metric):
    Q, C = made(700, 16, 1), made(300, 16, 2)
    amounts = np.linspace(0, 1, 5) if metric == "euclidean" else (0.0,)
    options = {"draws": 11, "amounts": amounts, "metric": metric, "seed": 3}
    ours = robustness(card(Q), card(C), NumpyNoise(), **options)
    numpys = robustness(Q, C, NumpyNoise(), **options)
    np.testing.assert_allclose(ours.share, numpys.share, atol=2 / 7700)
    np.testing.assert_allclose(ours.standard_error, numpys.standard_error, atol=1e-3)
    assert np.mean(ours.kept != numpys.kept) < 1e-3


@pytest.mark.parametrize("noise", [Gaussian(0.3), Uniform(0.3), Laplace(0.3), Rademacher(0.3)])
def test_noise_of_the_card_keeps_as_many_neighbours_and_is_seeded(noise):
    Q, C = made(700, 16, 1), made(300, 16, 2)
    options = {"draws": 40, "amounts": np.linspace(0, 1, 5)}
    ours, again = (robustness(card(Q), card(C), noise, seed=3, **options) for _ in range(2))
    np.testing.assert_array_equal(ours.kept, again.kept)
    assert np.any(robustness(card(Q), card(C), noise, seed=4, **options).kept != ours.kept)
    numpys = robustness(Q, C, noise, seed=3, **options)
    error = np.hypot(ours.standard_error, numpys.standard_error)
    assert np.all(abs(ours.share - numpys.share) <= 5 * error)


def test_noise_that_is_not_finite_is_refused_as_on_the_processor():
    class Broken:
        def perturb(self, candidates, rng):
            return candidates * float("nan")

    with pytest.raises(ValueError, match="NaN"):
        robustness(card(made(50, 4)), card(made(20, 4)), Broken(), draws=3)


def test_measure_is_that_of_numpy():
    X, Y = made(3000, 32, 1), made(3000, 32, 2, shift=-0.3)
    ours, numpys = (measure(*rows).to_dict() for rows in ((card(X), card(Y)), (X, Y)))
    assert ours["gap_distance"] == pytest.approx(numpys["gap_distance"], abs=1e-9)
    assert ours["pairs"]["loss"] == pytest.approx(numpys["pairs"]["loss"], rel=1e-6, abs=1e-6)
    spread = "soft_assignment_spread"
    assert ours["pairs"][spread] == pytest.approx(numpys["pairs"][spread], rel=1e-5)
    for one, other in zip(ours["modalities"], numpys["modalities"], strict=True):
        assert one["uniformity"] == pytest.approx(other["uniformity"], abs=1e-6)
        assert one["cone"] == pytest.approx(other["cone"], abs=1.3e-4)
