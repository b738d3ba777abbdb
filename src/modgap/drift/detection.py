"""Compares two sets of rows: what moved beyond chance, and whether corrections still fit.

How it works:

1. Both sets are moments. Neighbouring rows of a log resemble each other, so the error of a mean is
   taken from the means of blocks (`drift/blocked_moments.py`), not from the number of rows.
2. Four numbers of each set are compared: its mean, its spread, the shape of its covariance, and its
   gap to the other modality. Each change has a z: how unlikely it is by chance, as a normal
   deviate (`drift/estimate.py`).
3. A change counts only if chance is rarer than ``alpha`` and it is large: of very many rows, every
   change is beyond chance.
4. Whether a correction still fits is decided from the same moments
   (`drift/correction_fit.py`); where it has a background, from what its bank finds in the
   documents now (`drift/background_fit.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from modgap.core.checks import InputValueError, check_finite
from modgap.core.results import Progress, silent
from modgap.corrections import Correction, FittedRows, RowLength, load_corrections
from modgap.corrections.recognition import MIN_ROWS, of_another_model
from modgap.drift.background_fit import background_fit
from modgap.drift.correction_fit import correction_fit
from modgap.drift.estimate import Error, Estimate, z_of_log_ratio
from modgap.drift.named_moments import Streams, modality_and_role, named_sets, streams_of_sets
from modgap.drift.report import DriftReport, GapDrift, StreamDrift, drift_verdict
from modgap.io.modalities import DEFAULT_NAMES

# Five numbers looked at every hour of a year are 44,000: one false alarm in 20 years or so.
ALPHA = 1e-6
# What counts as large: moves of a mean in spreads, of a spread, of the shape of a covariance and
# of the gap in units of themselves.
LEAST = {"mean": 0.1, "spread": 0.1, "shape": 0.25, "gap": 0.1}
# Fewer rows are not judged.
LEAST_ROWS = 100
_FEATURES = 3
_TURNS = 30

Corrections = Correction | str | os.PathLike[str] | Mapping[str, Correction] | None


def detect_drift(
    a: Any,
    b: Any,
    correction: Corrections = None,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    rows: RowLength | None = None,
    independent: bool = False,
    alpha: float = ALPHA,
    least: Mapping[str, float] | None = None,
    progress: Progress = silent,
) -> DriftReport:
    """What moved from ``a`` to ``b``: means, spreads, covariances, gaps; does a correction fit.

    Only sets of the same name are compared; queries ("text queries") with the documents of their
    modality where ``a`` has no such queries.

    Parameters
    ----------
    a, b : rows, moments, data sets, a GapMonitor or paths
        Then and now; see `streams_of`.
    correction : Correction or path, optional
        One that was fitted on ``a``, or several by query modality.
    names : pair of str
        What two modalities without names are called.
    rows : {"unit", "given"}, optional
        Whether rows are brought to unit length first: as the correction does, else "unit".
    independent : bool
        Take rows as independent of each other, whatever their order. Rows of a log come in
        sessions, and then are not; rows of a sorted file may be.
    alpha : float
        How likely chance may make a change that counts; for each number that is looked at.
    least : mapping of str to float, optional
        How large a change must be to count, of "mean", "spread", "shape" and "gap".
    progress : callable, optional
        Called as ``progress(step, done, total)``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> before = {"text": rng.normal(size=(500, 8)) + 1}
    >>> after = {"text": rng.normal(size=(500, 8)) + 1.5}
    >>> detect_drift(before, after).streams[0].moved
    ('mean', 'spread')
    >>> detect_drift(before, {"text": rng.normal(size=(500, 8)) + 1})
    DriftReport(no drift)
    """
    every = each_correction(correction)
    kind = rows or row_kind(every)
    sets = [named_sets(given, names) for given in (a, b)]
    then, now = (streams_of_sets(one, kind, independent, progress) for one in sets)
    report = compare_streams(then, now, every, alpha=check_alpha(alpha), least=check_least(least))
    fits = tuple(
        background_fit(one, sets[1]) or by_moments
        for one, by_moments in zip(every, report.corrections, strict=True)
    )
    return replace(report, corrections=fits)


def each_correction(given: Corrections) -> tuple[Correction, ...]:
    """Each correction once."""
    if given is None:
        return ()
    if isinstance(given, (str, os.PathLike)):
        given = load_corrections(given)
    every = [given] if isinstance(given, Correction) else given.values()
    return tuple({id(one): one for one in every}.values())


def row_kind(corrections: Sequence[Correction]) -> RowLength:
    """Whether corrections bring rows to unit length; unit rows where there are none."""
    return "unit" if all(one.unit_rows for one in corrections) else "given"


def check_least(least: Mapping[str, float] | None) -> dict[str, float]:
    """What counts as large, the rest by default."""
    given = {name: check_finite(size, f"least[{name!r}]") for name, size in (least or {}).items()}
    if not given.keys() <= LEAST.keys() or any(size < 0 for size in given.values()):
        raise InputValueError(
            f"least takes sizes of {', '.join(LEAST)}, none below 0, got {dict(given)}."
        )
    return {**LEAST, **given}


def check_alpha(alpha: float) -> float:
    """A probability."""
    if not 0 < check_finite(alpha, "alpha") < 0.5:
        raise InputValueError(f"alpha must be between 0 and 0.5, got {alpha}.")
    return float(alpha)


def compare_streams(
    then: Streams,
    now: Streams,
    corrections: Sequence[Correction],
    *,
    alpha: float,
    least: Mapping[str, float],
    least_rows: int = LEAST_ROWS,
) -> DriftReport:
    """What moved between two sets of named moments of the same kind of rows; see `detect_drift`.

    Sets of fewer than ``least_rows`` rows are not judged.
    """
    threshold = float(stats.norm.isf(alpha))
    # Queries are compared with documents where there are no others.
    partner = {}
    for name in now:
        modality, role = modality_and_role(name)
        if name in then or (role == "query" and modality in then):
            partner[name] = name if name in then else modality
    if now and not partner:
        raise InputValueError(
            f"There is nothing to compare: {', '.join(then)} then, and {', '.join(now)} now. Give "
            "the same names to what belongs together."
        )
    dims = {one.dim for one in (*then.values(), *now.values())}
    if len(dims) > 1:
        raise InputValueError(
            "Both sets of rows must have the same number of columns, got "
            f"{' and '.join(map(str, sorted(dims)))}. They must be of the same model."
        )
    after = {
        name: Estimate(now[name])
        for name, old in partner.items()
        if min(now[name].n, then[old].n) >= least_rows
    }
    # Rows of saved moments are taken to be as clustered as those they are compared with.
    seen = max((one.clustering for one in after.values() if one.knows_clustering), default=1.0)
    like = {partner[name]: one.clustering for name, one in after.items() if one.knows_clustering}
    before = {name: Estimate(one, like.get(name, seen)) for name, one in then.items()}
    after = {
        name: one if one.knows_clustering else Estimate(now[name], before[partner[name]].clustering)
        for name, one in after.items()
    }
    gaps = tuple(_gaps(before, after, partner, threshold, least["gap"]))
    streams = tuple(
        _stream(name, before, after[name], partner, threshold, least)
        if name in after
        else StreamDrift(name, partner[name], then[partner[name]].n, now[name].n, False)
        for name in partner
    )
    fits = tuple(correction_fit(one, before, after, threshold) for one in corrections)
    return DriftReport(
        any(s.moved for s in streams) or any(gap.alarm for gap in gaps),
        drift_verdict(streams, gaps),
        next(iter(then.values())).rows,
        threshold,
        dict(least),
        streams,
        gaps,
        fits,
    )


def _stream(
    name: str,
    before: Mapping[str, Estimate],
    after: Estimate,
    partner: Mapping[str, str],
    threshold: float,
    least: Mapping[str, float],
) -> StreamDrift:
    then = before[partner[name]]
    step = after.mean - then.mean
    error = then.mean_error + after.mean_error
    length = float(max(step @ step - error.trace, 0.0)) ** 0.5
    gap = _own_gap(partner[name], before)
    away = 0.0 if gap is None else float(np.linalg.norm(gap))
    known = {other: _as_fitted(one) for other, one in before.items() if one.n >= MIN_ROWS}
    foreign, another_model = of_another_model(_as_fitted(after), known)
    log_ratio = float(np.log(after.spread / then.spread)) if min(after.spread, then.spread) else 0.0
    shape, turned, direction = _shape(then, after)
    shift = length / then.spread**0.5 if then.spread > 0 else 0.0
    found = {
        "mean": (error.z(float(step @ step)), shift),
        "spread": (z_of_log_ratio(log_ratio, then.spread_error, after.spread_error),
                   abs(float(np.expm1(log_ratio)))),
        "shape": (turned, shape),
    }  # fmt: skip
    moved = tuple(
        what for what, (z, size) in found.items() if z > threshold and size >= least[what]
    )
    size = float(np.linalg.norm(step))
    per_feature = np.abs(step) / np.sqrt(np.maximum(np.diag(then.covariance), 1e-300))
    return StreamDrift(
        name=name,
        compared_with=partner[name],
        n_then=then.n,
        n_now=after.n,
        judged=True,
        clustering=after.clustering,
        mean_shift=shift,
        mean_shift_of_gap=length / away if away > 0 else None,
        along_gap=float(step @ gap) / size / away if gap is not None and size * away > 0 else None,
        mean_z=found["mean"][0],
        spread_ratio=float(np.exp(log_ratio)),
        spread_z=found["spread"][0],
        shape_distance=shape,
        shape_z=turned,
        direction_ratio=direction,
        features=tuple(int(f) for f in np.argsort(-per_feature)[:_FEATURES]),
        moved=moved,
        foreign=foreign,
        another_model=another_model,
    )


def _as_fitted(rows: Estimate) -> FittedRows:
    """What a correction knows of rows it was fitted on."""
    return FittedRows(rows.n, rows.mean, np.diag(rows.covariance))


def _own_gap(name: str, before: Mapping[str, Estimate]) -> np.ndarray | None:
    """The gap vector that ends in these rows, where there are two modalities."""
    modality = modality_and_role(name)[0]
    documents = [other for other in before if modality_and_role(other)[1] == "document"]
    others = [other for other in documents if other != modality]
    return before[name].mean - before[others[0]].mean if len(others) == 1 else None


def _shape(then: Estimate, after: Estimate) -> tuple[float, float, float]:
    """How far the shapes of the covariances are apart, its z, and the ratio where it is most."""
    if not min(then.trace, after.trace) > 0:
        return 0.0, 0.0, 1.0
    change = after.covariance / after.trace - then.covariance / then.trace
    # What chance adds to the squared distance of two covariances, for normal rows.
    noise = sum(e.clustering / e.n * (1 + e.square / e.trace**2) for e in (then, after))
    left = max(float(np.sum(change**2)) - noise, 0.0)
    z = (then.shape_error + after.shape_error).z(float(np.sum((after.shape - then.shape) ** 2)))
    direction = _leading(change)
    if not direction.any():  # the very same rows
        return 0.0, z, 1.0
    variances = [float(direction @ e.covariance @ direction) for e in (then, after)]
    ratio = variances[1] / variances[0] if variances[0] > 0 else float("inf")
    return (left / (then.square / then.trace**2)) ** 0.5, z, ratio


def _leading(change: np.ndarray) -> np.ndarray:
    """The direction in which a symmetric matrix is largest in absolute terms, nearly."""
    along = change[int(np.argmax(np.sum(change**2, axis=1)))].copy()
    for _ in range(_TURNS):
        length = float(np.linalg.norm(along))
        if length == 0:
            break
        along = change @ (along / length)
    return np.asarray(along / (float(np.linalg.norm(along)) or 1.0))


def _gaps(
    before: Mapping[str, Estimate],
    after: Mapping[str, Estimate],
    partner: Mapping[str, str],
    threshold: float,
    least: float,
) -> list[GapDrift]:
    """The gap between every two modalities, and from queries to each other modality.

    What has no rows now is taken as it was.
    """
    names = list(dict.fromkeys([*before, *partner]))
    found = []
    for first, second in combinations(names, 2):
        sides = [modality_and_role(name) for name in (first, second)]
        live = [name for name in (first, second) if name in after]
        if sides[0][0] == sides[1][0] or not live or {"query"} == {role for _, role in sides}:
            continue
        olds = [before[partner.get(name, name)] for name in (first, second)]
        news = [after.get(name, old) for name, old in zip((first, second), olds, strict=True)]
        then, now = (pair[0].mean - pair[1].mean for pair in (olds, news))
        errors: list[Error] = [
            one.mean_error
            for old, new in zip(olds, news, strict=True)
            if new is not old
            for one in (old, new)
        ]
        error = reduce(Error.__add__, errors)
        squared = float(np.sum((now - then) ** 2))
        lengths = [float(np.linalg.norm(gap)) for gap in (then, now)]
        change = max(squared - error.trace, 0.0) ** 0.5 / lengths[0] if lengths[0] > 0 else 0.0
        z = error.z(squared)
        found.append(
            GapDrift(
                first=first,
                second=second,
                distance_then=lengths[0],
                distance_now=lengths[1],
                change=change,
                cosine=float(then @ now) / (lengths[0] * lengths[1]) if min(lengths) > 0 else 1.0,
                z=z,
                alarm=z > threshold and change >= least,
            )
        )
    return found
