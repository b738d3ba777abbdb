"""Steps of descent compiled with numba: loops that beat BLAS where there are few points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np


def _compile(function: Callable[..., Any]) -> Any:
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # no folder to keep the machine code in
        return numba.njit(function)


@_compile
def _add_softmax(L: np.ndarray, A: np.ndarray) -> None:
    """Add the softmax over each row of L, minus I, to A."""
    n = len(L)
    for i in range(n):
        highest = L[i].max()
        total = 0.0
        for j in range(n):
            if i != j:
                total += math.exp(L[i, j] - highest)
        whole = total + math.exp(L[i, i] - highest)
        for j in range(n):
            A[i, j] += -total / whole if i == j else math.exp(L[i, j] - highest) / whole


@_compile
def _forces(X: np.ndarray, Y: np.ndarray, scale: float, L: np.ndarray, A: np.ndarray) -> None:
    """Logits into L and A = Qx + Qy − 2I into A; the same sums as ``dynamics_loss.forces``."""
    n, d = X.shape
    rows, columns = np.zeros(n), np.zeros(n)
    top, bottom = -np.inf, np.inf
    for i in range(n):
        for j in range(n):
            square = 0.0
            for k in range(d):
                difference = X[i, k] - Y[j, k]
                square += difference * difference
            value = -scale * square
            L[i, j] = value
            top, bottom = max(top, value), min(bottom, value)
    if top - bottom < 600.0:
        for i in range(n):
            for j in range(n):
                A[i, j] = math.exp(L[i, j] - top)
        for i in range(n):
            for j in range(n):
                if i != j:
                    rows[i] += A[i, j]
                    columns[j] += A[i, j]
        for i in range(n):
            own = A[i, i]
            A[i, i] = -(rows[i] / (rows[i] + own) + columns[i] / (columns[i] + own))
            rows[i] = 1.0 / (rows[i] + own)
            columns[i] = 1.0 / (columns[i] + own)
        for i in range(n):
            for j in range(n):
                if i != j:
                    A[i, j] *= rows[i] + columns[j]
        return
    A[:] = 0.0
    _add_softmax(L, A)
    _add_softmax(L.T, A.T)


@_compile
def _move(rows: np.ndarray, pulls: np.ndarray, rate: float, sphere: bool) -> None:
    n, d = rows.shape
    for i in range(n):
        if not sphere:
            for k in range(d):
                rows[i, k] += rate * pulls[i, k]
            continue
        radial, square = 0.0, 0.0
        for k in range(d):
            radial += pulls[i, k] * rows[i, k]
        for k in range(d):
            rows[i, k] += rate * (pulls[i, k] - radial * rows[i, k])
            square += rows[i, k] * rows[i, k]
        norm = math.sqrt(square)
        for k in range(d):
            rows[i, k] /= norm


@_compile
def advance(
    X: np.ndarray,
    Y: np.ndarray,
    log_scale: float,
    steps: int,
    learning_rate: float,
    temperature_rate: float,
    sphere: bool,
) -> float:
    """Take steps in place; returns the new log scale."""
    n, d = X.shape
    L, A = np.empty((n, n)), np.empty((n, n))
    x, y = np.empty((n, d)), np.empty((n, d))
    for _ in range(steps):
        scale = math.exp(log_scale)
        _forces(X, Y, scale, L, A)
        x[:], y[:] = 0.0, 0.0
        slope = 0.0
        for i in range(n):
            for j in range(n):
                weight = A[i, j]
                slope += weight * L[i, j]
                for k in range(d):
                    pull = weight * (X[i, k] - Y[j, k])
                    x[i, k] += pull
                    y[j, k] -= pull
        rate = 2.0 * scale * learning_rate / n
        _move(X, x, rate, sphere)
        _move(Y, y, rate, sphere)
        log_scale -= temperature_rate * slope / n
    return log_scale
