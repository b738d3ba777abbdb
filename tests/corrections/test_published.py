"""Chowers' theorem on real embeddings: CLIP and VideoCLIP, published with Liang et al. 2022."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import load_published
from modgap.corrections import OrthogonalShift
from modgap.evaluation import Gaussian, nearest, retrieval, robustness

pytestmark = pytest.mark.published

FILES = ("features_clip.npy", "features_videoclip.npy")
HERE = np.zeros(1)


def sides(X, Y, move):
    """Queries and candidates when ``move`` is the candidates' side."""
    return (X, Y) if move == "y" else (Y, X)


def kept(queries, candidates, moved):
    """Share of queries whose nearest candidate by Euclidean distance stays."""
    before, after = (nearest(queries, rows, "euclidean", HERE) for rows in (candidates, moved))
    return float(np.mean(before == after))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("move", ["x", "y"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_fitted_on_the_candidates_no_nearest_neighbour_changes(file, move, precision):
    X, Y = (rows.astype(precision) for rows in load_published(file))
    shift = OrthogonalShift(move, 1.0).fit(X, Y, rows="given")
    queries, candidates = sides(X, Y, move)
    assert shift.closed_ > 0.3
    assert kept(queries, candidates, getattr(shift.correction_, move)(candidates)) == 1.0
    before = retrieval(X, Y, metric="euclidean")
    after = retrieval(X, Y, correction=shift.correction_)
    np.testing.assert_array_equal(after.ranks_x, before.ranks_x)
    np.testing.assert_array_equal(after.ranks_y, before.ranks_y)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("move", ["x", "y"])
def test_and_robustness_to_noise_does_not_fall(file, move):
    X, Y = load_published(file)
    queries, candidates = sides(X, Y, move)
    correction = OrthogonalShift(move, 1.0).fit(X, Y, rows="given").correction_
    before = robustness(queries, candidates, Gaussian(0.025))
    after = robustness(
        queries, candidates, Gaussian(0.025), correction=correction, candidate_side=move
    )
    assert after.draws == before.draws == 100
    assert after.metric == before.metric == "euclidean"
    assert after.share[0] >= before.share[0]


@pytest.mark.parametrize("move", ["x", "y"])
def test_respecting_95_percent_costs_little_recall_and_gains_robustness(move):
    X, Y = load_published("features_clip.npy")
    queries, candidates = sides(X, Y, move)
    correction = OrthogonalShift(move, 0.95).fit(X, Y, rows="given").correction_
    before = retrieval(X, Y, 1, "euclidean").recall()
    after = retrieval(X, Y, 1, correction=correction).recall()
    for name in before:
        assert before[name] - after[name] < 0.02
    gain = (
        robustness(
            queries, candidates, Gaussian(0.025), correction=correction, candidate_side=move
        ).share[0]
        - robustness(queries, candidates, Gaussian(0.025)).share[0]
    )
    assert gain > 0.04


@pytest.mark.parametrize("move", ["x", "y"])
def test_new_candidates_are_not_covered_by_the_theorem(move, record_property):
    X, Y = load_published("features_clip.npy")
    shuffled = np.random.default_rng(0).permutation(len(X))
    fit, new = shuffled[:250], shuffled[250:]
    correction = OrthogonalShift(move, 1.0).fit(X[fit], Y[fit], rows="given").correction_
    queries, candidates = sides(X, Y, move)
    moved = getattr(correction, move)(candidates)
    share = kept(queries[new], candidates[new], moved[new])
    record_property("neighbours_kept_for_new_candidates", share)
    print(f"kept for new candidates, move={move}: {share:.3f}")
    assert 0.7 < share < 1
    # Queries need not be known: new ones keep their neighbours among the fitted candidates.
    assert kept(queries[new], candidates[fit], moved[fit]) == 1.0


def test_of_clips_captions_few_directions_hold_5_percent_each_and_many_hold_95_together():
    X, Y = load_published("features_clip.npy")
    gap = X.mean(axis=0) - Y.mean(axis=0)
    singular = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
    share = singular.S**2 / np.sum(singular.S**2)
    each, together = int(np.sum(share > 0.05)), int(np.sum(np.cumsum(share) < 0.95)) + 1
    assert (each, together) == (2, 169)
    for count, threshold in ((each, "each"), (together, "cumulative")):
        kept = singular.Vh[:count]
        shift = OrthogonalShift("y", 0.95, threshold=threshold).fit(X, Y, rows="given")
        left = np.linalg.norm(gap - kept.T @ (kept @ gap)) / np.linalg.norm(gap)
        assert shift.closed_ == pytest.approx(left, rel=1e-5)
