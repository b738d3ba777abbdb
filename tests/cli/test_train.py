"""`modgap train`: presets, settings, resuming, and one sentence when something is wrong."""

from __future__ import annotations

import json
import os
import signal

import pytest

from command_line import everything_in, modgap, refuse, succeed
from fault_worker import training_worker
from modgap.cli import show
from modgap.train import list_presets

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

QUICK = (
    "--set", "train.steps=3", "--set", "train.loggers=[]",
    "--set", "evaluate.save_embeddings=false",
)  # fmt: skip

pytestmark = pytest.mark.xdist_group("train")  # a run that is finished serves several tests


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of three steps, and what it printed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return modgap("train", "digits", "-o", folder, *QUICK), folder


def test_the_list_shows_every_preset_with_its_command():
    ran = succeed("train", "--list")
    for name, about in list_presets().items():
        assert f"{name}\n" in ran.out
        assert about["command"] in ran.out
    assert modgap("train", "--list", "--json").json == list_presets()


def test_the_list_keeps_its_margin_at_80_columns_and_its_commands_in_one_piece(monkeypatch):
    monkeypatch.setattr(show.out, "width", 80)
    lines = succeed("train", "--list").out.splitlines()
    assert all(line.startswith("  ") or line in list_presets() for line in lines if line)
    long = [line.strip() for line in lines if len(line) > 80]
    assert all(line.startswith("command: modgap train ") for line in long)


def test_a_run_prints_its_metrics_and_says_where_it_is(finished):
    ran, folder = finished
    assert ran.status == 0, ran.err
    assert "1,000 images, 5,000 texts" in ran.out
    assert "uniformity (Wasserstein, n = 512)" in ran.out
    assert f"wrote {folder}" in ran.err
    again = succeed("train", "--resume", "-o", folder, "--json")
    assert again.json["schema"] == "modgap/train/2"
    assert (again.json["first_step"], again.json["steps"]) == (3, 3)
    assert "no checkpoint" not in again.err
    assert again.err == f"the run in {folder} was finished already\n"
    assert "loss at the end" not in modgap("train", "--resume", "-o", folder).out


def test_resuming_where_nothing_is_starts_and_says_so(tmp_path):
    ran = succeed("train", "digits", "--resume", "-o", tmp_path / "new", *QUICK)
    assert f"no checkpoint in {tmp_path / 'new'} yet: the run starts at its first step" in ran.err


LONG = ("train", "digits", "--set", "train.epochs=10", "--set", "train.loggers=[]")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert modgap(*LONG, "-o", folder).status == 0
    return folder


def test_ctrl_c_is_one_sentence_and_the_run_goes_on_as_if_it_had_not_been(whole, tmp_path):
    folder = tmp_path / "a run"
    words = [*LONG, "--set", "train.checkpoint_every=5", "-o", folder]
    point = ("modgap.train.run:write_checkpoint+", 2)
    ended = training_worker()(tmp_path, words, point, signal.SIGINT, keep="out.txt")
    assert ended == (
        130,
        "modgap: interrupted; nothing half-written is left, and step-00000011 is kept: go on with "
        f"modgap train --resume -o '{folder}'\n",
    )
    assert (tmp_path / "out.txt").read_text() == ""
    ran = succeed("train", "--resume", "-o", folder, "--json")
    assert ran.json["first_step"] == 11  # the step after the checkpoint was whole, too
    for name in ("model.safetensors", "digits.safetensors"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_that_is_told_to_stop_saves_the_step_it_has_done(whole, tmp_path):
    folder = tmp_path / "run"
    point = ("modgap.train.learner:Learner:set_rates", 7)
    status, _ = training_worker()(tmp_path, [*LONG, "-o", folder], point, signal.SIGTERM)
    assert status == -signal.SIGTERM  # Ctrl-C has a test of its own
    (kept,) = (folder / "checkpoints").iterdir()
    ran = succeed("train", "--resume", "-o", folder, "--json")
    assert ran.json["first_step"] == int(kept.stem.removeprefix("step-")) == 7
    model = "model.safetensors"
    assert (folder / model).read_bytes() == (whole / model).read_bytes()


def test_ctrl_c_before_the_first_checkpoint_says_that_there_is_none(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("modgap.train.loop.load_data", interrupted)
    ran = modgap("train", "digits", "-o", tmp_path / "run", *QUICK)
    assert (ran.status, ran.out) == (130, "")
    assert ran.err == (
        "modgap: interrupted; there is no checkpoint yet, and nothing half-written is left.\n"
    )
    assert everything_in(tmp_path) == set()


def test_batches_larger_than_the_data_are_all_of_it(tmp_path):
    ran = succeed("train", "digits", "-o", tmp_path, "--json", "--set", "train.batch_size=9999",
                 "--set", "train.epochs=2", "--set", "train.loggers=[]")  # fmt: skip
    assert ran.json["steps"] == 2


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are those of POSIX")
def test_a_folder_that_may_not_be_written_to_is_refused_before_any_work(tmp_path, monkeypatch):
    # Root may write anywhere, so the answer of the system is given by hand.
    monkeypatch.setattr(os, "access", lambda *_: False)
    said = refuse("train", "digits", "-o", tmp_path / "run", *QUICK)
    assert said.endswith(f"run cannot be written: {tmp_path} does not allow it.\n")
    assert everything_in(tmp_path) == set()


def test_the_seed_is_an_option(tmp_path):
    ran = modgap("train", "digits", "-o", tmp_path, "--seed", 5, "--json", *QUICK)
    assert ran.json["seed"] == 5
    assert json.loads((tmp_path / "config.json").read_text())["train"]["seed"] == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digts"], "no preset of that name"),
        (["digits", "--set", "epochs=3"], "section.name=value"),
        ([], "Say what to train: a TOML file or a preset"),
        (["--resume"], "Say what to train"),
        (["--resume", "-o", "nowhere"], "There is no run to resume in nowhere"),
        (["flickr8k-baseline", "--set", "data.path=nowhere.parquet"], "--set data.path=PATH"),
        (["digits", "--set", "train.device=gpu"], 'train.device must be "auto", "cpu", "cuda"'),
        (["digits", "-o", "file"], "-o takes a folder to write to, but file is a file"),
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
