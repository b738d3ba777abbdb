"""Gradient flow of the gap and the temperature between parallel modalities (Yaras et al. 2024).

The modalities lie in parallel planes, rows [√(1 − γ²) h, ±γ] with h on the unit sphere; β is the
inverse temperature. γ is called ``separation`` here: the planes are 2γ apart, and the distance Δ of
the centres is at least that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.integrate import solve_ivp

from modgap.arrays import unit
from modgap.core.checks import Array, InputTypeError, InputValueError, check_choice, check_positive
from modgap.core.results import Result
from modgap.measures.gap import margin
from modgap.measures.loss import contrastive_loss
from modgap.simulate.dynamics_loss import forces
from modgap.simulate.flow_theory import (
    Parameterisation,
    check_start,
    check_times,
    inverse_temperature_along,
    unit_pairs,
)

BetaSchedule = Callable[[float], float]


@dataclass(frozen=True)
class SimpleFlow(Result):
    """The flow with ℓ(m) = exp(−m): γ, log γ and β at the asked times; Δ = 2γ.

    log γ is there because γ itself leaves the range of floats where the gap closes fast.
    """

    times: np.ndarray
    separation: np.ndarray
    log_separation: np.ndarray
    inverse_temperature: np.ndarray
    gap_distance: np.ndarray


@dataclass(frozen=True)
class GapFlow(Result):
    """The flow of parallel embeddings under the contrastive loss, at the asked times.

    ``gap_distance`` is Δ, the distance of the centres; ``margin`` is positive when every pair is
    matched; ``closed_form`` is lemma 3.1's β for the γ of that time, None where the lemma has no
    closed form. ``X`` and ``Y`` (k, n, d + 1) are the embeddings with their last coordinate ±γ.
    """

    times: np.ndarray
    separation: np.ndarray
    inverse_temperature: np.ndarray
    closed_form: np.ndarray | None
    gap_distance: np.ndarray
    margin: np.ndarray
    loss: np.ndarray
    X: np.ndarray
    Y: np.ndarray


def simple_flow(
    separation: float,
    inverse_temperature: float,
    times: Array,
    *,
    parameterisation: Parameterisation = "exp",
    scale: float = 1.0,
    temperature_rate: float = 1.0,
    schedule: BetaSchedule | None = None,
) -> SimpleFlow:
    """Flow of (γ, β) with the scalar loss ℓ(m) = exp(−m) (Yaras et al., secs 3.1 and C).

    dγ/dt = −2βγ e^(−β(1 − γ²)) and dβ/dt = r β'² (1 − γ²) e^(−β(1 − γ²)), β' = dβ/dν. γ closes as
    1/log² t with "exp", as exp(−log² t) with "linear", exponentially at a constant β. Solved in
    log γ, log β and log(1 + t), stiff, to a relative 1e-10.

    Parameters
    ----------
    separation, inverse_temperature : float
        γ and β at the start.
    times : array
        When to give the state, from 0 on.
    parameterisation : {"exp", "softplus", "linear"}
        β = exp(ν/scale), CLIP's for scale 1, log(1 + e^ν), or ν.
    scale : float, default 1
        Of "exp".
    temperature_rate : float, default 1
        r: ν is learned so much faster than γ.
    schedule : callable, optional
        β as a function of time, instead of learning it. ``inverse_temperature`` is not used then.

    >>> learned = simple_flow(0.5, 1.0, [0, 1e6])
    >>> linear = simple_flow(0.5, 1.0, [0, 1e6], parameterisation="linear")
    >>> learned.separation.round(4).tolist()
    [0.5, 0.0011]
    >>> bool(linear.log_separation[-1] < -150)
    True
    """
    gamma, beta = check_start(separation, inverse_temperature)
    learning = _learning(parameterisation, scale, temperature_rate)
    times = check_times(times)

    def flow(t: float, state: np.ndarray) -> np.ndarray:
        rest = -math.expm1(2 * state[0])
        b = math.exp(state[1]) if schedule is None else _scheduled(schedule, t)
        force = math.exp(-b * rest)
        return np.array([-2 * b * force, learning(b) * rest * force / b if schedule is None else 0])

    states = _solve(flow, np.array([math.log(gamma), math.log(beta)]), times, "Radau")
    logs = states[0]
    betas = np.exp(states[1])
    if schedule is not None:
        betas = np.array([_scheduled(schedule, float(t)) for t in times])
    gammas = np.exp(logs)
    return SimpleFlow(times, gammas, logs, betas, 2 * gammas)


def gap_flow(
    X: Array,
    Y: Array,
    separation: float,
    inverse_temperature: float,
    times: Array,
    *,
    free: bool = True,
    parameterisation: Parameterisation = "exp",
    scale: float = 1.0,
    temperature_rate: float = 1.0,
    embedding_rate: float = 1.0,
) -> GapFlow:
    """Flow of γ, β and, with ``free``, of the embeddings themselves (Yaras et al., eqs 3, 4, 11).

    Loss: the symmetric cross-entropy of β(1 − γ²) Z, Z = X Yᵀ, rows made unit. With g = −⟨Z, ∇ℓ⟩,
    dγ/dt = −2βγ g and dβ/dt = r β'² (1 − γ²) g. While pairs are mismatched g is negative and the
    gap grows; then it shrinks, ever more slowly as the temperature falls (fig. 2).

    Parameters
    ----------
    X, Y : array (n, d)
        The directions of the embeddings within their planes, row by row in pairs.
    separation, inverse_temperature : float
        γ and β at the start.
    times : array
        When to give the state, from 0 on.
    free : bool, default True
        Let the embeddings move along the sphere; otherwise Z stays as it is.
    parameterisation, scale, temperature_rate
        How β is learned, as in ``simple_flow``.
    embedding_rate : float, default 1
        Rows move by minus so many times their gradient. A row feels 1/n of the loss and γ the
        whole of it, so n as rate lets both move alike, as the weights of a network do that all
        rows share.

    >>> import numpy as np
    >>> X, Y = np.random.default_rng(0).normal(size=(2, 10, 3))
    >>> run = gap_flow(X, Y, 0.3, 5.0, [0, 0.2, 1000], embedding_rate=10)
    >>> run.gap_distance.round(2).tolist(), (run.margin > 0).tolist()
    ([0.7, 1.35, 0.03], [False, False, True])
    >>> run = gap_flow(np.eye(3), np.eye(3), 0.5, 5.0, [0, 1, 100], free=False)
    >>> bool(np.all(np.diff(run.gap_distance) < 0))
    True
    >>> np.allclose(run.inverse_temperature, run.closed_form, rtol=1e-6)
    True
    """
    U, V = unit_pairs(X, Y)
    n, d = U.shape
    if d < 2:
        raise InputValueError(
            f"X and Y must have at least 2 columns, got {d}. "
            "On a sphere of two points no row can move; add a column."
        )
    gamma, beta = check_start(separation, inverse_temperature)
    learning = _learning(parameterisation, scale, temperature_rate)
    speed = check_positive(embedding_rate, "embedding_rate")
    times = check_times(times)
    fixed = U @ V.T

    def flow(t: float, state: np.ndarray) -> np.ndarray:
        rest, b = -math.expm1(2 * state[0]), math.exp(state[1])
        if rest <= 0:
            raise InputValueError(
                f"The separation reached 1 near time {t:.4g}: mismatched pairs pushed both "
                "modalities into single points. Start from a smaller one, or raise embedding_rate."
            )
        rows = state[2:].reshape(2, n, d) if free else None
        A, B = (unit(rows[0]), unit(rows[1])) if rows is not None else (U, V)
        Z = A @ B.T if free else fixed
        a = b * rest
        # ∇ℓ (B.1), from the softmax minus I: late in the flow its diagonal is all that moves.
        M = np.empty_like(Z)
        forces(a * Z, out=M)
        M /= 2 * n
        g = -float(np.vdot(Z, M))
        head = [-2 * b * g, learning(b) * rest * g / b]
        if not free:
            return np.array(head)
        pushes = []
        for side, push in ((A, -speed * a * M @ B), (B, -speed * a * M.T @ A)):
            tangent = push - np.einsum("ij,ij->i", push, side)[:, None] * side
            pushes.append(tangent.ravel())
        return np.concatenate([head, *pushes])

    start = np.array([math.log(gamma), math.log(beta)])
    if free:
        start = np.concatenate([start, U.ravel(), V.ravel()])
    states = _solve(flow, start, times, "LSODA" if free else "Radau")
    gammas, betas = np.exp(states[0]), np.exp(states[1])
    sides = np.broadcast_to(np.stack([U, V]), (len(times), 2, n, d))
    if free:
        sides = unit(states[2:].T.reshape(-1, d)).reshape(len(times), 2, n, d)
    whole = [_lifted(sides[:, s], sign * gammas) for s, sign in ((0, 1), (1, -1))]
    form = None
    if parameterisation != "softplus":
        form = inverse_temperature_along(
            gammas,
            gamma,
            beta,
            parameterisation=parameterisation,
            scale=scale,
            temperature_rate=temperature_rate,
        )
    return GapFlow(
        times=times,
        separation=gammas,
        inverse_temperature=betas,
        closed_form=form,
        gap_distance=np.linalg.norm(whole[0].mean(axis=1) - whole[1].mean(axis=1), axis=1),
        margin=np.array([margin(A, B) for A, B in sides]),
        loss=np.array(
            [contrastive_loss(A, B, 1 / b) for A, B, b in zip(*whole, betas, strict=True)]
        ),
        X=whole[0],
        Y=whole[1],
    )


def linear_schedule(start: float, end: float, duration: float) -> BetaSchedule:
    """β(t) going from ``start`` to ``end`` in a straight line, then staying (Yaras et al., C).

    >>> linear_schedule(1.0, 3.0, 10.0)(5.0)
    2.0
    """
    start, end = check_positive(start, "start"), check_positive(end, "end")
    duration = check_positive(duration, "duration")
    return lambda t: start + (end - start) * min(t / duration, 1.0)


def _learning(
    parameterisation: Parameterisation, scale: float, temperature_rate: float
) -> Callable[[float], float]:
    """r β'² as a function of β."""
    check_choice(parameterisation, "parameterisation", get_args(Parameterisation))
    scale = check_positive(scale, "scale")
    rate = check_positive(temperature_rate, "temperature_rate")
    slopes: dict[str, Callable[[float], float]] = {
        "exp": lambda beta: beta / scale,
        "softplus": lambda beta: -math.expm1(-beta),
        "linear": lambda beta: 1.0,
    }
    return lambda beta: rate * slopes[parameterisation](beta) ** 2


def _lifted(rows: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Rows (k, n, d) put into the plane at their height, on the sphere one dimension up."""
    flat = np.sqrt(1 - heights**2)[:, None, None] * rows
    height = np.broadcast_to(heights[:, None, None], (*rows.shape[:2], 1))
    return np.concatenate([flat, height], axis=2)


def _solve(
    flow: Callable[[float, np.ndarray], np.ndarray],
    start: np.ndarray,
    times: np.ndarray,
    method: Literal["Radau", "LSODA"],
) -> np.ndarray:
    """States (variables, times), solved in log(1 + t): late times of a slow flow cost little."""

    def by_log_time(s: float, state: np.ndarray) -> np.ndarray:
        t = math.expm1(s)
        return (1 + t) * flow(t, state)

    marks = np.log1p(times)
    if marks[-1] == 0:
        return np.repeat(start[:, None], len(times), axis=1)
    solution = solve_ivp(
        by_log_time, (0.0, marks[-1]), start, method, t_eval=marks, rtol=1e-10, atol=1e-12
    )
    if not solution.success:
        raise InputValueError(
            f"The flow could not be followed to time {times[-1]:g}: {solution.message} "
            "Ask for earlier times, or start nearer to a matched arrangement."
        )
    return solution.y


def _scheduled(schedule: BetaSchedule, t: float) -> float:
    try:
        value = float(schedule(t))
    except TypeError as error:
        raise InputTypeError(
            "schedule must be a function of time that returns a number."
        ) from error
    if not (math.isfinite(value) and value > 0):
        raise InputValueError(
            f"schedule must return a finite number above 0, got {value} at time {t:g}."
        )
    return value
