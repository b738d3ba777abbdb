"""Descent on free embeddings: closed forms, Chowers' statements in numbers, going on."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from modgap.core.checks import MissingExtraError
from modgap.measures.loss import contrastive_loss, soft_assignments
from modgap.simulate.dynamics import choose_engine, descend
from modgap.simulate.dynamics_loss import contrastive_gradient, variance_along
from modgap.simulate.dynamics_start import collapsed, make_clusters, three_pairs
from modgap.simulate.dynamics_theory import first_step, shared_caption_loss


@pytest.fixture(params=["numpy", "compiled"])
def engine(request):
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba is not installed")
    return request.param


def rows(n=7, d=3, seed=1):
    return np.random.default_rng(seed).normal(size=(2, n, d))


# The loss and its gradients


# At temperature 0.002 the logits lie too far apart for one exponential.
@pytest.mark.parametrize("temperature", [2.0, 0.1, 0.002])
@pytest.mark.parametrize("sphere", [False, True])
def test_the_closed_form_gradients_are_those_of_autograd(temperature, sphere):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, Y = rows()
    if sphere:
        X, Y = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    tX, tY = (torch.tensor(A, requires_grad=True) for A in (X, Y))
    nu = torch.tensor(-math.log(temperature), dtype=torch.float64, requires_grad=True)
    U, V = ((A / A.norm(dim=1, keepdim=True)) if sphere else A for A in (tX, tY))
    logits = -torch.exp(nu) * ((U[:, None] - V[None]) ** 2).sum(-1)
    own = torch.arange(len(X))
    cross_entropy = torch.nn.functional.cross_entropy
    loss = cross_entropy(logits, own) + cross_entropy(logits.T, own)
    loss.backward()
    ours = contrastive_gradient(X, Y, temperature, sphere=sphere)
    assert ours.loss == pytest.approx(loss.item(), rel=1e-12)
    scale = max(1.0, tX.grad.abs().max().item())
    np.testing.assert_allclose(ours.x, tX.grad.numpy(), atol=1e-12 * scale)
    np.testing.assert_allclose(ours.y, tY.grad.numpy(), atol=1e-12 * scale)
    assert ours.log_scale == pytest.approx(nu.grad.item(), rel=1e-10)


def test_the_loss_is_twice_that_of_the_measures_and_the_sums_are_theirs():
    X, Y = rows()
    ours = contrastive_gradient(X, Y, 0.5)
    assert ours.loss == pytest.approx(2 * contrastive_loss(X, Y, 0.5, None, "squared_distance"))
    sums = soft_assignments(X, Y, 0.5)
    np.testing.assert_allclose(ours.assignments_x, sums.x, atol=1e-13)
    np.testing.assert_allclose(ours.assignments_y, sums.y, atol=1e-13)


def test_a_loss_near_zero_keeps_its_digits():
    X = np.array([[0.0, 0.0], [2.0, 0.0]])
    # Two pairs on top of each other, 2 apart, at temperature 0.1: 2 log(1 + e⁻⁴⁰).
    expected = 2 * math.exp(-40)
    g = contrastive_gradient(X, X, 0.1)
    assert g.loss == pytest.approx(expected, rel=1e-12)
    # A moved by 0.1 upward feels −(2/(τN)) A₀₀ (x₀ − y₀), A₀₀ = −2 e⁻⁴⁰ to first order.
    g = contrastive_gradient(X + np.array([0.0, 0.1]), X, 0.1)
    assert abs(g.x[0, 0]) == pytest.approx(2 / 0.2 * 2 * 2 * math.exp(-40), rel=1e-9)


def test_a_step_subtracts_the_learning_rate_times_the_gradient(engine):
    X, Y = rows()
    g = contrastive_gradient(X, Y, 0.5)
    run = descend(X, Y, 0.5, 1, 0.03, temperature_rate=0.2, engine=engine)
    np.testing.assert_allclose(run.X, X - 0.03 * g.x, atol=1e-14)
    np.testing.assert_allclose(run.Y, Y - 0.03 * g.y, atol=1e-14)
    nu = -math.log(0.5) - 0.2 * g.log_scale
    assert run.temperature[-1] == pytest.approx(math.exp(-nu), rel=1e-12)


def test_a_step_on_the_sphere_is_tangent_and_then_normalised(engine):
    X, Y = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in rows())
    moved = X - 0.03 * contrastive_gradient(X, Y, 0.5, sphere=True).x
    run = descend(3 * X, Y, 0.5, 1, 0.03, sphere=True, engine=engine)
    np.testing.assert_allclose(run.X, moved / np.linalg.norm(moved, axis=1, keepdims=True))


@pytest.mark.parametrize("settings", [{}, {"sphere": True}, {"temperature_rate": 0.05}])
@pytest.mark.parametrize("temperature", [0.5, 0.003])
def test_compiled_and_numpy_give_the_same_numbers(settings, temperature):
    pytest.importorskip("numba", reason="numba is not installed")
    X, Y = rows(8, 4)
    one, other = (
        descend(X, Y, temperature, 60, 1e-3, engine=e, **settings) for e in ("compiled", "numpy")
    )
    np.testing.assert_allclose(one.X, other.X, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.temperature, other.temperature, rtol=1e-9)


def test_without_numba_numpy_takes_over(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    X, Y = make_clusters(5)
    assert descend(X, Y, 0.1, 3).engine == "numpy"
    with pytest.warns(UserWarning, match=r"10,000,000 steps take many times longer without numba"):
        choose_engine("auto", X, 10_000_000)
    with pytest.raises(MissingExtraError, match=r"pip install 'modgap\[simulate\]'"):
        descend(X, Y, 0.1, 3, engine="compiled")


def test_float32_stays_float32_and_large_problems_go_by_matrix_products():
    X, Y = make_clusters(60, 128, gap=2.0, spread=0.05, sphere=True)
    wide = descend(X, Y, 0.1, 20, sphere=True)
    narrow = descend(X.astype("f4"), Y.astype("f4"), 0.1, 20, sphere=True)
    assert (wide.engine, narrow.engine) == ("numpy", "numpy")
    assert narrow.X.dtype == np.float32
    np.testing.assert_allclose(narrow.X, wide.X, atol=1e-5)


# Chowers' statements


def test_tight_clusters_keep_a_gap_that_becomes_orthogonal():
    """Fig. 4 top: N((0, ±0.5), 0.01² I), ten pairs, temperature 0.1, rate 0.01; 10⁵ steps."""
    run = descend(*make_clusters(10, 2, gap=1.0, spread=0.01), 0.1, 100_000)
    assert run.gap_distance[-1] == pytest.approx(1.0, abs=0.02)  # 4 standard errors of a mean
    assert max(run.orthogonality_x[-1], run.orthogonality_y[-1]) < 0.01
    assert run.loss[-1] < 1e-3
    assert np.all(np.diff(run.loss) < 0)


@pytest.mark.long
@pytest.mark.usefixtures("")
def test_ten_million_steps_end_orthogonal_and_with_almost_no_loss():
    calls = []
    run = descend(
        *make_clusters(10, 2, gap=1.0, spread=0.01),
        temperature=0.1,
        steps=10**7,
        progress=lambda _, done, total: calls.append((done, total)),
    )
    assert run.gap_distance[-1] == pytest.approx(1.0, abs=0.02)
    assert max(run.orthogonality_x[-1], run.orthogonality_y[-1]) < 0.01
    # The late loss hardly depends on the draw: 3.23e-6 for every seed tried.
    assert run.loss[-1] == pytest.approx(3.23e-6, rel=0.02)
    assert len(calls) > 50
    assert calls[-1] == (10**7, 10**7)


# 20,000 steps of 0.01 (table). A tenth of the steps ten times as long follows the same flow at
# τ 0.1 and 1, and at τ 0.01 little happens after 2,000 steps: each differs by at most 0.002.
# Draws of 100 points differ by about 0.01, the standard error of the mean of the first coordinate.
@pytest.mark.parametrize(
    ("temperature", "rate", "gap"), [(0.01, 0.01, 1.58), (0.1, 0.1, 1.22), (1.0, 0.1, 0.002)]
)
def test_on_the_sphere_the_temperature_decides_how_much_of_the_gap_closes(temperature, rate, gap):
    X, Y = make_clusters(100, 64, gap=2.0, spread=0.1, sphere=True)
    run = descend(X, Y, temperature, 2_000, rate, sphere=True, records=4)
    assert run.gap_distance[0] == pytest.approx(1.57, abs=0.01)
    assert run.gap_distance[-1] == pytest.approx(gap, abs=0.02)
    # Figs 12 and 16: what stays of the gap is orthogonal, and the sums even out.
    assert run.orthogonality_x[-1] < 0.5 * run.orthogonality_x[0]
    assert run.assignments_std_y[-1] < 0.05 * run.assignments_std_y[0]


@pytest.mark.long
@pytest.mark.usefixtures("")
@pytest.mark.parametrize(("temperature", "gap"), [(0.01, 1.58), (0.1, 1.22), (1.0, 0.002)])
def test_on_the_sphere_the_gap_is_that_of_the_table_after_all_steps(temperature, gap):
    X, Y = make_clusters(100, 64, gap=2.0, spread=0.1, sphere=True)
    run = descend(X, Y, temperature, 20_000, 0.01, sphere=True, records=4)
    assert run.gap_distance[-1] == pytest.approx(gap, abs=0.005 if gap > 1 else 5e-4)


def test_descent_first_shrinks_the_variance_along_the_gap_and_evens_out_the_sums():
    """Figs 5 and 6 left: along the gap at once, across it not; S_i approach 1."""
    X, Y = make_clusters(50, 2, gap=1.0, spread=0.05, seed=3)
    run = descend(X, Y, 0.1, 20_000, records=[25, 100, 1000])
    assert np.all(run.variance_along_x[1:3] < run.variance_along_x[0])
    assert run.variance_along_x[2] < 0.5 * run.variance_along_x[0]
    assert run.variance_across_x[2] > 0.5 * run.variance_across_x[0]
    for spread in (run.assignments_std_x, run.assignments_std_y):
        assert spread[-1] < 0.05 * spread[0]
    np.testing.assert_allclose(run.assignments_mean_x, 1, atol=1e-12)


def test_from_a_wide_collapse_the_gap_closes_and_from_a_tight_one_it_stays():
    """Fig. 11: 10⁴ steps of 0.1, the flow of 10⁵ steps of 0.01; draws end between 0.09 and 0.17."""
    wide = descend(*collapsed(50, spread=1.0), 0.1, 10_000, 0.1, records=2)
    assert wide.gap_distance[0] > 0.99
    assert wide.gap_distance[-1] < 0.25
    tight = descend(*collapsed(50, spread=0.01), 0.1, 2_000, 0.1, records=2)
    assert tight.gap_distance[-1] > 0.99


def test_in_a_collapse_points_near_the_centre_are_pushed_away():
    X, Y = collapsed(50, spread=1.0)
    sums = contrastive_gradient(X, Y, 0.1).assignments_y
    order = np.argsort(np.abs(Y[:, 0]))
    assert sums[order[:15]].mean() > 1 > sums[order[-15:]].mean()


@pytest.mark.parametrize(("temperature", "expected"), [(0.1, 0.86), (1.0, 0.45)])
def test_the_first_step_goes_along_the_gap_when_the_temperature_is_low(temperature, expected):
    draws = [make_clusters(10, 2, seed=s) for s in range(60)]
    steps = [first_step(X, Y, temperature) for X, Y in draws]
    cosines = np.array([s.mean_cosine for s in steps])
    # The figures of the table are from one draw: within 3 standard deviations of single draws,
    # and the mean over draws within 0.05 of it.
    assert abs(cosines.mean() - expected) < 3 * cosines.std()
    assert cosines.mean() == pytest.approx(expected, abs=0.05)
    rates = [rate for s in steps for rate in (s.variance_rate_x, s.variance_rate_y)]
    # At τ = 1 the pull of the own pair is as strong as the force, so a draw may go either way.
    assert np.mean(np.array(rates) < 0) > (0.999 if temperature == 0.1 else 0.7)


def test_the_variance_rate_is_the_change_of_variance_of_a_small_step():
    X, Y = make_clusters(30, 3, spread=0.02)
    step = first_step(X, Y, 0.1)
    gap, small = X.mean(axis=0) - Y.mean(axis=0), 1e-6
    moved = X - small * contrastive_gradient(X, Y, 0.1).x
    measured = math.log(variance_along(moved, gap) / variance_along(X, gap)) / small
    assert step.variance_rate_x == pytest.approx(measured, rel=1e-3)


def test_the_sums_follow_their_first_order_prediction():
    """S_i ≈ 1 + (2/τ)(μx − μy)·(y_i − μy), with an error of second order in the spread."""
    errors = []
    for spread in (0.004, 0.001):
        step = first_step(*make_clusters(40, 3, spread=spread), temperature=0.1)
        for exact, predicted in (
            (step.assignments_x, step.predicted_x),
            (step.assignments_y, step.predicted_y),
        ):
            errors.append(np.abs(exact - predicted).max() / np.abs(predicted - 1).max())
    # A spread four times smaller leaves a quarter of the relative error; 0.35 allows third order.
    assert errors[2] < 0.35 * errors[0]
    assert errors[3] < 0.35 * errors[1]
    assert max(errors[2:]) < 0.05


def parallel_rings(n, gap, radius, twist):
    """Two regular polygons in parallel planes, one turned by ``twist`` radians.

    Every point sees the other ring the same way, so Qx and Qy are doubly stochastic and stay so.
    """
    for turn, height in ((0.0, gap / 2), (twist, -gap / 2)):
        angle = 2 * np.pi * np.arange(n) / n + turn
        ring = (radius * np.cos(angle), radius * np.sin(angle), np.full(n, height))
        yield np.stack(ring, axis=1)


def test_an_orthogonal_gap_stays_where_the_assignments_are_doubly_stochastic(engine):
    """Theorem 3.2, exactly: two rings turned against each other align and keep their distance."""
    X, Y = parallel_rings(6, gap=1.0, radius=0.5, twist=0.4)
    run = descend(X, Y, 0.1, 20_000, 0.01, engine=engine if engine == "compiled" else "auto")
    np.testing.assert_allclose(run.gap_distance, 1.0, atol=1e-12)
    np.testing.assert_allclose(run.assignments_std_x, 0, atol=1e-12)
    # Every local gap becomes the global one.
    np.testing.assert_allclose((run.X - run.Y)[:, 2], 1.0, atol=1e-12)
    assert np.abs((run.X - run.Y)[:, :2]).max() < 0.01 * np.abs((X - Y)[:, :2]).max()


def test_along_a_constant_direction_the_force_is_the_excess_of_the_sum():
    """v·∂L/∂y_i = −(2/(τN)) (S_i − 1) (b − a) when v·x = a and v·y = b: the core of th. 3.2."""
    X, Y = collapsed(9, 3, gap=0.7)
    g = contrastive_gradient(X, Y, 0.3)
    expected = -2 / (0.3 * 9) * (g.assignments_y - 1) * (-0.7)
    np.testing.assert_allclose(g.y[:, 2], expected, atol=1e-12)


@pytest.mark.parametrize(("d1", "d2"), [(0.0, 0.0), (0.3, 2.0), (4.0, 4.0), (0.0, 900.0)])
def test_two_images_with_one_caption_lose_nothing_by_a_gap(d1, d2):
    X = np.array([[math.sqrt(d1), 0.0], [0.0, math.sqrt(d2)]])
    Y = np.zeros((2, 2))
    printed = math.log(2) + (d1 + d2) / 2 + float(np.logaddexp(-d1, -d2))
    assert shared_caption_loss(d1, d2) == pytest.approx(printed, rel=1e-12)
    assert contrastive_gradient(X, Y, 1.0).loss == pytest.approx(printed, rel=1e-12)
    # Flat, and least, along d₁ = d₂.
    assert shared_caption_loss(d1, d1) == pytest.approx(2 * math.log(2), rel=1e-15)
    assert shared_caption_loss(d1, d2) >= shared_caption_loss(d1, d1)


def test_three_pairs_with_a_gap_are_as_good_as_aligned_ones():
    g = {
        name: contrastive_gradient(*three_pairs(name), 0.1)
        for name in ("crossed", "crowded", "aligned", "gap")
    }
    assert g["gap"].loss == pytest.approx(g["aligned"].loss, rel=1e-9)
    assert g["gap"].norm < 1e-2
    assert g["crossed"].loss > 30
    assert g["crowded"].loss > 1


def test_a_learned_temperature_falls_once_pairs_match():
    X, Y = make_clusters(10, 2, gap=0.2, spread=0.5)
    run = descend(X, X + np.array([0.0, 0.2]), 0.5, 3_000, 0.01, temperature_rate=0.01)
    assert run.temperature[-1] < 0.5 * run.temperature[0]
    fixed = descend(X, Y, 0.5, 10)
    assert set(fixed.temperature.round(15)) == {0.5}
