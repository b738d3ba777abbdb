"""What Liang et al. prove about random layers: they make cones (th. 1, 2 and 4, lemma 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from modgap.core.checks import (
    InputValueError,
    check_count,
    check_finite,
    check_numbers,
    check_positive,
)
from modgap.core.results import Result

Activation = Literal["linear", "relu", "tanh", "sigmoid"]

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0),
    "tanh": np.tanh,
    "sigmoid": expit,
}

# Random layers held at once; keeps the scratch of wide layers small.
_BLOCK_NUMBERS = 2**21


def relu_cosine(cosine: float, norms: tuple[float, float] = (1.0, 1.0), bias: float = 1.0) -> float:
    """Cosine of φ(Wu + b) and φ(Wv + b) for a wide random ReLU layer.

    With θ the angle of (u, bias) and (v, bias), (sin θ + (π − θ) cos θ) / π: what lemma 3 bounds
    from below by cos θ alone (Liang et al., appendix D). Weights are N(0, 1/width), biases
    N(0, bias²/width); ``norms`` are ‖u‖ and ‖v‖.

    >>> round(relu_cosine(0.0, bias=0.0), 4)  # 1/π: orthogonal before, 71° after
    0.3183
    >>> round(relu_cosine(0.5), 4)
    0.788
    """
    cosine = _check_cosine(cosine)
    first, second = (check_positive(norm, "norms") for norm in norms)
    bias = check_finite(bias, "bias")
    lengths = math.hypot(first, bias) * math.hypot(second, bias)
    with_bias = min(1.0, max(-1.0, (cosine * first * second + bias**2) / lengths))
    angle = math.acos(with_bias)
    return (math.sin(angle) + (math.pi - angle) * with_bias) / math.pi


@dataclass(frozen=True)
class LayerViolations(Result):
    """How often a random ReLU layer fails to bring two directions closer, for each width.

    ``applies`` says whether the cosine is below ``limit`` = 2r/(1 + r²), as theorem 1 asks.
    ``mean_cosine`` is over the layers that leave both vectors a direction, ``wide_cosine`` what
    it tends to. Lemma 3 says ``product`` ≤ ``rectified``, with 1 + u·v and 2 E[φ(·)·φ(·)].
    """

    limit: float
    applies: bool
    widths: np.ndarray
    violations: np.ndarray
    standard_error: np.ndarray
    mean_cosine: np.ndarray
    wide_cosine: float
    product: float
    rectified: float
    rectified_measured: np.ndarray


def layer_violations(
    cosine: float = 0.5,
    ratio: float = 1.0,
    widths: Sequence[int] = (4, 8, 16, 32, 64),
    trials: int = 20_000,
    norm: float = 1.0,
    seed: int = 0,
) -> LayerViolations:
    """Share of random ReLU layers with cos(φ(Wu+b), φ(Wv+b)) ≤ cos(u, v) (Liang, theorem 1).

    The theorem says O(1/width) for cosines below 2r/(1 + r²); the share falls faster than that. A
    layer that gives a zero vector counts as a violation, for it leaves no direction. (The proof
    calls cosines at or below 0 trivial, since the cosine after is "positive almost surely": it can
    be 0, with a chance that falls exponentially with the width.)

    Parameters
    ----------
    cosine : float
        cos(u, v).
    ratio, norm : float
        r = ‖u‖/‖v‖, and ‖v‖.
    widths : list of int
        Of the layers.
    trials : int
        Random layers per width.
    seed : int, default 0
        Of the layers.

    >>> result = layer_violations(cosine=0.5, widths=(4, 64), trials=2000)
    >>> bool(result.violations[0] > 0.15), bool(result.violations[1] < 0.01)
    (True, True)
    >>> result.limit, round(result.wide_cosine, 3)
    (1.0, 0.788)
    """
    cosine = _check_cosine(cosine)
    ratio, norm = check_positive(ratio, "ratio"), check_positive(norm, "norm")
    trials = check_count(trials, "trials", at_least=2)
    sizes = [check_count(width, "widths") for width in np.atleast_1d(widths).tolist()]
    check_numbers(sizes, "widths")
    rng = np.random.default_rng(seed)
    # A Gaussian layer sees u and v through their inner products alone, so two dimensions do.
    u = ratio * norm * np.array([1.0, 0.0])
    v = norm * np.array([cosine, (1 - cosine**2) ** 0.5])
    shares, means, products = zip(
        *(_layers(u, v, cosine, width, trials, rng) for width in sizes), strict=True
    )
    share = np.array(shares)
    limit = 2 * ratio / (1 + ratio**2)
    wide = relu_cosine(cosine, (ratio * norm, norm))
    return LayerViolations(
        limit=limit,
        applies=cosine < limit,
        widths=np.array(sizes),
        violations=share,
        standard_error=np.sqrt(share * (1 - share) / trials),
        mean_cosine=np.array(means),
        wide_cosine=wide,
        product=1 + float(u @ v),
        rectified=wide * math.hypot(ratio * norm, 1) * math.hypot(norm, 1),
        rectified_measured=np.array(products),
    )


def _layers(
    u: np.ndarray, v: np.ndarray, cosine: float, width: int, trials: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Share of violations, mean cosine, and twice the mean inner product over random layers."""
    kept, cosines, products, alive = 0, 0.0, 0.0, 0
    block = max(1, _BLOCK_NUMBERS // (3 * width))
    for start in range(0, trials, block):
        layers = rng.standard_normal((min(block, trials - start), width, 3)) / width**0.5
        after_u, after_v = (np.maximum(layers[..., :2] @ w + layers[..., 2], 0) for w in (u, v))
        inner = np.sum(after_u * after_v, axis=1)
        lengths = np.linalg.norm(after_u, axis=1) * np.linalg.norm(after_v, axis=1)
        directed = lengths > 0
        kept += int(np.sum(directed & (inner > cosine * lengths)))
        cosines += float(np.sum(inner[directed] / lengths[directed]))
        alive += int(directed.sum())
        products += 2 * float(inner.sum())
    return 1 - kept / trials, cosines / alive if alive else math.nan, products / trials


def _check_cosine(cosine: float) -> float:
    cosine = check_finite(cosine, "cosine")
    if not -1 <= cosine <= 1:
        raise InputValueError(f"cosine must be between -1 and 1, got {cosine}.")
    return cosine


def random_layers(
    H: np.ndarray, activation: Activation, widths: list[int], rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Outputs h ← φ(W h + b) of each layer, weights and biases N(0, 1/width of the layer)."""
    for width in widths:
        # The bias is the weight of one more input that is always 1.
        W = rng.standard_normal((H.shape[1] + 1, width)) / width**0.5
        H = ACTIVATIONS[activation](H @ W[:-1] + W[-1])
        yield H


@dataclass(frozen=True)
class InitialisationShare(Result):
    """Share of an output's variance that is due to the initialisation, and theorem 4's bound.

    ``share`` = Var E[h | Θ] / Var h of a unit of layer ``depth``; ``bound`` is β = 1 − tr Var[h
    given Θ] of the layer below. ``wide_share`` and ``wide_bound`` are both in the limit of wide
    layers and high-dimensional data.
    """

    share: float
    standard_error: float
    bound: float
    wide_share: float
    wide_bound: float


def initialisation_share(
    depth: int = 2,
    width: int = 64,
    dimension: int = 64,
    initialisations: int = 500,
    n_inputs: int = 100,
    seed: int = 0,
) -> InitialisationShare:
    """Split an output's variance over random ReLU networks and random unit inputs (theorem 4).

    Inputs are uniform on the unit sphere; weights and biases N(0, 1/width). The deeper, the more
    of the variance is the network's own: inputs meet, initialisations do not.
    (Step 1 of the proof prints E φ(·)² without its ½; the bound that follows has it.)

    Parameters
    ----------
    depth, width : int
        Layers of a network, and units of a layer.
    dimension, n_inputs : int
        Numbers of an input, and inputs of a network.
    initialisations : int
        Random networks.
    seed : int, default 0
        Of networks and inputs.

    >>> result = initialisation_share(depth=2, initialisations=100)
    >>> bool(result.share > result.bound), round(result.wide_share, 3), round(result.wide_bound, 3)
    (True, 0.752, 0.609)
    """
    depth = check_count(depth, "depth")
    width = check_count(width, "width", at_least=2)
    dimension = check_count(dimension, "dimension", at_least=2)
    initialisations = check_count(initialisations, "initialisations", at_least=2)
    n_inputs = check_count(n_inputs, "n_inputs", at_least=2)
    rng = np.random.default_rng(seed)
    means = np.empty((initialisations, width))
    within, below = np.empty(initialisations), np.empty(initialisations)
    for i in range(initialisations):
        U = rng.standard_normal((n_inputs, dimension))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        *lower, top = (U, *random_layers(U, "relu", [width] * depth, rng))
        means[i], within[i] = top.mean(axis=0), top.var(axis=0, ddof=1).mean()
        below[i] = lower[-1].var(axis=0, ddof=1).sum()
    # All units have one distribution, so one mean serves them all. The mean over the inputs
    # still carries 1/n of the variance within, which is not the initialisation's.
    between = np.mean((means - means.mean()) ** 2, axis=1) - within / n_inputs
    total = between + within
    share = float(between.mean() / total.mean())
    residual = (between - share * total) / total.mean()
    wide_bound, wide_share = _wide(depth)
    return InitialisationShare(
        share=share,
        standard_error=float(residual.std(ddof=1)) / initialisations**0.5,
        bound=1 - float(below.mean()),
        wide_share=wide_share,
        wide_bound=wide_bound,
    )


def _wide(depth: int) -> tuple[float, float]:
    """β and the share when unit inputs are orthogonal and every layer keeps their norm at 1."""
    cosine = below = 0.0
    for _ in range(depth):
        cosine, below = relu_cosine(cosine), cosine
    # A unit's squared mean is 1/π of its second moment: that part is not variance.
    return below, (cosine - 1 / math.pi) / (1 - 1 / math.pi)
