"""Evaluate one correction, fitted elsewhere, on pairs: before and after, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._results import Result
from modgap._validate import (
    Array,
    InputValueError,
    check_choice,
    check_count,
    check_groups,
    check_names,
    check_rows,
    check_two,
)
from modgap.corrections import METRICS, Correction, Metric
from modgap.corrections.base import hash_of_means
from modgap.diagnosis.judge import Judge
from modgap.diagnosis.parts import Part, take_groups
from modgap.diagnosis.run import Progress
from modgap.diagnosis.verdict import Judgement
from modgap.evaluation import mixed_retrieval, retrieval
from modgap.io import Embeddings
from modgap.moments import Moments, PairMoments

MAX_GROUPS = 5_000


@dataclass(frozen=True)
class Evaluation(Result):
    """Figures of the rows as they are, and of a correction where one is given."""

    names: tuple[str, str]
    n_groups: int
    raw: Judgement
    corrected: Judgement | None
    details: Mapping[str, Mapping[str, Any]]
    fitted_on_these_rows: bool


def evaluate_correction(
    X: Array | Embeddings,
    Y: Array | Embeddings,
    correction: Correction | None = None,
    *,
    names: Sequence[str] = ("image", "text"),
    groups: tuple[Any, Any] | None = None,
    metric: Metric | None = None,
    sample: int = MAX_GROUPS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Every figure of ``diagnose`` before and after one correction, on at most ``sample`` groups.

    ``metric`` is how the rows as they are get ranked, cosine when left out; the corrected rows are
    ranked by the correction's own. ``details`` holds recall at 5 and 10, median ranks and both
    query modalities of the mixed index.
    """
    first, second = check_names(names)
    say = progress or (lambda step, done, total: None)
    raw_metric = check_choice(metric or "cosine", "metric", METRICS)
    check_count(sample, "sample")
    X, Y = (
        rows if isinstance(rows, Embeddings) else check_rows(rows, name)
        for rows, name in ((X, first), (Y, second))
    )
    gx, gy = check_groups(groups, X.shape[0], Y.shape[0])
    if correction is not None:
        _check_fits(correction, (first, second), X.shape[1])
    both = np.intersect1d(gx, gy)
    if len(both) > sample:
        both = np.sort(np.random.default_rng(seed).choice(both, sample, replace=False))
    say("reading", 0, 3)
    part = take_groups(X, Y, gx, gy, both)
    check_two(part.X, part.Y, names=(first, second))
    say("as it is", 1, 3)
    judge = Judge(part, (first, second), metric=raw_metric, seed=seed)
    details = {"raw": _details(part, (first, second), raw_metric, None, seed)}
    corrected = None
    if correction is not None:
        say("corrected", 2, 3)
        corrected = judge.judge(correction)
        details["corrected"] = _details(part, (first, second), None, correction, seed)
    return Evaluation(
        names=(first, second),
        n_groups=part.n_groups,
        raw=judge.raw,
        corrected=corrected,
        details=details,
        fitted_on_these_rows=correction is not None and _same_rows(correction, X, Y),
    )


def _check_fits(correction: Correction, names: tuple[str, str], dim: int) -> None:
    if correction.names != names:
        raise InputValueError(
            f"The correction is for {correction.names[0]} and {correction.names[1]}, the data for "
            f"{names[0]} and {names[1]}. Give the data the same names in the same order."
        )
    if correction.dim_in != dim:
        raise InputValueError(
            f"The correction is for rows of {correction.dim_in} columns, got {dim}. "
            "It must be fitted on embeddings of the same model."
        )


def _details(
    part: Part,
    names: tuple[str, str],
    metric: Metric | None,
    correction: Correction | None,
    seed: int,
) -> dict[str, Any]:
    groups = part.gx, part.gy
    found = retrieval(part.X, part.Y, None, metric, groups, names=names, correction=correction)
    mixed = mixed_retrieval(
        part.X, part.Y, 10, metric, groups, names=names, correction=correction, seed=seed
    )
    return {"retrieval": found.to_dict(), "mixed": mixed.to_dict()}


def _same_rows(correction: Correction, X: Array | Embeddings, Y: Array | Embeddings) -> bool:
    """Whether the correction was fitted on all of these rows, going by their means."""
    x, y = (
        Moments.from_batches(rows.batches(), detail="mean", unit=False)
        if isinstance(rows, Embeddings)
        else Moments.from_batch(rows, detail="mean", unit=False)
        for rows in (X, Y)
    )
    return correction.about.get("means_sha256") == hash_of_means(PairMoments(x, y))
