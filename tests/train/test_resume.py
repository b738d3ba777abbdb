"""Killed, out of disk, damaged: a run goes on exactly as if nothing had happened, or says why."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
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
from modgap.train.digits import digits_data  # noqa: E402


class Killed(BaseException):
    """Nobody catches this: the loop ends where it stands, as after a kill."""


def kill_at(step: int):
    def hook(state):
        if state.step == step:
            raise Killed

    return hook


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


def test_dropout_goes_on_as_it_would_have(digits, tmp_path):
    config = digits_config(train={"steps": 7, "checkpoint_every": 3})
    train(config, output=tmp_path / "whole", data=digits)
    with pytest.raises(Killed):
        train(config, output=tmp_path / "broken", data=digits, hooks=[kill_at(5)])
    train(config, output=tmp_path / "broken", resume=True, data=digits)
    assert same_weights(tmp_path / "broken", tmp_path / "whole")


def test_a_process_killed_at_any_moment_resumes_to_the_same_weights(tmp_path):
    config = digits_config(train={"steps": 10, "checkpoint_every": 1, "keep_checkpoints": 2})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()), encoding="utf-8")
    out = tmp_path / "broken"
    process = subprocess.Popen(
        [sys.executable, "-m", "modgap", "train", path, "-o", out],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    after = 1 + int(np.random.default_rng().integers(6))
    while (
        process.poll() is None and len(losses(out) if (out / "log.jsonl").exists() else ()) < after
    ):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    data = digits_data(0)  # those that the command reads
    resumed = train(config, output=out, resume=True, data=data)
    assert resumed.first_step >= after - 1, f"killed after step {after}"
    train(config, output=tmp_path / "whole", data=data)
    assert same_weights(out, tmp_path / "whole")
    assert losses(out) == losses(tmp_path / "whole")


def test_resuming_without_a_checkpoint_starts_and_a_finished_run_stays_as_it_is(digits, tmp_path):
    config = digits_config()
    first = train(config, output=tmp_path, resume=True, data=digits)
    assert (first.first_step, len(first.losses)) == (0, 4)
    weights = (tmp_path / "model.safetensors").read_bytes()
    again = train(config, output=tmp_path, resume=True, data=digits)
    assert (again.first_step, again.losses) == (4, ())
    assert again.evaluation == first.evaluation
    assert (tmp_path / "model.safetensors").read_bytes() == weights


def test_a_folder_with_a_run_is_not_overwritten(digits, tmp_path):
    train(digits_config(), output=tmp_path, data=digits)
    with pytest.raises(ValueError, match=r"holds a run already\. Go on with it by --resume"):
        train(digits_config(), output=tmp_path, data=digits)


def test_a_finished_run_that_is_resumed_keeps_its_record(digits, tmp_path):
    config = digits_config(train={"steps": 3})
    train(config, output=tmp_path, data=digits)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.*") if path.is_file()}
    assert len(json.loads(before[tmp_path / "result.json"])["losses"]) == 3
    train(config, output=tmp_path, data=digits, resume=True)
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_is_not_resumed_on_as_many_other_images(bars_data, bars, tmp_path):
    config = bars_config(bars, train={"steps": 2})
    train(config, output=tmp_path, data=bars_data)
    other = dataclasses.replace(bars_data.train, pixels=255 - bars_data.train.pixels)
    data = dataclasses.replace(bars_data, train=other)
    with pytest.raises(ValueError, match="but the data holds others"):
        train(config, output=tmp_path, data=data, resume=True)


def test_a_run_resumed_on_another_machine_says_that_it_is_not_the_same(
    digits, tmp_path, monkeypatch
):
    from modgap.train import checkpoint

    config = digits_config(train={"steps": 4, "checkpoint_every": 2})
    train(config, output=tmp_path, data=digits)
    checkpoints(tmp_path)[-1].unlink()
    (tmp_path / "result.json").unlink()
    real = checkpoint.read_newest

    def elsewhere(output):
        header, tensors = real(output)
        return {**header, "machine": [4, "cuda"]}, tensors

    monkeypatch.setattr(checkpoint, "read_newest", elsewhere)
    with pytest.warns(
        UserWarning, match=r"started on 4 × cuda and is resumed on 1 × cpu: its last"
    ):
        train(config, output=tmp_path, data=digits, resume=True)


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
    from modgap._locks import sole_writer_of

    config = digits_config(train={"steps": 2})
    with sole_writer_of(tmp_path):
        held = subprocess.run(
            [sys.executable, "-c",
             "from modgap._locks import sole_writer_of\n"
             f"with sole_writer_of({str(tmp_path)!r}): pass"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert "Another process is writing to" in held.stderr
        with pytest.raises(ValueError, match=r"Another process is writing to .*Wait until"):
            train(config, output=tmp_path, data=digits)
        assert not list(tmp_path.iterdir())
    assert train(config, output=tmp_path, data=digits).steps == 2


def test_a_run_cannot_be_resumed_with_other_settings(digits, tmp_path):
    train(digits_config(), output=tmp_path, data=digits)
    with pytest.raises(
        ValueError, match=r"other settings: train\.learning_rate \(0\.001, now 0\.5\)\. Resume it"
    ):
        train(
            digits_config(train={"learning_rate": 0.5}), output=tmp_path, resume=True, data=digits
        )
    more = digits_config(train={"log_every": 3, "keep_checkpoints": 7}, evaluate={"pairs": 9})
    assert train(more, output=tmp_path, resume=True, data=digits).evaluation.n_pairs == 9


def test_a_run_cannot_be_resumed_on_other_data(digits, bars, tmp_path):
    train(digits_config(), output=tmp_path, data=digits)
    fewer = dataclasses.replace(digits, test=digits.train)
    with pytest.raises(ValueError, match=r"has \[160, 40\] images .* holds \[160, 160\]\. Resume"):
        train(digits_config(), output=tmp_path, resume=True, data=fewer)


def test_what_a_killed_process_had_begun_to_write_is_removed(digits, tmp_path):
    begun = tmp_path / "checkpoints" / ".modgap-01234567-0123456789abcdef"
    begun.mkdir(parents=True)
    (begun / "new.safetensors").write_bytes(b"half")
    train(digits_config(), output=tmp_path, resume=True, data=digits)
    assert not begun.exists()


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


def test_a_run_resumes_from_the_checkpoint_before_a_broken_one(digits, tmp_path):
    config = digits_config(train={"steps": 6})
    train(config, output=tmp_path / "whole", data=digits)
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    damage(checkpoints(tmp_path / "broken")[-1], "cut short")
    (tmp_path / "broken" / "model.safetensors").unlink()
    with pytest.warns(UserWarning, match=r"Going on from step-00000004\.safetensors"):
        resumed = train(config, output=tmp_path / "broken", resume=True, data=digits)
    assert resumed.first_step == 4
    assert same_weights(tmp_path / "broken", tmp_path / "whole")


def test_another_files_tensors_are_no_checkpoint(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="not a checkpoint that modgap wrote"):
        read_checkpoint(path)
    with pytest.raises(ValueError, match="There is no checkpoint at"):
        read_checkpoint(tmp_path / "none.safetensors")


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_one_sentence_and_the_checkpoint_before_it_loads(
    digits, tmp_path, monkeypatch
):
    config = digits_config(train={"steps": 6})
    train(config, output=tmp_path / "whole", data=digits)

    def fill_up(state):
        if state.step == 3:
            monkeypatch.setattr("safetensors.numpy.save_file", no_space)

    with pytest.raises(
        CheckpointError,
        match=r"^The checkpoint of step 4 cannot be written to .*: No space left on device\. "
        r"The checkpoint before it is whole: step-00000002\.safetensors\. "
        r"Free some room and resume with --resume\.$",
    ):
        train(config, output=tmp_path / "full", data=digits, hooks=[fill_up])
    assert [path.name for path in (tmp_path / "full" / "checkpoints").iterdir()] == [
        "step-00000002.safetensors"
    ]
    monkeypatch.undo()
    train(config, output=tmp_path / "full", resume=True, data=digits)
    assert same_weights(tmp_path / "full", tmp_path / "whole")


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


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system with room for one checkpoint of a million numbers, not for two."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip("only root can make a file system to fill")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_really_is_full_leaves_the_checkpoint_before_it(tiny_disk):
    tensors = {"a": torch.ones(1_000_000)}
    write_checkpoint(tiny_disk, 1, tensors, {}, keep=2)
    with pytest.raises(CheckpointError, match=r"step 2 cannot be written .*No space left on devic"):
        write_checkpoint(tiny_disk, 2, tensors, {}, keep=2)
    assert [path.name for path in (tiny_disk / "checkpoints").iterdir()] == [
        "step-00000001.safetensors"
    ]
    header, read = read_newest(tiny_disk)
    assert header["step"] == 1
    assert torch.equal(read["a"], tensors["a"])


def test_a_checkpoint_refused_for_another_reason_than_room_does_not_ask_for_room(
    tmp_path, monkeypatch
):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("safetensors.numpy.save_file", read_only)
    with pytest.raises(
        CheckpointError, match=r"Read-only file system\. .*Mend that and resume with"
    ):
        write_checkpoint(tmp_path, 1, TENSORS, {}, keep=2)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["model.safetensors", "embeddings.safetensors", "result.json"])
def test_a_finished_run_without_checkpoints_is_not_written_over(name, resume, digits, tmp_path):
    (tmp_path / name).write_text("kept")
    with pytest.raises(ValueError, match=f"holds {name} already, and no checkpoint to resume from"):
        train(digits_config(), output=tmp_path, resume=resume, data=digits)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "kept"


def test_a_run_stopped_before_its_first_checkpoint_can_be_started_again(digits, tmp_path):
    with pytest.raises(Killed):
        train(digits_config(), output=tmp_path, data=digits, hooks=[kill_at(1)])
    assert train(digits_config(), output=tmp_path, data=digits).first_step == 0


def test_a_first_checkpoint_that_fails_says_that_there_is_none_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr("safetensors.numpy.save_file", no_space)
    with pytest.raises(CheckpointError, match=r"There is none before it\. Free some room"):
        write_checkpoint(tmp_path, 1, TENSORS, {}, keep=2)
    assert checkpoint_module.checkpoints(tmp_path) == []
