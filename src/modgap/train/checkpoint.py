"""The folder of a run and its checkpoints: one safetensors file each, never pickle.

Checkpoints are written atomically and carry a checksum of their tensors: a full disk, a kill or a
damaged sector costs at most the newest one.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modgap.core.checks import InputValueError
from modgap.core.files import FULL
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.train.config import Config, differences, make_config

CONFIG, TOKENIZER, RESULT = "config.json", "tokenizer.json", "result.json"
MODEL, EMBEDDINGS = "model.safetensors", "embeddings.safetensors"
DIGITS = "digits.safetensors"
FOLDER = "checkpoints"
KIND = "checkpoint"

Saved = tuple[dict[str, Any], dict[str, Tensor]]


class CheckpointError(InputValueError):
    """A checkpoint cannot be written, or cannot be read; the sentence says what is left."""


def checkpoints(output: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((output / FOLDER).glob("step-*.safetensors"))


def what_is_left(output: Path) -> str:
    """What an interrupted run leaves, and the command that resumes it."""
    if not (found := checkpoints(output)):
        return "there is no checkpoint yet, and nothing half-written is left."
    return (
        f"nothing half-written is left, and {found[-1].stem} is kept: go on with "
        f"modgap train --resume -o {shlex.quote(str(output))}"
    )


def write_checkpoint(
    output: Path, step: int, tensors: Mapping[str, Tensor], header: Mapping[str, Any], keep: int
) -> Path:
    """Write the state of a step and drop all but the newest ``keep`` checkpoints.

    Older checkpoints are dropped only once the new one is on the disk.
    """
    path = output / FOLDER / f"step-{step:08d}.safetensors"
    arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
    try:
        write_tensors(path, KIND, arrays, {"step": step, **header}, checksum=True)
    except OSError as error:
        older = [place for place in checkpoints(output) if place != path]
        left = (
            f"The checkpoint before it is whole: {older[-1].name}."
            if older
            else "There is none before it."
        )
        mend = "Free some room" if error.errno in FULL else "Mend that"
        why = os.strerror(error.errno) if error.errno else error
        raise CheckpointError(
            f"The checkpoint of step {step} cannot be written to {path.parent}: {why}. {left} "
            f"{mend} and resume with --resume."
        ) from error
    for old in checkpoints(output)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def read_checkpoint(path: Path) -> Saved:
    """Header and tensors of a checkpoint; what is cut short or damaged is refused in a sentence."""
    header, arrays = read_tensors(path, KIND)
    return header, {name: torch.from_numpy(value) for name, value in arrays.items()}


def read_newest(output: Path) -> Saved | None:
    """The newest checkpoint that is whole; a broken one is named in a warning and passed over."""
    failures: list[str] = []
    for path in reversed(checkpoints(output)):
        try:
            saved = read_checkpoint(path)
        except (InputValueError, OSError) as error:
            failures.append(str(error))
            continue
        for failure in failures:
            warnings.warn(f"{failure} Going on from {path.name}.", stacklevel=2)
        return saved
    if failures:
        raise CheckpointError(
            f"No checkpoint in {output / FOLDER} can be used. {failures[0]} "
            "Start again without --resume, into another folder."
        )
    return None


def checkpoint_to_resume(output: Path, config: Config, resume: bool) -> Saved | None:
    """The checkpoint to resume from, or none; refuses a folder that would be overwritten."""
    if checkpoints(output) and not resume:
        raise InputValueError(
            f"{output} holds a run already. Go on with it by --resume, or write to another folder."
        )
    saved = read_newest(output) if resume else None
    finished = [name for name in (MODEL, EMBEDDINGS, DIGITS, RESULT) if (output / name).exists()]
    if saved is None and finished:
        raise InputValueError(
            f"{output} holds {finished[0]} already, and no checkpoint to resume from. Move it "
            "away, or write to another folder."
        )
    # Through make_config: a run of an older version has the defaults of settings that are new.
    if saved is not None and (
        changed := differences(make_config(saved[0]["config"]).to_dict(), config.to_dict())
    ):
        raise InputValueError(
            f"The run in {output} was started with other settings: {', '.join(changed)}. "
            "Resume it with its own config, or start a new one in another folder."
        )
    return saved


def optimiser_tensors(optimiser: Any) -> dict[str, Tensor]:
    """AdamW's moments and step counts as a flat mapping; its rates are the schedule's business."""
    return {
        f"optimiser.{index}.{name}": torch.as_tensor(value)
        for index, values in optimiser.state_dict()["state"].items()
        for name, value in values.items()
    }


def named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def load_optimiser(optimiser: Any, tensors: Mapping[str, Tensor]) -> None:
    """Put the state of ``optimiser_tensors`` back, in the memory layout of the parameters.

    A file holds rows one after another; parameters whose channels lie together want moments that
    do too, and an optimiser's own loading leaves them as they come.
    """
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in named(tensors, "optimiser.").items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    for parameter, values in optimiser.state.items():
        for name, value in values.items():
            if value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter).copy_(value)
