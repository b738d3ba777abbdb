"""Full-batch gradient descent on free embeddings: how the contrastive loss keeps or closes a gap.

Chowers et al. 2026, secs 3.2 and H: no networks, every embedding is its own parameter.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_positive,
    check_temperature,
    require,
)
from modgap.core.results import Progress, Result
from modgap.core.threads import single_threaded_blas
from modgap.measures.gap import gap_orthogonality
from modgap.simulate.dynamics_loss import (
    check_embeddings,
    contrastive_gradient,
    forces,
    logits,
    pulls,
    variance_along,
)

Engine = Literal["auto", "compiled", "numpy"]
# (X, Y, log_scale, steps, learning_rate, temperature_rate, sphere) → log_scale; X, Y in place.
Advance = Callable[[np.ndarray, np.ndarray, float, int, float, float, bool], float]

# Multiplications per step (n² d) up to which loops beat the calls that NumPy makes.
FEW = 20_000
# Below this, BLAS threads cost more than they bring, much more where the cores are shared.
THREADED = 50_000_000
# Without numba a step of a few points takes some 60 µs; from here on that is worth a word.
MANY_STEPS = 1_000_000

# Multiplications between two looks at the outside world: a fraction of a second.
_WORK = 20_000_000


@dataclass(frozen=True)
class Snapshot(Result):
    """The embeddings at one step, and the sums S_i of their soft assignments (Chowers, eq. 5)."""

    step: int
    temperature: float
    X: np.ndarray
    Y: np.ndarray
    assignments_x: np.ndarray
    assignments_y: np.ndarray


@dataclass(frozen=True)
class Descent(Result):
    """The history of a descent: one number per recorded step, and where it ended.

    ``loss`` is Chowers' eq. 6 (twice ``contrastive_loss``), ``gradient_norm`` the length of its
    gradient by all embeddings. ``orthogonality_x`` is the mean absolute cosine of the centred
    rows of X to the gap, 0 when the gap is orthogonal to X. ``variance_along_x`` is the variance
    of X along the gap, ``variance_across_x`` the mean variance in the directions orthogonal to
    it: equal for an isotropic cluster. ``assignments_std_x`` is the spread of S_i around their
    mean, ``assignments_mean_x``, which is 1: 0 means that Q is doubly stochastic.
    """

    steps: np.ndarray
    loss: np.ndarray
    gradient_norm: np.ndarray
    gap_distance: np.ndarray
    temperature: np.ndarray
    orthogonality_x: np.ndarray
    orthogonality_y: np.ndarray
    variance_along_x: np.ndarray
    variance_along_y: np.ndarray
    variance_across_x: np.ndarray
    variance_across_y: np.ndarray
    assignments_mean_x: np.ndarray
    assignments_mean_y: np.ndarray
    assignments_std_x: np.ndarray
    assignments_std_y: np.ndarray
    snapshots: tuple[Snapshot, ...]
    X: np.ndarray
    Y: np.ndarray
    engine: str


# What each line of the history holds, after its step: the fields up to ``snapshots``.
_NAMES = [field.name for field in dataclasses.fields(Descent)]
_COLUMNS = _NAMES[1 : _NAMES.index("snapshots")]


def descend(
    X: Array,
    Y: Array,
    temperature: float,
    steps: int,
    learning_rate: float = 0.01,
    *,
    sphere: bool = False,
    temperature_rate: float | None = None,
    records: int | Sequence[int] = 60,
    snapshots: Sequence[int] = (),
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> Descent:
    """Full-batch gradient descent on the embeddings themselves (Chowers et al., eq. 6, sec. H).

    Each step subtracts ``learning_rate`` times the gradient of eq. 6, with its 1/N, from all rows
    of X and Y at once. On unit rows −‖x − y‖²/τ is 2 cos/τ − 2/τ, so CLIP's logit scale is
    2/temperature here.

    Parameters
    ----------
    X, Y : array (n, d)
        Where the embeddings start. float32 stays float32.
    temperature : float
        Of the loss, or where it starts.
    steps, learning_rate
        How many steps, and how long each of them is.
    sphere : bool, default False
        Make the rows unit first; each step then moves along the part of the gradient tangent to
        the sphere and divides every row by its norm. (Descent on the rows before normalisation,
        as networks do it, slows down as those rows grow longer.)
    temperature_rate : float, optional
        Learn ν, 1/temperature = exp(ν) as in CLIP, by descent with this rate. Without it the
        temperature is fixed.
    records : int or list of int, default 60
        How many steps to record, spread evenly in log(step), or the steps themselves; the first
        and the last are always among them.
    snapshots : list of int
        Steps whose embeddings are kept.
    engine : {"auto", "compiled", "numpy"}
        Compiled loops (numba, extra ``simulate``) or matrix products; the numbers are the same up
        to rounding. "auto" compiles small float64 problems where numba is installed.
    progress : callable, optional
        Called with what is being done, the steps done and the steps in all, a few times per
        second.

    Examples
    --------
    Fig. 4, top: two tight clusters in the plane keep their gap, which becomes orthogonal.

    >>> from modgap.simulate.dynamics_start import make_clusters
    >>> X, Y = make_clusters(10, 2, gap=1.0, spread=0.01)
    >>> run = descend(X, Y, temperature=0.1, steps=2000)
    >>> bool(run.gap_distance[-1] > 0.99), bool(run.orthogonality_x[-1] < 0.01)
    (True, True)
    """
    X, Y = check_embeddings(X, Y, sphere=sphere)
    temperature = check_temperature(temperature)
    steps = check_count(steps, "steps")
    learning_rate = check_positive(learning_rate, "learning_rate")
    if temperature_rate is not None:
        temperature_rate = check_positive(temperature_rate, "temperature_rate")
    if isinstance(records, (int, np.integer)):
        recorded = log_spaced_steps(steps, check_count(records, "records"))
    else:
        recorded = tuple(sorted({0, steps, *_steps_within(records, "records", steps)}))
    kept = _steps_within(snapshots, "snapshots", steps)
    engine_name, advance = choose_engine(engine, X, steps)
    X, Y, log_scale, step = X.copy(), Y.copy(), -math.log(temperature), 0
    history, frames = [], []
    stops = sorted({0, *recorded, *kept})
    stride = max(1, _WORK // (len(X) ** 2 * X.shape[1]))
    while True:
        if step in recorded:
            history.append(_metrics(step, math.exp(-log_scale), X, Y, sphere))
        if step in kept:
            temperature = math.exp(-log_scale)
            found = contrastive_gradient(X, Y, temperature)
            sums = found.assignments_x, found.assignments_y
            frames.append(Snapshot(step, temperature, X.copy(), Y.copy(), *sums))
        if step == steps:
            break
        stop = min(stops[bisect_right(stops, step)], step + stride)
        log_scale = advance(
            X, Y, log_scale, stop - step, learning_rate, temperature_rate or 0.0, bool(sphere)
        )
        if not (np.isfinite(X).all() and np.isfinite(Y).all() and math.isfinite(log_scale)):
            raise InputValueError(
                f"The descent left the range of floats before step {stop:,}. Lower "
                f"learning_rate, which is {learning_rate:g}, or raise the temperature."
            )
        step = stop
        if progress is not None:
            progress("descending", step, steps)
    table = np.array(history)
    return Descent(
        steps=table[:, 0].astype(np.int64),
        **dict(zip(_COLUMNS, table[:, 1:].T, strict=True)),
        snapshots=tuple(frames),
        X=X,
        Y=Y,
        engine=engine_name,
    )


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


def log_spaced_steps(steps: int, count: int = 60) -> tuple[int, ...]:
    """0, then up to ``count`` whole steps evenly spread in log(step), ending with ``steps``.

    >>> log_spaced_steps(1000, 4)
    (0, 1, 10, 100, 1000)
    """
    steps, count = check_count(steps, "steps"), check_count(count, "count")
    # From the end, so that a single step is the last one.
    spread = np.geomspace(steps, 1, count) if count > 1 else np.array([steps])
    return tuple(sorted({0, *(round(s) for s in spread.tolist())}))


def _steps_within(values: Iterable[int], name: str, steps: int) -> tuple[int, ...]:
    try:
        listed = list(values)
    except TypeError as error:
        raise InputTypeError(f"{name} must be a list of steps, got {values!r}.") from error
    return tuple(sorted({check_count(v, name, at_least=0, at_most=steps) for v in listed}))


def _metrics(
    step: int, temperature: float, X: np.ndarray, Y: np.ndarray, sphere: bool
) -> tuple[float, ...]:
    """One line of the history, in the order of the fields of ``Descent``."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    gradient = contrastive_gradient(X, Y, temperature, sphere=sphere)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    cosines = gap_orthogonality(X, Y, bins=1)
    along = [variance_along(A, gap) for A in (X, Y)]
    across = [
        (float(A.var(axis=0).sum()) - v) / (A.shape[1] - 1)
        for A, v in zip((X, Y), along, strict=True)
    ]
    sums = (gradient.assignments_x, gradient.assignments_y)
    return (
        float(step),
        gradient.loss,
        gradient.norm,
        float(np.linalg.norm(gap)),
        temperature,
        cosines.x.mean_abs,
        cosines.y.mean_abs,
        *along,
        *across,
        *(float(s.mean()) for s in sums),
        *(float(s.std()) for s in sums),
    )
