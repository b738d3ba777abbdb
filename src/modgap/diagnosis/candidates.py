"""The corrections that a diagnosis tries, for who queries and what is to improve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from modgap.corrections import (
    Calibrate,
    Center,
    Corrector,
    Metric,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    row_length,
)
from modgap.evaluation.noise import UniformQuantiser
from modgap.evaluation.quantised_gap import least_amount, quantised_gaps
from modgap.io import Modalities

# What is tried by default, besides merging by expected wrong results.
DEFAULT_CORRECTORS: tuple[Corrector, ...] = (
    Shift(0.25),
    Shift(0.5),
    OriginShift(0.5),
    OriginShift(0.75),
    Center(),
    Whiten(0.1),
    Whiten(0.5),
    Procrustes(),
    OrthogonalShift("y", 1.0),
    OrthogonalShift("y", 0.95),
    OrthogonalShift("x", 0.95),
    Calibrate("keep"),
    Calibrate("mixed"),
)
# Measuring is not the point here: a sample keeps it to seconds.
MEASURE_SAMPLE = 5_000
_SIDES: tuple[Literal["x", "y"], ...] = ("x", "y")
# Amounts at which the gap between codes is looked at, and the share of the candidates' variance
# that they move orthogonally to.
_AMOUNTS, _LEADING = np.linspace(0.0, 2.0, 41).round(2), 0.95


def correctors_for(asking: Sequence[str], names: Sequence[str]) -> tuple[Corrector, ...]:
    """What is tried by default: several kinds of query need the form of Calibrate for them all.

    Beyond two modalities, only what works on any number of them.
    """
    found = DEFAULT_CORRECTORS
    if len(names) > 2:
        found = tuple(one for one in found if one.takes_many)
    if len(asking) == 1:
        return found
    return tuple(
        Calibrate(one.mode, form="blocks") if isinstance(one, Calibrate) else one for one in found
    )


def until_codes_meet(fit: Modalities, metric: Metric, seed: int) -> tuple[Corrector, ...]:
    """Each modality moved until the gap between 1-bit codes is least (Chowers et al., 5.2)."""
    if len(fit.names) != 2:
        return ()
    rng = np.random.default_rng(seed)
    rows = fit.at_unit_length() if row_length(metric) == "unit" else fit
    X, Y = (
        side.take(np.sort(rng.permutation(side.n_rows)[:MEASURE_SAMPLE]))
        for side in (rows.x, rows.y)
    )
    found = []
    for move in _SIDES:
        shift = OrthogonalShift(move, _LEADING).fit(X, Y, rows="given")
        queries, candidates = (X, Y) if move == "y" else (Y, X)
        gaps = quantised_gaps(queries, candidates, shift.step_, UniformQuantiser(2), _AMOUNTS)
        if (amount := least_amount(_AMOUNTS, gaps)) not in (0.0, 1.0):  # which are tried anyway
            found.append(OrthogonalShift(move, _LEADING, amount))
    return tuple(found)
