"""Search results whose matches are known: what held-out pairs give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputTypeError, InputValueError, check_count
from modgap.core.door import check_groups, check_rows
from modgap.core.results import Result
from modgap.corrections import Correction, Metric
from modgap.search.exact import best_documents, check_searched
from modgap.search.scores import metric_of

Pair = tuple[str, str]


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
    """The best hits of queries, and which of them are matches.

    Make them from rows with ``judge_hits``, or from the hits that a database returned.

    Parameters
    ----------
    pair : pair of str
        (query modality, document modality).
    scores : (n, k) array
        Best hit first, larger is better, as every search of modgap returns them.
    matches : (n, k) array
        Whether a hit is a match.
    n_documents : int, optional
        How many documents were searched, where that is known.
    """

    pair: Pair
    scores: np.ndarray
    matches: np.ndarray
    n_documents: int | None = None

    def _brief(self) -> str:
        n, k = self.scores.shape
        share = f"{float(np.mean(self.matches)):.1%} of them matches"
        return f"{self.pair[0]} → {self.pair[1]}, {n:,} queries, {k} hits each, {share}"

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
    """Search held-out documents for each query's k best, and say which of them match.

    The scores are those of ``search``.

    Parameters
    ----------
    queries : (n, d) array
        Held-out rows to search with.
    documents : (m, d) array, optional
        Held-out rows to search. Without them the queries are searched among themselves, each left
        out of its own hits.
    groups : pair of sequences, optional
        (gq, gd): a query and a document match when they have the same label. Without groups they
        match when they stand in the same row. Without documents it is one label per query.
    pair : pair of str
        (query modality, document modality).
    k : int
        How many hits of each query.
    metric : {"cosine", "inner_product", "euclidean"}, optional
        By default the correction's, else cosine.
    correction : Correction, optional
        Applied to queries and documents first.

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
    queries, documents = check_searched(queries, documents, metric, ("queries", "documents"))
    own = np.arange(queries.shape[0]) if among_themselves else None
    best, scores = best_documents(queries, documents, k, metric, own)
    return JudgedHits(pair, scores, gd[best] == gq[:, None], n_documents)
