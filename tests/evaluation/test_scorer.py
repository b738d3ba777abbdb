"""The scorer that lets scikit-learn's searches judge correctors."""

from __future__ import annotations

import pytest
from sklearn.model_selection import KFold, cross_val_score

from modgap.corrections import Center, OrthogonalShift, Shift, Whiten
from modgap.evaluation import (
    Gaussian,
    OneBit,
    correction_scorer,
    mixed_retrieval,
    retrieval,
    robustness,
)


def both_ways(X, Y, noise, correction, draws, seed):
    return [
        robustness(*sides, noise, draws, correction=correction, candidate_side=side, seed=seed)
        for sides, side in (((X, Y), "y"), ((Y, X), "x"))
    ]


def test_the_mixed_goal_is_ndcg_in_one_index(pairs):
    fitted = Center().fit(*pairs)
    expected = mixed_retrieval(*pairs, correction=fitted.correction_, seed=4).ndcg
    assert correction_scorer(seed=4)(fitted, *pairs) == expected


def test_the_recall_goal_is_the_mean_of_recall_at_1_both_ways(pairs):
    fitted = OrthogonalShift("y", 0.9).fit(*pairs)
    recall = retrieval(*pairs, 1, correction=fitted.correction_).recall()
    expected = sum(recall.values()) / 2
    assert correction_scorer("recall")(fitted, *pairs) == expected


@pytest.mark.parametrize("noise", [None, Gaussian(0.6), OneBit()], ids=repr)
def test_the_robust_goal_is_the_mean_share_kept_both_ways(pairs, noise):
    fitted = Whiten().fit(*pairs)
    found = correction_scorer("robust", noise=noise, draws=3, seed=2)(fitted, *pairs)
    used = Gaussian(0.025) if noise is None else noise
    shares = [r.share[0] for r in both_ways(*pairs, used, fitted.correction_, 3, 2)]
    assert found == pytest.approx(sum(shares) / 2)


@pytest.mark.parametrize("goal", ["mixed", "recall", "robust"])
def test_each_goal_works_in_cross_validation_on_the_held_out_rows(pairs, goal):
    X, Y = pairs
    scorer = correction_scorer(goal)
    scores = cross_val_score(Shift(0.5), X, Y, scoring=scorer, cv=KFold(3))
    for (fit, test), score in zip(KFold(3).split(X), scores, strict=True):
        assert score == scorer(Shift(0.5).fit(X[fit], Y[fit]), X[test], Y[test])


def test_an_unknown_goal_and_an_unfitted_corrector_are_refused(pairs):
    with pytest.raises(ValueError, match="goal must be one of 'mixed', 'recall', 'robust'"):
        correction_scorer("quantised")
    with pytest.raises(ValueError, match="has not been fitted"):
        correction_scorer()(Center(), *pairs)
