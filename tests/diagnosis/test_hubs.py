"""Hubs in diagnose and fix: recommended where they help and not where they cost, with any bank."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from conftest import load_published_tensors, unit
from modgap import Correction, Modalities, diagnose
from modgap.corrections import Calibrate, ExpectedWrong, ForeignBankWarning
from modgap.corrections.bank import check_bank, shortfall
from modgap.diagnosis import fix
from modgap.diagnosis.hubs import Change, HubTrial, choose_hubs
from modgap.diagnosis.splits import split
from modgap.evaluation import mixed_retrieval, retrieval
from modgap.io import open_embeddings

pytestmark = pytest.mark.xdist_group("hubs")  # one diagnosis for several tests

SEARCHED = "image_retrieval_recall@1"


def with_hubs(n=480, d=24, seed=0):
    """Pairs in which some images lie far out where the texts vary most, and come up for many."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, d))
    shared[:, 0] *= 2
    X, Y = (shared + 0.9 * rng.normal(size=(n, d)) for _ in range(2))
    hubs = rng.random(n) < 0.15
    X[hubs, 0] += 4 * np.sign(X[hubs, 0])
    gap = 3 * np.eye(d)[1]
    return (X + gap).astype(np.float32), (Y - gap).astype(np.float32)


def plain(n=480, d=24, seed=0):
    """Pairs without a hub: all rows around one centre, equally long."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, d))
    return [unit(shared + 0.5 * rng.normal(size=(n, d))).astype(np.float32) for _ in range(2)]


@pytest.fixture(scope="module")
def photos():
    held = load_published_tensors("unsplash-clip-b32")
    return held["image"], held["text"]


@pytest.fixture(scope="module")
def found(photos):
    return diagnose(*photos)


def test_hubs_are_recommended_where_they_help(found):
    assert found.verdict == "use"
    assert found.hubs.weight == 0.5
    assert found.hubs.tried[0].rank.mean > 2 * found.hubs.tried[0].rank.error
    assert found.recommended == "ExpectedWrong(hubs=0.5)"
    trial = next(t for t in found.trials if t.method == found.recommended)
    assert not trial.keeps_rankings
    assert "recall@1 holds (image recall@1 +" in found.sentence
    assert found.hubs.sentence.startswith("Hub correction with weight 0.5 holds: MRR")
    # What is written has a bank of all rows that ask.
    assert found.correction.hubs.n_bank == found.correction.background.n_queries == 500
    assert found.correction.dim_out == 513


def test_a_cut_at_one_expected_wrong_result_is_said(found):
    assert found.cut.n_queries == 125
    assert 0.5 < found.cut.wrong < 1.5
    assert 0.5 < found.cut.kept < 1
    assert str(found.cut) in found.notes


def test_the_metrics_of_hubs_are_those_of_the_public_functions(found, photos):
    confirm = split(Modalities.of(*photos), 0).confirm.at_unit_length()
    correction = found.corrections[found.recommended]
    trial = next(t for t in found.trials if t.method == found.recommended)
    recall = retrieval(confirm, k=1, correction=correction).recall()[SEARCHED]
    assert trial.confirm.metrics[SEARCHED].value.value == pytest.approx(recall)
    mixed = mixed_retrieval(confirm, correction=correction, queries="text", seed=0).ndcg
    assert trial.confirm.metrics["mixed_ndcg@10"].value.value == pytest.approx(mixed)


def reference_changes(held, fitted, weight):
    """Reciprocal ranks, NDCG@10 and recall@10 with hubs less those without, by text queries."""
    found = []
    for alpha in (weight, 0.0):
        correction = ExpectedWrong(alpha).fit(fitted, queries="text").correction_
        ranks = retrieval(held, correction=correction).ranks()["text finds image"]
        (mixed,) = mixed_retrieval(held, correction=correction, queries="text", seed=0).queries
        found.append((1 / (1 + ranks), mixed.ndcg, mixed.hit))
    return [a - b for a, b in zip(*found, strict=True)]


def test_the_changes_are_those_of_the_public_functions():
    folds = split(Modalities.of(*with_hubs()), 0).folds
    both = [reference_changes(*pair, 0.5) for pair in (folds, folds[::-1])]
    first = choose_hubs(folds, "text", metric="cosine").tried[0]
    assert first.weight == 0.5
    of_text = np.concatenate([changes[0] for changes in both])
    assert np.sign(first.rank.mean) == np.sign(of_text.mean())


def test_hubs_that_cost_are_left_out():
    """All rows around one centre: hubness is chance, and subtracting it moves matches down."""
    choice = choose_hubs(split(Modalities.of(*plain()), 0).folds, "text", metric="cosine")
    assert choice.weight in (0.0, 0.25)
    assert len(choice.tried) == 2
    assert not choice.tried[0].holds
    if not choice.weight:
        assert "costs too much" in choice.sentence


@pytest.mark.parametrize(("mean", "error", "holds"), [(-0.1, 0.3, True), (-0.2, 0.3, False)])
def test_a_metric_holds_down_to_half_a_standard_error(mean, error, holds):
    assert Change(mean, error).holds is holds
    one = Change(mean, error), Change(0.0, 0.0), Change(0.1, 0.0)
    for turned in (one, one[1:] + one[:1], one[2:] + one[:2]):
        assert HubTrial(0.5, *turned).holds is holds


def test_the_choice_does_not_look_at_the_confirm_split():
    data = Modalities.of(*with_hubs())
    splits = split(data, 3)
    first, second = (set(fold.keys_of("image")) for fold in splits.folds)
    assert not first & second
    known = {*splits.fit.keys_of("image"), *splits.choose.keys_of("image")}
    assert first | second <= known
    assert not known & set(splits.confirm.keys_of("image"))


def test_the_whole_index_leaves_a_documents_own_queries_out(found, photos):
    """A bank of the very texts that ask would otherwise mark down every text in the index."""
    data = Modalities.of(*photos)
    options = {"correction": found.correction, "queries": "text", "seed": 0}
    assert found.whole_index.after == pytest.approx(mixed_retrieval(data, **options).ndcg)
    elsewhere = Modalities.of(*photos, groups=([f"a{i}" for i in range(500)],) * 2)
    assert mixed_retrieval(elsewhere, **options).ndcg != pytest.approx(found.whole_index.after)


def test_a_bank_that_is_given_is_used():
    X, Y = with_hubs(960)
    found = diagnose(X[:480], Y[:480], bank=Y[480:], correctors=(Calibrate(),))
    assert not found.hubs.own_bank
    assert found.recommended == f"ExpectedWrong(hubs={found.hubs.weight})"
    assert found.correction.hubs.n_bank == 480
    assert found.correction.hubs.keys is None


def test_a_foreign_bank_is_noticed(photos):
    names = load_published_tensors("imagenet-clip-b32")["class_text"]
    with pytest.warns(ForeignBankWarning, match="may not hold the kind of queries"):
        found = diagnose(*photos, bank=names, correctors=(Calibrate(),))
    assert not found.hubs.own_bank


def test_banks_of_the_same_kind_do_not_fall_short():
    X, Y = with_hubs(960)
    data = Modalities.of(X[:480], Y[:480])
    correction = Calibrate().fit(data).correction_
    for size in (40, 100, 480):
        assert abs(shortfall(correction, Y[480 : 480 + size], data)) < 0.2
    assert np.isnan(shortfall(correction, Y[:5], data))


def test_unsplash_captions_are_told_from_class_names(photos):
    images, captions = photos
    classes = load_published_tensors("imagenet-clip-b32")
    data = Modalities.of(images[:250], captions[:250])
    correction = Calibrate().fit(data).correction_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_bank(correction, captions[250:], data)
    with pytest.warns(ForeignBankWarning):
        check_bank(correction, classes["class_text"], data)
    with pytest.raises(ValueError, match="used as text queries: its rows are image rows"):
        check_bank(correction, images[250:], data)


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (np.zeros((0, 24), np.float32), "at least one row|at least 20 queries"),
        (np.ones((19, 24), np.float32), "at least 20 queries, got 19"),
        (np.ones((50, 23), np.float32), "24 columns of the rows, got 23"),
        (np.full((50, 24), np.nan, np.float32), "NaN"),
        (np.ones(50, np.float32), "must be a matrix"),
    ],
)
def test_banks_that_cannot_be_used_are_refused_in_one_sentence(bank, message, tmp_path):
    X, Y = with_hubs(200)
    with pytest.raises((ValueError, TypeError), match=message) as said:
        diagnose(X, Y, bank=bank)
    assert "\n" not in str(said.value)
    with pytest.raises((ValueError, TypeError), match=message):
        fix(X, Y, tmp_path / "fixed", bank=bank)
    assert not (tmp_path / "fixed").exists()


def test_without_pairs_merging_by_expected_wrong_results_is_offered():
    X, Y = with_hubs(320)
    found = diagnose(X, Y[:150], paired=False, bank=Y[150:])
    assert found.verdict == "no pairs"
    assert found.hubs is None
    assert found.recommended == "ExpectedWrong(hubs=0.25)"
    assert found.correction.background.n_queries == 170
    few = diagnose(X, Y[:90], paired=False)
    assert few.recommended == "Calibrate(mode='keep')"


def test_a_bank_without_a_use_is_said():
    X, Y = with_hubs(200)
    found = diagnose(X, Y, bank=Y, goal="robust")
    assert "modgap fit uses the bank" in found.not_tried["expected wrong results"]


def test_fix_writes_the_column_and_drops_the_bank_when_told(photos, tmp_path):
    X, Y = photos
    fixed = fix(X, Y, tmp_path / "fixed", keep_bank=False)
    (correction,) = fixed.corrections.values()
    data = Modalities.of(X, Y)
    for name in data.names:
        stored = open_embeddings(tmp_path / "fixed" / f"documents-{name}.parquet").rows()
        expected = correction.apply(data.sides[name].rows(), name, keys=data.keys_of(name))
        np.testing.assert_allclose(stored, expected, rtol=1e-6)
    saved = Correction.load(tmp_path / "fixed" / "correction.safetensors")
    assert saved.hubs.bank is None
    assert saved.apply(Y[:3], "text", "query").shape == (3, 513)
    told = json.loads((tmp_path / "fixed" / "diagnosis.json").read_text())
    assert told["hubs"]["weight"] == 0.5
    assert not any("index build" in line for line in fixed.next_steps if "in an index" in line)


def test_a_bank_is_for_one_asking_modality(tmp_path):
    X, Y = with_hubs(200)
    with pytest.raises(ValueError, match="queries of one modality"):
        fix(X, Y, tmp_path / "fixed", queries=("image", "text"), bank=Y)
