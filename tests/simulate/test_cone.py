"""The cone effect: depth, one layer, the initialisation's share, and cones of initialisations."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import reference
from modgap.core.results import to_json
from modgap.measures.cone import cone
from modgap.simulate.cone_initialisations import compare_cones, random_rows, trained_rows
from modgap.simulate.cone_theory import (
    initialisation_share,
    layer_violations,
    random_layers,
    relu_cosine,
)

# Deviations allowed, in standard errors: each is passed by chance about once in 150,000.
SIGMAS = 4.5


# -- depth (Liang, fig. 2b) ---------------------------------------------------------------------


def mean_cosines(activation, depth, width=512, n_inputs=500, seed=0):
    """The mean cosine of the outputs for different inputs, after 0, 1, 2, … layers."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n_inputs, width))
    layers = random_layers(inputs, activation, [width] * depth, rng)
    return np.array([cone(outputs).mean for outputs in (inputs, *layers)])


def test_a_sigmoid_network_reaches_its_published_cone_at_depth_two():
    assert mean_cosines("sigmoid", 2)[2] == pytest.approx(0.991, abs=0.002)  # printed: 0.99


def test_a_linear_network_shows_little_cone_effect_at_any_depth():
    means = mean_cosines("linear", 25)
    assert means.max() < 0.1
    # The shared biases alone: k layers add k/width to the product and to the square.
    share = np.arange(26) / 512
    np.testing.assert_allclose(means, share / (1 + share), atol=0.01)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_nonlinear_layers_close_the_cone_as_they_get_deeper(activation):
    means = mean_cosines(activation, 25, n_inputs=200)
    assert means[25] > 5 * 25 / (512 + 25)  # the last is what linear layers reach
    # Rising within what one draw of 512 units is uncertain by, about 1/√512 per layer.
    assert np.all(np.diff(means) > -1 / 512**0.5)
    assert abs(means[0]) < SIGMAS / (512**0.5 * 200)


def test_relu_layers_follow_the_limit_of_wide_ones():
    means = np.array([mean_cosines("relu", 6, 256, 100, seed) for seed in range(10)])
    # Inputs have 256 numbers of variance 1 and biases one of 1/256: a layer halves both squares.
    square, cosine, expected = 1.0, 0.0, [0.0]
    for _ in range(6):
        with_bias = square + 1 / 256
        cosine = relu_cosine((square * cosine + 1 / 256) / with_bias, bias=0.0)
        square = with_bias / 2
        expected.append(cosine)
    error = means.std(axis=0, ddof=1) / len(means) ** 0.5
    # Finite layers are off by the order of 1/width each, besides the error over draws.
    allowed = SIGMAS * error + np.arange(7) / 256
    assert np.all(abs(means.mean(axis=0) - expected)[1:] <= allowed[1:])


def test_the_seed_fixes_the_network():
    first, again, other = (mean_cosines("relu", 2, 16, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# -- one layer (Liang, theorem 1 and lemma 3) ---------------------------------------------------


def test_violations_of_theorem_one_vanish_with_the_width():
    result = layer_violations(cosine=0.5, ratio=1.0, widths=(4, 8, 16, 32, 64))
    assert result.applies
    # The stated values have two digits and come from thousands of draws, 2,000 at least.
    stated = np.array([0.22, 0.11, 0.05, 0.008, 0.0])
    error = np.sqrt(np.maximum(stated, 5e-4) / 2_000)
    np.testing.assert_array_less(abs(result.violations - stated), SIGMAS * error)
    # At most O(1/width), with the constant of the narrowest layer.
    bound = result.violations[0] * 4 / result.widths
    assert np.all(result.violations <= bound + SIGMAS * result.standard_error)
    assert np.all(np.diff(result.violations) < 0)


@pytest.mark.parametrize(("cosine", "ratio"), [(0.0, 1.0), (0.3, 2.0), (0.7, 1.2), (-0.5, 3.0)])
def test_wide_layers_raise_every_cosine_below_the_limit(cosine, ratio):
    result = layer_violations(cosine, ratio, widths=(512,), trials=500)
    assert result.applies
    assert result.wide_cosine > cosine
    assert result.violations[0] == 0


def test_above_the_limit_wide_layers_lower_the_cosine():
    result = layer_violations(cosine=0.9, ratio=3.0, widths=(16, 256), trials=2_000)
    assert not result.applies
    assert result.limit == pytest.approx(0.6)
    assert result.wide_cosine < 0.9
    assert result.violations[1] > 0.98


def test_violations_are_those_of_a_layer_with_many_inputs(rng):
    # Two inputs stand for any number: the law of the layer hangs on inner products alone.
    cosine, ratio, width, trials = 0.4, 1.5, 8, 20_000
    u, v = rng.normal(size=(2, 7))
    v -= u * (u @ v) / (u @ u)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    u, v = ratio * u, cosine * u + math.sqrt(1 - cosine**2) * v
    violations = 0
    for _ in range(trials):
        W, b = rng.normal(size=(width, 7)), rng.normal(size=width)
        a, c = np.maximum(W @ u + b, 0), np.maximum(W @ v + b, 0)
        lengths = np.linalg.norm(a) * np.linalg.norm(c)
        violations += not (lengths > 0 and a @ c / lengths > cosine)
    result = layer_violations(cosine, ratio, widths=(width,), trials=trials)
    error = result.standard_error[0] * math.sqrt(2)  # of the difference of two shares
    assert abs(result.violations[0] - violations / trials) < SIGMAS * error


@pytest.mark.parametrize("cosine", [-0.9, -0.3, 0.0, 0.5, 0.95])
def test_rectifying_does_not_lower_the_inner_product_of_lemma_three(cosine):
    result = layer_violations(cosine, ratio=1.3, widths=(64,), trials=4_000)
    assert result.product == pytest.approx(1 + 1.3 * cosine)
    assert result.product <= result.rectified
    # Each of 64 · 4,000 units adds a product of rectified Gaussians of variance v₁, v₂, whose
    # standard deviation is at most √(3/2 · v₁ v₂), the root of the mean of the fourth powers.
    error = 2 * math.sqrt(1.5 * (1 + 1.3**2) * 2) / math.sqrt(64 * 4_000)
    assert abs(result.rectified_measured[0] - result.rectified) < SIGMAS * error


def test_the_wide_cosine_has_its_known_values():
    assert relu_cosine(0.0, bias=0.0) == pytest.approx(1 / math.pi)
    assert relu_cosine(-1.0, bias=0.0) == pytest.approx(0.0, abs=1e-12)
    assert relu_cosine(1.0) == pytest.approx(1.0)
    assert relu_cosine(0.2, (2.0, 5.0), bias=0.0) == pytest.approx(relu_cosine(0.2, bias=0.0))


# -- the initialisation's share of the variance (Liang, theorems 2 and 4) -----------------------


@pytest.mark.parametrize(("depth", "share", "bound"), [(2, 0.756, 0.618), (4, 0.948, 0.925)])
def test_the_share_of_the_initialisation_is_above_its_bound(depth, share, bound):
    result = initialisation_share(depth)
    assert result.share - SIGMAS * result.standard_error > result.bound
    assert result.share == pytest.approx(share, abs=SIGMAS * result.standard_error + 0.005)
    assert result.bound == pytest.approx(bound, abs=0.015)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_the_share_of_the_initialisation_tends_to_its_wide_limit(depth):
    result = initialisation_share(depth, width=64, dimension=64)
    # Besides the error over draws, layers and data of 64 are off by the order of 1/64 · 1/4,
    # the curvature of the cosine's map.
    allowed = SIGMAS * result.standard_error + 1 / 256
    assert abs(result.share - result.wide_share) < allowed
    assert abs(result.bound - result.wide_bound) < 1 / 64
    assert result.wide_share > result.wide_bound


def test_the_share_does_not_hang_on_the_number_of_inputs():
    # With two inputs the mean over inputs still carries half of their variance.
    few = initialisation_share(2, n_inputs=2, initialisations=2_000)
    many = initialisation_share(2, n_inputs=200, seed=1)
    error = math.hypot(few.standard_error, many.standard_error)
    assert abs(few.share - many.share) < SIGMAS * error


# -- cones of many initialisations --------------------------------------------------------------


def narrow(centre: np.ndarray, rng: np.random.Generator, n: int = 50) -> np.ndarray:
    return centre + 0.1 * rng.normal(size=(n, len(centre)))


def test_cones_around_orthogonal_centres_are_separate(rng):
    result = compare_cones([narrow(axis, rng) for axis in np.eye(6)[:3]])
    assert result.told_apart == result.neighbours == 1.0
    assert result.least_separation > 1
    off_diagonal = result.distances[~np.eye(3, dtype=bool)]
    assert np.all(abs(off_diagonal - math.sqrt(2)) < 0.2)
    assert np.all(np.diag(result.distances) == 0)


def test_one_cone_seen_twice_is_not_separate(rng):
    X = narrow(np.ones(6), rng)
    result = compare_cones([X, X])
    assert result.separation == result.least_separation == result.between == 0
    assert result.told_apart == 0.5


def test_the_comparison_matches_loops(rng):
    A, B = narrow(np.eye(4)[0], rng, 7), narrow(np.eye(4)[1], rng, 7)
    result = compare_cones([A, B])
    a, b = reference.unit(A), reference.unit(B)
    radii = [np.sqrt(np.mean([np.sum((r - u.mean(0)) ** 2) for r in u])) for u in (a, b)]
    distance = np.linalg.norm(a.mean(0) - b.mean(0))
    assert result.radius == pytest.approx(radii)
    assert result.separation == pytest.approx(distance / sum(radii))
    both = np.concatenate([a, b])
    total = np.mean(np.sum((both - both.mean(0)) ** 2, axis=1))
    assert result.between == pytest.approx((distance / 2) ** 2 / total)
    assert result.mean_cosine == pytest.approx([reference.cone_cosines(S).mean() for S in (A, B)])


def test_the_comparison_survives_rotation_and_row_lengths(rng):
    sides = [narrow(axis, rng) for axis in np.eye(5)[:3]]
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    moved = [(S @ turn) * rng.uniform(0.1, 9, size=(50, 1)) for S in sides]
    first, second = compare_cones(sides), compare_cones(moved)
    for name in ("distances", "radius", "mean_cosine", "separation", "between", "told_apart"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), atol=1e-9)


@pytest.mark.parametrize("data", ["noise", "digits"])
@pytest.mark.parametrize("kind", ["mlp", "resnet", "vit", "transformer"])
def test_every_initialisation_has_a_cone_of_its_own(kind, data):
    pytest.importorskip("transformers", reason="transformers is not installed")
    result = compare_cones(random_rows(kind, data, initialisations=4, n_inputs=100))
    # Rows all over the sphere would have a mean cosine of 0 ± 1/√64/100.
    assert result.mean_cosine.min() > 0.4
    assert result.neighbours == 1.0
    assert result.told_apart > 0.95  # chance is 1/4
    assert result.least_separation > 0.5
    assert result.between > 0.4


@pytest.mark.parametrize("kind", ["resnet", "vit", "transformer"])
def test_cones_stay_apart_without_normalisation(kind):
    pytest.importorskip("transformers", reason="transformers is not installed")
    rows = random_rows(kind, "digits", initialisations=4, n_inputs=100, normalisation=False)
    result = compare_cones(rows)
    assert result.mean_cosine.min() > 0.4
    assert result.neighbours == 1.0
    assert result.told_apart > 0.95
    assert result.least_separation > 0.5


def test_other_inputs_do_not_move_the_cone_but_another_initialisation_does():
    pytest.importorskip("transformers", reason="transformers is not installed")

    from modgap.simulate.cone_networks import make_network, network_rows, noise_inputs

    inputs = [noise_inputs("vit", 100, seed=s) for s in (1, 2)]
    one = compare_cones([network_rows(make_network("vit"), batch) for batch in inputs])
    two = compare_cones([network_rows(make_network("vit", seed=s), inputs[0]) for s in (1, 2)])
    assert one.distances[0, 1] < 0.1 < 1 < two.distances[0, 1]


def test_trained_networks_keep_their_rows_together():
    pytest.importorskip("torch", reason="torch is not installed")
    seen = []
    rows, accuracies = trained_rows(
        "mlp", initialisations=3, n_inputs=300, epochs=4, progress=lambda *step: seen.append(step)
    )
    result = compare_cones(rows)
    assert seen == [("training a mlp", k, 3) for k in range(3)]
    assert accuracies.min() > 0.5  # chance is 0.1
    assert result.neighbours == 1.0
    assert result.told_apart > 0.9  # chance is 1/3


# -- results and refusals -----------------------------------------------------------------------


def test_results_turn_into_json():
    for result in (
        layer_violations(widths=(4,), trials=10),
        initialisation_share(1, width=4, dimension=3, initialisations=3, n_inputs=3),
        compare_cones([np.eye(3), np.eye(3) + 1]),
    ):
        assert json.loads(to_json(result))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: initialisation_share(depth=0), "depth must be at least 1, got 0"),
        (lambda: initialisation_share(width=1), "width must be at least 2, got 1"),
        (lambda: initialisation_share(n_inputs=1), "n_inputs must be at least 2, got 1"),
        (lambda: layer_violations(cosine=1.5), "cosine must be between -1 and 1, got 1.5"),
        (lambda: layer_violations(ratio=-1), "ratio must be a finite number above 0, got -1"),
        (lambda: layer_violations(widths=()), "widths must be a non-empty list"),
        (lambda: layer_violations(widths=(0,)), "widths must be at least 1, got 0"),
        (lambda: initialisation_share(dimension=1), "dimension must be at least 2, got 1"),
        (lambda: compare_cones([np.eye(3)]), "two or more matrices of one shape"),
        (lambda: compare_cones([np.eye(3), np.eye(4)]), "Embed the same inputs with every"),
        (lambda: compare_cones([np.eye(3), np.zeros((3, 3))]), r"embeddings\[1\] has 3 rows"),
        (lambda: random_rows("vitt"), r"kind must be one of .* Did you mean 'vit'\?"),
        (lambda: random_rows("mlp", "digit"), "data must be one of .* Did you mean 'digits'"),
        (lambda: random_rows("mlp", initialisations=0), "initialisations must be at least 1"),
        (lambda: trained_rows("mlp", epochs=0), "epochs must be at least 1, got 0"),
        (lambda: trained_rows("transformer"), "kind must be one of 'mlp', 'resnet', 'vit'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
