"""Tells from moments alone whether a correction still fits the rows of now.

A query's scores on the non-matching documents of a modality have a mean and a spread, which follow
from the moments of queries and documents after the correction's maps. Where these differ between
modalities, one comes up too often among the best results. Its share is predicted for the best 1 in
4,300 scores, 3.5 spreads above the mean, with as many documents of both modalities and normal
scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, logit

from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Correction, Metric, label
from modgap.corrections.correction import Role
from modgap.drift.estimate import MOST_Z, Estimate
from modgap.drift.named_moments import modality_and_role, queries_name
from modgap.drift.report import CorrectionFit

TAIL = 3.5
# Odds of one modality that are this many times what they were, as 67 % is of 50 %.
MOST_ODDS = 2.0
# Scores of one modality that are off by so many spreads, where one takes all results anyway.
MOST_OFFSET = 0.5
# Shares beyond these are all the same.
_MOST_SHARE = 0.99


@dataclass(frozen=True, eq=False)
class _Rows:
    """Mean and covariance of a set of rows, and how many independent ones they come from."""

    mean: np.ndarray
    covariance: np.ndarray
    n: float

    @classmethod
    def of(cls, estimate: Estimate) -> _Rows:
        return cls(estimate.mean, estimate.covariance, estimate.n / estimate.clustering)


@dataclass(frozen=True, eq=False)
class _Mapped:
    """Mean and covariance of rows after a map; ``linear``, a matrix or a number, is its slope.

    Where the result is brought to unit length, it is divided by the root mean square length:
    centred rows lie on thin shells.
    """

    rows: _Rows
    mean: np.ndarray
    covariance: np.ndarray
    linear: np.ndarray
    blocks: tuple[float, ...]

    @classmethod
    def of(cls, affine: Affine, rows: _Rows, metric: Metric) -> _Mapped:
        linear = np.asarray(affine.scale * (1.0 if affine.matrix is None else affine.matrix))
        mean = np.dot(linear, rows.mean)
        covariance = np.dot(np.dot(linear, rows.covariance), linear.T)
        if affine.offset is not None:
            mean = mean + affine.offset
        length = 1.0
        if metric == "cosine" or affine.renormalise:
            length = float(mean @ mean + np.trace(covariance)) ** 0.5 or 1.0
        blocks = (1.0,) if affine.blocks is None else affine.blocks
        return cls(rows, mean / length, covariance / length**2, linear / length, blocks)

    def back(self, direction: np.ndarray) -> np.ndarray:
        """The direction in the rows along which the product with this one changes."""
        return np.asarray(np.dot(self.linear.T, direction))


@dataclass(frozen=True)
class _Scores:
    """Mean and spread of the scores of queries on non-matching documents."""

    mean: float
    spread: float

    @classmethod
    def of(cls, asked: _Mapped, held: _Mapped, metric: Metric) -> _Scores:
        factor = _factor(asked, held)
        if metric != "euclidean":
            mean = factor * float(asked.mean @ held.mean)
            variance = _product(asked, held)
            variance += float(asked.mean @ held.covariance @ asked.mean)
            return cls(mean, factor * variance**0.5)
        # −‖q − v‖² of normal v, with what is the query's own left out.
        away = asked.mean - held.mean
        size = float(held.mean @ held.mean + np.trace(held.covariance))
        variance = 4 * _product(asked, held)
        variance += 4 * float(away @ held.covariance @ away) + 2 * float(np.sum(held.covariance**2))
        return cls(2 * float(asked.mean @ held.mean) - size, variance**0.5)


def _product(asked: _Mapped, held: _Mapped) -> float:
    """tr C_q C_m. Of one sample for both, without what its size adds: (tr C)² / n."""
    product = float(np.sum(asked.covariance * held.covariance))
    if asked.rows is not held.rows:
        return product
    half = np.dot(asked.linear, asked.rows.covariance)
    both = float(np.sum(half * held.linear) if held.linear.ndim else np.trace(half) * held.linear)
    return max(product - both**2 / asked.rows.n, 0.0)


def _factor(asked: _Mapped, held: _Mapped) -> float:
    return sum(a * b for a, b in zip(asked.blocks, held.blocks, strict=True))


@dataclass(frozen=True)
class _Pull:
    """How two modalities compete for one query: offset and spreads, and the logarithm of odds."""

    offset: float
    log_ratio: float
    log_odds: float
    scale: float

    @classmethod
    def of(cls, first: _Scores, second: _Scores) -> _Pull:
        if not min(first.spread, second.spread) > 0:
            raise InputValueError("the scores of a modality have no spread")
        scale = float(np.hypot(first.spread, second.spread)) / 2**0.5
        most = logit(_MOST_SHARE)
        return cls(
            (first.mean - second.mean) / scale,
            float(np.log(first.spread / second.spread)),
            float(np.clip(_log_odds_at_top(first, second), -most, most)),
            scale,
        )


def _log_odds_at_top(first: _Scores, second: _Scores) -> float:
    """The logarithm of the odds of the first modality among the best scores of both."""

    def beyond(score: float) -> np.ndarray:
        return np.array([log_ndtr((s.mean - score) / s.spread) for s in (first, second)])

    def excess(score: float) -> float:
        return float(np.logaddexp(*beyond(score)) - np.log(2) - log_ndtr(-TAIL))

    low = min(first.mean, second.mean)
    high = max(s.mean + (TAIL + 1) * s.spread for s in (first, second))
    top = beyond(brentq(excess, low, high, xtol=1e-14 * (high - low)))
    return float(top[0] - top[1])


@dataclass(frozen=True)
class _Change:
    """What became of two modalities for one that asks; see `CorrectionFit`."""

    favoured: str
    share_then: float
    share_now: float
    odds: float
    offset: float
    spread_ratio: float
    z: float

    @property
    def misfit(self) -> float:
        """Above 1 where it is too much."""
        return max(self.odds / MOST_ODDS, abs(self.offset) / MOST_OFFSET)


def correction_fit(
    correction: Correction,
    then: Mapping[str, Estimate],
    now: Mapping[str, Estimate],
    threshold: float,
) -> CorrectionFit:
    """Whether the correction does on the rows of now what it did on those it was fitted on.

    Parameters
    ----------
    correction : Correction
        The correction in use.
    then, now : mapping of names to Estimate
        Documents by modality, queries under "… queries"; what is not in ``now`` has not changed.
    threshold : float
        A change is significant beyond this many standard deviations.
    """
    found: dict[str, _Change] = {}
    missing = [name for name in correction.names if name not in then]
    if not missing and then[correction.names[0]].mean.shape != (correction.dim_in,):
        raise InputValueError(
            f"The correction is for rows of {correction.dim_in} columns, and these have "
            f"{len(then[correction.names[0]].mean)}. They must be of the model it was fitted on."
        )
    try:
        if missing:
            raise InputValueError(f"nothing is known of {' and '.join(missing)} rows")
        if correction.query_model:
            raise InputValueError("its queries are of another model than its documents")
        for asking in correction.queries:
            found[asking] = max(
                _changes(correction, asking, then, now), key=lambda change: change.misfit
            )
        fits, sentence = _verdict(correction, found, threshold, bool(now))
    except InputValueError as error:
        found, fits, sentence = {}, None, f"{label(correction)}: not judged, {error}."
    return CorrectionFit(
        label(correction),
        fits,
        sentence,
        *(
            {asking: getattr(change, field.name) for asking, change in found.items()}
            for field in fields(_Change)
        ),
    )


def _changes(
    correction: Correction, asking: str, then: Mapping[str, Estimate], now: Mapping[str, Estimate]
) -> Iterator[_Change]:
    """For each two modalities, what changed between them."""
    metric, fitted = correction.metric, _as_fitted(correction, then)
    live_rows = {name: _Rows.of(estimate) for name, estimate in now.items()}

    def mapped(name: str, role: Role, live: bool) -> _Mapped:
        at = fitted[_known(name, role, fitted)]
        if live:
            at = live_rows.get(_known(name, role, {**then, **now}), at)
        return _Mapped.of(correction.affine(name, role), at, metric)

    asked = [mapped(asking, "query", live) for live in (False, True)]
    for names in combinations(correction.names, 2):
        held = [[mapped(name, "document", live) for name in names] for live in (False, True)]
        before, after = (
            _Pull.of(*(_Scores.of(query, one, metric) for one in both))
            for query, both in zip(asked, held, strict=True)
        )
        change = after.log_odds - before.log_odds
        parts = after.offset - before.offset, after.log_ratio - before.log_ratio
        sign = 1.0 if (change or parts[0]) >= 0 else -1.0
        errors = _errors(metric, names, asking, asked[1], held[1], after.scale, then, now)
        z = max(abs(p) / e for p, e in zip(parts, errors, strict=True)) if errors[0] > 0 else 0.0
        yield _Change(
            names[0] if sign > 0 else names[1],
            float(expit(sign * before.log_odds)),
            float(expit(sign * after.log_odds)),
            float(np.exp(abs(change))),
            sign * parts[0],
            float(np.exp(sign * parts[1])),
            min(z, MOST_Z),
        )


def _errors(
    metric: Metric,
    names: tuple[str, str],
    asking: str,
    asked: _Mapped,
    held: list[_Mapped],
    scale: float,
    then: Mapping[str, Estimate],
    now: Mapping[str, Estimate],
) -> tuple[float, float]:
    """The standard errors of the offset and, at most, of the log ratio of the scores' spreads."""
    is_euclidean = metric == "euclidean"
    twice = 2.0 if is_euclidean else 1.0
    factors = [_factor(asked, one) for one in held]
    # What may be off: a direction in the rows, and the two estimates of their mean.
    sources = []
    for name, one, factor in zip(names, held, factors, strict=True):
        if name in now:
            away = asked.mean - (one.mean if is_euclidean else 0.0)
            sources.append((one.back(twice * factor * away), then[name], now[name]))
    key = _known(asking, "query", {**then, **now})
    if key in now:
        difference = factors[0] * held[0].mean - factors[1] * held[1].mean
        before = then[_known(asking, "query", then)]
        sources.append((asked.back(twice * difference), before, now[key]))
    variance = sum(e.error_along(d / scale) for d, *both in sources for e in both)
    of_ratio = sum(e.clustering / (2 * e.n) for _, *both in sources for e in both)
    return float(variance**0.5), float(of_ratio**0.5)


def _as_fitted(correction: Correction, then: Mapping[str, Estimate]) -> dict[str, _Rows]:
    """Mean and covariance that the correction was fitted on, as far as it remembers.

    It knows means and variances; the covariance is that of the reference, to the same trace.
    """
    asking = {queries_name(name): rows for name, rows in correction.fitted_queries.items()}
    remembered = {**correction.fitted, **asking}
    like = {**{name: then[modality_and_role(name)[0]] for name in asking}, **then}
    found = {}
    for name, estimate in like.items():
        at = _Rows.of(estimate)
        if name in remembered and estimate.trace > 0:
            rows = remembered[name]
            to_trace = float(np.sum(rows.variance)) / estimate.trace
            at = _Rows(rows.mean, estimate.covariance * to_trace, at.n)
        found[name] = at
    return found


def _known(name: str, role: str, estimates: Mapping[str, object]) -> str:
    """Queries under a name of their own where there are any, else as the documents."""
    asked = queries_name(name)
    return asked if role == "query" and asked in estimates else name


def _verdict(
    correction: Correction, found: Mapping[str, _Change], threshold: float, seen: bool
) -> tuple[bool | None, str]:
    made = label(correction)
    if not seen:
        return None, f"{made}: not judged yet, there are too few rows."
    worst = max(found, key=lambda asking: found[asking].misfit)
    change = found[worst]
    why = (
        f"{change.favoured} takes {change.share_now:.0%} of the best non-matching results of "
        f"{worst} queries, and {change.share_then:.0%} when it was fitted, as moments predict it "
        f"(mean score shifted by {change.offset:.2f} SD; SD ratio {change.spread_ratio:.2f})"
    )
    if change.misfit <= 1:
        return True, f"{made} still fits: {why}."
    if change.z <= threshold:
        return None, f"{made} may still fit, the rows are too few to tell: {why}, z {change.z:.1f}."
    hubs = " The bank of its hubs is not looked at." if correction.hubs is not None else ""
    return False, f"Fit {made} again: {why}.{hubs}"
