"""What Yaras et al. prove about the flow of the gap: closed forms, bounds and rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from modgap.arrays import row_blocks, rows_per_block, to_numpy, unit
from modgap.core.checks import (
    Array,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
    check_numbers,
    check_positive,
)
from modgap.core.door import check_pairs
from modgap.core.results import Result

Parameterisation = Literal["exp", "softplus", "linear"]


def check_separation(separation: float, name: str = "separation") -> float:
    """γ lies strictly between 0 (no gap) and 1 (each modality in one point)."""
    if not 0 < check_finite(separation, name) < 1:
        raise InputValueError(f"{name} must lie strictly between 0 and 1, got {separation}.")
    return float(separation)


def check_start(separation: float, inverse_temperature: float) -> tuple[float, float]:
    """γ and β of a flow's start."""
    return check_separation(separation), check_positive(inverse_temperature, "inverse_temperature")


def check_times(times: Array) -> np.ndarray:
    """Times from 0 on, in their order."""
    checked = check_numbers(times, "times")
    if checked[0] < 0 or np.any(np.diff(checked) <= 0):
        raise InputValueError(
            f"times must be 0 or later and increase, got {checked.tolist()[:5]}. Sort them."
        )
    return checked


def unit_pairs(X: Array, Y: Array) -> tuple[np.ndarray, np.ndarray]:
    """Two or more pairs as unit rows of NumPy, in float64."""
    pairs = check_pairs(X, Y, min_rows=2, nonzero=True)
    U, V = (unit(np.asarray(to_numpy(A), dtype=np.float64)) for A in pairs)
    return U, V


def inverse_temperature_along(
    separations: Array,
    separation: float,
    inverse_temperature: float,
    *,
    parameterisation: Literal["exp", "linear"] = "exp",
    scale: float = 1.0,
    temperature_rate: float = 1.0,
) -> np.ndarray:
    """β as a function of γ along the flow, whatever the embeddings do (Yaras et al., lemma 3.1).

    β = exp(ν): β = β₀ √(γ₀/γ) exp((γ² − γ₀²)/4). With β = exp(ν/s), or with ν learned r times as
    fast, the factor behind β₀ is raised to r/s² (integrate eq. 5). β = ν: β² = β₀² +
    r (log(γ₀/γ) − (γ₀² − γ²)/2) (appendix C).

    Parameters
    ----------
    separations : array
        The γ to give β for.
    separation, inverse_temperature : float
        γ₀ and β₀, where the flow starts.
    parameterisation : {"exp", "linear"}
        β = exp(ν/scale) or β = ν.
    scale, temperature_rate : float, default 1
        s and r.

    >>> inverse_temperature_along([0.5, 0.125], 0.5, 10.0).round(3).tolist()
    [10.0, 18.862]
    """
    check_choice(parameterisation, "parameterisation", ("exp", "linear"))
    start, beta = check_start(separation, inverse_temperature)
    scale = check_positive(scale, "scale")
    rate = check_positive(temperature_rate, "temperature_rate")
    gamma = check_numbers(separations, "separations", positive=True)
    growth = rate * (np.log(start / gamma) - (start**2 - gamma**2) / 2)
    if parameterisation == "exp":
        return beta * np.exp(growth / (2 * scale**2))
    return np.sqrt(np.maximum(beta**2 + growth, 0))


@dataclass(frozen=True)
class SeparationBound(Result):
    """Theorem 3.2's lower bound on γ(t), and its constants."""

    times: np.ndarray
    separation: np.ndarray
    c1: float
    c2: float
    c3: float
    c4: float


def separation_bound(
    times: Array, separation: float, inverse_temperature: float, margin: float, n: int
) -> SeparationBound:
    """Lower bound on γ(t) while the margin stays at least ``margin`` (Yaras et al., th. 3.2).

    γ(t) ≥ c₄² / log²(c₃ t + exp(c₄/√γ₀)), c₁ = 2ᾱ(n − 1)β₀√γ₀, c₂ = ᾱβ₀√γ₀ (1 − γ₀²) e^(−γ₀²/4),
    c₃ = 55 c₁/2, c₄ = c₂ − 1/10; the end of appendix B.3 prints c₂ for c₄², which even at t = 0
    can exceed γ₀. Needs β₀ ≥ log(4(n − 1))/(ᾱ(1 − γ₀²)) and c₂ > 1/10.

    Parameters
    ----------
    times : array
        t, from 0 on.
    separation, inverse_temperature : float
        γ₀ and β₀, where the flow starts.
    margin : float
        ᾱ: how much more similar every pair is than all non-matching rows.
    n : int
        How many pairs there are.

    >>> bound = separation_bound([0.0, 1e6], 0.25, 20.0, margin=1.0, n=8)
    >>> bound.separation.round(4).tolist()
    [0.25, 0.1708]
    """
    gamma, beta = check_start(separation, inverse_temperature)
    margin, n = check_positive(margin, "margin"), check_count(n, "n", at_least=2)
    times = check_numbers(times, "times")
    if times.min() < 0:
        raise InputValueError(f"times must be 0 or later, got {times.min():g}.")
    least = math.log(4 * (n - 1)) / (margin * (1 - gamma**2))
    if beta < least:
        raise InputValueError(
            f"Theorem 3.2 needs an inverse temperature of at least {least:.4g} "
            f"for this margin, separation and n, got {beta:g}."
        )
    c1 = 2 * margin * (n - 1) * beta * math.sqrt(gamma)
    c2 = margin * beta * math.sqrt(gamma) * (1 - gamma**2) * math.exp(-(gamma**2) / 4)
    if c2 <= 0.1:
        raise InputValueError(
            f"Theorem 3.2 needs c₂ = ᾱβ₀√γ₀(1 − γ₀²)exp(−γ₀²/4) above 0.1, got {c2:.4g}. "
            "Raise the separation or the inverse temperature."
        )
    c3, c4 = 55 * c1 / 2, c2 - 0.1
    with np.errstate(divide="ignore"):
        logs = np.logaddexp(np.log(c3 * times), c4 / math.sqrt(gamma))
    return SeparationBound(times, c4**2 / logs**2, c1, c2, c3, c4)


def log_exponential_moment(dimension: int, a: float) -> float:
    """log ξ₂ = log E[exp(a z)], z the product of two random unit vectors (Yaras et al., B.4).

    ξ₂ = ₀F₁(d/2; a²/4), whose terms are all positive and are added in log space: the printed
    Γ(d/2) (2/a)^ρ I_ρ(a) overflows at d = 512.

    >>> round(log_exponential_moment(3, 2.0), 6)  # sinh(2)/2
    0.59522
    """
    dimension = check_count(dimension, "dimension", at_least=2)
    a = check_positive(a, "a")
    return _log_0f1(dimension / 2, a)


def mean_tilted_cosine(dimension: int, a: float) -> float:
    """ξ₁/ξ₂ = E[z exp(a z)] / E[exp(a z)] = I_{d/2}(a)/I_{d/2−1}(a) (Yaras et al., eq. 9).

    ξ₁ = (a/d) ₀F₁(d/2 + 1; a²/4). For d = 3 it is coth(a) − 1/a.

    >>> round(mean_tilted_cosine(3, 2.0), 6), round(1 / math.tanh(2) - 1 / 2, 6)
    (0.537315, 0.537315)
    """
    dimension = check_count(dimension, "dimension", at_least=2)
    a = check_positive(a, "a")
    return a / dimension * math.exp(_log_0f1(dimension / 2 + 1, a) - _log_0f1(dimension / 2, a))


def _log_0f1(b: float, a: float) -> float:
    """log ₀F₁(b; a²/4), a > 0."""
    # The largest term is at k with k(k + b) = a²/4, so before a/2; the terms then fall faster
    # than those of a Poisson law of that mean.
    k = np.arange(math.ceil(a / 2 + 20 * math.sqrt(a) + 60))
    terms = 2 * k * math.log(a / 2) - (gammaln(b + k) - gammaln(b)) - gammaln(k + 1)
    return float(logsumexp(terms))


def initial_growth_bound(
    dimension: int,
    separation: float,
    inverse_temperature: float,
    n: int | None = None,
    delta: float = 0.05,
) -> float:
    """Lower bound on 2 dγ/dt at random embeddings, with probability 1 − delta (th. 3.3).

    4β₀γ₀ ((ξ₁ − 2e^a ε)/(ξ₂ + (e^a − e^−a) ε) − 2ε), a = β₀(1 − γ₀²), ε = √(log((4n+1)/δ)/(2n));
    without ``n`` the limit 4β₀γ₀ ξ₁/ξ₂ (eq. 9). It is positive, so the gap first grows, only when
    n is large enough for e^a. The theorem states it for dΔ/dt; its proof bounds 2 dγ/dt.

    Parameters
    ----------
    dimension : int
        d, of the rows.
    separation, inverse_temperature : float
        γ₀ and β₀.
    n : int, optional
        How many pairs there are; without it, infinitely many.
    delta : float, default 0.05
        The probability that the bound fails.

    >>> round(initial_growth_bound(3, 0.3, 1.0, n=8000), 3)
    0.116
    >>> round(initial_growth_bound(3, 0.3, 1.0), 3)
    0.345
    """
    gamma, beta = check_start(separation, inverse_temperature)
    a = beta * (1 - gamma**2)
    ratio = mean_tilted_cosine(dimension, a)
    if n is None:
        return 4 * beta * gamma * ratio
    n = check_count(n, "n")
    delta = check_separation(delta, "delta")
    eps = math.sqrt(math.log((4 * n + 1) / delta) / (2 * n))
    # Everything over e^a, which alone may overflow.
    mean = math.exp(log_exponential_moment(dimension, a) - a)
    low = (mean * ratio - 2 * eps) / (mean - math.expm1(-2 * a) * eps)
    return 4 * beta * gamma * (low - 2 * eps)


def initial_growth(X: Array, Y: Array, separation: float, inverse_temperature: float) -> float:
    """2 dγ/dt = −4βγ g(Z) of given embeddings, whose rows are made unit (Yaras et al., eq. 11).

    g = (1/2n) Σ_i [Z_ii − Σ_j σ_j(a Z_i:) Z_ij + the same over columns], Z = X Yᵀ, a = β(1 − γ²).
    Memory stays at one block of rows. On random unit rows it is what theorem 3.3 bounds.

    >>> import numpy as np
    >>> round(initial_growth(np.eye(2), np.eye(2)[::-1], 0.5, 1.0), 4)  # wrong pairs: it grows
    1.3584
    """
    U, V = unit_pairs(X, Y)
    gamma, beta = check_start(separation, inverse_temperature)
    a = beta * (1 - gamma**2)
    total = 2 * float(np.einsum("ij,ij->", U, V))
    for rows, others in ((U, V), (V, U)):
        for block in row_blocks(len(rows), rows_per_block(len(others))):
            Z = rows[block] @ others.T
            total -= float(np.vdot(softmax(a * Z, axis=1), Z))
    return -4 * beta * gamma * total / (2 * len(U))


def decay_rate(inverse_temperature: float, final: float | None = None) -> float:
    """Rate at which log γ falls under a set temperature, once γ is small (Yaras et al., C).

    In the simplified flow d log γ/dt = −2β e^(−β(1 − γ²)): 2β₀e^(−β₀) for a constant β₀, and
    2c(β₀, β₁), c = [(β₀ + 1)e^(−β₀) − (β₁ + 1)e^(−β₁)]/(β₁ − β₀), on average over a linear
    schedule from β₀ to β₁. Appendix C prints half of both; the 2 is in its own flow (sec. 3.1).

    >>> round(decay_rate(1.0), 4), round(decay_rate(1.0, 3.0), 4)
    (0.7358, 0.5366)
    """
    beta = check_positive(inverse_temperature, "inverse_temperature")
    change = 0.0 if final is None else check_positive(final, "final") - beta
    if change == 0:
        return 2 * beta * math.exp(-beta)
    # c in a form that does not cancel where the two ends lie close together.
    mean = (beta + 1) * -math.expm1(-change) / change - math.exp(-change)
    return 2 * math.exp(-beta) * mean
