"""Hubs in diagnose and fix: recommended where they help and not where they cost, with any bank."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import modgap
from conftest import load_published_tensors
from modgap import Correction, Modalities, diagnose
from modgap.corrections import Calibrate, ForeignBankWarning
from modgap.corrections.bank import check_bank, shortfall
from modgap.diagnosis import fix
from modgap.diagnosis.hubs import choose_hubs
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
    return [
        (lambda rows: (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))(
            shared + 0.5 * rng.normal(size=(n, d))
        )
        for _ in range(2)
    ]


@pytest.fixture(scope="module")
def photos():
    held = load_published_tensors("unsplash-clip-b32")
    return held["image"], held["text"]


@pytest.fixture(scope="module")
def found(photos):
    return diagnose(*photos)


def test_hubs_are_recommended_where_they_help(found):
    assert found.verdict == "use"
    assert found.hubs.helps
    assert found.hubs.rank_gain.low > 0
    assert found.recommended == found.hubs.method
    assert "hubs=" in found.recommended
    trial = next(t for t in found.trials if t.method == found.recommended)
    assert trial.confirm.metrics[SEARCHED].change.value > 0
    assert not trial.keeps_rankings
    # A rise by .024 of 125 groups may be chance, and the sentence does not call it a rise.
    assert trial.confirm.metrics[SEARCHED].change.low < 0
    assert "recall@1 holds (image recall@1 +" in found.sentence
    assert found.hubs.sentence.startswith("Hub correction helps")
    # What is written has a bank of all rows that ask.
    assert found.correction.hubs.n_bank == 500
    assert found.correction.dim_out == 513


def test_the_metrics_of_hubs_are_those_of_the_public_functions(found, photos):
    confirm = split(Modalities.of(*photos), 0).confirm.at_unit_length()
    correction = found.corrections[found.recommended]
    trial = next(t for t in found.trials if t.method == found.recommended)
    recall = retrieval(confirm, k=1, correction=correction).recall()[SEARCHED]
    assert trial.confirm.metrics[SEARCHED].value.value == pytest.approx(recall)
    mixed = mixed_retrieval(confirm, correction=correction, queries="text", seed=0).ndcg
    assert trial.confirm.metrics["mixed_ndcg@10"].value.value == pytest.approx(mixed)


def test_hubs_are_not_recommended_where_there_are_none():
    found = diagnose(*plain())
    assert not found.hubs.helps
    assert found.recommended != found.hubs.method
    trial = next(t for t in found.trials if t.method == found.hubs.method)
    assert not trial.eligible
    assert trial.reason == "hubs do not help enough"
    assert "its gain is too small" in found.hubs.sentence


def test_on_the_digits_hubs_cost_recall_and_are_not_recommended():
    digits = modgap.load_digits()
    data = Modalities.of(digits.X, digits.Y, groups=digits.groups)
    assert not choose_hubs(split(data, 0).folds, "text", metric="cosine").helps


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
    assert found.hubs.helps
    assert not found.hubs.own_bank
    assert found.recommended == found.hubs.method
    assert found.correction.hubs.n_bank == 480
    assert found.correction.hubs.keys is None


def test_a_foreign_bank_is_noticed_and_not_recommended(photos):
    names = load_published_tensors("imagenet-clip-b32")["class_text"]
    with pytest.warns(ForeignBankWarning, match="may not hold the kind of queries"):
        found = diagnose(*photos, bank=names, correctors=(Calibrate(),))
    assert not found.hubs.helps
    assert found.recommended == "Calibrate(mode='keep')"
    assert "The bank may not hold queries like" in found.hubs.sentence


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


def test_without_pairs_a_bank_is_not_judged_and_that_is_said():
    X, Y = with_hubs(200)
    found = diagnose(X, Y[:150], paired=False, bank=Y[150:])
    assert found.hubs is None
    assert "modgap fit uses the bank" in found.not_tried["hubs"]
    assert found.correction.hubs is None


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
    assert told["hubs"]["helps"] is True
    assert not any("index build" in line for line in fixed.next_steps if "in an index" in line)


def test_a_bank_is_for_one_asking_modality(tmp_path):
    X, Y = with_hubs(200)
    with pytest.raises(ValueError, match="queries of one modality"):
        fix(X, Y, tmp_path / "fixed", queries=("image", "text"), bank=Y)
