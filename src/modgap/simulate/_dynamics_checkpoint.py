"""Where a descent stands: one value that is replaced whole, and a file to go on from."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._tensors import read_tensors, write_tensors
from modgap._validate import InputValueError

KIND = "descent checkpoint"


@dataclass(frozen=True)
class Frame:
    """The embeddings and the log of the inverse temperature at one step."""

    step: int
    log_scale: float
    X: np.ndarray
    Y: np.ndarray

    @property
    def temperature(self) -> float:
        """exp(−log_scale)."""
        return math.exp(-self.log_scale)


@dataclass(frozen=True)
class DescentState:
    """Everything the rest of a run depends on, and what it has recorded so far.

    ``rows`` holds one line of metrics per recorded step, ``snapshots`` the embeddings at asked
    steps. Never changed in place, so that an interruption at any moment finds it whole.
    """

    now: Frame
    rows: tuple[tuple[float, ...], ...] = ()
    snapshots: tuple[Frame, ...] = ()


def digest_of(*arrays: np.ndarray) -> str:
    """A short digest of the embeddings a run starts from."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def save(path: str | os.PathLike[str], state: DescentState, settings: Mapping[str, Any]) -> None:
    """Write the state in one step: a killed run leaves the previous file or this one."""
    frames = (state.now, *state.snapshots)
    tensors = {
        "X": np.stack([frame.X for frame in frames]),
        "Y": np.stack([frame.Y for frame in frames]),
        "log_scale": np.array([frame.log_scale for frame in frames]),
        "rows": np.array(state.rows, dtype=np.float64),
    }
    header = {"steps": [frame.step for frame in frames], "settings": dict(settings)}
    write_tensors(path, KIND, tensors, header)


def load(path: str | os.PathLike[str], settings: Mapping[str, Any]) -> DescentState:
    """The state in a file, refused if the run it belongs to had other settings."""
    header, tensors = read_tensors(path, KIND)
    theirs = header["settings"]
    differ = [name for name, value in settings.items() if theirs.get(name) != value]
    if differ:
        listed = ", ".join(f"{n} {theirs.get(n)} there and {settings[n]} here" for n in differ)
        raise InputValueError(
            f"{path} belongs to another run: {listed}. Resume with the settings it began with."
        )
    scales = tensors["log_scale"].tolist()
    now, *snapshots = map(Frame, header["steps"], scales, tensors["X"], tensors["Y"])
    return DescentState(now, tuple(map(tuple, tensors["rows"].tolist())), tuple(snapshots))
