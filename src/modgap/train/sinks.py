"""Where figures go while training: JSON lines, TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib
import importlib.util
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from modgap._files import write_text
from modgap._results import plain
from modgap._validate import InputError

_PACKAGES = {"tensorboard": "TensorBoard", "wandb": "Weights & Biases"}


class Sink(Protocol):
    """Takes the figures of a step."""

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Keep the figures."""

    def close(self) -> None:
        """Finish; nothing is written afterwards."""


class JsonLines:
    """One JSON object per line and step, with its ``step``.

    With ``resume_at``, what was written after that step, and a last line cut short, is dropped
    first: the file then reads like that of a run that was never interrupted.
    """

    def __init__(self, path: str | Path, resume_at: int | None = None) -> None:
        self.path = path = Path(path)
        lines = []
        if resume_at is not None and path.is_file():
            lines = [
                line
                # A crash may leave anything at the end; what is no JSON is dropped below.
                for line in path.read_text("utf-8", errors="replace").splitlines()
                if _upto(line, resume_at)
            ]
        write_text(path, "".join(f"{line}\n" for line in lines))
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Append a line, at once: a killed run keeps what it has logged."""
        self._file.write(json.dumps({"step": step, **plain(figures)}, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard:
    """Scalars for TensorBoard, in a folder; needs the package tensorboard."""

    def __init__(self, folder: str | Path, resume_at: int | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("TensorBoard", "tensorboard") from error
        # Hide what an interrupted run has written after its checkpoint.
        purge = None if resume_at is None else resume_at + 1
        self._writer = SummaryWriter(str(folder), purge_step=purge)

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Add the numbers among the figures."""
        for name, value in _numbers(figures).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is still held back."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases; needs the package wandb, and its log-in."""

    def __init__(
        self,
        folder: str | Path,
        config: Mapping[str, Any] | None = None,
        resume_at: int | None = None,
    ) -> None:
        try:
            wandb = importlib.import_module("wandb")
        except ImportError as error:
            raise _missing("Weights & Biases", "wandb") from error
        # The name there is kept here: folders may be called the same, and be started anew.
        kept = Path(folder) / "wandb-id"
        if resume_at is None or not kept.is_file():
            write_text(kept, secrets.token_hex(8))
        self._run = wandb.init(
            project="modgap", dir=str(folder), config=dict(config or {}), resume="allow",
            id=kept.read_text("utf-8").strip(),
        )  # fmt: skip

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Log the numbers among the figures."""
        self._run.log(_numbers(figures), step=step)

    def close(self) -> None:
        """End the run there."""
        self._run.finish()


def check_sinks(names: Sequence[str]) -> None:
    """Refuse a sink whose package is not installed, before the data is read."""
    for package, what in _PACKAGES.items():
        if package in names and importlib.util.find_spec(package) is None:
            raise _missing(what, package)


def open_sinks(
    output: Path, names: Sequence[str], config: Mapping[str, Any], resume_at: int | None
) -> list[Sink]:
    """JSON lines always, the others where they are named; "auto" is TensorBoard if it is there.

    Weights & Biases sends figures to a service, so it must be named.
    """
    sinks: list[Sink] = []
    # The ones that may be missing come first, so that nothing is left open.
    installed = importlib.util.find_spec("tensorboard") is not None
    if "tensorboard" in names or ("auto" in names and installed):
        sinks.append(TensorBoard(output / "tensorboard", resume_at))
    if "wandb" in names:
        sinks.append(WeightsAndBiases(output, config, resume_at))
    return [JsonLines(output / "log.jsonl", resume_at), *sinks]


def _numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    kinds = (int, float)
    return {k: v for k, v in plain(figures).items() if isinstance(v, kinds)}


def _upto(line: str, step: int) -> bool:
    try:
        return bool(json.loads(line)["step"] <= step)
    except (ValueError, KeyError, TypeError):
        return False


class _MissingSinkError(InputError, ImportError):
    pass


def _missing(what: str, package: str) -> _MissingSinkError:
    return _MissingSinkError(
        f"Logging to {what} needs {package}, which is not installed. Install it with: "
        f"pip install {package}, or leave {package} out of train.log."
    )
