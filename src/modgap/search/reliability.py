"""How far probabilities of a match can be trusted: reliability, and the precision of cut-offs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.core.results import HasFigure, Result

Strategy = Literal["mass", "width"]

MIN_ACCEPTED = 20  # a precision that rests on fewer hits is not promised
_CURVE_POINTS = 2000


@dataclass(frozen=True, eq=False)
class Reliability(HasFigure, Result):
    """How often hits of a predicted probability are matches, bin by bin.

    ``predicted`` is the mean prediction of each bin, ``observed`` its share of matches, ``counts``
    its hits, ``edges`` one number more than bins; a bin without hits has NaN. ``ece`` is the
    expected calibration error, Σ counts · abs(predicted − observed) / n: 0 when in every bin as
    many hits are matches as predicted.
    """

    strategy: str
    edges: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    counts: np.ndarray
    ece: float
    n: int


def reliability_curve(
    probabilities: Any, matches: Any, bins: int = 10, strategy: Strategy = "mass"
) -> Reliability:
    """Reliability curve and expected calibration error of any probabilities.

    Parameters
    ----------
    probabilities : array
        Predicted probability of being a match, of each hit.
    matches : array
        Whether each of these hits is one.
    bins : int
        How many bins.
    strategy : {"mass", "width"}
        ``"mass"`` gives every bin about the same number of hits (equal probabilities stay
        together); ``"width"`` cuts 0 to 1 into bins of one width.

    >>> curve = reliability_curve([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 1], bins=2)
    >>> curve.observed.tolist(), round(curve.ece, 2)
    ([0.0, 1.0], 0.1)
    """
    p = np.asarray(to_numpy(probabilities), dtype=np.float64).ravel()
    truth = np.asarray(to_numpy(matches), dtype=np.float64).ravel()
    check_count(bins, "bins")
    check_choice(strategy, "strategy", ("mass", "width"))
    if p.shape != truth.shape or len(p) == 0:
        raise InputValueError(
            f"probabilities and matches must be about the same hits, got {len(p)} and {len(truth)}."
        )
    if not np.all((p >= 0) & (p <= 1)):  # NaN is neither
        raise InputValueError("probabilities must lie between 0 and 1.")
    if not np.all(np.isin(truth, (0, 1))):
        raise InputValueError("matches must say true or false (1 or 0) for every hit.")
    if strategy == "width":
        edges = np.linspace(0, 1, bins + 1)
    else:
        inner = np.sort(p)[np.arange(1, bins) * len(p) // bins]
        edges = np.array([p.min(), *np.unique(inner[inner > p.min()]), p.max()])
    # An edge belongs to the bin above it, the last one to the bin below.
    place = np.searchsorted(edges[1:-1], p, side="right")
    counts = np.bincount(place, minlength=len(edges) - 1)
    per_bin = np.where(counts > 0, counts, np.nan)
    predicted = np.bincount(place, p, len(counts)) / per_bin
    observed = np.bincount(place, truth, len(counts)) / per_bin
    ece = float(np.nansum(counts * np.abs(predicted - observed)) / len(p))
    return Reliability(strategy, edges, predicted, observed, counts, ece, len(p))


def precision_curve(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Thresholds from high to low with the precision and the share of matches above each.

    A threshold stands midway between two probabilities, so rounding decides nothing; the last is
    the lowest probability seen.
    """
    order = np.argsort(-p, kind="stable")
    p, found = p[order], np.cumsum(truth[order])
    accepted = np.arange(1, len(p) + 1)
    ends = np.flatnonzero(np.append(p[:-1] != p[1:], True) & (accepted >= MIN_ACCEPTED))
    if len(ends) > _CURVE_POINTS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, _CURVE_POINTS).astype(int))]
    after = np.append(p, p[-1])[ends + 1]
    return np.stack([(p[ends] + after) / 2, found[ends] / accepted[ends], found[ends] / found[-1]])


def precision_at(curve: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Precision and share kept, (2, thresholds); NaN where too few hits are accepted."""
    rising = curve[:, ::-1]
    place = np.searchsorted(rising[0], thresholds)
    known = place < rising.shape[1]
    out = np.full((2, len(thresholds)), np.nan)
    out[:, known] = rising[1:, place[known]]
    return out
