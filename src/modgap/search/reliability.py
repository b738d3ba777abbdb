"""Search results whose matches are known, and how far probabilities about them can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap._arrays import to_numpy
from modgap._results import Result
from modgap._validate import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_groups,
    check_rows,
)
from modgap.corrections import Correction, Metric
from modgap.search.exact import search
from modgap.search.scores import metric_of

Pair = tuple[str, str]
Strategy = Literal["mass", "width"]

MIN_ACCEPTED = 20  # a precision that rests on fewer hits is not promised
_CURVE_POINTS = 2000


def check_pair(pair: Any) -> Pair:
    """A query modality and a document modality; they may be the same."""
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise InputValueError(
            f"pair must be (query modality, document modality), such as ('text', 'image'), "
            f"got {pair!r}."
        )
    if not all(isinstance(name, str) and name and "." not in name for name in pair):
        raise InputValueError(f"Modality names must not be empty or hold a dot, got {pair!r}.")
    return pair[0], pair[1]


def check_scores(scores: Any, k: int | None = None) -> np.ndarray:
    """Finite scores of each query's hits, (n, k), best first, in float64."""
    try:
        values = np.asarray(to_numpy(scores), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError("scores must be a matrix of numbers, one row per query.") from error
    if values.ndim != 2 or len(values) == 0:
        raise InputValueError(
            f"scores must have one row per query and one column per hit, got shape {values.shape}."
        )
    if k is not None and values.shape[1] != k:
        raise InputValueError(
            f"The calibrator looks at the {k} best hits of a query, got {values.shape[1]} scores "
            f"each. Search for {k}, or fit with k={values.shape[1]}."
        )
    if not np.all(np.isfinite(values)):
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise InputValueError(f"scores has NaN or infinity, the first in row {row}.")
    if np.any(np.diff(values, axis=1) > 0):
        row = int(np.flatnonzero((np.diff(values, axis=1) > 0).any(axis=1))[0])
        raise InputValueError(
            f"Each row of scores must run from the best hit down, row {row} does not. "
            "Larger is better: pass distances with a minus sign."
        )
    return values


@dataclass(frozen=True, eq=False)
class JudgedHits(Result):
    """The best hits of queries, and which of them are matches: what held-out pairs give.

    ``pair`` is (query modality, document modality), ``scores`` (n, k) with the best hit first and
    larger better, ``matches`` (n, k) whether a hit is a match, ``n_documents`` how many documents
    were searched, None if nobody knows. Make them from rows with ``judge_hits``, or from the hits
    that a database returned.
    """

    pair: Pair
    scores: np.ndarray
    matches: np.ndarray
    n_documents: int | None = None

    def __post_init__(self) -> None:
        scores, matches = check_scores(self.scores), np.asarray(to_numpy(self.matches))
        if matches.shape != scores.shape:
            raise InputValueError(
                f"scores and matches must be about the same hits, "
                f"got shapes {scores.shape} and {matches.shape}."
            )
        if not np.all(np.isin(matches, (0, 1))):
            raise InputValueError("matches must say true or false (1 or 0) for every hit.")
        object.__setattr__(self, "pair", check_pair(self.pair))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "matches", matches.astype(bool))


def judge_hits(
    queries: Array,
    documents: Array | None = None,
    groups: Any = None,
    *,
    pair: Pair,
    k: int = 10,
    metric: Metric | None = None,
    correction: Correction | None = None,
) -> JudgedHits:
    """Search held-out documents for each query's k best, and judge them by their groups.

    A query and a document match when ``groups=(gq, gd)`` gives them the same label; without
    groups, when they stand in the same row. Without ``documents`` the queries are searched among
    themselves: each is left out of its own hits, and ``groups`` is one label per row. The metric
    is the correction's, else cosine; the score is that of ``search``.

    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> judge_hits(rows, groups=["a", "a", "b"], pair=("text", "text"), k=2).matches.tolist()
    [[True, False], [True, False], [False, False]]
    """
    pair = check_pair(pair)
    metric = metric_of(metric, correction, "cosine")
    queries = check_rows(queries, "queries")
    among_themselves = documents is None
    if among_themselves:
        if pair[0] != pair[1]:
            raise InputValueError(
                f"A search for {pair[1]} with {pair[0]} needs documents; only a search within one "
                "modality can go without."
            )
        if groups is None or np.shape(groups) != (queries.shape[0],):
            raise InputValueError(
                "A search among the queries themselves needs groups, one label per query: "
                f"{queries.shape[0]} queries, got {'none' if groups is None else np.shape(groups)}."
            )
        documents, groups = queries, (groups, groups)
    elif documents is queries:
        raise InputValueError(
            "queries and documents are the same rows, so every query would find itself. "
            "Leave documents out to search them among themselves."
        )
    documents = check_rows(documents, "documents")
    gq, gd = check_groups(groups, queries.shape[0], documents.shape[0])
    n_documents = documents.shape[0] - among_themselves
    check_count(k, "k", at_most=n_documents)
    if correction is not None:
        queries = correction.apply(queries, pair[0], "query")
        documents = correction.apply(documents, pair[1], "document")
    own = np.arange(queries.shape[0]) if among_themselves else None
    best, scores = search(queries, documents, k, metric, leave_out=own)
    return JudgedHits(pair, scores, gd[best] == gq[:, None], n_documents)


@dataclass(frozen=True, eq=False)
class Reliability(Result):
    """How often hits of a predicted probability are matches, bin by bin.

    ``predicted`` is the mean prediction of each bin, ``observed`` its share of matches, ``counts``
    its hits, ``edges`` one number more than bins; a bin without hits has NaN. ``ece`` is the
    expected calibration error, Σ counts · abs(predicted − observed) / n: 0 when every bin keeps
    its word.
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

    ``strategy="mass"``, the default, gives every bin about the same number of hits (equal
    probabilities stay together); ``"width"`` cuts 0 to 1 into bins of one width.

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
