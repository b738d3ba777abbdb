"""A modality added to a correction: what a fit of all gives, and what was there stays as it was."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from safetensors.numpy import load_file

from command_line import make_files, refuse, succeed
from modgap.core.checks import InputError
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    ExpectedWrong,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    demands,
    extend,
    refit_background,
    save_corrections,
)
from modgap.corrections.fingerprints import fingerprint
from modgap.io import Embeddings, Modalities

EXTENDED = (
    Calibrate(),
    Calibrate("mixed"),
    Calibrate(hubs=0.5),
    ExpectedWrong(),
    Center(),
    OriginShift(0.5),
    Whiten(),
)


def rows(n=160, d=8, names=("image", "text", "audio")):
    rng = np.random.default_rng(3)
    latent, bases = rng.normal(size=(n, d)), rng.normal(size=(len(names), d))
    return {
        name: latent * (1 + i) + 2 * b for i, (name, b) in enumerate(zip(names, bases, strict=True))
    }


@pytest.fixture
def data():
    return rows()


def two(data):
    return data["image"], data["text"]


@pytest.mark.parametrize("corrector", EXTENDED, ids=lambda one: one.label)
@pytest.mark.parametrize("length", ["unit", "given"])
def test_the_new_map_is_that_of_a_fit_of_all_at_once(corrector, length, data):
    found = extend(
        corrector.fit(*two(data), rows=length).correction_, {"audio": data["audio"][:100]}
    )
    first = {**data, "audio": data["audio"][:100]}
    whole = corrector.fit(Modalities.of(first, paired=False), rows=length).correction_
    assert found.names == whole.names == ("image", "text", "audio")
    assert found.queries == whole.queries
    for name in found.names:
        one, other = found.affine(name), whole.affine(name)
        np.testing.assert_allclose(one(data[name]), other(data[name]), rtol=1e-12)
    assert found.about["fitted_on"] == whole.about["fitted_on"]
    assert found.about["means_sha256"] == whole.about["means_sha256"]


@pytest.mark.parametrize("corrector", EXTENDED, ids=lambda one: one.label)
def test_what_was_there_is_the_same_to_the_last_byte_in_the_file_too(corrector, data, tmp_path):
    before = corrector.fit(*two(data)).correction_
    before.save(tmp_path / "before")
    found = extend(Correction.load(tmp_path / "before"), {"audio": data["audio"]})
    found.save(tmp_path / "after")
    held, now = load_file(tmp_path / "before"), load_file(tmp_path / "after")
    assert {name: now[name].tobytes() for name in held} == {n: t.tobytes() for n, t in held.items()}
    loaded = Correction.load(tmp_path / "after")
    for name in before.names:
        assert np.array_equal(loaded.apply(data[name], name), before.apply(data[name], name))
    for name in before.queries:
        asked = [one.apply(data[name][:5], name, "query") for one in (loaded, before)]
        assert np.array_equal(*asked)
    assert np.array_equal(loaded.apply(data["audio"], "audio"), found.apply(data["audio"], "audio"))


def test_a_file_is_as_good_as_what_was_fitted(data, tmp_path):
    fitted = Calibrate().fit(*two(data)).correction_
    fitted.save(tmp_path / "c")
    first, second = (
        extend(one, {"audio": data["audio"]}).affine("audio")
        for one in (fitted, Correction.load(tmp_path / "c"))
    )
    assert first.scale == pytest.approx(second.scale, rel=1e-6)
    assert len(load_file(tmp_path / "c")["text.fitted.covariance"]) == 8 * 9 // 2
    assert "image.fitted.covariance" not in load_file(tmp_path / "c")


def test_queries_that_are_not_documents_give_the_spread(data):
    asked = {"text": data["text"][:90] + 1.0}
    fitted = Calibrate().fit(*two(data), query_rows=asked).correction_
    found = extend(fitted, {"audio": data["audio"]})
    whole = Calibrate().fit(Modalities.of(data), query_rows=asked).correction_
    assert found.affine("audio").scale == pytest.approx(whole.affine("audio").scale)


def test_two_steps_are_one():
    data = rows(names=("image", "text", "audio", "video"))
    fitted = ExpectedWrong().fit(*two(data)).correction_
    steps = extend(extend(fitted, {"audio": data["audio"]}), {"video": data["video"]})
    once = extend(fitted, {name: data[name] for name in ("audio", "video")})
    assert steps.about == once.about
    assert steps.about["not_judged"] == ["audio", "video"]
    for name, one in steps.background.lists.items():
        assert np.array_equal(one.heights, once.background.lists[name].heights)


@pytest.mark.parametrize("known", [True, False])
def test_matches_of_the_bank_are_left_out_where_ids_say_which_they_are(known, data):
    ids = np.array([f"p{i}" for i in range(160)])
    two_sides = {n: Embeddings.from_array(data[n], ids=ids) for n in ("image", "text")}
    fitted = ExpectedWrong().fit(Modalities.of(two_sides)).correction_
    audio = Embeddings.from_array(data["audio"], ids=ids if known else np.char.add(ids, "x"))
    one = extend(fitted, {"audio": audio}).background.lists["audio"]
    assert (one.matched is None) is known


CLOSED = {
    "OriginShift(0.5, move='x'": OriginShift(0.5, "x"),
    "Shift(0.5)": Shift(),
    "OrthogonalShift('y'": OrthogonalShift(explained_variance=0.5),
    "Procrustes()": Procrustes(),
    "form='blocks'": Calibrate(form="blocks"),
    "form='compromise'": Calibrate(form="compromise"),
}


@pytest.mark.parametrize("corrector", CLOSED.values(), ids=lambda one: one.label)
def test_what_has_no_place_for_another_says_so(corrector, data):
    fitted = corrector.fit(*two(data)).correction_
    with pytest.raises(InputError, match=r"No modality can be added to .*: .*\. Fit all at once: "):
        extend(fitted, {"audio": data["audio"]})


def test_what_cannot_be_added_is_refused_in_one_sentence(data):
    fitted = ExpectedWrong().fit(*two(data)).correction_
    cases = {
        r"must be|NaN|infinity": (fitted, {"audio": np.full((50, 8), np.nan)}),
        "has a map for text already": (fitted, {"text": data["audio"]}),
        "for rows of 8 columns, and audio has 7": (fitted, {"audio": data["audio"][:, 1:]}),
        "at least 6 documents in a list, and audio has 3": (fitted, {"audio": data["audio"][:3]}),
        "contain no dot": (fitted, {"au.dio": data["audio"]}),
        "bank of queries was removed": (fitted.without_bank(), {"audio": data["audio"]}),
        "does not say how it was fitted": (Correction.identity(8), {"audio": data["audio"]}),
        "no spread": (Calibrate().fit(*two(data)).correction_, {"audio": np.ones((50, 8))}),
    }
    for said, (correction, added) in cases.items():
        with pytest.raises(InputError, match=said):
            extend(correction, added)


def test_the_command_adds_a_modality_and_says_what_was_not_judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = make_files(tmp_path)
    np.save("audio.npy", X[:200] + 1)
    succeed("fit", "image.npy", "text.npy", "--method", "expected-wrong")
    held = (tmp_path / "correction.safetensors").read_bytes()
    said = succeed("fit", "--extend", "correction.safetensors", "audio=audio.npy").err
    assert "wrote extended.safetensors" in said
    assert "not tested: whether text queries find the right audio documents" in said
    assert (tmp_path / "correction.safetensors").read_bytes() == held
    found = Correction.load("extended.safetensors")
    assert "  not judged audio, added later" in demands(found)
    for line in said.splitlines():
        if "modgap apply" in line:
            succeed(*line[line.index("modgap ") + 7 :].split())
    assert np.load("audio-documents.npy").shape == (200, found.dim_out)


def test_the_command_refuses_what_does_not_go_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    succeed("fit", "image.npy", "text.npy")
    extending = ("fit", "--extend", "correction.safetensors")
    assert "Give the PATH" in refuse("fit") or "Missing argument" in refuse("fit")
    assert "NAME=PATH" in refuse(*extending, "image.npy")
    assert "text twice" in refuse(*extending, "text=text.npy", "text=image.npy")
    assert "belongs to a fit" in refuse(*extending, "audio=image.npy", "--method", "center")
    assert "--names" in refuse(*extending, "audio=image.npy", "--names", "a,b")
    assert "being read" in refuse(*extending, "audio=image.npy", "-o", "correction.safetensors")
    assert "no correction at" in refuse("fit", "--extend", "none", "audio=image.npy")


def test_corrections_for_several_queries_are_extended_together(tmp_path, data):
    made = {n: Calibrate().fit(*two(data), queries=n).correction_ for n in ("image", "text")}
    (tmp_path / "made").mkdir()
    save_corrections(made, tmp_path / "made" / "correction.safetensors")
    np.save(tmp_path / "audio.npy", data["audio"])
    out = tmp_path / "extended.safetensors"
    succeed("fit", "--extend", tmp_path / "made", f"audio={tmp_path}/audio.npy", "-o", out)
    for name in made:
        found = Correction.load(tmp_path / f"extended-{name}.safetensors")
        assert (found.names[2], found.queries) == ("audio", (name,))


def same_lists(one, other):
    for name, known in one.background.lists.items():
        for part in fields(known):
            values = (getattr(of, part.name) for of in (known, other.background.lists[name]))
            np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("keyed", ["row", "id", "group"])
def test_a_background_fitted_again_to_the_same_documents_is_the_same(keyed, data):
    sides = {name: Embeddings.from_array(data[name]) for name in ("image", "text")}
    if keyed == "id":
        sides = {name: side.with_column("ids", np.arange(160)) for name, side in sides.items()}
    groups = dict.fromkeys(sides, np.arange(160) // 2) if keyed == "group" else None
    fitted = ExpectedWrong().fit(Modalities.of(sides, groups=groups)).correction_
    assert fitted.hubs.keyed_by == keyed
    given = {name: side.with_column("groups", np.arange(160) // 2) for name, side in sides.items()}
    same_lists(refit_background(fitted, given if groups else sides), fitted)


def test_a_background_fitted_again_changes_nothing_that_documents_are_made_by(data):
    fitted = ExpectedWrong().fit(*two(data)).correction_
    found = refit_background(fitted, {"text": data["text"][:100] + 1})
    assert fingerprint(found) == fingerprint(fitted)
    assert found.background.lists["image"] is fitted.background.lists["image"]
    assert found.background.lists["text"].n_documents == 100
    cases = {
        "has no background": (Calibrate().fit(*two(data)).correction_, {"text": data["text"]}),
        "bank of queries was removed": (fitted.without_bank(), {"text": data["text"]}),
        "modality must be one of": (fitted, {"txt": data["text"]}),
        "at least 6 documents": (fitted, {"text": data["text"][:3]}),
    }
    for said, (correction, rows) in cases.items():
        with pytest.raises(InputError, match=said):
            refit_background(correction, rows)


def test_the_command_fits_a_background_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, Y = make_files(tmp_path)
    np.save("now.npy", X[100:])
    succeed("fit", "image.npy", "text.npy", "--method", "expected-wrong")
    again = ("fit", "--refit", "correction.safetensors", "image=now.npy", "text=text.npy")
    assert "wrote refitted.safetensors" in succeed(*again).err
    before, after = (Correction.load(f"{name}.safetensors") for name in ("correction", "refitted"))
    assert after.background.lists["image"].n_documents == len(X) - 100
    same_lists(refit_background(before, {"image": X[100:], "text": Y}), after)
    assert "one of them" in refuse(*again, "--extend", "correction.safetensors")
    assert "belongs to a fit; --refit" in refuse(*again, "--method", "center")
    assert "being read" in refuse(*again, "-o", "correction.safetensors")
