"""evaluate_correction: every metric before and after one correction that was fitted elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conftest import make_pairs
from modgap.corrections import Calibrate, Center, OrthogonalShift
from modgap.evaluation import (
    Evaluator,
    GroupBootstrap,
    evaluate_correction,
    mixed_retrieval,
    retrieval,
)
from modgap.io import Embeddings, Modalities


@pytest.fixture
def correction(pairs):
    return Center().fit(*pairs).correction_


def values(scores):
    return {name: figure.value.value for name, figure in scores.metrics.items()}


def test_figures_before_and_after_are_those_of_the_separate_functions(pairs, correction):
    found = evaluate_correction(*pairs, correction)
    assert found.n_groups == 60
    for judged, given in ((found.raw, None), (found.corrected, correction)):
        expected = retrieval(*pairs, 1, correction=given).recall()
        expected["mixed_ndcg@10"] = mixed_retrieval(*pairs, correction=given).ndcg
        for name, value in expected.items():
            assert values(judged)[name] == pytest.approx(value), name
    assert values(found.raw) != values(found.corrected)
    for name, figure in found.corrected.metrics.items():
        was, now = found.raw.metrics[name].value.value, figure.value.value
        assert figure.change.value == pytest.approx(now - was)
        assert found.raw.metrics[name].change is None


def test_details_hold_recall_at_more_places_and_both_query_modalities(pairs, correction):
    found = evaluate_correction(*pairs, correction)
    assert set(found.details) == {"raw", "corrected"}
    for kind, given in (("raw", None), ("corrected", correction)):
        expected = retrieval(*pairs, correction=given).to_dict()
        assert found.details[kind]["retrieval"] == expected
        assert found.details[kind]["mixed"] == mixed_retrieval(*pairs, correction=given).to_dict()
    json.dumps(found.to_dict(), allow_nan=False)


def test_without_a_correction_only_the_rows_as_they_are_are_reported(pairs):
    found = evaluate_correction(*pairs)
    assert found.corrected is None
    assert set(found.details) == {"raw"}
    assert not found.fitted_on_these_rows


def test_it_says_when_a_correction_is_judged_on_the_rows_it_was_fitted_on(pairs, correction):
    X, Y = pairs
    assert evaluate_correction(X, Y, correction).fitted_on_these_rows
    other = Center().fit(X[:50], Y[:50]).correction_
    assert not evaluate_correction(X, Y, other).fitted_on_these_rows
    assert not evaluate_correction(X[:50], Y[:50], correction).fitted_on_these_rows


def test_raw_rows_are_ranked_by_the_metric_asked_for_and_corrected_ones_by_their_own(pairs):
    shift = OrthogonalShift("y", 0.9).fit(*pairs).correction_
    found = evaluate_correction(*pairs, shift, metric="inner_product")
    assert found.details["raw"]["retrieval"]["metric"] == "inner_product"
    assert found.details["corrected"]["retrieval"]["metric"] == "euclidean"
    expected = retrieval(*pairs, 1, "inner_product").recall()
    assert expected.items() <= values(found.raw).items()


def test_other_names_or_another_dimension_are_refused(pairs, correction):
    X, Y = pairs
    with pytest.raises(ValueError, match="for image and text, the data for photo and text"):
        evaluate_correction(X, Y, correction, names=("photo", "text"))
    with pytest.raises(ValueError, match="same names in the same order"):
        evaluate_correction(X, Y, correction, names=("text", "image"))
    with pytest.raises(ValueError, match="for rows of 12 columns, got 5"):
        evaluate_correction(X[:, :5], Y[:, :5], correction)


def test_a_sample_of_groups_is_drawn_with_the_seed(pairs, correction):
    found = [evaluate_correction(*pairs, correction, sample=20, seed=s) for s in (1, 1, 2)]
    assert [one.n_groups for one in found] == [20, 20, 20]
    assert found[0].to_dict() == found[1].to_dict() != found[2].to_dict()
    with pytest.raises(ValueError, match="sample must be at least 1"):
        evaluate_correction(*pairs, correction, sample=0)


@pytest.mark.parametrize("kind", ["torch", "embeddings", "lists"])
def test_tensors_embeddings_and_lists_give_the_figures_of_arrays(pairs, correction, kind):
    if kind == "torch":
        torch = pytest.importorskip("torch")
        sides = [torch.from_numpy(rows) for rows in pairs]
    elif kind == "embeddings":
        sides = [Embeddings.from_array(rows) for rows in pairs]
    else:
        sides = [rows.tolist() for rows in pairs]
    expected = evaluate_correction(*pairs, correction)
    found = evaluate_correction(*sides, correction)
    assert values(found.corrected) == pytest.approx(values(expected.corrected))
    assert found.fitted_on_these_rows


def test_groups_say_which_rows_match_and_rows_without_a_match_are_left_out(pairs):
    X, Y = pairs
    groups = np.arange(60), np.arange(60) + 10
    Y = np.roll(Y, -10, axis=0)
    found = evaluate_correction(X, Y, groups=groups)
    assert found.n_groups == 50
    expected = retrieval(X[10:], Y[:50], 1).recall()
    assert expected.items() <= values(found.raw).items()


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_float32_rows_of_any_scale_are_diagnosed_alike(factor):
    X, Y = (side.astype(np.float32) for side in make_pairs(300))
    correction = Calibrate().fit(X, Y).correction_
    scaled = Calibrate().fit(X * np.float32(factor), Y * np.float32(factor)).correction_
    before = evaluate_correction(X, Y, correction).corrected.metrics["mixed_ndcg@10"]
    after = evaluate_correction(X * np.float32(factor), Y * np.float32(factor), scaled)
    assert after.corrected.metrics["mixed_ndcg@10"].value.value == pytest.approx(
        before.value.value, abs=1e-3
    )


def test_a_sample_of_the_rows_it_was_fitted_on_is_known_too():
    X, Y = make_pairs(300)
    fitted = Center().fit(X, Y).correction_
    assert evaluate_correction(X, Y, fitted, sample=50).fitted_on_these_rows
    other = Center().fit(X[:200], Y[:200]).correction_
    assert not evaluate_correction(X, Y, other, sample=50).fitted_on_these_rows


def test_intervals_resample_the_groups_of_a_split_whatever_their_numbers():
    X, Y = make_pairs(120, 8, seed=2)
    data = Modalities.of(np.vstack([X, X[:40]]), np.vstack([Y, Y[40:80]]),
                         groups=(np.r_[0:120, 0:40], np.r_[0:120, 40:80]))  # fmt: skip
    split = data.take_groups(np.arange(0, 120, 3))
    rows = [np.flatnonzero(codes % 3 == 0) for codes in data.groups]
    alone = Modalities.of(
        data.X[rows[0]], data.Y[rows[1]],
        groups=tuple(codes[kept] for codes, kept in zip(data.groups, rows, strict=True)),
    )  # fmt: skip
    found, expected = (Evaluator(one).raw for one in (split, alone))
    assert found.to_dict() == expected.to_dict()
    # By hand: groups drawn with replacement, each with all of its queries.
    queries = mixed_retrieval(split, k=10).queries
    by_group = {g: [] for g in range(40)}
    for q in queries:
        for group, value in zip(q.group, q.ndcg, strict=True):
            by_group[group].append(value)
    counts = GroupBootstrap(np.arange(40)).counts
    sums, sizes = (np.array([f(by_group[g]) for g in range(40)]) for f in (sum, len))
    low, high = np.quantile((counts @ sums) / (counts @ sizes), [0.025, 0.975])
    interval = found.metrics["mixed_ndcg@10"].value
    assert (interval.low, interval.high) == pytest.approx((low, high))


@pytest.mark.parametrize("n", [1, 5])
def test_too_few_groups_are_refused_in_a_sentence(pairs, n):
    X, Y = pairs
    with pytest.raises(ValueError, match=f"at least 6 groups with rows on every side, got {n}"):
        evaluate_correction(X[:n], Y[:n])
    assert len(evaluate_correction(X[:6], Y[:6]).table()[1]) > 4
