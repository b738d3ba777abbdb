"""`modgap train`: presets, settings, resuming, and one sentence when something is wrong."""

from __future__ import annotations

import json

import pytest

from command_line import everything_in, modgap
from modgap.train.config import list_presets

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

QUICK = (
    "--set", "train.steps=3", "--set", "train.log=[]", "--set", "evaluate.save_embeddings=false",
)  # fmt: skip


def test_the_list_shows_every_preset_with_its_command():
    ran = modgap("train", "--list")
    assert ran.status == 0
    for name, about in list_presets().items():
        assert f"{name}\n" in ran.out
        assert about["command"] in ran.out
    assert modgap("train", "--list", "--json").json == list_presets()


def test_a_run_prints_its_figures_and_says_where_it_is(tmp_path):
    ran = modgap("train", "digits", "-o", tmp_path / "run", *QUICK)
    assert ran.status == 0, ran.err
    assert "1,000 images, 5,000 texts" in ran.out
    assert "uniformity (Wasserstein, n = 512)" in ran.out
    assert f"wrote {tmp_path / 'run'}" in ran.err
    again = modgap("train", "--resume", "-o", tmp_path / "run", "--json")
    assert again.status == 0, again.err
    assert again.json["schema"] == "modgap/train/1"
    assert (again.json["first_step"], again.json["steps"]) == (3, 3)


def test_the_seed_is_an_option(tmp_path):
    ran = modgap("train", "digits", "-o", tmp_path, "--seed", 5, "--json", *QUICK)
    assert ran.json["seed"] == 5
    assert json.loads((tmp_path / "config.json").read_text())["train"]["seed"] == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digts"], "no preset of that name"),
        (["digits", "--set", "train.epoch=3"], "Did you mean 'epochs'?"),
        (["digits", "--set", "epochs=3"], "section.name=value"),
        ([], "Say what to train: a TOML file or a preset"),
        (["--resume"], "Say what to train"),
        (["--resume", "-o", "nowhere"], "There is no run to resume in nowhere"),
        (["flickr8k-baseline", "--set", "data.path=nowhere.parquet"], "--set data.path=PATH"),
        (["digits", "--set", "train.device=gpu"], 'train.device must be "auto", "cpu", "cuda"'),
        (["digits", "-o", "file"], "-o takes a folder to write to, but file is a file"),
        (["digits", "--set", "model.name=digit"], "Did you mean 'digits'?"),
        (["digits", "--set", "model.weights=nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_leaves_nothing(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    ran = modgap("train", *words)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("modgap: ")
    assert ran.err.count("\n") == 1
    assert sentence in ran.err
    assert everything_in(tmp_path) == {"file"}


def test_a_folder_that_holds_a_run_is_left_alone(tmp_path):
    assert modgap("train", "digits", "-o", tmp_path, *QUICK).status == 0
    before = everything_in(tmp_path)
    ran = modgap("train", "digits", "-o", tmp_path, *QUICK)
    assert ran.status == 2
    assert "holds a run already. Go on with it by --resume" in ran.err
    assert everything_in(tmp_path) == before


@pytest.mark.filterwarnings("default")
def test_a_broken_checkpoint_is_a_warning_and_the_run_goes_on(tmp_path):
    words = ("train", "digits", "-o", tmp_path, "--set", "train.checkpoint_every=2", *QUICK)
    assert modgap(*words).status == 0
    newest = sorted((tmp_path / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    ran = modgap(*words, "--resume")
    assert ran.status == 0, ran.err
    assert "modgap: warning: " in ran.err
    assert "is broken: it cannot be read" in ran.err
    assert "Going on from step-00000002.safetensors" in ran.err


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def no_space(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", no_space)
    ran = modgap("train", "digits", "-o", tmp_path, *QUICK)
    assert ran.status == 2
    assert "No space left on device. There is none before it." in ran.err
    assert ran.err.count("\n") == 1
