"""Random networks squeeze everything into a cone, the more so the deeper they are (Liang, 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import expit

from modgap._results import Result
from modgap._validate import check_choice, check_count
from modgap.measures.cone import cone
from modgap.simulate.cone_layer import relu_cosine

Activation = Literal["linear", "relu", "tanh", "sigmoid"]

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0),
    "tanh": np.tanh,
    "sigmoid": expit,
}


@dataclass(frozen=True)
class ConeByDepth(Result):
    """Cosines between the outputs for different inputs, after 0, 1, 2, … random layers.

    ``expected`` is the mean cosine in the limit of wide layers; ``mean``, ``std``, ``min`` and
    ``max`` are over all ordered pairs of one draw of inputs, weights and biases.
    """

    depths: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    min: np.ndarray
    max: np.ndarray
    expected: np.ndarray


def cone_by_depth(
    activation: Activation = "relu",
    depth: int = 25,
    width: int = 512,
    n_inputs: int = 500,
    seed: int = 0,
) -> ConeByDepth:
    """Mean cosine between outputs of a random network, layer by layer (Liang et al., fig. 2b).

    Inputs are standard normal with as many numbers as a layer is wide; weights and biases are
    N(0, 1/width). Non-linear layers close the cone (sigmoid is past 0.99 at depth 2), linear ones
    hardly do: what they add is the shared bias alone, depth/width.

    Parameters
    ----------
    activation : {"linear", "relu", "tanh", "sigmoid"}
        What follows each layer.
    depth, width : int
        How many layers, and how many units in each.
    n_inputs : int
        How many inputs the cosines are between.
    seed : int, default 0
        Of inputs, weights and biases.

    >>> sigmoid = cone_by_depth("sigmoid", depth=2, width=128, n_inputs=100)
    >>> sigmoid.depths.tolist(), bool(sigmoid.mean[2] > 0.95)
    ([0, 1, 2], True)
    >>> [round(c, 2) for c in sigmoid.expected.tolist()]
    [0.0, 0.85, 0.99]
    """
    check_choice(activation, "activation", get_args(Activation))
    depth = check_count(depth, "depth")
    width = check_count(width, "width", at_least=2)
    n_inputs = check_count(n_inputs, "n_inputs", at_least=2)
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n_inputs, width))
    cones = [cone(H) for H in (inputs, *random_layers(inputs, activation, [width] * depth, rng))]
    return ConeByDepth(
        depths=np.arange(depth + 1),
        **{k: np.array([getattr(c, k) for c in cones]) for k in ("mean", "std", "min", "max")},
        expected=_expected(activation, depth, width),
    )


def random_layers(
    H: np.ndarray, activation: Activation, widths: list[int], rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Outputs h ← φ(W h + b) of each layer, weights and biases N(0, 1/width of the layer)."""
    for width in widths:
        # The bias is the weight of one more input that is always 1.
        W = rng.standard_normal((H.shape[1] + 1, width)) / width**0.5
        H = ACTIVATIONS[activation](H @ W[:-1] + W[-1])
        yield H


def _expected(activation: Activation, depth: int, width: int) -> np.ndarray:
    """Mean cosine after each layer if layers were infinitely wide but biases kept their size.

    Before the activation two inputs are then Gaussian with variance v = E h² + 1/width and
    covariance E h h′ + 1/width, the same for every unit.
    """
    square, product = 1.0, 0.0  # standard normal inputs: E h² and E h h′ of a unit
    cosines = [product / square]
    for _ in range(depth):
        variance, covariance = square + 1 / width, product + 1 / width
        square, product = _activated_moments(activation, variance, covariance / variance)
        cosines.append(product / square)
    return np.array(cosines)


def _activated_moments(
    activation: Activation, variance: float, correlation: float
) -> tuple[float, float]:
    """E φ(a)² and E φ(a) φ(b) of two Gaussians of one variance."""
    if activation == "relu":  # the kink spoils quadrature, but there is a closed form
        # Without a bias and with unit norms the layer sees exactly this correlation.
        return variance / 2, variance / 2 * relu_cosine(correlation, bias=0.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    phi, scale = ACTIVATIONS[activation], variance**0.5
    a = phi(scale * nodes)
    rest = max(1 - correlation**2, 0.0) ** 0.5  # rounding can put a correlation above 1
    b = phi(scale * (correlation * nodes[:, None] + rest * nodes))
    return float(weights @ a**2), float((weights * a) @ b @ weights)
