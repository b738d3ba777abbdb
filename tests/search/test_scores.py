"""One meaning of a score: every search gives the cosine, the inner product or −‖q − d‖²."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_pairs
from index_services import LIBRARIES, make_store
from modgap.corrections import METRICS, Calibrate, Center, Correction, OrthogonalShift
from modgap.evaluation import retrieval
from modgap.io import Modalities
from modgap.search import JudgedHits, OtherMetricWarning, judge_hits, search
from modgap.serve import MixedIndex
from reference_search import score

PAIR = ("text", "image")

# Searches documents with queries of the same row numbers; row i matches row i.
Searcher = Callable[[np.ndarray, np.ndarray, int, str, Path], JudgedHits]


def judged(rows: np.ndarray, scores: np.ndarray) -> JudgedHits:
    return JudgedHits(PAIR, scores, rows == np.arange(len(rows))[:, None])


def exact(queries, documents, k, metric, folder) -> JudgedHits:
    return judged(*search(queries, documents, k, metric))


def evaluated(queries, documents, k, metric, folder) -> JudgedHits:
    return judge_hits(queries, documents, pair=PAIR, k=k, metric=metric)


def index(kind: str, queries, documents, k, metric, folder) -> JudgedHits:
    correction = Correction.identity(queries.shape[1], metric=metric)
    with make_store(kind, folder).open(correction, create=True) as opened:
        opened.write(documents, "image")
        hits = opened.search(queries, "text", k)
        opened.drop()
    return judged(hits.ids, hits.scores)


def served(queries, documents, k, metric, folder) -> JudgedHits:
    """The live index of ``modgap serve``, asked among the images only."""
    data = Modalities.of(documents, queries)
    live = MixedIndex(data, metric=metric, at_most=10**6, seed=0)
    among = {"image": np.ones(len(documents), bool), "text": np.zeros(len(queries), bool)}
    hits = live.search(queries, "text", k, among=among)
    return judged(hits.ids, hits.scores)


# One more search is one more line here.
SEARCHERS: dict[str, Searcher] = {
    "server": served,
    "exact": exact,
    "judge_hits": evaluated,
    **{kind: partial(index, kind) for kind in sorted(LIBRARIES)},
}

searchers = pytest.mark.parametrize("name", SEARCHERS)
metrics = pytest.mark.parametrize("metric", METRICS)


def pairs(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_pairs(n, d, seed)
    return X.astype(np.float32), Y.astype(np.float32)


@searchers
@metrics
@settings(max_examples=3)
@given(n=st.integers(2, 12), d=st.integers(2, 8), seed=st.integers(0, 2**16))
def test_every_search_gives_the_score_of_the_definition(tmp_path_factory, name, metric, n, d, seed):
    X, Y = pairs(n, d, seed)
    hits = SEARCHERS[name](Y, X, n, metric, tmp_path_factory.mktemp("scores"))
    wide = X.astype(np.float64), Y.astype(np.float64)
    scores = np.array([[score(q, document, metric) for document in wide[0]] for q in wide[1]])
    slack = 1e-5 * max(1.0, float(np.abs(scores).max()))
    np.testing.assert_allclose(hits.scores, -np.sort(-scores, axis=1), rtol=0, atol=slack)
    # The score that stands beside a match is that of the match.
    np.testing.assert_allclose(hits.scores[hits.matches], np.diag(scores), rtol=0, atol=slack)


@pytest.mark.parametrize(
    ("corrector", "metric"),
    [
        (Calibrate(form="blocks"), "cosine"),
        (Calibrate(form="blocks"), "euclidean"),
        (OrthogonalShift("y", 0.5), "cosine"),
    ],
    ids=repr,
)
def test_a_metric_that_loses_the_correction_is_warned_of(corrector, metric):
    X, Y = pairs(60, 8, seed=3)
    correction = corrector.fit(X, Y).correction_
    own = correction.metric
    with pytest.warns(OtherMetricWarning, match=f"correction is lost.*metric='{own}'") as seen:
        found = retrieval(X, Y, metric=metric, correction=correction)
    assert len(seen) == 1
    assert found.metric == metric


@pytest.mark.parametrize(
    ("corrector", "metric"),
    [(Calibrate(form="blocks"), "inner_product"), (Center(), "euclidean"), (Center(), None)],
    ids=repr,
)
def test_a_metric_that_ranks_as_the_correction_does_is_not(corrector, metric):
    X, Y = pairs(60, 8, seed=3)
    correction = corrector.fit(X, Y).correction_
    ranks = [
        retrieval(X, Y, metric=given, correction=correction).ranks_x for given in (metric, None)
    ]
    np.testing.assert_array_equal(*ranks)


def test_no_correction_and_one_that_moves_nothing_take_any_metric():
    X, Y = pairs(20, 8, seed=3)
    for correction in (None, Correction.identity(8)):
        assert retrieval(X, Y, metric="euclidean", correction=correction).metric == "euclidean"
