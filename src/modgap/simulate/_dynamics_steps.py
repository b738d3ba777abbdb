"""The two bodies of a step of descent, compiled loops and BLAS, and the choice between them."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal, get_args

import numpy as np

from modgap.core.checks import InputTypeError, check_choice, require
from modgap.core.threads import single_threaded_blas
from modgap.simulate.dynamics_loss import forces, logits, pulls

Engine = Literal["auto", "compiled", "numpy"]
# (X, Y, log_scale, steps, learning_rate, temperature_rate, sphere) → log_scale; X, Y in place.
Advance = Callable[[np.ndarray, np.ndarray, float, int, float, float, bool], float]

# Multiplications per step (n² d) up to which loops beat the calls that NumPy makes.
FEW = 20_000
# Below this, BLAS threads cost more than they bring, much more where the cores are shared.
THREADED = 50_000_000
# Without numba a step of a few points takes some 60 µs; from here on that is worth a word.
MANY_STEPS = 1_000_000


def advance_numpy(
    X: np.ndarray,
    Y: np.ndarray,
    log_scale: float,
    steps: int,
    learning_rate: float,
    temperature_rate: float,
    sphere: bool,
) -> float:
    """Take steps in place by matrix products; returns the new log scale."""
    n = len(X)
    L = np.empty((n, n), dtype=X.dtype)
    A = np.empty_like(L)
    threads = single_threaded_blas() if n * n * X.shape[1] < THREADED else nullcontext()
    # A learning rate that is too large overflows; the caller looks at the result.
    with np.errstate(over="ignore", invalid="ignore"), threads:
        for _ in range(steps):
            scale = math.exp(log_scale)
            logits(X, Y, scale, out=L)
            forces(L, out=A)
            slope = float(np.vdot(A, L)) if temperature_rate else 0.0
            rate = X.dtype.type(2.0 * scale * learning_rate / n)
            for rows, pull in zip((X, Y), pulls(A, X, Y, sphere), strict=True):
                pull *= rate
                rows += pull
                if sphere:
                    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
            log_scale -= temperature_rate * slope / n
    return log_scale


def choose_engine(
    engine: Engine, X: np.ndarray, steps: int
) -> tuple[Literal["compiled", "numpy"], Advance]:
    """The body to use; ``auto`` compiles small float64 problems where numba is installed."""
    check_choice(engine, "engine", get_args(Engine))
    if engine == "auto" and len(X) ** 2 * X.shape[1] <= FEW and X.dtype == np.float64:
        try:
            importlib.import_module("numba")
            engine = "compiled"
        except ImportError:  # absent, or built for another NumPy
            if steps > MANY_STEPS:
                warnings.warn(
                    f"{steps:,} steps take many times longer without numba. "
                    "Install it with: pip install 'modgap[simulate]'",
                    stacklevel=3,
                )
    if engine != "compiled":
        return "numpy", advance_numpy
    require("numba", "simulate", "Compiled descent")
    if X.dtype != np.float64:
        raise InputTypeError(
            f"engine='compiled' needs float64 embeddings, got {X.dtype}. "
            "Convert them, or take engine='numpy'."
        )
    from modgap.simulate import _dynamics_compiled

    return "compiled", _dynamics_compiled.advance
