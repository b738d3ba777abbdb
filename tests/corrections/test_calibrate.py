"""Calibration: comparable scores, rankings kept within a modality, and merging without an index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from conftest import make_pairs, unit
from modgap.corrections import Calibrate, Center, Correction, Shift
from modgap.corrections.calibrate import FORMS, MODES
from modgap.evaluation import mixed_retrieval
from modgap.search import merge_corrected

# Of both kinds of query, so the calibration is in blocks.
METHODS = {
    "raw": None,
    "centred": Center(),
    "keep": Calibrate("keep", "blocks"),
    "mixed": Calibrate("mixed", "blocks"),
}


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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asking", ["image", "text"])
def test_scores_are_counted_in_spreads_above_their_mean(unit_pairs, form, asking):
    rows = dict(zip("xy", unit_pairs, strict=True))
    side = "x" if asking == "image" else "y"
    fit = Calibrate("keep", form).fit(*unit_pairs, queries=asking)
    s = fit.spreads_
    asked = fit.correction_.apply(rows[side], asking, "query")
    for held, name in (("x", "image"), ("y", "text")):
        spread = s[side, held]
        if form == "compromise":
            spread = (s["x", held] * s["y", held]) ** 0.5
        scores = asked @ fit.correction_.apply(rows[held], name).T
        expected = rows[side] @ (rows[held] - rows[held].mean(0)).T / spread
        np.testing.assert_allclose(scores, expected, atol=1e-10)


def test_the_default_leaves_columns_and_queries_alone_and_serves_texts(unit_pairs):
    X, Y = unit_pairs
    correction = Calibrate().fit(X, Y).correction_
    assert (correction.dim_in, correction.dim_out) == (12, 12)
    assert correction.queries == ("text",)
    assert correction.metric == "inner_product"
    np.testing.assert_allclose(correction.y(3 * Y, "query"), Y, atol=1e-15)
    with pytest.raises(ValueError, match=r"serves text queries, not image.*--queries image"):
        correction.x(X, "query")


def test_who_asks_must_be_said_where_nothing_is_called_text(unit_pairs):
    with pytest.raises(ValueError, match=r"which modality the queries are of.*image or sound"):
        Calibrate().fit(*unit_pairs, names=("image", "sound"))
    found = Calibrate().fit(*unit_pairs, names=("image", "sound"), queries="sound")
    assert found.correction_.queries == ("sound",)
    with pytest.raises(ValueError, match="queries must be one of 'image', 'sound', got 'text'"):
        Calibrate().fit(*unit_pairs, names=("image", "sound"), queries="text")
    with pytest.raises(ValueError, match="queries must be one of"):
        Center().fit(*unit_pairs, queries="sound")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asking", ["image", "text"])
def test_d_columns_for_one_kind_of_query_score_as_the_blocks_do(pairs, mode, asking):
    rows = dict(zip(("image", "text"), pairs, strict=True))
    single = Calibrate(mode).fit(*pairs, queries=asking).correction_
    blocks = Calibrate(mode, "blocks").fit(*pairs).correction_
    for held, documents in rows.items():
        scores = [
            c.apply(rows[asking], asking, "query") @ c.apply(documents, held).T
            for c in (single, blocks)
        ]
        np.testing.assert_allclose(scores[0], scores[1], atol=1e-10)


def test_non_matching_scores_have_mean_zero_and_spread_one_in_both_modalities(unit_pairs):
    X, Y = unit_pairs
    correction = Calibrate(form="blocks").fit(X, Y).correction_
    for asked in (correction.x(X, "query"), correction.y(Y, "query")):
        for stored in (correction.x(X), correction.y(Y)):
            scores = asked @ stored.T
            np.testing.assert_allclose(scores.mean(axis=1), 0, atol=1e-9)
            assert np.sqrt(np.mean(scores.var(axis=1))) == pytest.approx(1)


@given(st.integers(0, 10_000), st.sampled_from(FORMS), st.sampled_from(["image", "text"]))
def test_keep_changes_no_ranking_within_a_modality_in_float64(seed, form, asking):
    rows = dict(zip(("image", "text"), map(unit, make_pairs(n=25, d=6, seed=seed)), strict=True))
    correction = Calibrate("keep", form).fit(*rows.values(), queries=asking).correction_
    assert correction.keeps_rankings
    asked = correction.apply(rows[asking], asking, "query")
    for held, documents in rows.items():
        raw, calibrated = rows[asking] @ documents.T, asked @ correction.apply(documents, held).T
        np.testing.assert_array_equal(np.argsort(-raw, 1), np.argsort(-calibrated, 1))


def splits(n, count=10):
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(n)
        yield seed, order[: n // 2], order[n // 2 :]


@pytest.mark.published
def test_one_index_of_clip_is_mended(published_clip, record_property):
    X, Y = published_clip
    figures = {name: [] for name in ("raw", "centred", "keep", "mixed", "off")}
    for seed, fit, rest in splits(len(X)):
        for name, corrector in METHODS.items():
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
        for name, corrector in METHODS.items():
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


def found_by_cosine(queries, rows, k):
    """Ids and cosines of the k nearest rows of each modality, as an index would give them."""
    hits = {}
    for name, documents in rows.items():
        scores = unit(queries) @ unit(documents).T
        best = np.argsort(-scores, axis=1)[:, :k]
        hits[name] = (best, np.take_along_axis(scores, best, axis=1))
    return hits


@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("asking", ["image", "text"])
@pytest.mark.parametrize("form", FORMS)
def test_merging_two_raw_searches_is_the_calibrated_ranking_exactly(
    pairs, tmp_path, k, asking, form
):
    rows = dict(zip(("image", "text"), pairs, strict=True))  # of any length
    fit = Calibrate("keep", form).fit(*pairs, queries=asking)
    fit.correction_.save(tmp_path / "c.safetensors")
    correction = Correction.load(tmp_path / "c.safetensors")
    queries = rows[asking]
    merged = merge_corrected(correction, queries, asking, found_by_cosine(queries, rows, k), k)
    stored = np.vstack([correction.apply(rows[name], name) for name in rows])
    scores = correction.apply(queries, asking, "query") @ stored.T
    best = np.argsort(-scores, axis=1)[:, :k]
    place = merged.ids + np.where(merged.modalities == "text", len(rows["image"]), 0)
    np.testing.assert_array_equal(place, best)
    np.testing.assert_allclose(merged.scores, np.take_along_axis(scores, best, 1), atol=1e-9)


def test_rows_as_given_merge_by_their_inner_products(pairs):
    X, Y = pairs
    correction = Calibrate().fit(X, Y, rows="given").correction_
    scores = {"image": Y[:3] @ X.T, "text": Y[:3] @ Y.T}
    hits = {name: (np.argsort(-s, 1), -np.sort(-s, 1)) for name, s in scores.items()}
    merged = merge_corrected(correction, Y[:3], "text", hits, 4)
    stored = np.vstack([correction.x(X), correction.y(Y)])
    expected = np.argsort(-(Y[:3] @ stored.T), 1)[:, :4]
    place = merged.ids + np.where(merged.modalities == "text", len(X), 0)
    np.testing.assert_array_equal(place, expected)


@pytest.mark.parametrize("corrector", [Calibrate("mixed"), Center(), Shift()], ids=repr)
def test_a_correction_that_ranks_anew_within_a_modality_cannot_merge(unit_pairs, corrector):
    X, Y = unit_pairs
    correction = corrector.fit(X, Y).correction_
    with pytest.raises(ValueError, match="changes rankings within a modality"):
        merge_corrected(correction, X[:1], "image", {"text": ([[0]], [[0.5]])}, 1)


ONE_HIT = {"text": ([[0]], [[0.5]])}


@pytest.mark.parametrize(
    ("modality", "hits", "message"),
    [
        ("image", ONE_HIT, "serves text queries, not image queries"),
        ("audio", ONE_HIT, "modality must be one of"),
        ("text", {}, "at least one modality"),
        ("text", {"video": ONE_HIT["text"]}, "must be one of 'image', 'text', got 'video'"),
        ("text", {"text": ([[0], [1]], [[0.5], [0.4]])}, "one line for each of the 1 queries"),
        ("text", {"text": ([[0, 1]], [[0.5]])}, "ids and scores with one line"),
        ("text", {"text": ([[0]], [[np.nan]])}, "must be numbers, got NaN"),
    ],
)
def test_hits_that_cannot_be_merged_are_refused(unit_pairs, modality, hits, message):
    fit = Calibrate().fit(*unit_pairs)
    with pytest.raises(ValueError, match=message):
        merge_corrected(fit.correction_, unit_pairs[1][:1], modality, hits, 1)


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


def test_the_file_of_the_blocks_stays_small(tmp_path):
    X, Y = make_pairs(n=40, d=256)
    Calibrate(form="blocks").fit(X, Y).correction_.save(tmp_path / "c.safetensors")
    # Two offsets, and the mean and variance of each side; the matrices alone would take 2 MB.
    assert (tmp_path / "c.safetensors").stat().st_size < 2 * 3 * 256 * 8 + 4_000


def test_three_modalities_are_calibrated_for_the_one_that_asks(rng):
    rows = {name: rng.normal(size=(40, 6)) + 3 * rng.normal(size=6) for name in "abc"}
    with pytest.raises(ValueError, match="which modality the queries are of"):
        Calibrate().fit(rows)
    correction = Calibrate().fit(rows, queries="b", model="m").correction_
    assert (correction.names, correction.queries) == (("a", "b", "c"), ("b",))
    assert (correction.dim_out, correction.about["model"]) == (6, "m")
    asked = correction.apply(rows["b"], "b", "query")
    for name, documents in rows.items():
        scores = asked @ correction.apply(documents, name).T
        np.testing.assert_allclose(scores.mean(axis=1), 0, atol=1e-9)
        assert np.sqrt(np.mean(scores.var(axis=1))) == pytest.approx(1)


def test_two_modalities_by_name_are_fitted_as_x_and_y_are(pairs):
    X, Y = pairs
    for corrector in (Calibrate(), Calibrate("mixed", "blocks")):
        named = clone(corrector).fit({"image": X, "text": Y}).correction_
        both = clone(corrector).fit(X, Y).correction_
        assert named.about == both.about
        assert named.queries == both.queries
        for role in ("document", "query"):
            np.testing.assert_allclose(named.y(Y, role), both.y(Y, role), atol=1e-12)
        np.testing.assert_allclose(named.x(X), both.x(X), atol=1e-12)
