"""Corrections that ship with modgap: they serve rows of their model, and refuse those of others."""

from __future__ import annotations

import numpy as np
import pytest

from command_line import modgap
from conftest import load_published
from modgap import Correction, open_embeddings
from modgap.core.checks import InputValueError
from modgap.corrections import PRESETS, Calibrate, RecognitionWarning, open_preset, recognise
from modgap.corrections.presets import FOLDER
from modgap.diagnosis import fix


def rows_like_fitted(name, seed, n=200):
    """Rows with the mean and variances of those that a preset was fitted on."""
    rng = np.random.default_rng(seed)
    return {
        side: (one.mean + np.sqrt(one.variance) * rng.normal(size=(n, 512))).astype(np.float32)
        for side, one in open_preset(name).fitted.items()
    }


def rotated(rows, seed):
    """The same rows as another model might have them: turned at random."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(512, 512)))
    return {side: one @ turn.astype(np.float32) for side, one in rows.items()}


def test_the_names_are_those_of_the_files():
    assert {path.stem for path in FOLDER.glob("*.safetensors")} == {*PRESETS}
    for name in PRESETS:
        assert open_preset(name).about["preset"] == name
        assert open_preset(f"modgap/{name}").about == open_preset(name).about


@pytest.mark.published
def test_a_preset_is_calibrate_fitted_on_what_it_names(published_unsplash):
    ours = open_preset("clip-vit-b-32-captions")
    fitted = Calibrate().fit(*published_unsplash, queries="text").correction_
    for side, rows in zip(("image", "text"), published_unsplash, strict=True):
        np.testing.assert_allclose(ours.apply(rows, side), fitted.apply(rows, side), rtol=1e-6)


@pytest.mark.published
def test_rows_of_clip_b16_are_refused_by_the_preset_of_b32_and_the_other_way(published_unsplash):
    b16 = load_published("features_clip.npy")
    for name, foreign in zip(PRESETS, (published_unsplash, b16), strict=True):
        for side, rows in zip(("image", "text"), foreign, strict=True):
            assert recognise(open_preset(name), rows, side).refused


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.long) for name in PRESETS[:-1]), PRESETS[-1]]
)
def test_rows_like_the_fitted_ones_are_taken_and_rows_of_another_model_refused(name):
    preset = open_preset(name)
    for seed in range(20):
        rows = rows_like_fitted(name, seed)
        for side, one in rows.items():
            assert not recognise(preset, one, side).refused
        for side, one in rotated(rows, seed).items():
            assert recognise(preset, one, side).refused


def test_fix_with_a_preset_needs_no_pairs_and_judges_nothing(tmp_path):
    name = PRESETS[1]
    rows = rows_like_fitted(name, 0)
    image, text = rows["image"][:150], rows["text"][:80]
    done = fix(image, text, tmp_path / "fixed", preset=name)
    written = {path.name for path in (tmp_path / "fixed").iterdir()}
    assert not done.diagnoses
    assert not [file for file in written if file.startswith(("diagnosis", "report"))]
    assert not [step for step in done.next_steps if "report" in step]
    assert "neither fitted nor tested" in (tmp_path / "fixed" / "README.md").read_text()
    stored = open_embeddings(tmp_path / "fixed" / "documents-text.parquet", column="embedding")
    np.testing.assert_allclose(stored.rows(), open_preset(name).apply(text, "text"), atol=1e-5)
    kept = Correction.load(tmp_path / "fixed" / "correction.safetensors")
    assert kept.about["preset"] == name


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ({}, {"preset": "clip"}, "preset must be one of"),
        ({}, {"queries": "image"}, "serves text queries, not image queries"),
        ({}, {"goal": "robust"}, "leave out bank, goal and metric"),
        ({}, {"bank": np.ones((200, 512), np.float32)}, "leave out bank, goal and metric"),
        ({"audio": "image", "image": None}, {}, "is for image and text"),
        ({"columns": 256}, {}, "512 columns, and image has 256"),
        ({"swapped": True}, {}, "files may be swapped"),
        ({"rotated": True}, {}, "are of another model"),
    ],
)
def test_what_a_preset_does_not_serve_is_refused_in_a_sentence(tmp_path, given, options, said):
    rows = rows_like_fitted(PRESETS[0], 1)
    if given.get("swapped"):
        rows = {"image": rows["text"], "text": rows["image"]}
    if given.get("rotated"):
        rows = rotated(rows, 1)
    if "columns" in given:
        rows = {side: one[:, : given["columns"]] for side, one in rows.items()}
    if "audio" in given:
        rows = {"audio": rows["image"], "text": rows["text"]}
    with pytest.raises(InputValueError, match=said):
        fix(rows, None, tmp_path / "fixed", **{"preset": PRESETS[0]} | options)
    assert not (tmp_path / "fixed").exists()


def test_documents_of_another_kind_are_warned_of(tmp_path):
    rows = rows_like_fitted(PRESETS[0], 2)
    fitted = open_preset(PRESETS[0]).fitted
    towards = 0.3 * (fitted["text"].mean - fitted["image"].mean)
    rows["image"] += towards.astype(np.float32)
    with pytest.warns(RecognitionWarning, match="unlike those"):
        fix(rows, None, tmp_path / "fixed", preset=PRESETS[0])


def test_the_command_says_what_the_preset_was_fitted_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for side, rows in rows_like_fitted(PRESETS[1], 3).items():
        np.save(f"{side}.npy", rows)
    done = modgap("fix", "image.npy", "text.npy", "--preset", PRESETS[1], "-o", "fixed")
    assert done.status == 0
    assert "500 photos of Unsplash and their captions" in " ".join(done.out.split())
