"""Loggers of training metrics: JSON lines, TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib.util
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from modgap.core.checks import require
from modgap.core.files import write_text
from modgap.core.results import plain

LOG = "log.jsonl"


class Logger(Protocol):
    """Takes the metrics of a step."""

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Keep the metrics."""

    def close(self) -> None:
        """Finish; nothing is logged afterwards."""


class JsonLinesLogger:
    """One JSON object per line and step, with its ``step``.

    With ``resume_at``, what was written after that step, and a last line cut short, is dropped
    first: the file then reads as if the run was never interrupted. What is logged of that step
    again, as a run does that was killed at its end, is there already.
    """

    def __init__(self, path: str | Path, resume_at: int | None = None) -> None:
        self.path = path = Path(path)
        lines = []
        if resume_at is not None and path.is_file():
            lines = [
                line
                # A crash may leave anything at the end; lines that are not JSON are dropped.
                for line in path.read_text("utf-8", errors="replace").splitlines()
                if _upto(line, resume_at)
            ]
        self._there = {
            (one["step"], *one) for one in map(json.loads, lines) if one["step"] == resume_at
        }
        write_text(path, "".join(f"{line}\n" for line in lines))
        self._file = path.open("a", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append a line at once: an interrupted run keeps its log."""
        if (step, "step", *plain(metrics)) in self._there:
            return
        self._file.write(json.dumps({"step": step, **plain(metrics)}, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoardLogger:
    """Scalars for TensorBoard, in a folder; needs the package tensorboard."""

    def __init__(self, folder: str | Path, resume_at: int | None = None) -> None:
        # Hide what an interrupted run has written after its checkpoint.
        purge = None if resume_at is None else resume_at + 1
        self._writer = _library("tensorboard").SummaryWriter(str(folder), purge_step=purge)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add the numbers among the metrics."""
        for name, value in _numbers(metrics).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class WandbLogger:
    """A run of Weights & Biases; needs the package wandb, and its log-in."""

    def __init__(
        self,
        folder: str | Path,
        config: Mapping[str, Any] | None = None,
        resume_at: int | None = None,
    ) -> None:
        wandb = _library("wandb")
        # The name there is kept here: folders may be called the same, and be started anew.
        kept = Path(folder) / "wandb-id"
        if resume_at is None or not kept.is_file():
            write_text(kept, secrets.token_hex(8))
        self._run = wandb.init(
            project="modgap",
            dir=str(folder),
            config=dict(config or {}),
            resume="allow",
            id=kept.read_text("utf-8").strip(),
        )

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Log the numbers among the metrics."""
        self._run.log(_numbers(metrics), step=step)

    def close(self) -> None:
        """End the run there."""
        self._run.finish()


def check_loggers(names: Sequence[str]) -> None:
    """Refuse a logger whose package is not installed, before the data is read."""
    for name in names:
        if name != "auto":
            _library(name)


def open_loggers(
    output: Path, names: Sequence[str], config: Mapping[str, Any], resume_at: int | None
) -> list[Logger]:
    """JSON lines always, the others where they are named; "auto" is TensorBoard if it is there.

    Weights & Biases sends metrics to a service, so it must be named.
    """
    loggers: list[Logger] = []
    # The ones that may be missing come first, so that nothing is left open.
    installed = importlib.util.find_spec("tensorboard") is not None
    if "tensorboard" in names or ("auto" in names and installed):
        loggers.append(TensorBoardLogger(output / "tensorboard", resume_at))
    if "wandb" in names:
        loggers.append(WandbLogger(output, config, resume_at))
    return [JsonLinesLogger(output / LOG, resume_at), *loggers]


def _library(name: str) -> Any:
    module, service = {
        "tensorboard": ("torch.utils.tensorboard", "TensorBoard"),
        "wandb": ("wandb", "Weights & Biases"),
    }[name]
    return require(module, "", f"Logging to {service}", package=name)


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {k: v for k, v in plain(metrics).items() if isinstance(v, (int, float))}


def _upto(line: str, step: int) -> bool:
    try:
        return bool(json.loads(line)["step"] <= step)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
