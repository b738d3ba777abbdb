"""Other documents of the index: searched wherever one is judged, and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import modgap, script
from modgap import Modalities, diagnose, evaluate_correction
from modgap.corrections import Calibrate, ExpectedWrong
from modgap.diagnosis.splits import held_out, split
from modgap.evaluation import mixed_retrieval, retrieval
from modgap.io import Embeddings
from reference_search import ndcg_at_10, ranks, score


def with_gap(n=440, d=16, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, d))
    return [shared + 0.4 * rng.normal(size=shared.shape) + sign for sign in (2, -2)]


def foreign(n, sign, d=16, seed=9):
    """Documents of another kind: nearer to each other, and to the other modality."""
    rng = np.random.default_rng(seed + n)
    return 0.5 * rng.normal(size=(n, d)) + 0.6 * sign + np.eye(d)[0]


OTHERS = {"image": foreign(300, 1), "text": foreign(50, -1)}


def pairs_and_others(n=440):
    return Modalities.of(*with_gap(n)).with_documents(OTHERS)


def test_recall_counts_other_documents_that_come_before_the_match():
    data = pairs_and_others(60)
    found = retrieval(data, k=(1, 5))
    searched = np.concatenate([data.X, OTHERS["image"]])
    groups = np.concatenate([np.arange(60), np.full(300, -1)])
    expected = ranks(data.Y, searched, np.arange(60), groups, "cosine")
    np.testing.assert_array_equal(found.ranks_y, expected)
    alone = retrieval(Modalities.of(data.X, data.Y), k=(1, 5))
    assert np.all(alone.ranks_y <= found.ranks_y)
    assert np.any(alone.ranks_y < found.ranks_y)


def test_one_index_holds_other_documents_of_every_modality():
    """A loop: half of the groups are there as images, the others as texts, and all others are."""
    data = pairs_and_others(60)
    (found,) = mixed_retrieval(data, queries="text", repeats=1, seed=3).queries
    images = found.group  # text queries ask whose match is there as an image
    texts = np.setdiff1d(np.arange(60), images)
    documents = np.concatenate([data.X[images], OTHERS["image"], data.Y[texts], OTHERS["text"]])
    for line, group in enumerate(images):
        scores = np.array([score(data.Y[group], one, "cosine") for one in documents])
        best = np.argsort(-scores, kind="stable")[:10]
        hits = [bool(one == line) for one in best]
        assert found.ndcg[line] == pytest.approx(ndcg_at_10(hits, 1))
        n_images = np.sum((best < len(images) + 300) & (best != line))
        assert found.non_relevant_by[line, 0] == n_images
    share = (len(images) + 300) / (60 + 350)
    np.testing.assert_allclose(found.corpus_share[:, 0], share)


def test_rows_without_a_match_are_in_the_index_that_is_judged():
    X, Y = with_gap(240)
    keys = np.arange(240)
    gx = np.where(keys < 40, keys + 1_000, keys)  # 40 images nobody has a text for
    data = Modalities.of(X, Y, groups=(gx, keys))
    splits = split(data, 0)
    for one in (splits.choose, splits.confirm, *splits.folds):
        assert {name: side.n_rows for name, side in one.others.items()} == {"image": 40, "text": 40}
        assert one.n_groups < 200
    assert not splits.fit.others
    held = held_out(data, 0)
    for name in data.names:
        ours, theirs = held.data.others[name].rows(), splits.confirm.others[name].rows()
        np.testing.assert_array_equal(ours, theirs)
    evaluated = evaluate_correction(data)
    removed = evaluate_correction(data.take_groups(np.arange(40, 240)))
    recall = "image_retrieval_recall@1"
    before, after = (e.raw.metrics[recall].value.value for e in (removed, evaluated))
    assert after <= before


def test_no_correction_is_fitted_on_them_and_none_of_them_asks():
    data = pairs_and_others()
    alone = Modalities.of(data.X, data.Y)
    for corrector in (Calibrate(), ExpectedWrong()):
        fitted, plain = (corrector.fit(one).correction_ for one in (data, alone))
        assert fitted.about["means_sha256"] == plain.about["means_sha256"]
        np.testing.assert_array_equal(fitted.x(data.X[:5]), plain.x(data.X[:5]))
    assert fitted.hubs.n_bank == 440
    assert fitted.background.lists["image"].n_documents == 740
    assert plain.background.lists["image"].n_documents == 440


def test_a_diagnosis_says_what_they_change():
    data = pairs_and_others()
    found, alone = diagnose(data), diagnose(data.X, data.Y)
    assert found.others.counts == {"image": 300, "text": 50}
    assert found.others.before == found.raw.goal.value.value
    trial = next(t for t in found.trials if t.method == found.recommended)
    assert found.others.after == trial.confirm.goal.value.value
    assert found.others.before_alone == pytest.approx(alone.raw.goal.value.value)
    same = next(t for t in alone.trials if t.method == found.recommended)
    assert found.others.after_alone == pytest.approx(same.confirm.goal.value.value, abs=1e-9)
    assert str(found.others) in found.notes
    assert alone.others is None
    assert any("holds only these rows" in note for note in alone.notes)


def test_a_share_of_other_documents_is_drawn_where_there_are_many():
    data = Modalities.of(*with_gap(60, d=2))
    data = data.with_documents({"image": np.ones((10_500, 2))})
    assert split(data, 0).confirm.others["image"].n_rows == 10_000


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({"video": np.ones((5, 16))}, "documents must be one of 'image', 'text', got 'video'"),
        ({"image": np.ones((5, 15))}, "must have the 16 columns of the image rows, got 15"),
        ({"image": np.ones(5)}, "matrix"),
        ({"image": np.ones((0, 16))}, "at least one row"),
    ],
)
def test_documents_that_cannot_be_searched_are_refused(documents, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Modalities.of(*with_gap(40)).with_documents(documents)


def test_documents_with_nan_are_refused():
    bad = OTHERS["image"].copy()
    bad[3, 2] = np.nan
    data = Modalities.of(*with_gap(60)).with_documents({"image": bad})
    with pytest.raises(ValueError, match="other image documents has 1 row with NaN"):
        mixed_retrieval(data)
    with pytest.raises(ValueError, match="other image documents has 1 row with NaN"):
        diagnose(data)


def test_a_fix_writes_them_and_its_search_finds_them(tmp_path):
    paths = {name: tmp_path / f"{name}.npy" for name in ("image", "text", "more")}
    for path, rows in zip(paths.values(), (*with_gap(), OTHERS["image"]), strict=True):
        np.save(path, rows.astype(np.float32))
    folder = tmp_path / "fixed"
    done = modgap(
        "fix", paths["image"], paths["text"], "--documents", f"image={paths['more']}", "-o", folder
    )
    assert done.status == 0
    assert "300 image documents besides the pairs" in done.out
    told = json.loads((folder / "diagnosis.json").read_text())
    assert told["others"]["counts"] == {"image": 300}
    steps = done.out.split("What to do next")[1]
    assert f"with the rows of {paths['more']} in the file of their modality" in steps
    assert f"{folder}/*documents-*.parquet" in steps
    ask = tmp_path / "ask.npy"
    np.save(ask, OTHERS["image"][:2].astype(np.float32))
    answer = script(folder / "search.py", ask, "-k", "1180").out
    assert answer.count("  other ") == 2 * 300
    assert answer.count("  image ") == 2 * 740


def test_evaluate_and_diagnose_take_them_on_the_command_line(tmp_path):
    paths = [str(tmp_path / f"{name}.npy") for name in ("image", "text", "more")]
    for path, rows in zip(paths, (*with_gap(120), OTHERS["image"]), strict=True):
        np.save(path, rows)
    known = modgap("evaluate", *paths[:2], "--json")
    more = modgap("evaluate", *paths[:2], "--documents", f"image={paths[2]}", "--json")
    key = "image_retrieval_recall@1"
    before, after = (done.json["raw"]["metrics"][key]["value"]["value"] for done in (known, more))
    assert after < before
    wrong = modgap("diagnose", *paths[:2], "--documents", paths[2])
    assert wrong.status == 2
    assert "--documents takes NAME=PATH" in wrong.err


def test_captions_of_rows_without_a_match_are_kept():
    X, Y = with_gap(60)
    sides = (
        Embeddings.from_array(X, ids=[f"a{i}" for i in range(60)]),
        Embeddings.from_array(
            Y, ids=[f"a{i}" for i in range(10, 70)], captions=[f"caption {i}" for i in range(60)]
        ),
    )
    held = held_out(Modalities.of(*sides), 0).data.others["text"]
    assert {*held.captions} == {f"caption {i}" for i in range(50, 60)}
