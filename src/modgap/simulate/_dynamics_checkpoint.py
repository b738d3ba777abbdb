"""Where a descent stands: one value that is replaced whole, and a file to go on from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._tensors import read_tensors, write_tensors
from modgap._validate import InputValueError

KIND = "descent checkpoint"


@dataclass(frozen=True)
class State:
    """Everything the rest of a run depends on, and what it has recorded so far.

    ``rows`` holds one line of figures per recorded step, ``snapshots`` the embeddings at asked
    steps. Never changed in place, so that an interruption at any moment finds it whole.
    """

    step: int
    X: np.ndarray
    Y: np.ndarray
    log_scale: float
    rows: tuple[tuple[float, ...], ...] = ()
    snapshots: tuple[tuple[int, float, np.ndarray, np.ndarray], ...] = ()


def fingerprint(*arrays: np.ndarray) -> str:
    """A short digest of the embeddings a run starts from."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def save(path: str | os.PathLike[str], state: State, settings: Mapping[str, Any]) -> None:
    """Write the state in one step: a killed run leaves the previous file or this one."""
    tensors = {
        "X": state.X,
        "Y": state.Y,
        "log_scale": np.array([state.log_scale]),
        "rows": np.array(state.rows, dtype=np.float64),
    }
    for number, (_, log_scale, X, Y) in enumerate(state.snapshots):
        tensors[f"snapshot.{number}.X"] = X
        tensors[f"snapshot.{number}.Y"] = Y
        tensors[f"snapshot.{number}.log_scale"] = np.array([log_scale])
    header = {
        "step": state.step,
        "snapshots": [step for step, *_ in state.snapshots],
        "settings": dict(settings),
    }
    write_tensors(path, KIND, tensors, header)


def load(path: str | os.PathLike[str], settings: Mapping[str, Any]) -> State:
    """The state in a file, refused if the run it belongs to had other settings."""
    header, tensors = read_tensors(path, KIND)
    theirs = header["settings"]
    differ = [name for name, value in settings.items() if theirs.get(name) != value]
    if differ:
        listed = ", ".join(f"{n} {theirs.get(n)} there and {settings[n]} here" for n in differ)
        raise InputValueError(
            f"{path} belongs to another run: {listed}. Resume with the settings it began with."
        )
    return State(
        step=int(header["step"]),
        X=tensors["X"],
        Y=tensors["Y"],
        log_scale=float(tensors["log_scale"][0]),
        rows=tuple(tuple(row) for row in tensors["rows"].tolist()),
        snapshots=tuple(
            (
                int(step),
                float(tensors[f"snapshot.{number}.log_scale"][0]),
                tensors[f"snapshot.{number}.X"],
                tensors[f"snapshot.{number}.Y"],
            )
            for number, step in enumerate(header["snapshots"])
        ),
    )
