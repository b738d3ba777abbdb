"""The moments that correctors are fitted on: those of rows at unit length, or as given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import check_same_space
from modgap.core.results import Progress
from modgap.corrections.correction import Metric
from modgap.corrections.fitted_rows import FittedRows
from modgap.io import Embeddings, Modalities
from modgap.moments import Moments, PairMoments, RowMoments

RowLength = Literal["unit", "given"]


def row_length(metric: Metric) -> RowLength:
    """How a correction takes the rows of an index that ranks by this metric.

    Cosines do not look at lengths, so the maps must not either.
    """
    return "unit" if metric == "cosine" else "given"


def side_keys(names: Sequence[str]) -> tuple[str, ...]:
    """The keys of maps: "x" and "y" for two modalities, beyond that their names."""
    return ("x", "y") if len(names) == 2 else tuple(names)


def wanted_moments(unit: bool) -> dict[str, Any]:
    """What is gathered of rows that are used at unit length, or as given."""
    return {"unit": unit, "only_unit": unit, "nonzero": True}


def used_moments(side: Embeddings, name: str, unit: bool, say: Progress) -> RowMoments:
    """Moments of rows at unit length, or as given."""
    return unit_or_given(side.moments(name, say, **wanted_moments(unit)), unit)


def unit_or_given(moments: Moments, unit: bool) -> RowMoments:
    """Those of the rows at unit length, or as given."""
    return moments.unit_rows() if unit else moments.given


def sides_of(moments: PairMoments) -> dict[str, RowMoments]:
    """Those of both modalities, by the keys of maps."""
    return {"x": moments.x.given, "y": moments.y.given}


def hash_of_means(sides: Iterable[RowMoments | FittedRows]) -> str:
    """Tells whether two corrections were fitted on the same rows, to six digits."""
    digest = hashlib.sha256()
    for side in sides:
        digest.update(np.round(to_numpy(side.mean), 6).astype("<f8").tobytes())
    return digest.hexdigest()


def check_one_space(data: Modalities) -> None:
    """Refuse modalities whose rows are not of one width and kind."""
    some = {
        name: side.rows()[:1] if side.in_memory else np.empty((1, side.dim))
        for name, side in data.sides.items()
    }
    first, *others = data.names
    for name in others:
        check_same_space(some[first], some[name], (first, name))
