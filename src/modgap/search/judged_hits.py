"""Search results whose matches are known: what held-out pairs give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputTypeError, InputValueError, check_choice, check_count
from modgap.core.door import check_groups, check_rows
from modgap.core.results import Result
from modgap.corrections import Correction, Metric
from modgap.search.exact import best_documents, check_searched
from modgap.search.hits import Hits
from modgap.search.scores import metric_of

Pair = tuple[str, str]
RankedBy = Literal["score", "expected_wrong"]
RANKED_BY = ("score", "expected_wrong")
_LEAST_EXPECTED = 1e-300


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
    """Scores of each query's hits, (n, k), best first, in float64; −∞ where there are fewer."""
    try:
        values = np.asarray(to_numpy(scores), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError("scores must be a matrix of numbers, one row per query.") from error
    if values.ndim != 2 or len(values) == 0:
        raise InputValueError(
            f"scores must have one row per query and one column per hit, got shape {values.shape}."
        )
    if k is not None:
        values = padded(values, k, values, -np.inf)
    if k is not None and values.shape[1] != k:
        raise InputValueError(
            f"The calibrator looks at the {k} best hits of a query, got {values.shape[1]} scores "
            f"each. Search for {k}, or fit with k={values.shape[1]}."
        )
    bad = np.any(np.isnan(values) | (values == np.inf), axis=1)
    if np.any(bad):
        row = int(np.argmax(bad))
        raise InputValueError(f"scores has NaN or infinity, the first in row {row}.")
    rising = np.any(values[:, 1:] > values[:, :-1], axis=1)
    if np.any(rising):
        row = int(np.argmax(rising))
        raise InputValueError(
            f"Each row of scores must run from the best hit down, row {row} does not. "
            "Larger is better: pass distances with a minus sign."
        )
    return values


def padded(values: np.ndarray, k: int, scores: np.ndarray, empty: Any) -> np.ndarray:
    """``values`` of hits, widened to k columns where some query had fewer hits than these."""
    missing = k - values.shape[1]
    if missing <= 0 or not np.any(np.isneginf(scores)):
        return values
    return np.pad(values, ((0, 0), (0, missing)), constant_values=empty)


@dataclass(frozen=True, eq=False)
class JudgedHits(Result):
    """The best hits of queries, and which of them are matches.

    Make them from rows with ``judge_hits``, from the ``Hits`` of any search with ``of``, or from
    the scores that a database returned.

    Parameters
    ----------
    pair : pair of str
        (query modality, document modality).
    scores : (n, k) array
        Best hit first, larger is better, as every search of modgap returns them; −∞ where a query
        has fewer hits.
    matches : (n, k) array
        Whether a hit is a match.
    n_documents : int, optional
        How many documents were searched, where that is known.
    counted : (n, k) array, optional
        Which hits are of this pair and judged; by default all that there are. The others say only
        what a hit stands among.
    ranked_by : {"score", "expected_wrong"}
        What the scores are. For expected wrong results E they are −log E.
    """

    pair: Pair
    scores: np.ndarray
    matches: np.ndarray
    n_documents: int | None = None
    counted: np.ndarray | None = None
    ranked_by: RankedBy = "score"

    def _brief(self) -> str:
        n, k = self.scores.shape
        share = f"{float(np.mean(self.matches[self.counted])):.1%} of them matches"
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
        counted = np.isfinite(scores)
        if self.counted is not None:
            if np.shape(self.counted) != scores.shape:
                raise InputValueError(
                    f"scores and counted must be about the same hits, got shapes {scores.shape} "
                    f"and {np.shape(self.counted)}."
                )
            counted &= np.asarray(to_numpy(self.counted)).astype(bool)
        object.__setattr__(self, "pair", check_pair(self.pair))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "matches", matches.astype(bool) & counted)
        object.__setattr__(self, "counted", counted)
        check_choice(self.ranked_by, "ranked_by", RANKED_BY)

    @classmethod
    def of(cls, hits: Hits, matches: Any, modality: str, k: int | None = None) -> list[JudgedHits]:
        """The hits of any search with what people say of them, one for each document modality.

        Parameters
        ----------
        hits : Hits
            Of one modality or several. Where they have expected wrong results, they are ranked by
            those.
        matches : (n, k) array, or n sets
            Whether each hit is a match; None or NaN where nobody judged it. Or, for each query, the
            set of the ids that match it; (modality, id) where modalities share ids.
        modality : str
            That of the queries.
        k : int, optional
            How many of the first hits of each query to take; all if left out.
        """
        by: RankedBy = "score" if hits.expected_wrong is None else "expected_wrong"
        values, order = ranking(hits, by, k or hits.ids.shape[1])
        truth, modalities = (
            np.take_along_axis(part, order, axis=1)
            for part in (_judgements(hits, matches), hits.modalities)
        )
        judged = ~np.isnan(truth)
        names = dict.fromkeys(modalities[np.isfinite(values) & judged].tolist())
        if not names:
            raise InputValueError("None of these hits is judged.")
        return [
            cls((modality, name), values, truth == 1, None, judged & (modalities == name), by)
            for name in names
        ]


def ranking(hits: Hits, by: RankedBy, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, or −log E, of the first k hits, largest first, and the columns they come from.

    Merged hits are not in the order of E throughout.
    """
    if by == "score":
        scores = hits.scores[:, :k]
        return scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    if hits.expected_wrong is None:
        raise InputValueError(
            "The calibrator was fitted on expected wrong results, and these hits have none. Search "
            "with a correction that has a background, or merge lists by one."
        )
    values = -np.log(np.maximum(hits.expected_wrong[:, :k], _LEAST_EXPECTED))
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1), order


def _judgements(hits: Hits, matches: Any) -> np.ndarray:
    """1 for a match, 0 for none and NaN where nobody judged, (n, k)."""
    if len(matches) and all(isinstance(line, (set, frozenset)) for line in matches):
        if len(matches) != len(hits.ids):
            raise InputValueError(
                f"matches must be one set of ids for each of the {len(hits.ids)} queries, "
                f"got {len(matches)}."
            )
        lines = zip(hits.ids.tolist(), hits.modalities.tolist(), matches, strict=True)
        return np.array(
            [
                [
                    key in right or (name, key) in right
                    for key, name in zip(keys, names, strict=True)
                ]
                for keys, names, right in lines
            ],
            dtype=np.float64,
        )
    try:
        truth = np.asarray(to_numpy(matches), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            "matches must say true, false or None for every hit, or be a set of ids for each query."
        ) from error
    if truth.shape != hits.ids.shape:
        raise InputValueError(
            f"matches must be about the same hits, got shapes {hits.ids.shape} and {truth.shape}."
        )
    if not np.all(np.isin(truth, (0, 1)) | np.isnan(truth)):
        raise InputValueError("matches must say true, false or None for every hit.")
    return truth


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
