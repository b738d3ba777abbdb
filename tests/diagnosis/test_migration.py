"""Queries of a new model among old documents: what the verdict says, and what is written."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import load_published
from modgap import Modalities
from modgap.core.checks import InputError
from modgap.corrections import Background, Calibrate, Center, Correction, ExpectedWrong
from modgap.corrections.fingerprints import fingerprint
from modgap.diagnosis import migrate
from modgap.io import Embeddings

KEYS = ("image", "text")


def pairs(n=480, d=12, seed=0, noise=0.5):
    """Pairs of an old model, with a gap."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, d))
    X, Y = (latent + noise * rng.normal(size=(n, d)) for _ in KEYS)
    return {"image": (X + 2).astype(np.float32), "text": (Y - 2).astype(np.float32)}


def another(rows, width=16, seed=1, noise=0.05):
    """The same items by a model that turns, widens and disturbs the rows of each modality alike."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(width, rows["image"].shape[1])))[0].T
    return {name: one @ basis + noise * rng.normal(size=(len(one), width)) for name, one in
            rows.items()}  # fmt: skip


def unrelated(rows, width=16, seed=1):
    """A model that knows nothing of the items, with a gap and pairs of its own."""
    return another(pairs(len(rows["text"]), seed=seed + 1000), width, seed)


OLD = pairs()
NEW = another(OLD)


@pytest.mark.parametrize("corrector", [None, Calibrate(), ExpectedWrong()], ids=str)
def test_a_related_model_is_used_with_one_file_for_old_documents_and_new_queries(corrector):
    fitted = corrector and corrector.fit(OLD["image"], OLD["text"]).correction_
    found = migrate(OLD, NEW, fitted)
    assert found.verdict == "use"
    assert found.sentence.startswith(f"Use {found.method}: new text queries keep ")
    (kept,) = found.recall.values()
    assert 0.8 <= kept.share.low <= kept.share.value <= kept.share.high
    assert found.dims == (12, 16)
    correction = found.correction
    assert correction.queries == ("text",)
    asked = correction.apply(NEW["text"], "text", "query")
    documents = (fitted or correction).apply(OLD["image"], "image")
    assert asked.shape[1] == documents.shape[1]
    if fitted:
        assert fingerprint(correction) == fingerprint(fitted)
        assert (correction.background is None) == (fitted.background is None)
    lists = {f"{age} {name}" for age in ("old", "new") for name in KEYS}
    assert {name for name in found.background.lists if "." not in name} == lists


def test_a_model_that_is_the_old_one_keeps_all_and_gains_nothing():
    found = migrate(OLD, OLD)
    (kept,) = found.recall.values()
    assert found.verdict == "use"
    assert kept.share.value == pytest.approx(1, abs=0.03)
    assert abs(kept.change.value) <= 0.02
    assert found.own_rows.value == 1


def test_recall_is_that_of_loops_over_the_confirm_split():
    found = migrate(OLD, NEW)
    # The same splits, by their definition.
    rng = np.random.default_rng(0)
    order = rng.permutation(rng.permutation(480))
    fit, confirm = order[:240], order[360:]
    from modgap.corrections.new_model import MAP_METHODS, QueryMaps

    (method,) = [one for one in MAP_METHODS if str(one) == found.method]
    maps = QueryMaps(
        Correction.identity(12, queries="text"),
        *(
            {name: Embeddings.from_array(one[np.sort(fit)]) for name, one in rows.items()}
            for rows in (OLD, NEW)
        ),
    )
    mapped = maps.affine(method)(NEW["text"])

    def first(query):
        cosines = [
            query @ OLD["image"][j] / np.linalg.norm(query) / np.linalg.norm(OLD["image"][j])
            for j in confirm
        ]
        return confirm[int(np.argmax(cosines))]

    before = np.mean([first(OLD["text"][i]) == i for i in confirm])
    after = np.mean([first(mapped[i]) == i for i in confirm])
    (kept,) = found.recall.values()
    assert kept.before.value == pytest.approx(before)
    assert kept.after.value == pytest.approx(after)
    assert kept.share.value == pytest.approx(after / before)


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 50))]
)
def test_an_unrelated_model_is_refused(seed):
    found = migrate(pairs(seed=seed), unrelated(OLD, seed=seed), seed=seed)
    assert found.verdict == "leave it alone"
    assert found.sentence.startswith("Leave it alone: 80% of recall@1 must be kept")
    assert "not the same rows in the same order" in found.sentence
    assert found.correction is found.new_correction is found.background is None


def test_rows_in_another_order_are_refused():
    order = np.random.default_rng(5).permutation(480)
    found = migrate(OLD, {name: rows[order] for name, rows in NEW.items()})
    assert found.verdict == "leave it alone"


def test_a_map_that_keeps_too_little_is_refused_and_one_may_ask_for_less():
    weak = another(OLD, noise=0.9)
    found = migrate(OLD, weak)
    (kept,) = found.recall.values()
    assert found.verdict == "leave it alone"
    assert 0.1 < kept.share.low < 0.8
    assert migrate(OLD, weak, keep=kept.share.low - 0.01).verdict == "use"


@pytest.mark.parametrize(
    ("n", "paired", "verdict"), [(200, None, "not enough pairs"), (480, False, "no pairs")]
)
def test_what_cannot_be_judged_is_offered_where_rows_find_their_own(n, paired, verdict):
    old, new = ({name: rows[:n] for name, rows in one.items()} for one in (OLD, NEW))
    found = migrate(old, new, paired=paired)
    assert found.verdict == verdict
    assert found.own_rows.low > 0.5
    assert found.correction is not None
    assert "With more pairs it can be judged how much recall is kept" in found.sentence
    strange = migrate(old, {name: rows[:n] for name, rows in unrelated(old).items()}, paired=paired)
    assert strange.verdict == "leave it alone"


@given(st.integers(0, 2**32), st.integers(100, 480))
@settings(deadline=None, max_examples=5)
def test_rows_of_equal_ids_are_the_same_rows(seed, n):
    """Whatever the order and however few the new model embedded."""
    rng = np.random.default_rng(seed)
    ids = np.array([f"item {i}" for i in range(480)])
    some = rng.permutation(480)[:n]
    old = {name: Embeddings.from_array(rows, ids=ids) for name, rows in OLD.items()}
    new = {name: Embeddings.from_array(rows[some], ids=ids[some]) for name, rows in NEW.items()}
    there = np.sort(some)
    wanted = migrate(*({name: rows[there] for name, rows in one.items()} for one in (OLD, NEW)))
    found = migrate(old, new)
    assert json.dumps(found.to_dict()) == json.dumps(wanted.to_dict())


def test_captions_of_one_photo_are_one_group():
    """Photos given once and five captions each, by groups."""
    group = np.repeat(np.arange(480), 2)
    rng = np.random.default_rng(0)
    old, new = (
        {
            "image": rows["image"],
            "text": rows["text"][group] + 0.05 * rng.normal(size=(960, rows["text"].shape[1])),
        }
        for rows in (OLD, NEW)
    )
    found = migrate(old, new, groups={"image": np.arange(480), "text": group})
    assert found.verdict == "use"
    assert found.counted == "groups"
    assert found.n_groups == {"fit": 240, "choose": 120, "confirm": 120}


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({n: r[:400] for n, r in NEW.items()}, "got 480 of the old one and 400 of the new one"),
        ({"image": NEW["image"], "audio": NEW["text"]}, "same modalities, got image and text of"),
        ({"image": NEW["text"], "text": NEW["image"]}, "rows of the new model may be swapped"),
        ({n: np.ones_like(r) for n, r in NEW.items()}, "rows are all alike"),
        ({n: np.where(r > 3, np.nan, r) for n, r in NEW.items()}, "NaN"),
        ({n: r[:0] for n, r in NEW.items()}, "no rows|at least one row|empty"),
    ],
)
def test_new_rows_that_cannot_be_used_are_refused(new, message):
    with pytest.raises(InputError, match=message):
        migrate(OLD, new)


def test_what_does_not_belong_to_the_old_rows_is_refused():
    fitted = Calibrate().fit(OLD["image"], OLD["text"]).correction_
    with pytest.raises(InputError, match="rows of 12 columns, got 16"):
        migrate(NEW, OLD, fitted)
    renamed = Calibrate().fit(OLD["image"], OLD["text"], names=("image", "sound"), queries="image")
    with pytest.raises(InputError, match="The correction is for image and sound"):
        migrate(OLD, NEW, renamed.correction_, queries="image")
    with pytest.raises(InputError, match="serves text queries, not image"):
        migrate(OLD, NEW, fitted, queries="image")
    with pytest.raises(InputError, match="keep must be above 0"):
        migrate(OLD, NEW, keep=0)
    with pytest.raises(InputError, match="look unpaired"):
        migrate({**OLD, "text": OLD["text"][::-1]}, NEW)
    with pytest.raises(InputError, match="480 image rows and 400 text rows cannot be paired"):
        migrate({**OLD, "text": OLD["text"][:400]}, NEW)
    repeated = {n: Embeddings.from_array(r, ids=[*range(470), *range(10)]) for n, r in OLD.items()}
    other = {n: Embeddings.from_array(r, ids=range(480)) for n, r in NEW.items()}
    with pytest.raises(InputError, match="Ids of the image rows of the old model are not unique"):
        migrate(Modalities.of(repeated, groups={n: np.arange(480) for n in KEYS}), other)


def test_the_new_correction_may_be_given():
    for fresh in (Center().fit(*NEW.values()), Calibrate(hubs=0.5).fit(*NEW.values())):
        found = migrate(OLD, NEW, new_correction=fresh.correction_)
        assert fingerprint(found.new_correction) == fingerprint(fresh.correction_)
        assert found.new_correction.queries == ("text",)
        assert found.verdict == "use"


def test_the_sample_bounds_what_is_looked_at_and_the_seed_decides():
    found = migrate(OLD, NEW, sample=420)
    assert sum(found.n_groups.values()) == 420
    assert found.to_dict() == migrate(OLD, NEW, sample=420).to_dict()


def test_what_is_written_is_read_again_and_replaced_as_one(tmp_path):
    found = migrate(OLD, NEW, Calibrate().fit(OLD["image"], OLD["text"]).correction_)
    folder = tmp_path / "moving"
    files = found.save(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "background.safetensors", "correction.safetensors", "migration.json", "new.safetensors"
    ]  # fmt: skip
    assert len(files) == 4
    loaded = Correction.load(folder / "correction.safetensors")
    asked = loaded.apply(NEW["text"], "text", "query")
    np.testing.assert_array_equal(asked, found.correction.apply(NEW["text"], "text", "query"))
    assert {*Background.load(folder / "background.safetensors").lists} == {*found.background.lists}
    # The files of an earlier run are never left beside a verdict that has none.
    no = migrate(OLD, unrelated(OLD))
    no.save(folder)
    assert [path.name for path in folder.iterdir()] == ["migration.json"]
    assert json.loads((folder / "migration.json").read_text())["verdict"] == "leave it alone"
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files that modgap migrate did not write"):
        found.save(folder)


@pytest.mark.published
def test_clip_cut_to_fewer_columns_serves_and_random_weights_do_not(published_clip):
    X, Y = published_clip
    *_, directions = np.linalg.svd(np.concatenate([X, Y]), full_matrices=False)
    cut = {name: rows @ directions[:200].T for name, rows in zip(KEYS, (X, Y), strict=True)}
    old = {"image": X, "text": Y}
    assert migrate(old, cut).verdict == "use"
    random = dict(zip(KEYS, load_published("features_clip_random.npy"), strict=True))
    assert migrate(old, random).verdict == "leave it alone"
    found = migrate(old, cut, replace(ExpectedWrong().fit(X, Y).correction_))
    assert found.verdict == "use"
    assert found.ndcg.after.value > 0.9 * found.ndcg.before.value
