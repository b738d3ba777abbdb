"""Killed, out of disk, damaged: a run goes on exactly as if nothing had happened, or says why."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from training import bars_config, digits_config, same_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import checkpoint as checkpoint_module  # noqa: E402
from modgap.train import train  # noqa: E402
from modgap.train.checkpoint import (  # noqa: E402
    CheckpointError,
    checkpoints,
    load_optimiser,
    named,
    optimiser_tensors,
    read_checkpoint,
    read_newest,
    write_checkpoint,
)
from training_worker import KILLED  # noqa: E402


class Killed(BaseException):
    """Nobody catches this: the loop ends where it stands, as after a kill."""


def kill_at(step: int):
    def hook(state):
        if state.step == step:
            raise Killed

    return hook


@pytest.fixture(scope="module")
def finished(digits, tmp_path_factory) -> Path:
    """A run of four steps with checkpoints at 2 and 4, resumed where there was none."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    done = train(digits_config(), output=folder, resume=True, data=digits)
    assert (done.first_step, len(done.losses)) == (0, 4)
    return folder


@pytest.fixture
def run(finished, tmp_path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def losses(folder: Path) -> dict[int, float]:
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}


SECTIONS = {
    # Augmentation, a learned temperature and a swap: everything that draws or remembers.
    "clip": {"temperature": {"name": "baseline"}, "swap": {"kind": "soft", "probability": 0.5}},
    "batch norm, in parts": {"model": {"name": "resnet-tiny"}, "train": {"accumulation_steps": 2}},
}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_killed_and_resumed_run_ends_with_the_same_losses_and_weights(
    name, bars, bars_data, tmp_path
):
    config = bars_config(bars, **SECTIONS[name])
    whole = train(config, output=tmp_path / "whole", data=bars_data)
    # Kills right after a checkpoint, before the next, and within the last epoch.
    for step in (5, 7, 14):
        with pytest.raises(Killed):
            train(
                config, output=tmp_path / "broken", data=bars_data, hooks=[kill_at(step)],
                resume=step > 5,
            )  # fmt: skip
    resumed = train(config, output=tmp_path / "broken", resume=True, data=bars_data)
    assert resumed.first_step == 12
    assert resumed.losses == whole.losses[12:]
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert same_weights(tmp_path / "broken", tmp_path / "whole")
    assert resumed.evaluation == whole.evaluation


def test_a_run_stopped_before_its_first_checkpoint_starts_again_and_dropout_goes_on(
    digits, finished, tmp_path
):
    begun = tmp_path / "checkpoints" / ".modgap-01234567-0123456789abcdef"
    for step in (1, 3):
        with pytest.raises(Killed):
            train(digits_config(), output=tmp_path, data=digits, hooks=[kill_at(step)])
    begun.mkdir()  # what a killed process had begun to write
    (begun / "new.safetensors").write_bytes(b"half")
    assert train(digits_config(), output=tmp_path, resume=True, data=digits).first_step == 2
    assert same_weights(tmp_path, finished)
    assert not begun.exists()


@pytest.mark.xdist_group("train")
def test_a_process_killed_at_any_moment_resumes_to_the_same_weights(processes, digits, tmp_path):
    out, whole = shutil.copytree(processes / "killed", tmp_path / "killed"), tmp_path / "whole"
    after = int((processes / "after").read_text())
    resumed = train(KILLED, output=out, resume=True, data=digits)
    assert resumed.first_step >= after - 1, f"killed after step {after}"
    train(KILLED, output=whole, data=digits)
    assert same_weights(out, whole)
    assert losses(out) == losses(whole)


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_finished_run_that_is_resumed_stays_as_it_is(digits, run):
    before = files(run)
    assert len(json.loads(before[run / "result.json"])["losses"]) == 4
    again = train(digits_config(), output=run, resume=True, data=digits)
    assert (again.first_step, again.losses) == (4, ())
    assert files(run) == before
    # What moves no weight may change.
    more = digits_config(train={"log_every": 3, "keep_checkpoints": 7}, evaluate={"pairs": 9})
    assert train(more, output=run, resume=True, data=digits).evaluation.n_pairs == 9


@pytest.mark.parametrize(
    ("resume", "settings", "change", "said"),
    [
        (False, {}, lambda d: d, r"holds a run already\. Go on with it by --resume"),
        (
            True,
            {"learning_rate": 0.5},
            lambda d: d,
            r"other settings: train\.learning_rate \(0\.001, now 0\.5\)\. Resume it",
        ),
        (
            True,
            {},
            lambda d: dataclasses.replace(d, test=d.train),
            r"has \[160, 40\] images .* holds \[160, 160\]\. Resume",
        ),
        (
            True,
            {},
            lambda d: dataclasses.replace(
                d, train=dataclasses.replace(d.train, pixels=16 - d.train.pixels)
            ),
            "but the data holds others",
        ),
    ],
    ids=["no resume", "settings", "fewer images", "as many other images"],
)
def test_another_run_is_not_written_over_a_run(resume, settings, change, said, digits, finished):
    before = files(finished)
    config = digits_config(train=settings)
    with pytest.raises(ValueError, match=said):
        train(config, output=finished, resume=resume, data=change(digits))
    assert files(finished) == before


def test_a_run_resumed_on_another_machine_says_that_it_is_not_the_same(digits, run, monkeypatch):
    checkpoints(run)[-1].unlink()
    (run / "result.json").unlink()
    real = checkpoint_module.read_newest

    def elsewhere(output):
        header, tensors = real(output)
        return {**header, "machine": [4, "cuda"]}, tensors

    monkeypatch.setattr(checkpoint_module, "read_newest", elsewhere)
    said = r"started on 4 × cuda and is resumed on 1 × cpu: its last"
    with pytest.warns(UserWarning, match=said):
        train(digits_config(), output=run, data=digits, resume=True)


def test_an_optimiser_gets_its_moments_back_in_the_layout_of_its_parameters(tmp_path):
    """Convolutions on a GPU have their channels together, and the fused AdamW wants all alike."""

    def start():
        torch.manual_seed(0)
        model = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)

    def go(model, optimiser, first, last):
        for step in range(first, last):
            torch.manual_seed(step)
            model(torch.randn(2, 3, 8, 8)).square().sum().backward()
            optimiser.step()
            optimiser.zero_grad()

    model, optimiser = start()
    go(model, optimiser, 0, 2)
    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    write_checkpoint(tmp_path, 2, {**tensors, **optimiser_tensors(optimiser)}, {}, keep=1)
    go(model, optimiser, 2, 5)
    _, saved = read_newest(tmp_path)
    resumed, again = start()
    resumed.load_state_dict(named(saved, "model."))
    load_optimiser(again, saved)
    for parameter, values in again.state.items():
        assert values["exp_avg"].stride() == parameter.stride()
    go(resumed, again, 2, 5)
    for a, b in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_two_processes_cannot_train_into_one_folder(digits, tmp_path):
    """The second is refused while the first goes on, and may resume once it is gone."""
    from modgap.core.locks import sole_writer_of

    config = digits_config(train={"steps": 2})
    with sole_writer_of(tmp_path):
        held = subprocess.run(
            [sys.executable, "-c",
             "from modgap.core.locks import sole_writer_of\n"
             f"with sole_writer_of({str(tmp_path)!r}): pass"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert "Another process is writing to" in held.stderr
        with pytest.raises(ValueError, match=r"Another process is writing to .*Wait until"):
            train(config, output=tmp_path, data=digits)
        assert not list(tmp_path.iterdir())
    assert train(config, output=tmp_path, data=digits).steps == 2


def test_only_the_newest_checkpoints_are_kept(digits, tmp_path):
    config = digits_config(train={"steps": 9, "checkpoint_every": 2, "keep_checkpoints": 3})
    train(config, output=tmp_path, data=digits)
    assert [path.stem for path in checkpoints(tmp_path)] == [
        "step-00000006", "step-00000008", "step-00000009",
    ]  # fmt: skip


TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)}


def test_a_checkpoint_gives_back_what_was_put_in(tmp_path):
    path = write_checkpoint(tmp_path, 7, TENSORS, {}, keep=2)
    header, tensors = read_checkpoint(path)
    assert header["step"] == 7
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert tensors["n"].shape == ()
    assert path.read_bytes()[8:9] == b"{"  # safetensors, never pickle


def damage(path: Path, how: str) -> None:
    stored = bytearray(path.read_bytes())
    if how == "cut short":
        stored = stored[:-9]
    elif how == "a flipped bit":
        stored[-5] ^= 1
    elif how == "empty":
        stored = bytearray()
    elif how == "something else":
        stored = bytearray(b"<html>quota exceeded</html>")
    path.write_bytes(stored)


@pytest.mark.parametrize("how", ["cut short", "a flipped bit", "empty", "something else"])
def test_a_broken_checkpoint_is_named_and_the_one_before_it_is_used(how, tmp_path):
    for step in (2, 4):
        write_checkpoint(tmp_path, step, TENSORS, {}, keep=2)
    damage(checkpoints(tmp_path)[-1], how)
    with pytest.warns(
        UserWarning,
        match=r"step-00000004\.safetensors is (damaged|not a check.*): .*Going on from step-.*2",
    ):
        header, _ = read_newest(tmp_path)
    assert header["step"] == 2
    damage(checkpoints(tmp_path)[0], how)
    with pytest.raises(
        CheckpointError, match=r"No checkpoint in .* can be used\. .* is (damaged|not a)"
    ):
        read_newest(tmp_path)


def test_a_run_resumes_from_the_checkpoint_before_a_broken_one(digits, run, finished):
    damage(checkpoints(run)[-1], "cut short")
    (run / "model.safetensors").unlink()
    with pytest.warns(UserWarning, match=r"Going on from step-00000002\.safetensors"):
        resumed = train(digits_config(), output=run, resume=True, data=digits)
    assert resumed.first_step == 2
    assert same_weights(run, finished)


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_one_sentence_and_the_checkpoint_before_it_loads(
    digits, finished, tmp_path, monkeypatch
):
    def fill_up(state):
        if state.step == 3:
            monkeypatch.setattr("safetensors.numpy.save_file", no_space)

    with pytest.raises(
        CheckpointError,
        match=r"^The checkpoint of step 4 cannot be written to .*: No space left on device\. "
        r"The checkpoint before it is whole: step-00000002\.safetensors\. "
        r"Free some room and resume with --resume\.$",
    ):
        train(digits_config(), output=tmp_path, data=digits, hooks=[fill_up])
    kept = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert kept == ["step-00000002.safetensors"]
    monkeypatch.undo()
    train(digits_config(), output=tmp_path, resume=True, data=digits)
    assert same_weights(tmp_path, finished)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, r"There is none before it\. Free some room"),
        (errno.EROFS, r"Read-only file system\. .*Mend that and resume with"),
    ],
)
def test_a_first_checkpoint_that_fails_says_what_to_do(number, said, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("safetensors.numpy.save_file", fails)
    with pytest.raises(CheckpointError, match=said):
        write_checkpoint(tmp_path, 1, TENSORS, {}, keep=2)
    assert checkpoints(tmp_path) == []


def test_a_log_that_cannot_be_written_stops_the_run_in_a_sentence(digits, tmp_path, monkeypatch):
    from modgap.train.loggers import JsonLinesLogger

    def fill_up(state):
        if state.step == 3:
            monkeypatch.setattr(JsonLinesLogger, "log", no_space)

    with pytest.raises(
        RuntimeError,
        match=r"cannot write to .*: No space left on device\. The newest checkpoint is step-000000",
    ):
        train(digits_config(), output=tmp_path, data=digits, hooks=[fill_up])


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["model.safetensors", "embeddings.safetensors", "result.json"])
def test_a_finished_run_without_checkpoints_is_not_written_over(name, resume, digits, tmp_path):
    (tmp_path / name).write_text("kept")
    with pytest.raises(ValueError, match=f"holds {name} already, and no checkpoint to resume from"):
        train(digits_config(), output=tmp_path, resume=resume, data=digits)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "kept"
