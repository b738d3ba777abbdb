"""One ranking from the results of several lists: by expected wrong results, or calibrated.

How it works, for ``merge``:

1. Scores of different lists cannot be compared. Each becomes the number of wrong results to expect
   at this score or above in its list (`modgap.corrections.list_background`).
2. The number is multiplied by the sum of all weights over the list's own, because the other lists
   give wrong results, too. Equal weights share these equally.
3. All results are sorted by that number. After a sure match, the next results of its list are less
   likely to be another, and come later.

``merge_corrected`` needs no such estimate: a correction that keeps the rankings of each modality
turns a score s into a · s + b, and the results are sorted by these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_choice, check_count, check_finite
from modgap.core.door import check_rows
from modgap.corrections import Affine, Correction
from modgap.corrections.background import Background, best_first
from modgap.corrections.list_background import PLACES, Levels, in_one_list
from modgap.search.exact import best_documents
from modgap.search.hits import Hits

# Ids and scores of one search, (n, k) each, or what an index returned.
Found = tuple[Any, Any] | Hits


def merge(
    hits_by_list: Mapping[str, Found],
    k: int = 10,
    background: Background | None = None,
    *,
    at_most: float | None = None,
    weights: Mapping[str, float] | None = None,
) -> Hits:
    """The k best of several lists, by expected wrong results; hits may come from any engine.

    Each list needs the best 30 results of every query, or all where it has fewer documents.

    Parameters
    ----------
    hits_by_list : mapping of str to Hits or (ids, scores)
        The results of each list, (n, k') each, best first; larger scores are nearer. A list may be
        a modality, a lexical engine, or vectors of an older model.
    k : int
        How many results of each query to return.
    background : Background, optional
        What a bank of queries found in the same lists. Without it, expected wrong results are a
        guess on the safe side: too large, by up to ten times.
    at_most : float, optional
        Leave out results with more expected wrong results than this. Where the best result looks
        like those of queries without a match, nothing is left.
    weights : mapping of str to float, optional
        How likely the answer is in each list; equal by default. Give numbers of documents where any
        document is as likely to be asked for as any other. A list of weight w may give w of the sum
        of all weights of the wrong results.

    Returns
    -------
    Hits
        With ``expected_wrong``. ``modalities`` are those of the lists' own ``Hits``, else the names
        of the lists; where they differ, ``sources`` names the list of each result. Scores are those
        of the lists and not comparable between them. A result that follows a sure one in its own
        list may come after results of other lists with more expected wrong ones.
    """
    check_count(k, "k")
    lists = {name: _as_given(found, name) for name, found in hits_by_list.items()}
    lists = {name: found for name, found in lists.items() if found[1].shape[1]}
    if not lists:
        raise InputValueError("merge needs the hits of at least one list.")
    sizes = {len(ids) for ids, _ in lists.values()}
    if len(sizes) > 1:
        raise InputValueError(
            f"Every list must have a line for each query, got {' and '.join(map(str, sizes))}."
        )
    if background is not None:
        background.check_depth({name: scores.shape[1] for name, (_, scores) in lists.items()})
    shares = _checked(weights, lists)
    # Wrong results of all lists for one of this list.
    factors = {name: sum(shares[of] for of in lists) / shares[name] for name in lists}
    found = merge_checked(lists, k, background, at_most=at_most, factors=factors)
    modalities = {name: _modality(hits_by_list[name], name) for name in lists}
    if all(name == modality for name, modality in modalities.items()):
        return found
    named = [[modalities.get(name, "") for name in line] for line in found.modalities.tolist()]
    return replace(
        found,
        modalities=np.array(named, dtype=object).reshape(found.ids.shape),
        sources=found.modalities,
    )


def _checked(weights: Mapping[str, float] | None, names: Iterable[str]) -> Mapping[str, float]:
    """One weight above 0 for each list."""
    if weights is None:
        return dict.fromkeys(names, 1.0)
    for name in names:
        if name not in weights:
            raise InputValueError(f"weights must name every list, {name} is missing.")
        if not check_finite(weights[name], f"The weight of {name}") > 0:
            raise InputValueError(f"The weight of {name} must be above 0, got {weights[name]}.")
    return weights


def _modality(found: Found, name: str) -> str:
    """The modality of the documents of a list; its name, where nothing else says it."""
    if not isinstance(found, Hits):
        return name
    held = np.unique(found.modalities[np.isfinite(found.scores)].astype(str)).tolist()
    if len(held) > 1:
        raise InputValueError(
            f"A list must hold documents of one modality, {name} has {' and '.join(held)}. Search "
            "each modality on its own (only=…)."
        )
    return held[0] if held else name


def merge_checked(
    lists: Mapping[str, tuple[np.ndarray, np.ndarray]],
    k: int,
    background: Background | None,
    *,
    at_most: float | None = None,
    factors: Mapping[str, float] | None = None,
) -> Hits:
    """``merge`` of checked ids and scores: the best 30 of each list, or all it has now.

    ``factors`` say how many wrong results of all lists there are for one of a list; as many as
    there are lists when left out.
    """
    n_queries = len(next(iter(lists.values()))[0])
    lists = {name: found for name, found in lists.items() if found[1].shape[1]}
    factors = factors or dict.fromkeys(lists, float(len(lists)))
    if at_most is not None:
        if background is None:
            raise InputValueError("at_most needs a background: fit one with a bank of queries.")
        background.check_at_most(at_most, len(lists), max(factors.values(), default=1.0))
    if not lists:
        none = np.empty((n_queries, 0))
        return Hits(none.astype(object), none, none.astype(str), none, np.ones(n_queries))
    expected, surprise = {}, {}
    for name, (_, scores) in lists.items():
        if background is None:
            levels = Levels.of(scores, PLACES)
            expected[name] = levels.expected_without_bank(scores)
        else:
            expected[name], surprise[name] = background.judged(scores, name)
    chance = None if background is None else background.chance(surprise)
    expected = {name: factors[name] * expected[name] for name in lists}
    order, every = in_one_list(list(expected.values()))
    scores = np.hstack([scores for _, scores in lists.values()])
    names = np.hstack([np.where(np.isneginf(s), "", name) for name, (_, s) in lists.items()])
    ids, scores, names, every = (
        np.take_along_axis(part, order[:, :k], axis=1)
        for part in (_joined([ids for ids, _ in lists.values()]), scores, names, every)
    )
    least = 0.0 if background is None else background.least * max(factors.values())
    found = Hits(ids, scores, names, every, chance, least)
    if np.any(np.isneginf(scores)):  # results that a list did not have
        found = found.kept(np.isfinite(scores))
    return found if at_most is None else cut(found, at_most)


def cut(hits: Hits, at_most: float) -> Hits:
    """The results with at most so many expected wrong ones.

    Of queries without a match, 1 − e^(−at_most) have a wrong result that good. Where the first
    result looks no better than theirs, nothing is kept; else the first always is.
    """
    if hits.expected_wrong is None or hits.chance is None:
        raise InputValueError(NO_BACKGROUND)
    if not at_most >= hits.least:
        raise InputValueError(
            f"at_most must be at least {hits.least:.2g}, where the bank ends, got {at_most:g}."
        )
    kept = hits.expected_wrong <= at_most
    kept[:, 0] = True
    kept &= (hits.chance <= -np.expm1(-at_most))[:, None] & np.isfinite(hits.scores)
    return hits.kept(kept).moved(np.argsort(~kept, axis=1, kind="stable"))


def _joined(ids: list[np.ndarray]) -> np.ndarray:
    if len({part.dtype.kind for part in ids}) > 1:  # NumPy would turn whole numbers into text
        ids = [part.astype(object) for part in ids]
    return np.hstack(ids)


def _as_given(found: Found, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores of one list."""
    ids, scores = (found.ids, found.scores) if isinstance(found, Hits) else found
    ids, scores = np.asarray(ids), np.asarray(scores, dtype=np.float64)
    if ids.ndim != 2 or ids.shape != scores.shape:
        raise InputValueError(
            f"The hits of {name} must be ids and scores with one line for each query, got shapes "
            f"{ids.shape} and {scores.shape}."
        )
    return ids, best_first(scores, f"The scores of {name}") if scores.size else scores


def search_corrected(
    correction: Correction,
    queries: Array,
    documents: Mapping[str, Array],
    k: int = 10,
    *,
    modality: str | None = None,
    at_most: float | None = None,
) -> Hits:
    """The k best of corrected documents of all modalities, exactly, for raw queries.

    Parameters
    ----------
    correction : Correction
        The one that mapped the documents; it maps the queries.
    queries : (n, d) array
        Query vectors as the model gives them.
    documents : mapping of str to (m, d) arrays
        Corrected documents of each modality. Results have their row numbers as ids.
    k : int
        How many results of each query to return.
    modality : str, optional
        The modality of the queries; may be left out where the correction serves only one.
    at_most : float, optional
        Leave out results with more expected wrong results than this; for a correction with a
        background, as ``ExpectedWrong`` makes it.
    """
    check_count(k, "k")
    (asking,) = (modality,) if modality else correction.queries
    asked = correction.apply(queries, asking, role="query")
    background = correction.background
    if background is None:
        if at_most is not None:
            raise InputValueError(NO_BACKGROUND)
        found = [(name, best_documents(asked, rows, k, correction.metric)) for name, rows in
                 documents.items()]  # fmt: skip
        names = [np.full(rows.shape, name, dtype=object) for name, (rows, _) in found]
        ids, scores = (np.hstack([part[place] for _, part in found]) for place in (0, 1))
        return best_of(ids, scores, np.hstack(names), k)
    lists = {
        name: best_documents(asked, rows, max(k, background.list_of(name).places), "inner_product")
        for name, rows in documents.items()
    }
    return merge_checked(lists, k, background, at_most=at_most)


NO_BACKGROUND = (
    "Expected wrong results need a background, and this correction has none. Fit one that has: "
    "modgap fit … --method expected-wrong (in Python, ExpectedWrong().fit(X, Y))."
)


def merge_corrected(
    correction: Correction,
    queries: Array,
    modality: str,
    hits_by_modality: Mapping[str, Found],
    k: int,
) -> Hits:
    """The k best of all modalities, from one search in each, without re-indexing anything.

    A correction that keeps the rankings within a modality, as ``Calibrate(mode="keep")`` does,
    turns each score s into a · s + b, with a and b of the query and the modality alone. So k
    results of each modality are enough for the exact k best of all, and fewer are not.

    Parameters
    ----------
    correction : Correction
        One that ranks by inner product and keeps rankings within a modality.
    queries : (n, d) array
        The query vectors, of any length where the correction brings rows to unit length
        (``correction.unit_rows``), else as they were searched with.
    modality : str
        The modality of the queries, one that the correction serves.
    hits_by_modality : mapping of str to Hits or (ids, scores)
        For each document modality the ids and scores of its best documents, (n, k') each. Scores
        are cosines where the correction brings rows to unit length, else inner products.
    k : int
        How many results of each query to return.

    Returns
    -------
    Hits
        The scores are those of the corrected vectors.
    """
    queries = check_rows(queries, "queries")
    check_count(k, "k")
    check_choice(modality, "modality", correction.names)
    check_mergeable(correction)
    normalise = correction.affine(modality, "query").normalise
    asked = Affine(correction.dim_in, normalise=normalise)(
        to_numpy(queries).astype(np.float64), "queries"
    )
    ids, scores, names = [], [], []
    for name, found in hits_by_modality.items():
        check_choice(name, "modality", correction.names)
        found_ids, found_scores = _pair(found, name, len(asked))
        slope = correction.slope(modality, name)
        assert slope is not None
        weights, constant = correction.level(modality, name)
        ids.append(found_ids)
        scores.append(slope * found_scores + (asked @ weights + constant)[:, None])
        # Where a search found fewer than k, the score is −∞ and there is no document to name.
        names.append(np.where(np.isneginf(found_scores), "", name).astype(object))
    if not ids:
        raise InputValueError("merge_corrected needs the hits of at least one modality.")
    return best_of(_joined(ids), np.hstack(scores), np.hstack(names), k)


def check_mergeable(correction: Correction) -> None:
    """Refuse a correction that raw searches cannot be merged by."""
    if correction.hubs is not None:
        raise InputValueError(
            "A correction with hubs changes rankings within a modality, so raw searches cannot be "
            "merged by it. Store corrected vectors (modgap index build), or merge by a correction "
            "without hubs."
        )
    if correction.metric != "inner_product" or not correction.keeps_rankings:
        method = correction.about.get("method", "This correction")
        raise InputValueError(
            f"{method} changes rankings within a modality, so raw searches cannot be merged by it. "
            "Use Calibrate(mode='keep'), or store corrected vectors."
        )


def best_of(ids: np.ndarray, scores: np.ndarray, names: np.ndarray, k: int) -> Hits:
    """The k best entries of each line; equal scores keep the order they came in."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    ids, scores, names = (np.take_along_axis(part, order, axis=1) for part in (ids, scores, names))
    return Hits(ids, scores, names)


def _pair(found: Found, name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    ids, scores = (found.ids, found.scores) if isinstance(found, Hits) else found
    ids, scores = np.asarray(ids), np.asarray(scores, dtype=np.float64)
    if ids.ndim != 2 or ids.shape != scores.shape or len(ids) != n:
        raise InputValueError(
            f"The hits of {name} must be ids and scores with one line for each of the {n} "
            f"queries, got shapes {ids.shape} and {scores.shape}."
        )
    if np.any(np.isnan(scores)):
        raise InputValueError(f"The scores of {name} must be numbers, got NaN.")
    return ids, scores
