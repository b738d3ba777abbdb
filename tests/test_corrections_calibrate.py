"""Calibration: comparable scores, rankings kept within a modality, and merging without an index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_pairs
from modgap import retrieval
from modgap.corrections import Calibrate, Center, Correction, Shift
from modgap.evaluation import mixed_retrieval
from modgap.search import merge


def unit(A):
    return A / np.linalg.norm(A, axis=1, keepdims=True)


@pytest.fixture
def unit_pairs(pairs):
    return tuple(unit(side) for side in pairs)


def spread_by_hand(queries, documents, centred=False):
    """Root mean over queries of the variance of their scores over documents."""
    if centred:
        queries = queries - queries.mean(0)
        documents = documents - documents.mean(0)
        queries = queries / np.sqrt(np.mean(np.sum(queries**2, 1)))
        documents = documents / np.sqrt(np.mean(np.sum(documents**2, 1)))
    return np.sqrt(np.mean([np.var([q @ d for d in documents]) for q in queries]))


@pytest.mark.parametrize("mode", ["keep", "mixed"])
def test_the_spreads_are_those_of_the_scores(unit_pairs, mode):
    X, Y = unit_pairs
    found = Calibrate(mode).fit(X, Y).spreads_
    for asking, Q in (("x", X), ("y", Y)):
        for held, D in (("x", X), ("y", Y)):
            expected = spread_by_hand(Q, D, centred=mode == "mixed")
            assert found[asking, held] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("form", ["blocks", "compromise", "x", "y"])
def test_scores_are_counted_in_spreads_above_their_mean(unit_pairs, form):
    X, Y = unit_pairs
    fit = Calibrate("keep", form).fit(X, Y)
    s = fit.spreads_
    one = {"x": s["x", "x"], "y": s["x", "y"]}  # what an x query divides by, in each form
    if form == "y":
        one = {"x": s["y", "x"], "y": s["y", "y"]}
    if form == "compromise":
        one = {held: (s["x", held] * s["y", held]) ** 0.5 for held in "xy"}
    scores = fit.correction_.x(X, "query") @ fit.correction_.x(X).T
    np.testing.assert_allclose(scores, X @ (X - X.mean(0)).T / one["x"], atol=1e-10)
    scores = fit.correction_.x(X, "query") @ fit.correction_.y(Y).T
    np.testing.assert_allclose(scores, X @ (Y - Y.mean(0)).T / one["y"], atol=1e-10)


def test_non_matching_scores_have_mean_zero_and_spread_one_in_both_modalities(unit_pairs):
    X, Y = unit_pairs
    fit = Calibrate().fit(X, Y)
    for asked in (fit.correction_.x(X, "query"), fit.correction_.y(Y, "query")):
        for stored in (fit.correction_.x(X), fit.correction_.y(Y)):
            scores = asked @ stored.T
            np.testing.assert_allclose(scores.mean(axis=1), 0, atol=1e-9)
            assert np.sqrt(np.mean(scores.var(axis=1))) == pytest.approx(1)


@given(st.integers(0, 10_000), st.sampled_from(["blocks", "compromise", "x", "y"]))
def test_keep_changes_no_ranking_within_a_modality_in_float64(seed, form):
    X, Y = (unit(side) for side in make_pairs(n=25, d=6, seed=seed))
    correction = Calibrate("keep", form).fit(X, Y).correction_
    for Q, D, ask, hold in (
        (X, Y, "image", "text"),
        (Y, X, "text", "image"),
        (X, X, "image", "image"),
    ):
        raw = Q @ D.T
        calibrated = correction.apply(Q, ask, "query") @ correction.apply(D, hold).T
        np.testing.assert_array_equal(np.argsort(-raw, 1), np.argsort(-calibrated, 1))


@pytest.mark.published
def test_keep_changes_none_of_the_top_10_within_a_modality_in_float32(published_clip):
    X, Y = published_clip
    correction = Calibrate().fit(X[:250], Y[:250]).correction_
    raw, calibrated = (
        retrieval(X, Y, metric="inner_product"),
        retrieval(X, Y, correction=correction),
    )
    np.testing.assert_array_equal(raw.ranks_x, calibrated.ranks_x)
    np.testing.assert_array_equal(raw.ranks_y, calibrated.ranks_y)
    for Q, D, ask, hold in (
        (X, Y, "image", "text"),
        (Y, X, "text", "image"),
        (Y, Y, "text", "text"),
    ):
        before = np.argsort(-(Q @ D.T), 1, kind="stable")[:, :10]
        scores = correction.apply(Q, ask, "query") @ correction.apply(D, hold).T
        after = np.argsort(-scores, 1, kind="stable")[:, :10]
        np.testing.assert_array_equal(before, after)


def splits(n, count=10):
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(n)
        yield seed, order[: n // 2], order[n // 2 :]


@pytest.mark.published
def test_one_index_of_clip_is_mended(published_clip, record_property):
    X, Y = published_clip
    figures = {name: [] for name in ("raw", "centred", "keep", "mixed", "off")}
    for seed, fit, rest in splits(len(X)):
        for name, corrector in (("raw", None), ("centred", Center()), ("keep", Calibrate()),
                                ("mixed", Calibrate("mixed"))):  # fmt: skip
            correction = corrector and corrector.fit(X[fit], Y[fit]).correction_
            found = mixed_retrieval(X[rest], Y[rest], correction=correction, seed=seed)
            figures[name].append([found.ndcg_of("text", "image"), found.ndcg_of("image", "text")])
            if name == "keep":
                figures["off"].append([
                    abs(q.metrics(10, found.names)["image_share@10"] - 0.5) for q in found.queries
                ])  # fmt: skip
    means = {name: np.mean(values, axis=0) for name, values in figures.items()}
    record_property("figures", {name: value.round(3).tolist() for name, value in means.items()})
    assert means["raw"].tolist() == [0, 0]
    assert means["centred"] == pytest.approx(np.array([0.36, 0.37]), abs=0.01)
    assert means["keep"][0] >= 0.74
    assert means["keep"][1] >= 0.72
    assert means["mixed"].min() >= 0.7
    assert means["off"].max() <= 0.12


def test_digits_with_targets_of_both_modalities_gain_over_centring(record_property):
    from modgap.datasets import load_digits

    digits = load_digits()
    gx, gy = digits.groups
    two = digits.wording < 2
    scores = {}
    for seed in range(3):
        half = np.random.default_rng(seed).permutation(np.unique(gx))[:500]
        in_x, in_y = np.isin(gx, half), np.isin(gy, half)
        for name, corrector in (("raw", None), ("centred", Center()), ("keep", Calibrate()),
                                ("mixed", Calibrate("mixed"))):  # fmt: skip
            correction = corrector and corrector.fit(digits.X[in_x], digits.Y[in_y]).correction_
            found = mixed_retrieval(
                digits.X[~in_x], digits.Y[~in_y & two], groups=(gx[~in_x], gy[~in_y & two]),
                correction=correction, targets="both", seed=seed,
            )  # fmt: skip
            own = found.ndcg_of("text", "text")
            scores.setdefault(name, []).append([found.ndcg, own, found.share_off])
    overall, own, off = (
        {name: np.mean(values, axis=0)[i] for name, values in scores.items()} for i in range(3)
    )
    record_property("overall", {name: round(float(v), 3) for name, v in overall.items()})
    assert off["centred"] > 0.1
    for mode in ("keep", "mixed"):
        assert overall[mode] >= overall["centred"] + 0.05
        assert own[mode] >= own["raw"] - 0.05


@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("asking", ["image", "text"])
def test_merging_two_raw_searches_is_the_calibrated_ranking_exactly(unit_pairs, k, asking):
    X, Y = unit_pairs
    fit = Calibrate().fit(X, Y)
    queries = X if asking == "image" else Y
    hits = {}
    for name, rows in (("image", X), ("text", Y)):
        scores = queries @ rows.T
        best = np.argsort(-scores, axis=1)[:, :k]
        hits[name] = (best, np.take_along_axis(scores, best, axis=1))
    merged = merge(fit.correction_, queries, asking, hits, k)
    stored = np.vstack([fit.correction_.x(X), fit.correction_.y(Y)])
    scores = fit.correction_.apply(queries, asking, "query") @ stored.T
    best = np.argsort(-scores, axis=1)[:, :k]
    place = merged.ids + np.where(merged.modalities == "text", len(X), 0)
    np.testing.assert_array_equal(place, best)
    np.testing.assert_allclose(merged.scores, np.take_along_axis(scores, best, 1), atol=1e-9)


def test_merging_works_from_a_saved_correction_of_any_form(unit_pairs, tmp_path):
    X, Y = unit_pairs
    Calibrate("keep", "x").fit(X, Y).correction_.save(tmp_path / "c.safetensors")
    correction = Correction.load(tmp_path / "c.safetensors")
    scores = {"image": X[:3] @ X.T, "text": X[:3] @ Y.T}
    hits = {name: (np.argsort(-s, 1), -np.sort(-s, 1)) for name, s in scores.items()}
    merged = merge(correction, X[:3], "image", hits, 4)
    stored = np.vstack([correction.x(X), correction.y(Y)])
    expected = np.argsort(-(correction.x(X[:3], "query") @ stored.T), 1)[:, :4]
    place = merged.ids + np.where(merged.modalities == "text", len(X), 0)
    np.testing.assert_array_equal(place, expected)


@pytest.mark.parametrize("corrector", [Calibrate("mixed"), Center(), Shift()], ids=repr)
def test_a_correction_that_ranks_anew_within_a_modality_cannot_merge(unit_pairs, corrector):
    X, Y = unit_pairs
    correction = corrector.fit(X, Y).correction_
    with pytest.raises(ValueError, match="changes rankings within a modality"):
        merge(correction, X[:1], "image", {"text": ([[0]], [[0.5]])}, 1)


@pytest.mark.parametrize(
    ("hits", "message"),
    [
        ({}, "at least one modality"),
        ({"video": ([[0]], [[0.5]])}, "modality must be one of 'image', 'text', got 'video'"),
        ({"text": ([[0], [1]], [[0.5], [0.4]])}, "one line for each of the 1 queries"),
        ({"text": ([[0, 1]], [[0.5]])}, "ids and scores with one line"),
        ({"text": ([[0]], [[np.nan]])}, "must be numbers, got NaN"),
    ],
)
def test_hits_that_cannot_be_merged_are_refused(unit_pairs, hits, message):
    fit = Calibrate().fit(*unit_pairs)
    with pytest.raises(ValueError, match=message):
        merge(fit.correction_, unit_pairs[0][:1], "image", hits, 1)


def test_the_query_must_be_of_a_known_modality(unit_pairs):
    fit = Calibrate().fit(*unit_pairs)
    with pytest.raises(ValueError, match="modality must be one of"):
        merge(fit.correction_, unit_pairs[0][:1], "audio", {"text": ([[0]], [[0.5]])}, 1)


@pytest.mark.parametrize(
    ("corrector", "message"),
    [
        (Calibrate("kept"), "mode must be one of"),
        (Calibrate(form="block"), "Did you mean 'blocks'"),
    ],
)
def test_unknown_settings_are_refused(unit_pairs, corrector, message):
    with pytest.raises(ValueError, match=message):
        corrector.fit(*unit_pairs)


def test_documents_without_spread_are_refused():
    X = np.tile([1.0, 0.0], (5, 1))
    with pytest.raises(ValueError, match="no spread"):
        Calibrate().fit(X, np.eye(2))


def test_the_file_of_the_blocks_stays_small(tmp_path):
    X, Y = make_pairs(n=40, d=256)
    Calibrate().fit(X, Y).correction_.save(tmp_path / "c.safetensors")
    assert (tmp_path / "c.safetensors").stat().st_size < 10_000


def test_missing_hits_come_last_and_name_no_modality(unit_pairs):
    X, _ = unit_pairs
    fit = Calibrate().fit(*unit_pairs)
    hits = {
        "image": (np.array([["a", "b"]]), [[0.5, 0.4]]),
        "text": (np.array([[7, None]], dtype=object), [[0.9, -np.inf]]),
    }
    merged = merge(fit.correction_, X[:1], "image", hits, 4)
    assert merged.modalities[0, -1] == ""
    assert merged.ids[0, -1] is None
    assert set(merged.ids[0, :3].tolist()) == {"a", "b", 7}
