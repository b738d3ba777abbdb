"""``modgap task``: rows or a model and data, tables, JSON, figure, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import modgap, refuse, succeed
from item_files import write
from modgap.tasks import sweep_task, zero_shot_task
from task_rows import colour_model, planted, write_photos


@pytest.fixture
def folder(tmp_path):
    return write_photos(tmp_path / "photos")


@pytest.fixture
def model():
    return colour_model()


@pytest.fixture
def files(tmp_path):
    return write_rows(tmp_path)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """What the command finds on these rows, run once."""
    ran = zero_shot(write_rows(tmp_path_factory.mktemp("rows")), "--json")
    assert (ran.status, ran.err) == (0, "")
    return ran.json


def write_rows(folder):
    for name, rows in zip(("image", "classes", "labels"), planted(), strict=True):
        np.save(folder / f"{name}.npy", rows)
    return folder


def zero_shot(files, *more):
    return modgap("task", "zero_shot", files / "image.npy", "--class-text", files / "classes.npy",
                  "--labels", files / "labels.npy", *more)  # fmt: skip


def test_zero_shot_prints_what_the_function_finds(files, swept):
    expected = sweep_task(zero_shot_task(*planted()))
    assert swept["schema"].startswith("modgap/task/")
    assert swept["task"] == "zero_shot"
    assert swept["raw"] == expected.raw.to_dict()
    assert swept["chosen"] == expected.chosen.to_dict()
    assert swept["published"][0]["value"] == 0.9081
    told = zero_shot(files)
    assert told.status == 0
    for words in ("as they are", "Shift", "hubs, k = 5", "Not tried: Procrustes", "table 1"):
        assert words in told.out
    assert expected.sentence in told.out


def test_a_name_with_a_dash_means_the_same_and_a_seed_another_half(files, swept):
    rows = (files / "image.npy", "--class-text", files / "classes.npy", "--labels",
            files / "labels.npy", "--json")  # fmt: skip
    other = modgap("task", "zero-shot", *rows, "--seed", 1).json
    assert other["raw"]["value"]["value"] == swept["raw"]["value"]["value"]
    assert other["chosen"]["result"] != swept["chosen"]["result"]


def test_a_figure_and_the_json_are_written(files):
    pytest.importorskip("matplotlib")
    ran = zero_shot(files, "-o", files / "out")
    assert ran.status == 0
    assert sorted(path.name for path in (files / "out").iterdir()) == [
        "zero_shot.json", "zero_shot.png",
    ]  # fmt: skip
    assert json.loads((files / "out" / "zero_shot.json").read_text())["task"] == "zero_shot"
    assert (files / "out" / "zero_shot.png").read_bytes().startswith(b"\x89PNG")


def test_rows_to_fit_on_and_a_bank_can_be_given(files):
    X, texts, _ = planted(80, seed=0)
    np.save(files / "other.npy", X + 0.001)
    np.save(files / "other_text.npy", texts)
    ran = zero_shot(files, "--json", "--fit-on", files / "other.npy", "--fit-on",
                    files / "other_text.npy", "--bank", files / "other.npy")  # fmt: skip
    assert ran.status == 0
    assert ran.json["fitted_on"] == "80 image and 12 text reference rows"


def test_labels_may_be_names_with_a_list_of_classes(files, swept):
    labels = np.load(files / "labels.npy")
    (files / "names.txt").write_text("\n".join(f"class {k}" for k in labels))
    (files / "classes.txt").write_text("\n".join(f"class {k}" for k in range(12)))
    rows = ("task", "zero_shot", files / "image.npy", "--class-text", files / "classes.npy",
            "--labels", files / "names.txt")  # fmt: skip
    named = modgap(*rows, "--classes", files / "classes.txt", "--json")
    assert named.json["raw"] == swept["raw"]
    said = refuse(*rows)
    assert "--classes must say" in said
    (files / "classes.txt").write_text("class 0\nclass 1")
    assert "is not a class of" in modgap(*rows, "--classes", files / "classes.txt").err


def test_a_model_and_pictures_by_class(folder, model, monkeypatch):
    monkeypatch.setattr("modgap.embed.open_model", lambda name, device: model)
    write(folder / "red" / "broken.png", b"no picture")
    words = ("task", "zero_shot", "--model", "hf:any", "--data", folder, "--json")
    ran = succeed(*words, "--template", "itap of a {}.", "--template", "a origami {}.")
    assert ran.json["raw"]["value"]["value"] == 1.0
    assert ran.json["classes"] == ["blue", "light_green", "red"]
    assert "1 of 31 items cannot be used" in ran.err
    assert "broken.png" in ran.err
    listed = write(folder.parent / "templates.txt", b"itap of a {}.\na origami {}.\n")
    assert succeed(*words, "--templates", listed).json == ran.json
    assert succeed(*words).json != ran.json


def test_a_probe_on_rows_and_on_a_model(files, folder, model, monkeypatch):
    ran = succeed("task", "linear_probe", files / "image.npy", "--labels", files / "labels.npy",
                 "--text", files / "classes.npy", "--train-share", 0.6, "--json")  # fmt: skip
    assert (ran.json["n_train"], ran.json["n_items"]) == (144, 96)
    monkeypatch.setattr("modgap.embed.open_model", lambda name, device: model)
    by_model = succeed("task", "linear_probe", "--model", "hf:any", "--data", folder, "--json")
    assert by_model.json["n_train"] == 15
    for split in ("train", "test"):
        for label in ("red", "blue"):
            for k in range(6):
                source = folder / label / f"{k if split == 'train' else 9 - k}.png"
                write(folder.parent / "split" / split / label / f"{k}.png", source.read_bytes())
    by_split = modgap("task", "linear_probe", "--model", "hf:any", "--data",
                      folder.parent / "split", "--json")  # fmt: skip
    assert (by_split.json["n_train"], by_split.json["n_items"]) == (12, 12)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zero_shot"], "Give the ROWS of the items, or --model and --data."),
        (["zero_shot", "{f}/image.npy"], "Rows from files need --class-text and --labels, too."),
        (["zero_shot", "--model", "hf:x"], "Give the ROWS"),
        (["zero_shot", "--labels", "x", "--model", "a", "--data", "b"], "--labels is for ROWS"),
        (["zero_shot", "{f}/image.npy", "--model", "hf:x"], "--model is for"),
        (["linear_probe", "{f}/image.npy", "--labels", "{f}/labels.npy"], "need --text, too"),
    ],
)
def test_bad_input_is_one_sentence(files, words, said):
    told = refuse("task", *(word.replace("{f}", str(files)) for word in words))
    assert said in told
