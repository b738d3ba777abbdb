"""Probabilities of a match: calibrated on held-out pairs, in order, and refused in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import scores as benchmark
from conftest import PUBLISHED, make_pairs
from modgap.core.results import changed
from modgap.corrections import Center, Correction
from modgap.datasets import load_digits
from modgap.search import (
    Background,
    Hits,
    JudgedHits,
    ScoreCalibrator,
    judge_hits,
    merge,
    reliability_curve,
    search,
)

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "search" / "scores.md"
PAIR = ("text", "image")
WANTED = (0.5, 0.7, 0.9)
SPLITS = 10


def simulate(n, k=10, seed=0, pair=PAIR, lift=0.0):
    """Hits whose probabilities are known: log-odds linear in score, margin and mean."""
    rng = np.random.default_rng(seed)
    scores = -np.sort(-(rng.normal(size=(n, k)) + rng.normal(size=(n, 1)) + lift), axis=1)
    margin = scores - scores[:, :1]
    margin[:, 0] = scores[:, 0] - scores[:, 1]
    truth = expit(0.8 * scores + 1.2 * margin - 0.5 * scores.mean(axis=1, keepdims=True) + 0.4)
    return JudgedHits(pair, scores, rng.random((n, k)) < truth), truth


def clip_halves(seed):
    X, Y = np.load(PUBLISHED / "features_clip.npy")
    shuffled = np.random.default_rng(seed).permutation(len(X))
    return [
        [
            judge_hits(Y[part], X[part], pair=("text", "image")),
            judge_hits(X[part], Y[part], pair=("image", "text")),
        ]
        for part in np.array_split(shuffled, 2)
    ]


def digit_halves(seed):
    """Positives: captions and scan of one group; other captions of the scan; the same digit."""
    digits = load_digits()
    gx, gy = digits.groups
    halves = []
    for part in np.array_split(np.random.default_rng(seed).permutation(gx), 2):
        x, y = np.isin(gx, part), np.isin(gy, part)
        X, Y, g, h = digits.X[x], digits.Y[y], gx[x], gy[y]
        halves.append(
            [
                judge_hits(Y, X, (h, g), pair=("text", "image")),
                judge_hits(X, Y, (g, h), pair=("image", "text")),
                judge_hits(Y, groups=h, pair=("text", "text")),
                judge_hits(X, groups=digits.labels[x], pair=("image", "image")),
            ]
        )
    return halves


def precision(accepted, hits):
    return hits.matches[accepted].mean() if accepted.any() else np.nan


def judge_splits(halves, method="logistic"):
    """Means over splits: ECE by strategy and pair, precisions with own and with one threshold."""
    ece, each, one = [], [], []
    for seed in range(SPLITS):
        fit, test = halves(seed)
        calibrator = ScoreCalibrator(method).fit(fit)
        p = [calibrator.predict(hits) for hits in test]
        ece.append(
            [[calibrator.reliability(h, strategy=s).ece for h in test] for s in ("mass", "width")]
        )
        for found, pairs in ((each, [h.pair for h in test]), (one, [None] * len(test))):
            found.append(
                [
                    [
                        precision(p[i] >= calibrator.cutoff(wanted, pair).threshold, test[i])
                        for i, pair in enumerate(pairs)
                    ]
                    for wanted in WANTED
                ]
            )
    return np.mean(ece, axis=0), np.mean(each, axis=0), np.mean(one, axis=0)


@pytest.mark.published
@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_across_modalities_on_clip_probabilities_and_precisions_hold_over_ten_splits(
    published_clip, method
):
    ece, each, one = judge_splits(clip_halves, method)
    assert np.all(ece < 0.02)
    wanted = np.array(WANTED)[:, None]
    assert np.all(each > wanted - 0.05)
    assert np.all(one > wanted - 0.05)
    if method == "logistic":  # the steps of the isotonic curve are coarse on 250 queries
        assert np.all(each < wanted + 0.05)
        assert np.all(one < wanted + 0.05)


def test_within_and_across_modalities_on_the_digits_they_hold_over_ten_splits():
    ece, each, one = judge_splits(digit_halves)
    assert np.all(ece < 0.05)
    wanted = np.array(WANTED)[:, None]
    assert np.all(each > wanted - 0.05)
    assert np.all(one > wanted - 0.05)
    # Image→image has 0.75 of its ten best right, so 0.5 and 0.7 are had without a cut-off.
    assert np.all(np.abs(each - wanted)[:, :3] < 0.05)
    assert abs(each[-1, 3] - 0.9) < 0.05


def test_one_threshold_on_the_probability_serves_four_pairs_and_one_on_the_score_does_not():
    fit, test = digit_halves(0)
    calibrator = ScoreCalibrator().fit(fit)
    threshold = calibrator.cutoff(0.7).threshold
    for hits in test:
        accepted = calibrator.predict(hits) >= threshold
        assert precision(accepted, hits) > 0.65
        assert hits.matches[accepted].sum() > 0.3 * hits.matches.sum()
    # Even chosen with the judged half in view, no raw score has even 0.5 in every pair.
    for threshold in np.unique(np.concatenate([np.quantile(h.scores, WIDE) for h in test])):
        accepted = [h.scores >= threshold for h in test]
        enough = [a.sum() >= 20 for a in accepted]
        assert not all(enough) or min(map(precision, accepted, test)) < 0.5


WIDE = np.linspace(0, 1, 201)


def test_known_probabilities_are_found_and_the_error_falls_with_more_queries():
    errors, eces = [], []
    unseen, truth = simulate(20_000, seed=99)
    for n in (100, 1000, 10_000):
        calibrator = ScoreCalibrator().fit(simulate(n)[0])
        errors.append(np.abs(calibrator.predict(unseen) - truth).mean())
        eces.append(calibrator.reliability(unseen).ece)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.005
    assert eces[2] < 0.01


def test_isotonic_agrees_with_logistic_where_the_logistic_curve_is_right():
    fit, _ = simulate(5000)
    unseen, truth = simulate(5000, seed=1)
    straight, steps = (
        ScoreCalibrator(m).fit(fit).predict(unseen) for m in ("logistic", "isotonic")
    )
    assert np.abs(straight - steps).mean() < 0.02
    assert np.abs(steps - truth).mean() < 0.02
    assert 0 < steps.min() < steps.max() < 1


def test_isotonic_is_better_where_the_logistic_curve_is_wrong():
    def hits(seed):
        found, truth = simulate(4000, seed=seed)
        bent = 0.1 + 0.35 * (truth > 0.3) + 0.4 * (truth > 0.7)
        matches = np.random.default_rng(seed).random(truth.shape) < bent
        return JudgedHits(PAIR, found.scores, matches)

    unseen = hits(1)
    straight, steps = (
        ScoreCalibrator(m).fit(hits(0)).reliability(unseen).ece for m in ("logistic", "isotonic")
    )
    assert steps < 0.015 < 0.03 < straight


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_within_a_query_a_better_score_never_has_a_lower_probability(method):
    hits, _ = simulate(500)
    # Matches that sit at the far end of the list ask for the opposite order; they do not get it.
    backwards = JudgedHits(PAIR, hits.scores, hits.matches[:, ::-1])
    for part in (hits, backwards):
        p = ScoreCalibrator(method).fit(part).predict(simulate(500, seed=3)[0])
        assert np.all(np.diff(p, axis=1) <= 1e-12)


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.3, 0.5, 0.8, 0.95, 1.0])
def test_the_score_cutoff_of_a_query_accepts_exactly_the_hits_of_that_probability(
    method, threshold
):
    for fit in (simulate(400)[0], judge_hits(*make_pairs(300)[::-1], pair=PAIR)):
        calibrator = ScoreCalibrator(method).fit(fit)
        unseen = JudgedHits(PAIR, simulate(300, seed=5)[0].scores * 0.2, fit.matches[:300])
        cut = calibrator.score_cutoff(unseen, threshold)
        accepted = unseen.scores >= cut[:, None]
        np.testing.assert_array_equal(accepted, calibrator.predict(unseen) >= threshold)


@pytest.mark.parametrize("wanted", [0.5, 0.7, 0.9])
def test_a_cutoff_says_what_it_gives_on_the_hits_it_was_fitted_on(wanted):
    hits, _ = simulate(1000)
    calibrator = ScoreCalibrator().fit(hits)
    cut = calibrator.cutoff(wanted, PAIR)
    accepted = calibrator.predict(hits) >= cut.threshold
    assert cut.reached[0] >= wanted
    assert cut.reached[0] == pytest.approx(precision(accepted, hits), abs=0.002)
    assert cut.kept[0] == pytest.approx(hits.matches[accepted].sum() / hits.matches.sum(), abs=0.01)
    assert cut.reason is None


def test_one_cutoff_for_all_pairs_meets_the_precision_in_each():
    parts = [simulate(600)[0], simulate(600, seed=1, pair=("text", "text"), lift=2.0)[0]]
    calibrator = ScoreCalibrator().fit(parts)
    cut = calibrator.cutoff(0.8)
    assert cut.pairs == (PAIR, ("text", "text"))
    assert np.all(cut.reached >= 0.8)
    for hits in parts:
        assert precision(calibrator.predict(hits) >= cut.threshold, hits) > 0.795


def test_a_precision_that_cannot_be_had_is_nan_and_a_sentence():
    scores = simulate(200)[0].scores
    chance = JudgedHits(PAIR, scores, np.random.default_rng(0).random(scores.shape) < 0.2)
    calibrator = ScoreCalibrator().fit(chance)
    cut = calibrator.cutoff(0.9, PAIR)
    assert np.isnan(cut.threshold)
    assert np.isnan(cut.reached).all()
    assert re.search(r"No cut-off .* precision of 0\.9 .* highest seen: text→image 0\.", cut.reason)
    assert np.isnan(calibrator.score_cutoff(chance, cut)).all()
    assert cut.to_dict()["threshold"] is None


def test_the_order_of_the_queries_does_not_matter_and_a_second_fit_is_the_same(rng):
    hits, _ = simulate(300)
    shuffled = rng.permutation(300)
    moved = JudgedHits(PAIR, hits.scores[shuffled], hits.matches[shuffled])
    calibrator = ScoreCalibrator().fit(hits)
    p = calibrator.predict(hits)
    np.testing.assert_array_equal(clone(calibrator).fit(hits).predict(hits), p)
    np.testing.assert_allclose(ScoreCalibrator().fit(moved).predict(hits), p, atol=1e-5)
    assert calibrator.cutoff(0.7).threshold == pytest.approx(
        ScoreCalibrator().fit(moved).cutoff(0.7).threshold, abs=1e-4
    )


def test_shift_and_scale_of_all_scores_change_no_probability():
    hits, _ = simulate(300)
    other = JudgedHits(PAIR, 0.01 * hits.scores + 7, hits.matches)
    p = ScoreCalibrator().fit(hits).predict(hits)
    np.testing.assert_allclose(ScoreCalibrator().fit(other).predict(other), p, atol=1e-4)


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_a_file_brings_back_the_same_probabilities_and_cutoffs(tmp_path, method):
    parts = [simulate(200)[0], simulate(200, seed=1, pair=("text", "text"))[0]]
    calibrator = ScoreCalibrator(method).fit(parts)
    calibrator.save(tmp_path / "scores.safetensors")
    loaded = ScoreCalibrator.load(tmp_path / "scores.safetensors")
    assert loaded.get_params() == calibrator.get_params()
    for hits in parts:
        np.testing.assert_array_equal(loaded.predict(hits), calibrator.predict(hits))
    assert loaded.cutoff(0.7).to_dict() == calibrator.cutoff(0.7).to_dict()


def test_files_that_are_no_calibrator_are_refused(tmp_path):
    with pytest.raises(ValueError, match="There is no score calibrator"):
        ScoreCalibrator.load(tmp_path / "none.safetensors")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a score calibrator: it cannot be read"):
        ScoreCalibrator.load(tmp_path / "junk")
    Correction.identity(3).save(tmp_path / "correction.safetensors")
    with pytest.raises(ValueError, match="not a score calibrator"):
        ScoreCalibrator.load(tmp_path / "correction.safetensors")


def test_torch_gives_the_probabilities_of_numpy():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, Y = make_pairs(80)
    hits = judge_hits(Y, X, pair=PAIR)
    same = judge_hits(torch.from_numpy(Y), torch.from_numpy(X), pair=PAIR)
    np.testing.assert_allclose(same.scores, hits.scores, atol=1e-9)
    calibrator = ScoreCalibrator().fit(hits)
    p = calibrator.predict(torch.from_numpy(hits.scores), PAIR)
    assert isinstance(p, torch.Tensor)
    np.testing.assert_allclose(p.numpy(), calibrator.predict(hits))


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_hits_among_the_queries_themselves_leave_each_out_of_its_own(metric, rng):
    rows = rng.normal(size=(40, 6))
    rows[1] = rows[0]  # a copy is a hit, the row itself is not
    groups = np.arange(40) // 2
    hits = judge_hits(rows, groups=groups, pair=("text", "text"), k=5, metric=metric)
    for i in range(40):
        if metric == "euclidean":
            scores = -np.sum((rows - rows[i]) ** 2, axis=1)
        else:
            lengths = np.linalg.norm(rows, axis=1) if metric == "cosine" else np.ones(40)
            scores = rows @ rows[i] / lengths / lengths[i]
        scores[i] = -np.inf
        best = np.argsort(-scores, kind="stable")[:5]
        np.testing.assert_allclose(hits.scores[i], scores[best], atol=1e-6)
        np.testing.assert_array_equal(hits.matches[i], groups[best] == groups[i])
    assert hits.n_documents == 39


def test_hits_of_a_correction_are_those_of_corrected_rows(pairs):
    X, Y = pairs
    correction = Center().fit(X, Y).correction_
    hits = judge_hits(Y, X, pair=PAIR, correction=correction)
    plain = judge_hits(correction.y(Y), correction.x(X), pair=PAIR, metric=correction.metric)
    np.testing.assert_allclose(hits.scores, plain.scores)


def test_reliability_bins_follow_their_definition(rng):
    p = rng.random(1000)
    truth = rng.random(1000) < p
    wide = reliability_curve(p, truth, strategy="width")
    for b in range(10):
        inside = (p >= b / 10) & (p < (b + 1) / 10)
        assert wide.counts[b] == inside.sum()
        assert wide.observed[b] == pytest.approx(truth[inside].mean())
        assert wide.predicted[b] == pytest.approx(p[inside].mean())
    mass = reliability_curve(p, truth)
    assert mass.strategy == "mass"
    np.testing.assert_array_equal(mass.counts, 100)
    gaps = np.abs(mass.predicted - mass.observed)
    assert mass.ece == pytest.approx(np.average(gaps, weights=mass.counts))
    assert mass.to_dict()["n"] == 1000


def test_reliability_of_equal_probabilities_is_one_bin_and_an_empty_bin_is_null():
    curve = reliability_curve(np.full(30, 0.25), np.arange(30) % 2)
    assert curve.counts.tolist() == [30]
    assert curve.ece == pytest.approx(0.25)
    wide = reliability_curve([0.05, 0.95], [0, 1], strategy="width")
    assert wide.to_dict()["observed"][1:9] == [None] * 8
    assert wide.ece == pytest.approx(0.05)


def digit_hits(half, k=10, *, background=None):
    """Captions that ask for scans and other captions, in one list; ids are rows of each list.

    The answer is the scan, and the caption's other wordings.
    """
    digits = load_digits()
    gx, gy = digits.groups
    x = np.isin(gx, half)
    asking, held = (np.flatnonzero(np.isin(gy, half) & (digits.wording == w)) for w in (0, 1))
    lists = {
        "image": search(digits.Y[asking], digits.X[x], 60),
        "text": search(digits.Y[asking], digits.Y[held], 60),
    }
    if background is None:
        background = Background.fit(
            {"image": digits.X[x], "text": digits.Y[held]},
            digits.Y[asking],
            hubs=0,
            groups={"image": gx[x], "text": gy[held]},
            bank_groups=gy[asking],
        )
    found = merge(lists, k, background)
    groups = {"image": gx[x], "text": gy[held]}
    right = [
        {(name, row) for name in groups for row in np.flatnonzero(groups[name] == group).tolist()}
        for group in gy[asking]
    ]
    return found, right


@pytest.fixture(scope="module")
def digit_splits():
    groups = np.random.default_rng(0).permutation(load_digits().groups[0])
    return [digit_hits(half) for half in np.array_split(groups, 2)]


def test_hits_of_a_mixed_search_by_expected_wrong_results_are_fitted_as_they_come(
    digit_splits, tmp_path
):
    (fit, right), (new, new_right) = digit_splits
    calibrator = ScoreCalibrator().fit(fit, right, modality="text")
    assert set(calibrator.models_) == {("text", "image"), ("text", "text")}
    assert calibrator.ranked_by_ == "expected_wrong"
    p = calibrator.predict(new)
    assert p.shape == new.ids.shape
    matches = np.array(
        [
            [(name, key) in truth for name, key in zip(names, keys, strict=True)]
            for names, keys, truth in zip(new.modalities, new.ids.tolist(), new_right, strict=True)
        ]
    )
    assert calibrator.reliability(new, matches=new_right, modality="text").ece < 0.03
    for name in ("image", "text"):  # one threshold serves both modalities
        here = new.modalities == name
        assert p[here].mean() == pytest.approx(matches[here].mean(), abs=0.03)
    cut = calibrator.cutoff(0.6)
    assert matches[p >= cut.threshold].mean() > 0.5
    calibrator.save(tmp_path / "scores.safetensors")
    loaded = ScoreCalibrator.load(tmp_path / "scores.safetensors")
    np.testing.assert_array_equal(loaded.predict(new, modality="text"), p)
    judged = loaded.judge(new, at_least=cut.threshold)
    assert np.all(judged.probability[judged.ids != None] >= cut.threshold)  # noqa: E711
    assert np.sum(np.isfinite(judged.scores)) == np.sum(p >= cut.threshold)
    header, lines = judged.first(3).table()
    assert header[-2:] == ("expected wrong", "match probability")
    shown = [line for line in lines if line[2] != "nothing found"]
    assert len(shown) == np.sum(np.isfinite(judged.scores[:, :3]))
    assert len(lines) - len(shown) == judged.nothing_found.sum()


def test_labels_by_set_and_by_hit_fit_the_same_and_hits_nobody_judged_are_left_out(digit_splits):
    (fit, right), _ = digit_splits
    by_set = ScoreCalibrator().fit(fit, right, modality="text")
    truth = np.array(
        [
            [(name, key) in line for name, key in zip(names, keys, strict=True)]
            for names, keys, line in zip(fit.modalities, fit.ids.tolist(), right, strict=True)
        ]
    )
    by_hit = ScoreCalibrator().fit(fit, truth, modality="text")
    np.testing.assert_array_equal(by_set.predict(fit), by_hit.predict(fit))
    images = ScoreCalibrator().fit(
        fit, np.where(fit.modalities == "image", truth, None), modality="text"
    )
    assert set(images.models_) == {("text", "image")}
    some = truth.astype(float)
    some[200:] = np.nan  # as if the last queries had not been there
    np.testing.assert_array_equal(
        ScoreCalibrator().fit(fit, some, modality="text").predict(fit),
        ScoreCalibrator()
        .fit(changed(fit, **first_lines(fit, 200)), truth[:200], modality="text")
        .predict(fit),
    )


def first_lines(hits, n):
    names = ("ids", "scores", "modalities", "expected_wrong", "chance")
    return {name: getattr(hits, name)[:n] for name in names}


def cut_short(hits, keep):
    return hits.kept(np.arange(hits.ids.shape[1]) < keep[:, None])


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_hits_cut_short_are_fitted_and_what_is_missing_has_no_probability(method):
    hits, _ = simulate(2000)
    ids = np.tile(np.arange(10), (2000, 1))
    full = Hits(ids, hits.scores, np.full(ids.shape, "image", dtype=object))
    found = np.random.default_rng(0).integers(0, 11, 2000)
    short = cut_short(full, found)
    calibrator = ScoreCalibrator(method).fit(short, hits.matches, modality="text")
    p = calibrator.predict(short)
    np.testing.assert_array_equal(np.isnan(p), np.arange(10) >= found[:, None])
    kept = ~np.isnan(p)
    assert p[kept].mean() == pytest.approx(hits.matches[kept].mean(), abs=1e-3)
    assert calibrator.models_[PAIR].n_queries == np.sum(found > 0)
    below = np.diff(p, axis=1)
    assert np.all(below[~np.isnan(below)] <= 1e-12)
    judged = JudgedHits.of(short, hits.matches, "text")
    cut = calibrator.score_cutoff(judged[0], 0.5)
    np.testing.assert_array_equal((judged[0].scores >= cut[:, None]) & kept, p >= 0.5)
    # Whole lists say the same, whether they come as Hits or as scores.
    whole = ScoreCalibrator(method).fit(full, hits.matches, modality="text")
    np.testing.assert_array_equal(
        whole.predict(full), ScoreCalibrator(method).fit(hits).predict(hits)
    )


def test_hits_cut_to_fewer_columns_say_the_same_as_with_empty_ones():
    hits, _ = simulate(300)
    ids = np.tile(np.arange(10), (300, 1))
    full = Hits(ids, hits.scores, np.full(ids.shape, "image", dtype=object))
    short = cut_short(full, np.random.default_rng(0).integers(1, 5, 300))
    whole = ScoreCalibrator().fit(short, hits.matches, modality="text")
    narrow = ScoreCalibrator().fit(short.first(4), hits.matches[:, :4], modality="text")
    p = whole.predict(short)
    np.testing.assert_array_equal(narrow.predict(short), p)
    np.testing.assert_array_equal(whole.predict(short.first(4)), p[:, :4])
    assert whole.judge(short.first(4)).probability.shape == (300, 4)
    ece = [whole.reliability(h, matches=hits.matches[:, : h.ids.shape[1]], modality="text").ece
           for h in (short, short.first(4))]  # fmt: skip
    assert ece[0] == ece[1]


GOOD = simulate(60)[0]
HITS = Hits(np.tile(np.arange(10), (60, 1)), GOOD.scores, np.full((60, 10), "image", dtype=object))
BY_E = changed(HITS, expected_wrong=np.exp(-GOOD.scores))
OF_HITS = ScoreCalibrator().fit(HITS, GOOD.matches, modality="text")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ScoreCalibrator(k=0).fit(GOOD), "k must be at least 2"),
        (lambda: ScoreCalibrator(k=11).fit(GOOD), "11 best hits of a query, text→image has 10"),
        (lambda: ScoreCalibrator("platt").fit(GOOD), "method must be one of"),
        (lambda: ScoreCalibrator().fit([]), "hits must be JudgedHits"),
        (lambda: ScoreCalibrator().fit([GOOD, GOOD]), "two sets of hits for text→image"),
        (lambda: ScoreCalibrator().fit(simulate(29)[0]), "needs at least 30 queries, got 29"),
        (
            lambda: ScoreCalibrator().fit(JudgedHits(PAIR, GOOD.scores, GOOD.matches & False)),
            "at least 10 matches and 10 non-matches .* got 0 and 600",
        ),
        (lambda: ScoreCalibrator().predict(GOOD.scores, PAIR), "not fitted yet"),
        (
            lambda: ScoreCalibrator().fit(GOOD).predict(GOOD.scores, ("text", "audio")),
            "knows the modality pairs text→image, got text→audio",
        ),
        (lambda: ScoreCalibrator().fit(GOOD).predict(GOOD.scores, "text"), "pair must be"),
        (lambda: ScoreCalibrator().fit(GOOD).predict(GOOD.scores[:, :5]), "10 best hits .* got 5"),
        (lambda: ScoreCalibrator().fit(GOOD).predict(GOOD.scores[0]), "one row per query"),
        (
            lambda: ScoreCalibrator().fit(GOOD).predict(GOOD.scores * np.nan),
            "NaN or infinity, the first in row 0",
        ),
        (lambda: ScoreCalibrator().fit(GOOD).predict(-GOOD.scores), "from the best hit down"),
        (lambda: ScoreCalibrator().fit(GOOD).cutoff(1.0), "precision must be between 0 and 1"),
        (lambda: ScoreCalibrator().fit(GOOD).cutoff(0.0), "precision must be between 0 and 1"),
        (lambda: ScoreCalibrator().fit(GOOD).cutoff(0.5, ("a", "b")), "knows the modality pairs"),
        (
            lambda: ScoreCalibrator().fit(GOOD).score_cutoff(GOOD, 1.5),
            "threshold must be a probability",
        ),
        (lambda: ScoreCalibrator().fit(HITS), "Hits need what people say of them"),
        (lambda: ScoreCalibrator().fit(HITS, GOOD.matches), "and the modality of the queries"),
        (
            lambda: ScoreCalibrator().fit(GOOD, GOOD.matches),
            "JudgedHits hold their matches and modalities",
        ),
        (
            lambda: ScoreCalibrator().fit(HITS, GOOD.matches[:, :5], modality="text"),
            r"same hits, got shapes \(60, 10\) and \(60, 5\)",
        ),
        (
            lambda: ScoreCalibrator().fit(HITS, [{1}], modality="text"),
            "one set of ids for each of the 60 queries, got 1",
        ),
        (
            lambda: ScoreCalibrator().fit(HITS, GOOD.scores, modality="text"),
            "true, false or None for every hit",
        ),
        (
            lambda: ScoreCalibrator().fit(HITS, [["yes"] * 10] * 60, modality="text"),
            "true, false or None for every hit, or be a set",
        ),
        (
            lambda: ScoreCalibrator().fit(HITS, GOOD.matches * np.nan, modality="text"),
            "None of these hits is judged",
        ),
        (lambda: OF_HITS.predict(HITS.first(5)), "10 best hits .* got 5"),
        (lambda: OF_HITS.predict(HITS, modality="image"), "knows the modality pairs text→image"),
        (lambda: OF_HITS.judge(HITS, at_least=2), "at_least must be a probability"),
        (
            lambda: ScoreCalibrator().fit(BY_E, GOOD.matches, modality="text").predict(HITS),
            "fitted on expected wrong results, and these hits have none",
        ),
        (
            lambda: (
                ScoreCalibrator()
                .fit(BY_E, GOOD.matches, modality="text")
                .predict(GOOD.scores, PAIR)
            ),
            "ranked by expected_wrong, and these are ranked by score",
        ),
        (
            lambda: ScoreCalibrator().fit(
                [*JudgedHits.of(BY_E, GOOD.matches, "text"), simulate(60, pair=("a", "b"))[0]]
            ),
            "fit a calibrator for each",
        ),
        (
            lambda: (
                ScoreCalibrator()
                .fit([GOOD, simulate(60, pair=("audio", "image"))[0]])
                .predict(HITS)
            ),
            "knows queries of text and audio; say which",
        ),
        (
            lambda: JudgedHits(PAIR, GOOD.scores, GOOD.matches, counted=GOOD.matches[:5]),
            "scores and counted must be about the same hits",
        ),
        (lambda: JudgedHits(PAIR, GOOD.scores, GOOD.matches[:5]), "about the same hits"),
        (lambda: JudgedHits(PAIR, GOOD.scores, GOOD.scores), "true or false"),
        (lambda: JudgedHits(("", "b"), GOOD.scores, GOOD.matches), "must not be empty"),
        (lambda: judge_hits(np.eye(4), np.eye(4), pair=PAIR, k=5), "k must be between 1 and 4"),
        (lambda: judge_hits(np.eye(4), pair=PAIR), "needs documents"),
        (lambda: judge_hits(np.eye(4), pair=("text", "text"), k=2), "one label per query"),
        (lambda: judge_hits(np.eye(4), np.eye(5), pair=PAIR, k=2), "Without groups the rows"),
        (lambda: judge_hits(np.eye(4), np.ones((4, 3)), pair=PAIR, k=2), "number of columns"),
        (lambda: reliability_curve([0.5], [1, 0]), "about the same hits"),
        (lambda: reliability_curve([1.5], [1]), "between 0 and 1"),
        (lambda: reliability_curve([0.5], [2]), "true or false"),
        (lambda: reliability_curve([0.5], [1], strategy="equal"), "strategy must be one of"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_the_same_rows_on_both_sides_are_refused(rng):
    rows = rng.normal(size=(20, 4))
    with pytest.raises(ValueError, match="every query would find itself"):
        judge_hits(rows, rows, pair=("text", "text"))


def snippets():
    _, page = DOCS.read_text(encoding="utf-8").split("## A probability for every hit\n")
    return re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.M)


def test_the_first_snippet_of_the_docs_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(snippets()[0], "scores.md", "exec"), {})
    said = re.findall(r"^print\(.*# (.*)$", snippets()[0], re.M)
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize("table", ["precision", "mixed", "features"])
def test_the_benchmark_behind_the_tables_runs(table, capsys):
    given = (1,) if table == "mixed" else (None, 1)
    getattr(benchmark, table)(*given)
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_a_calibrator_of_a_small_index_promises_too_much_in_a_larger_one(capsys):
    benchmark.sizes()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    got = {int(n): float(right) for n, _, right in lines}
    assert got[50] < got[100] < got[500]
    assert (
        f"fitted on 50 scans and used on 500, a cut-off for a precision of 0.7 gave {got[50]}"
        in (" ".join(DOCS.read_text(encoding="utf-8").split()))
    )
