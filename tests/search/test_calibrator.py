"""Probabilities of a match: calibrated on held-out pairs, in order, and refused in a sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import clone

from conftest import make_pairs
from modgap.core.results import changed
from modgap.corrections import Center, Correction
from modgap.search import (
    Hits,
    JudgedHits,
    ScoreCalibrator,
    judge_hits,
    reliability_curve,
)
from simulated_hits import PAIR, precision, simulate


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


def fit(hits, *given, **options):
    return ScoreCalibrator().fit(hits, *given, **options)


def judge(rows, documents=None, pair=PAIR, k=2):
    return judge_hits(rows, documents, pair=pair, k=k)


GOOD = simulate(60)[0]
SCORES, MATCHES = GOOD.scores, GOOD.matches
HITS = Hits(np.tile(np.arange(10), (60, 1)), SCORES, np.full((60, 10), "image", dtype=object))
BY_E = changed(HITS, expected_wrong=np.exp(-SCORES))
FITTED, OF_HITS = fit(GOOD), fit(HITS, MATCHES, modality="text")
OF_E = fit(BY_E, MATCHES, modality="text")
OTHERS = [simulate(60, pair=pair)[0] for pair in (("a", "b"), ("audio", "image"))]
EYE = np.eye(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ScoreCalibrator(k=0).fit(GOOD), "k must be at least 2"),
        (lambda: ScoreCalibrator(k=11).fit(GOOD), "11 best hits of a query, text→image has 10"),
        (lambda: ScoreCalibrator("platt").fit(GOOD), "method must be one of"),
        (lambda: ScoreCalibrator().predict(SCORES, PAIR), "not fitted yet"),
        (lambda: fit([]), "hits must be JudgedHits"),
        (lambda: fit([GOOD, GOOD]), "two sets of hits for text→image"),
        (lambda: fit(simulate(29)[0]), "needs at least 30 queries, got 29"),
        (lambda: fit(JudgedHits(PAIR, SCORES, MATCHES & False)), "10 non-matches .* got 0 and 600"),
        (lambda: FITTED.predict(SCORES, ("text", "audio")), "pairs text→image, got text→audio"),
        (lambda: FITTED.predict(SCORES, "text"), "pair must be"),
        (lambda: FITTED.predict(SCORES[:, :5]), "10 best hits .* got 5"),
        (lambda: FITTED.predict(SCORES[0]), "one row per query"),
        (lambda: FITTED.predict(SCORES * np.nan), "NaN or infinity, the first in row 0"),
        (lambda: FITTED.predict(-SCORES), "from the best hit down"),
        (lambda: FITTED.cutoff(1.0), "precision must be between 0 and 1"),
        (lambda: FITTED.cutoff(0.0), "precision must be between 0 and 1"),
        (lambda: FITTED.cutoff(0.5, ("a", "b")), "knows the modality pairs"),
        (lambda: FITTED.score_cutoff(GOOD, 1.5), "threshold must be a probability"),
        (lambda: fit(HITS), "Hits need what people say of them"),
        (lambda: fit(HITS, MATCHES), "and the modality of the queries"),
        (lambda: fit(GOOD, MATCHES), "JudgedHits hold their matches and modalities"),
        (lambda: fit(HITS, MATCHES[:, :5], modality="text"), r"\(60, 10\) and \(60, 5\)"),
        (lambda: fit(HITS, [{1}], modality="text"), "for each of the 60 queries, got 1"),
        (lambda: fit(HITS, SCORES, modality="text"), "true, false or None for every hit"),
        (lambda: fit(HITS, [["yes"] * 10] * 60, modality="text"), "every hit, or be a set"),
        (lambda: fit(HITS, MATCHES * np.nan, modality="text"), "None of these hits is judged"),
        (lambda: OF_HITS.predict(HITS.first(5)), "10 best hits .* got 5"),
        (lambda: OF_HITS.predict(HITS, modality="image"), "knows the modality pairs text→image"),
        (lambda: OF_HITS.judge(HITS, at_least=2), "at_least must be a probability"),
        (lambda: OF_E.predict(HITS), "fitted on expected wrong results, and these hits have none"),
        (lambda: OF_E.predict(SCORES, PAIR), "by expected_wrong, and these are ranked by score"),
        (lambda: fit([*JudgedHits.of(BY_E, MATCHES, "text"), OTHERS[0]]), "a calibrator for each"),
        (lambda: fit([GOOD, OTHERS[1]]).predict(HITS), "queries of text and audio; say which"),
        (lambda: JudgedHits(PAIR, SCORES, MATCHES, counted=MATCHES[:5]), "scores and counted must"),
        (lambda: JudgedHits(PAIR, SCORES, MATCHES[:5]), "about the same hits"),
        (lambda: JudgedHits(PAIR, SCORES, SCORES), "true or false"),
        (lambda: JudgedHits(("", "b"), SCORES, MATCHES), "must not be empty"),
        (lambda: judge(EYE, np.eye(4), k=5), "k must be between 1 and 4"),
        (lambda: judge(EYE, k=10), "needs documents"),
        (lambda: judge(EYE, pair=("text", "text")), "one label per query"),
        (lambda: judge(EYE, EYE, ("text", "text")), "every query would find itself"),
        (lambda: judge(EYE, np.eye(5)), "Without groups the rows"),
        (lambda: judge(EYE, np.ones((4, 3))), "number of columns"),
        (lambda: reliability_curve([0.5], [1, 0]), "about the same hits"),
        (lambda: reliability_curve([1.5], [1]), "between 0 and 1"),
        (lambda: reliability_curve([0.5], [2]), "true or false"),
        (lambda: reliability_curve([0.5], [1], strategy="equal"), "strategy must be one of"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
