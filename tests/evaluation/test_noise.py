"""Noises and quantisers on their own: what each does to rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modgap.evaluation import (
    Gaussian,
    Int8,
    Laplace,
    Noise,
    OneBit,
    Quantiser,
    Rademacher,
    Rephrase,
    Uniform,
    UniformQuantiser,
    noise_correlation,
)
from modgap.evaluation.noise import _NumpySource, _TorchSource

# Fourth moment over squared variance, which decides how far a sample's variance may be off.
KURTOSIS = {Gaussian: 3.0, Uniform: 1.8, Laplace: 6.0, Rademacher: 1.0}


@pytest.mark.parametrize("kind", KURTOSIS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("std", [0.025, 3.0])
def test_each_noise_has_mean_zero_and_the_asked_standard_deviation(kind, std):
    n = 400_000
    rows = np.zeros((n // 8, 8))
    drawn = kind(std).perturb(rows, np.random.default_rng(5)).ravel()
    # Five standard errors of a mean and of a variance.
    assert abs(drawn.mean()) < 5 * std / math.sqrt(n)
    off = 5 * math.sqrt((KURTOSIS[kind] - 1) / n)
    assert abs(drawn.var() / std**2 - 1) < off + 1e-6
    fourth = np.mean(drawn**4) / drawn.var() ** 2
    assert fourth == pytest.approx(KURTOSIS[kind], rel=0.05)


def test_the_extremes_are_those_of_the_distributions():
    rng = np.random.default_rng(0)
    rows = np.zeros((1000, 8))
    assert set(np.unique(Rademacher(0.5).perturb(rows, rng))) == {-0.5, 0.5}
    uniform = Uniform(0.5).perturb(rows, rng)
    assert 0.99 * 0.5 * 3**0.5 < abs(uniform).max() <= 0.5 * 3**0.5 * (1 + 1e-6)


@pytest.mark.parametrize("kind", KURTOSIS, ids=lambda kind: kind.__name__)
def test_coordinates_are_independent_and_noise_is_added_to_the_rows(kind):
    n = 20_000
    rows = np.random.default_rng(1).normal(size=(n, 4))
    before = rows.copy()
    noise = kind(0.1).perturb(rows, np.random.default_rng(2)) - rows
    np.testing.assert_array_equal(rows, before)
    correlation = np.corrcoef(noise.T) - np.eye(4)
    assert abs(correlation).max() < 5 / math.sqrt(n)
    assert abs(np.corrcoef(noise[:, 0], rows[:, 0])[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.parametrize("kind", KURTOSIS, ids=lambda kind: kind.__name__)
def test_numpy_and_torch_get_the_same_draw_in_their_own_precision(kind, library, rng):
    rows = rng.normal(size=(5, 3))
    expected = kind(0.1).perturb(rows, np.random.default_rng(3))
    drawn = library.check_kind(kind(0.1).perturb(library(rows), np.random.default_rng(3)))
    assert drawn.dtype == library.precision
    np.testing.assert_allclose(drawn, expected, atol=library.tolerance)


@pytest.mark.parametrize("kind", KURTOSIS, ids=lambda kind: kind.__name__)
def test_torchs_numbers_have_the_distribution_of_numpys_and_are_seeded(kind):
    torch = pytest.importorskip("torch")
    from scipy import stats

    # What a GPU draws with, on the processor.
    drawn, again, other = (
        kind(1.0)._draw(_TorchSource(torch.device("cpu"), seed), (20_000,)).numpy()
        for seed in (2**62, 2**62, 1)
    )
    numpys = kind(1.0)._draw(_NumpySource(np.random.default_rng(1)), (20_000,))
    assert drawn.dtype == numpys.dtype == np.float32
    np.testing.assert_array_equal(drawn, again)
    assert np.any(drawn != other)
    assert abs(drawn.mean()) < 5 / math.sqrt(20_000)
    assert stats.ks_2samp(drawn, numpys).pvalue > 1e-3


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan"), float("inf")])
def test_a_standard_deviation_that_makes_no_sense_is_refused(std):
    with pytest.raises(ValueError, match="std must be a finite number above 0"):
        Gaussian(std)


def test_rephrasing_takes_each_candidates_own_wordings_all_of_them_in_turn(rng):
    wordings = rng.normal(size=(3, 50, 4))
    drawn = Rephrase(wordings).perturb(np.zeros((50, 4)), np.random.default_rng(0))
    chosen = (wordings == drawn[None]).all(axis=2)
    assert chosen.sum(axis=0).tolist() == [1] * 50
    assert (chosen.sum(axis=1) > 5).all()


def test_rephrasing_needs_wordings_of_every_candidate():
    with pytest.raises(ValueError, match=r"must be \(w, m, d\) for candidates of shape \(4, 2\)"):
        Rephrase(np.ones((3, 5, 2))).perturb(np.ones((4, 2)), np.random.default_rng(0))


def test_noises_and_quantisers_are_told_apart():
    for noise in (Gaussian(1.0), Rephrase(np.ones((1, 1, 1)))):
        assert isinstance(noise, Noise)
        assert not isinstance(noise, Quantiser)
    for quantiser in (UniformQuantiser(4), Int8(), OneBit()):
        assert isinstance(quantiser, Quantiser)
        assert not isinstance(quantiser, Noise)


def test_noise_correlation_is_the_off_diagonal_share_of_the_covariance(rng, library):
    E = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5)) + 3
    C = np.cov(E.T, bias=True)
    off = C - np.diag(np.diag(C))
    expected = math.sqrt((off**2).sum() / (C**2).sum())
    assert noise_correlation(library(E)) == library.close(expected)


def test_noise_correlation_is_0_for_one_coordinate_and_tends_to_1_when_all_move_together(rng):
    alone = np.zeros((50, 3))
    alone[:, 1] = rng.normal(size=50)
    assert noise_correlation(alone) == 0.0
    together = np.tile(rng.normal(size=(50, 1)), (1, 100))
    assert noise_correlation(together) == pytest.approx(math.sqrt(1 - 1 / 100))
    assert math.isnan(noise_correlation(np.ones((5, 2))))
    with pytest.raises(ValueError, match="E has 1 row with NaN"):
        noise_correlation(np.array([[np.nan, 1.0]]))


# --- Quantisers ----------------------------------------------------------------------------------


def nearest_level(value, levels):
    return min(levels, key=lambda level: abs(level - value))


@pytest.mark.parametrize("levels", [2, 3, 16])
def test_quantize_puts_every_value_at_the_nearest_of_evenly_spaced_levels(rng, levels, library):
    rows = 2 * rng.normal(size=(30, 4))
    allowed = np.linspace(-3, 3, levels)
    expected = [[nearest_level(value, allowed) for value in row] for row in rows]
    quantiser = UniformQuantiser(levels).fit(library(rows))
    for side in (quantiser.documents, quantiser.queries):
        out = library.check_kind(side(library(rows)))
        np.testing.assert_allclose(out, expected, atol=library.tolerance)


def test_quantize_clips_to_its_range():
    rows = np.array([[-9.0, 9.0, 0.4]])
    assert UniformQuantiser(3, -1.0, 1.0).documents(rows).tolist() == [[-1.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "levels must be at least 2"),
        ((4, 1.0, 1.0), "low must be below high"),
        ((4, 2.0, 1.0), "low must be below high"),
        ((4, float("nan"), 1.0), "low must be finite"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        UniformQuantiser(*arguments)


def test_int8_has_256_levels_between_the_extremes_of_each_dimension(rng, library):
    rows = rng.normal(size=(500, 3)) * [1.0, 10.0, 0.01] + [0.0, 5.0, -3.0]
    quantiser = Int8().fit(library(rows))
    out = library.check_kind(quantiser.documents(library(rows)))
    for column, stored in zip(rows.T, out.T, strict=True):
        levels = np.linspace(column.min(), column.max(), 256)
        distance = abs(stored[:, None] - levels[None]).min(axis=1)
        step = levels[1] - levels[0]
        scale = max(abs(column))
        assert distance.max() < library.tolerance * scale
        assert abs(stored - column).max() <= step / 2 + library.tolerance * scale
    queries = library.check_kind(quantiser.queries(library(rows)))
    np.testing.assert_array_equal(queries, library.check_kind(library(rows)))


def test_int8_keeps_a_constant_dimension_and_clips_what_lies_outside_its_range():
    fitted = Int8().fit(np.array([[7.0, 0.0], [7.0, 255.0]]))
    out = fitted.documents(np.array([[7.0, 3.4], [7.0, 300.0], [7.2, -5.0]]))
    assert out.tolist() == [[7.0, 3.0], [7.0, 255.0], [7.0, 0.0]]


def test_int8_fitted_beforehand_keeps_its_ranges():
    ranged = Int8(np.array([0.0]), np.array([255.0]))
    again = ranged.fit(np.array([[1000.0], [2000.0]]))
    assert again is ranged
    assert again.documents(np.array([[12.3], [2000.0]])).tolist() == [[12.0], [255.0]]
    with pytest.raises(ValueError, match="must be fitted to documents first"):
        Int8().documents(np.ones((1, 1)))


def test_one_bit_is_the_sign_with_zero_counting_as_positive(library):
    rows = library(np.array([[-0.5, 0.0, 2.0], [1.0, -3.0, -1e-6]]))
    quantiser = OneBit().fit(rows)
    out = library.check_kind(quantiser.documents(rows))
    assert out.tolist() == [[-1.0, 1.0, 1.0], [1.0, -1.0, -1.0]]
    np.testing.assert_array_equal(library.check_kind(quantiser.queries(rows)), np.asarray(rows))
