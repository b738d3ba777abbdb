"""Searches whose result lists an exported file merges, and what modgap makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from modgap.corrections import Calibrate, Correction, ExpectedWrong
from modgap.corrections.background import FewQueriesWarning
from modgap.search import Hits, merge, merge_corrected, search, search_corrected

NAMES = ("image", "it's \\ a text")


@dataclass(frozen=True)
class Case:
    """Queries, the hits of each list, best first, and modgap's answer."""

    correction: Correction
    queries: np.ndarray
    lists: Mapping[str, tuple[np.ndarray, np.ndarray]]
    k: int
    at_most: float | None
    hits: Hits

    @property
    def by_e(self) -> bool:
        return self.correction.background is not None

    def of_query(self, query: int) -> dict[str, tuple[list[str], list[float]]]:
        """Ids and scores of each list, as a service has them."""
        return {
            name: ([f"d{key}" for key in ids[query]], scores[query].tolist())
            for name, (ids, scores) in self.lists.items()
        }

    def check(self, query: int, found: Sequence[Sequence[Any]]) -> None:
        """Found are tuples of id, list, score, and expected wrong results where they are merged by.

        Order is modgap's, scores are so to 1e-5.
        """
        held = self.hits.kept(self.hits.ids != None)  # noqa: E711
        there = np.isfinite(held.scores[query])
        wanted = [f"d{key}" for key in held.ids[query][there]]
        assert [(hit[0], hit[1]) for hit in found] == [
            *zip(wanted, held.modalities[query][there], strict=True)
        ]
        scores = held.scores[query][there].astype(float)
        np.testing.assert_allclose([hit[2] for hit in found], scores, rtol=1e-5, atol=1e-5)
        if self.by_e:
            expected = held.expected_wrong[query][there].astype(float)
            np.testing.assert_allclose([hit[3] for hit in found], expected, rtol=1e-5)


def _rows(seed: int, n: int, foreign: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    topic = rng.normal(size=(n, d))
    X, Y, asked = (topic + 0.4 * rng.normal(size=(n, d)) + side for side in (1.0, -1.0, -1.0))
    return np.vstack([X, rng.normal(size=(foreign, d)) * 0.6 + 1.5]), Y, asked[:4]


def expected_wrong_case(
    seed: int, n: int, foreign: int, d: int, hubs: float, k: int, at_most: float | None
) -> Case:
    """Lists of corrected documents, merged by expected wrong results."""
    X, Y, queries = _rows(seed, n, foreign, d)
    documents = dict(zip(NAMES, (X, Y), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewQueriesWarning)
        correction = ExpectedWrong(hubs).fit(documents, queries=NAMES[1]).correction_
    stored = {name: correction.apply(rows, name) for name, rows in documents.items()}
    asked = correction.apply(queries, NAMES[1], "query")
    lists = {
        name: search(asked, rows, max(k, 30), "inner_product") for name, rows in stored.items()
    }
    if at_most is not None:
        at_most = max(at_most, 1.001 * 2 * correction.background.least)
    hits = merge(lists, k, correction.background, at_most=at_most)
    exact = search_corrected(correction, queries, stored, k, at_most=at_most)
    np.testing.assert_array_equal(exact.ids, hits.ids)
    return Case(correction, queries, lists, k, at_most, hits)


def calibrated_case(seed: int, n: int, d: int, form: str, unit: bool, k: int) -> Case:
    """Lists of raw documents, merged by calibrated scores."""
    X, Y, queries = _rows(seed, n, 0, d)
    documents = dict(zip(NAMES, (X, Y), strict=True))
    rows = "unit" if unit else "given"
    fit = Calibrate(form=form).fit(
        documents, queries=NAMES[1] if form == "single" else None, rows=rows
    )
    metric = "cosine" if unit else "inner_product"
    lists = {name: search(queries, held, k, metric) for name, held in documents.items()}
    hits = merge_corrected(fit.correction_, queries, NAMES[1], lists, k)
    return Case(fit.correction_, queries, lists, k, None, hits)


def flat(lists: dict) -> tuple[list[str], list[str], list[float]]:
    """The hits of all lists as three arrays."""
    every = [
        (key, name, score)
        for name, found in lists.items()
        for key, score in zip(*found, strict=True)
    ]
    ids, names, scores = zip(*every, strict=True)
    return list(ids), list(names), list(scores)


SEEDS = st.integers(0, 2**32 - 1)
EXPECTED_WRONG = st.builds(
    expected_wrong_case,
    seed=SEEDS,
    n=st.integers(25, 90),
    foreign=st.integers(0, 60),
    d=st.integers(4, 20),
    hubs=st.sampled_from([0.0, 0.25]),
    k=st.integers(1, 50),
    at_most=st.none() | st.floats(0.2, 50),
)
CALIBRATED = st.builds(
    calibrated_case,
    seed=SEEDS,
    n=st.integers(25, 90),
    d=st.integers(4, 20),
    form=st.sampled_from(["single", "blocks", "compromise"]),
    unit=st.booleans(),
    k=st.integers(1, 50),
)
