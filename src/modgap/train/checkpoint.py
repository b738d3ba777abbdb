"""Checkpoints: one safetensors file each, with a JSON header; whole or not there, never pickle.

A file is written beside its final name, flushed to the disk and renamed, and carries a checksum
of its tensors: a full disk, a kill or a damaged sector costs at most the newest one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modgap._files import atomic_path
from modgap._tensors import FORMAT, _header
from modgap._validate import InputValueError
from modgap._version import __version__

FOLDER = "checkpoints"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class CheckpointError(InputValueError):
    """A checkpoint cannot be written, or cannot be read; the sentence says what is left."""


def checkpoint_path(output: Path, step: int) -> Path:
    """Where the checkpoint of a step lives."""
    return output / FOLDER / f"step-{step:08d}.safetensors"


def checkpoints(output: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((output / FOLDER).glob("step-*.safetensors"))


def write_checkpoint(output: Path, step: int, state: Mapping[str, Any], keep: int) -> Path:
    """Write the state of a step and drop all but the newest ``keep`` checkpoints.

    ``state`` holds "tensors", a flat mapping, and anything JSON knows. Older checkpoints are
    dropped only once the new one is on the disk.
    """
    path = checkpoint_path(output, step)
    header = {key: value for key, value in state.items() if key != "tensors"}
    try:
        write_state(path, "checkpoint", state["tensors"], {"step": step, **header})
    except OSError as error:
        older = [place for place in checkpoints(output) if place != path]
        left = (
            f"The checkpoint before it is whole: {older[-1].name}."
            if older
            else "There is none before it."
        )
        mend = "Free some room" if error.errno in _FULL else "Mend that"
        raise CheckpointError(
            f"The checkpoint of step {step} cannot be written to {path.parent}: "
            f"{error.strerror or error}. {left} {mend} and go on with --resume."
        ) from error
    for old in checkpoints(output)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def write_state(
    path: Path, kind: str, tensors: Mapping[str, Tensor], header: Mapping[str, Any]
) -> None:
    """Tensors with a JSON header in one file, in one step; a full disk is an OSError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Clones, because safetensors refuses tensors that share memory.
    flat = {k: v.detach().to("cpu", copy=True).contiguous() for k, v in tensors.items()}
    said = {
        "kind": kind,
        "format": FORMAT,
        "version": __version__,
        "checksum": _checksum(flat),
        **header,
    }
    with atomic_path(path) as temporary:
        try:
            save_file(flat, temporary, metadata={"modgap": json.dumps(said)})
        except SafetensorError as error:
            # safetensors wraps what the system said into words of its own.
            full = "no space" in str(error).lower() or "os error 28" in str(error).lower()
            number = errno.ENOSPC if full else errno.EIO
            raise OSError(number, os.strerror(number) if full else str(error)) from error
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
    # The new name itself is on the disk only once the folder is; not every system can say so.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_state(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file; what is cut short or damaged is refused in one sentence."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise CheckpointError(f"There is no {kind} at {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            header = _header((file.metadata() or {}).get("modgap"), kind, path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is broken: it cannot be read ({error}).") from error
    if header.get("checksum") != _checksum(tensors):
        raise CheckpointError(f"{path} is broken: its numbers are not those that were written.")
    return header, tensors


def read_newest(output: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """The newest checkpoint that is whole; a broken one is named in a warning and passed over."""
    found = checkpoints(output)
    failures: list[str] = []
    for path in reversed(found):
        try:
            state = read_state(path, "checkpoint")
        except InputValueError as error:
            failures.append(str(error))
            continue
        for failure in failures:
            warnings.warn(f"{failure} Going on from {path.name}.", stacklevel=2)
        return state
    if failures:
        raise CheckpointError(
            f"No checkpoint in {output / FOLDER} can be used. {failures[0]} "
            "Start again without --resume, into another folder."
        )
    return None


def sweep(output: Path) -> None:
    """Remove what a killed process had begun to write; nobody else writes to a run's folder."""
    for begun in (output / FOLDER).glob(".modgap-*"):
        begun.unlink(missing_ok=True)


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


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        value = tensors[name].reshape(-1)
        if value.numel():
            total = zlib.crc32(value.view(torch.uint8).numpy().data, total)
    return total
