"""Where an output's variance comes from: the initialisation or the data (Liang, th. 2 and 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modgap._results import Result
from modgap._validate import check_count
from modgap.simulate.cone import random_layers
from modgap.simulate.cone_layer import relu_cosine


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
