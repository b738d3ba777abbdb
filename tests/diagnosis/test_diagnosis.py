"""diagnose from end to end: the four verdicts, its metrics, its input, its repeatability."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from modgap.arrays import unit
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.diagnosis import DEFAULT_CORRECTORS, Diagnosis, diagnose
from modgap.diagnosis.splits import split
from modgap.evaluation import Gaussian, Int8, OneBit, mixed_retrieval, retrieval, robustness
from modgap.evaluation.metrics import noise_for
from modgap.io import Modalities
from modgap.measures import gap_distance

FEW = (Shift(0.5), Center())


def with_gap(n=440, gap=2.0, seed=0, d=10):
    """Pairs whose modalities are ``gap`` away from the origin in each dimension, opposite ways."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, d))
    sides = [shared + 0.4 * rng.normal(size=shared.shape) + sign * gap for sign in (1, -1)]
    return sides[0], sides[1]


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return diagnose(*with_gap(), correctors=FEW, model="made up")


def intervals(node):
    """Every interval in a result turned plain."""
    if isinstance(node, dict):
        if set(node) == {"value", "low", "high"}:
            yield node
        else:
            for child in node.values():
                yield from intervals(child)
    elif isinstance(node, list):
        for child in node:
            yield from intervals(child)


def test_a_planted_gap_is_found_and_a_correction_recommended(found):
    assert found.verdict == "use"
    assert found.recommended in ("Center()", "Shift(amount=0.5)")
    assert found.sentence.startswith(f"Use {found.recommended}: NDCG@10")
    assert "110 held-out pairs" in found.sentence
    assert found.n_groups == {"fit": 220, "choose": 110, "confirm": 110}
    used = next(t for t in found.trials if t.method == found.recommended)
    assert used.confirm.goal.change.low > 0.8
    assert found.raw.goal.value.value < 0.1
    assert f"→ {found.recommended}" in str(found)


@pytest.mark.parametrize(
    ("goal", "metrics"),
    [
        ("mixed", ["mixed_ndcg@10"]),
        ("robust", ["robust_to_noise"]),
        ("quantised", ["robust_to_int8", "robust_to_1bit"]),
    ],
)
def test_each_goal_is_judged_by_its_own_metrics(goal, metrics):
    found = diagnose(*with_gap(1000, gap=4.0), correctors=FEW, goal=goal)
    for judged in (found.raw, *(t.confirm for t in found.trials)):
        mean = np.mean([judged.metrics[name].value.value for name in metrics])
        assert judged.goal.value.value == pytest.approx(mean)
    best = max(found.trials, key=lambda t: t.lower_bound)
    # Centring these rows does not make them more robust to noise, and the verdict says so.
    assert found.recommended == (None if goal == "robust" else best.method)


def test_without_a_gap_it_says_to_leave_it_alone():
    found = diagnose(*with_gap(gap=0.0), correctors=FEW)
    assert found.verdict == "leave it alone"
    assert found.recommended is None
    assert found.correction is None
    assert found.sentence.startswith("Leave it alone: no correction raises")
    assert found.raw.goal.value.value > 0.9


def test_with_few_pairs_it_gives_metrics_but_no_verdict():
    found = diagnose(*with_gap(396), correctors=FEW)
    assert found.n_groups["confirm"] == 99
    assert found.verdict == "not enough pairs"
    assert found.correction is None  # neither of these keeps rankings
    assert "the confirm split has 99 pairs" in found.sentence
    assert len(found.trials) == 2
    assert diagnose(*with_gap(400), correctors=FEW).verdict == "use"


@pytest.mark.parametrize("pairs", ["few", "none"])
def test_without_enough_pairs_a_correction_that_keeps_rankings_is_offered_as_not_judged(pairs):
    X, Y = with_gap(200)
    found = diagnose(X, Y, correctors=(*FEW, Calibrate()), paired=pairs == "few")
    assert found.verdict == ("not enough pairs" if pairs == "few" else "no pairs")
    assert found.recommended == "Calibrate(mode='keep')"
    label = "balances the modalities; too few pairs to test relevance"
    assert f"The fallback is {found.recommended}: it {label}." in found.sentence
    assert found.correction.about["judged_on"] == label
    assert found.correction.about["fitted_on"] == {"image": 200, "text": 200}
    trial = next(t for t in found.trials if t.method == found.recommended)
    before = found.raw.metrics["own_modality_excess@10"].value.value
    after = trial.confirm.metrics["own_modality_excess@10"].value.value
    was, now = (f"{100 * (0.5 + excess):.0f} %" for excess in (before, after))
    kind = "wrong results" if pairs == "few" else "results"
    shares = f"Now {was} of the {kind} are texts, {now} with the correction; 50 % would be balanced"
    assert shares in found.sentence
    assert found.balanced_share == 0.5
    assert abs(after) < 0.3 < before
    assert ("NDCG@10" in found.sentence) is (pairs == "few")
    assert "400" in found.sentence


def test_a_ranking_keeping_correction_is_used_where_others_look_no_better():
    found = diagnose(*with_gap(), correctors=(*FEW, Calibrate()))
    assert found.verdict == "use"
    keeps = next(t for t in found.trials if t.method == "Calibrate(mode='keep')")
    assert keeps.keeps_rankings
    recall = keeps.confirm.metrics["image_retrieval_recall@1"].change
    assert (recall.value, recall.low, recall.high) == (0.0, 0.0, 0.0)


def test_rows_of_any_length_get_the_same_verdict_and_metrics(found):
    rng = np.random.default_rng(3)
    stretched = [rows * np.exp(2 * rng.normal(size=(len(rows), 1))) for rows in with_gap()]
    other = diagnose(*stretched, correctors=FEW)
    assert other.sentence == found.sentence
    check_same_metrics(other, found, 1e-9)
    # By inner product lengths matter, and the corrections use rows as given.
    given = diagnose(*stretched, correctors=FEW, metric="inner_product")
    assert given.raw.to_dict() != found.raw.to_dict()
    assert not any(c.unit_rows for c in given.corrections.values())
    assert all(c.unit_rows for c in found.corrections.values())


def test_metrics_are_about_the_queries_of_the_modality_that_asks():
    X, Y = with_gap()
    for asking, other in (("text", "image"), ("image", "text")):
        found = diagnose(X, Y, correctors=(Calibrate(),), queries=asking)
        assert found.queries == found.correction.queries == (asking,)
        recalls = [name for name in found.raw.metrics if "recall" in name]
        assert recalls == [f"{other}_retrieval_recall@1"]
        part = split(Modalities.of(X, Y), 0).confirm
        fix = found.corrections["Calibrate(mode='keep')"]
        expected = mixed_retrieval(part, correction=fix, queries=asking).ndcg
        [trial] = found.trials
        assert trial.confirm.goal.value.value == pytest.approx(expected)
    both = diagnose(X[:80], Y[:80], queries=("text", "image"))
    assert "Calibrate(mode='keep', form='blocks')" in [t.method for t in both.trials]
    assert len([name for name in both.raw.metrics if "recall" in name]) == 2
    narrow = diagnose(X, Y, correctors=(Calibrate(), Center()), queries=("text", "image"))
    assert "one modality" in narrow.not_tried["Calibrate(mode='keep')"]


@pytest.mark.parametrize("equal", [True, False])
def test_without_pairs_it_reports_what_needs_none(equal):
    X, Y = with_gap()
    options = {"paired": False} if equal else {}
    found = diagnose(X, Y if equal else Y[:300], correctors=(*FEW, Procrustes()), **options)
    assert found.verdict == "no pairs"
    assert found.correction is None
    assert "No pairs. Now 100 % of the results are texts; 50 % would be balanced." in found.sentence
    assert found.not_tried == {"Procrustes()": "it needs pairs"}
    assert not any("recall" in name or "ndcg" in name for name in found.raw.metrics)
    assert found.raw.metrics["own_modality_excess@10"].value.value == pytest.approx(0.5)
    assert {t.method for t in found.trials} == {"Shift(amount=0.5)", "Center()"}
    for t in found.trials:
        assert t.confirm.metrics["own_modality_excess@10"].value.value < 0.2
        assert not t.eligible
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_same_seed_gives_the_same_answer_and_another_seed_another_split(found):
    again = diagnose(*with_gap(), correctors=FEW, model="made up")
    assert again.to_dict() == found.to_dict()
    other = diagnose(*with_gap(), correctors=FEW, model="made up", seed=1)
    assert other.raw.to_dict() != found.raw.to_dict()


def test_the_raw_metrics_are_those_of_the_separate_functions_on_the_confirm_split(found):
    X, Y = with_gap()
    part = split(Modalities.of(X, Y), 0).confirm.at_unit_length()
    raw = {name: score.value.value for name, score in found.raw.metrics.items()}
    recall = retrieval(part.X, part.Y, 1).recall()
    mixed = mixed_retrieval(part.X, part.Y, 10, queries="text")
    [asked] = mixed.queries
    own = (asked.non_relevant - asked.non_relevant_by[:, 0]).sum()
    expected = {
        "gap": gap_distance(part.X, part.Y),
        "image_retrieval_recall@1": recall["image_retrieval_recall@1"],
        "mixed_ndcg@10": mixed.ndcg,
        "own_modality_excess@10": own / asked.non_relevant.sum() - 0.5,
        "neighbours_kept": 1.0,
    }
    assert noise_for(part).std == pytest.approx(0.5 / 10**0.5)
    for name, noise in (
        ("robust_to_noise", Gaussian(noise_for(part).std)),
        ("robust_to_int8", Int8()),
        ("robust_to_1bit", OneBit()),
    ):
        expected[name] = robustness(part.Y, part.X, noise, 20, metric="cosine").share[0]
    assert set(raw) == set(expected) == set(found.explanations)
    for name, value in expected.items():
        assert raw[name] == pytest.approx(value), name


def test_a_trials_metrics_are_those_of_its_correction_fitted_on_the_fit_split(found):
    splits = split(Modalities.of(*with_gap()), 0)
    confirm, center = splits.confirm, Center().fit(splits.fit).correction_
    trial = next(t for t in found.trials if t.method == "Center()")
    metrics = trial.confirm.metrics
    mixed = mixed_retrieval(confirm.X, confirm.Y, correction=center, queries="text").ndcg
    assert metrics["mixed_ndcg@10"].value.value == pytest.approx(mixed)
    change = mixed - found.raw.metrics["mixed_ndcg@10"].value.value
    assert metrics["mixed_ndcg@10"].change.value == pytest.approx(change)
    recall = retrieval(confirm.X, confirm.Y, 1, correction=center).recall()
    name = "image_retrieval_recall@1"
    assert metrics[name].value.value == pytest.approx(recall[name])


def test_every_interval_contains_its_value_and_the_result_is_plain_json(found):
    plain = found.to_dict()
    assert "correction" not in plain
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    # The gap is the length of a vector, which resampling lengthens when it is near zero.
    for judged in (plain["raw"], *(t["confirm"] for t in plain["trials"])):
        shares = {k: v for k, v in judged["metrics"].items() if k != "gap"}
        listed = list(intervals([shares, judged["goal"]]))
        assert len(listed) >= 8
        for one in listed:
            assert one["low"] - 1e-12 <= one["value"] <= one["high"] + 1e-12
    raw_gap = plain["raw"]["metrics"]["gap"]["value"]
    assert raw_gap["low"] <= raw_gap["value"] <= raw_gap["high"]


def test_the_recommended_correction_reproduces_from_its_file(found, tmp_path):
    X, Y = with_gap()
    found.correction.save(tmp_path / "c.safetensors")
    again = Correction.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(again.x(X), found.correction.x(X))
    assert again.about["model"] == "made up"
    # What is kept is fitted on every row; what was judged, on the fit split.
    assert again.about["fitted_on"] == {"image": 440, "text": 440}
    judged = found.corrections[found.recommended]
    assert judged.about["fitted_on"] == {"image": 220, "text": 220}
    part = split(Modalities.of(X, Y), 0).confirm
    trial = next(t for t in found.trials if t.method == found.recommended)
    value = mixed_retrieval(part.X, part.Y, correction=judged, queries="text").ndcg
    assert value == pytest.approx(trial.confirm.metrics["mixed_ndcg@10"].value.value)
    whole = mixed_retrieval(part.X, part.Y, correction=again, queries="text").ndcg
    assert whole == pytest.approx(value, abs=0.02)


def check_same_metrics(found, expected, tolerance):
    for judged, wanted in zip(
        (found.raw, *(t.confirm for t in found.trials)),
        (expected.raw, *(t.confirm for t in expected.trials)),
        strict=True,
    ):
        for name, score in wanted.metrics.items():
            value = judged.metrics[name].value.value
            assert value == pytest.approx(score.value.value, abs=tolerance), name


def test_float32_tensors_give_the_metrics_of_float32_arrays():
    torch = pytest.importorskip("torch")
    # In ten dimensions many rows have the same 1-bit code, and rounding would decide among them.
    sides = [rows.astype("float32") for rows in with_gap(d=40)]
    arrays = diagnose(*sides, correctors=FEW)
    tensors = diagnose(*(torch.from_numpy(rows) for rows in sides), correctors=FEW)
    assert tensors.recommended == arrays.recommended
    check_same_metrics(tensors, arrays, 1e-6)


def test_groups_with_several_captions_are_kept_together():
    X, Y = with_gap(440)
    rng = np.random.default_rng(5)
    captions = np.repeat(Y, 3, axis=0) + 0.05 * rng.normal(size=(1320, 10))
    groups = [f"id{i}" for i in range(440)], [f"id{i}" for i in range(440) for _ in range(3)]
    found = diagnose(X, captions, groups=groups, correctors=FEW)
    assert found.verdict == "use"
    assert found.n_groups == {"fit": 220, "choose": 110, "confirm": 110}
    assert found.correction.about["fitted_on"] == {"image": 440, "text": 1320}


def test_what_cannot_be_fitted_or_applied_is_recorded_with_its_reason():
    X, Y = with_gap(40)
    found = diagnose(X, Y, correctors=(OrthogonalShift("y", 1.0), Whiten(2.0), Center()))
    assert [t.method for t in found.trials] == ["Center()"]
    assert set(found.not_tried) == {"OrthogonalShift(move='y')", "Whiten(shrinkage=2.0)"}
    assert "moves nothing" in found.not_tried["OrthogonalShift(move='y')"]
    assert "shrinkage must be between 0 and 1" in found.not_tried["Whiten(shrinkage=2.0)"]


@pytest.mark.parametrize("noise", [0, 1e-4])
@pytest.mark.parametrize("options", [{}, {"paired": False}, {"metric": "inner_product"}])
def test_a_collapsed_encoder_gets_no_recommendation(noise, options):
    X, Y = with_gap(40)
    collapsed = np.ones_like(Y) + noise * np.random.default_rng(0).normal(size=Y.shape)
    for sides, name in (((X, collapsed), "text"), ((collapsed, Y), "image")):
        with pytest.raises(InputValueError, match=f"The 40 {name} rows are all alike"):
            diagnose(*sides, correctors=FEW, **options)


def test_progress_tells_every_step(found):
    seen = []
    diagnose(*with_gap(40), correctors=FEW, progress=lambda *step: seen.append(step))
    assert seen[0] == ("measuring", 0, 6)
    assert [step[0] for step in seen if step[0] in ("Shift(amount=0.5)", "Center()")] == [
        "Shift(amount=0.5)",
        "Center()",
    ]
    assert [step[1] for step in seen] == list(range(len(seen)))


@pytest.mark.parametrize(
    ("X", "Y", "options", "message"),
    [
        (np.ones((7, 3)), np.ones((7, 3)), {}, "at least 8 groups.*got 7"),
        (np.ones((7, 3)), np.ones((9, 3)), {}, "at least 8 rows of each modality, got 7"),
        (np.ones((40, 3)), np.ones((39, 3)), {"paired": True}, "Pass groups"),
        (np.ones((40, 3)), np.ones((40, 3)), {"goal": "fast"}, "goal must be one of"),
        (np.ones((40, 3)), np.ones((40, 3)), {"metric": "dot"}, "metric must be one of"),
    ],
)
def test_input_that_cannot_be_judged_is_refused(X, Y, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        diagnose(X, Y, correctors=FEW, **options)


@pytest.mark.published
def test_published_clip_returns_only_its_own_modality_from_one_index(
    published_clip, record_property
):
    found = diagnose(*published_clip)
    record_property("verdict", found.sentence)
    print(found.sentence)
    assert found.raw.metrics["mixed_ndcg@10"].value.value == 0.0
    # All wrong results are of the query's own modality; 125 groups make no exact half.
    excess = found.raw.metrics["own_modality_excess@10"].value.value
    assert excess == pytest.approx(0.5, abs=1 / 250)
    assert found.n_groups == {"fit": 250, "choose": 125, "confirm": 125}
    theorem = next(t for t in found.trials if t.method == "OrthogonalShift(move='y')")
    assert theorem.neighbours_kept_fitted == 1.0
    images = next(t for t in found.trials if t.method.startswith("OrthogonalShift(move='x'"))
    assert images.confirm.metrics["neighbours_kept"].value.value < 1.0
    # Better than the rows as they are, not only fair.
    assert found.recommended == "ExpectedWrong(hubs=0.5)"
    best = next(t for t in found.trials if t.method == found.recommended)
    assert best.confirm.metrics["image_retrieval_recall@1"].change.value > 0.02
    assert len(found.trials) + len(found.not_tried) == len(DEFAULT_CORRECTORS) + 1


def test_what_is_not_eligible_is_said_with_its_reason_from_the_choose_split(published_clip):
    found = diagnose(*published_clip)
    ruled_out = [trial for trial in found.trials if not trial.eligible]
    assert ruled_out
    assert found.not_eligible.startswith("Not eligible on the choose split: ")
    for trial in ruled_out:
        assert f"{trial.method} ({trial.reason})" in found.not_eligible
    without_pairs = diagnose(*with_gap(), paired=False)
    assert without_pairs.not_eligible == ""


def test_rankings_by_distance_are_not_taken_to_be_kept_by_a_correction_of_inner_products():
    X, Y = with_gap()
    by_distance = diagnose(X, Y, correctors=(Calibrate(),), metric="euclidean")
    assert [t.keeps_rankings for t in by_distance.trials] == [False]
    assert by_distance.corrections["Calibrate(mode='keep')"].keeps_rankings


@pytest.mark.published
def test_a_quantised_index_is_tried_where_the_gap_of_its_codes_is_least(published_clip):
    X, Y = (unit(side.astype(np.float64)) for side in published_clip)
    found = diagnose(X, Y, goal="quantised")
    usual = {t.method for t in diagnose(X[:120], Y[:120]).trials}
    own = [t for t in found.trials if t.method not in usual]
    moved = {t.method.partition("move=")[2][1] if "move=" in t.method else "y" for t in own}
    assert moved == {"x", "y"}
    amounts = [float(re.search(r"amount=([\d.]+)", t.method)[1]) for t in own]
    assert all(0.3 < amount < 0.9 for amount in amounts)
    # Of all pairs the signs of moved captions are nearest to those of images near there, too.
    step = OrthogonalShift("y", 0.95).fit(X, Y).correction_.map("text").offset
    gaps = {a: signs_apart(X, Y + a * step) for a in (0.0, 0.6, 1.0)}
    assert gaps[0.6] < min(gaps[0.0], gaps[1.0])


def signs_apart(X, Y):
    return float(np.linalg.norm(np.sign(X).mean(axis=0) - np.sign(Y).mean(axis=0)))
