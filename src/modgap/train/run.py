"""A run: its progress, its log and checkpoints, and the files it leaves at the end."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modgap.core.checks import InputError, InputValueError, first_line
from modgap.core.files import sweep, write_text
from modgap.core.locks import sole_writer_of
from modgap.core.results import Result, Table, document, number, to_json
from modgap.core.tables import HasTable
from modgap.evaluation.metric_names import metric_name
from modgap.io.modalities import DEFAULT_NAMES
from modgap.train.checkpoint import (
    CONFIG,
    FOLDER,
    MODEL,
    RESULT,
    TOKENIZER,
    Saved,
    checkpoints,
    write_checkpoint,
)
from modgap.train.config import Config
from modgap.train.data import Data, data_checksum
from modgap.train.hooks import Hook, TrainState, at_end, every, gap_monitor
from modgap.train.learner import Learner
from modgap.train.loggers import Logger, open_loggers
from modgap.train.metrics import SplitMetrics
from modgap.train.processes import Processes
from modgap.train.towers.build import is_out_of_memory


class TrainingStopped(InputError, RuntimeError):
    """A run cannot continue; the message says why, and what to do."""


@dataclass(frozen=True)
class TrainResult(HasTable, Result):
    """The metrics of a finished run; the files are in ``output``.

    ``losses`` has one number per step of this call: a resumed run starts at ``first_step``.
    ``images_per_second`` counts the training steps alone, over all processes.
    """

    output: str
    config: dict[str, Any]
    first_step: int
    steps: int
    losses: tuple[float, ...]
    temperature: float
    evaluation: SplitMetrics
    n_corrupt: int
    seconds: float
    images_per_second: float
    device: str
    processes: int

    @property
    def did_nothing(self) -> bool:
        """Whether the run that was resumed had finished before."""
        return 0 < self.first_step == self.steps

    def table(self) -> Table:
        """Header and rows: the metrics of the held-out split, and how the run went."""
        found = self.evaluation
        recall = ((metric_name(key, DEFAULT_NAMES), value) for key, value in found.recall.items())
        rows: list[tuple[str, float]] = [
            ("gap distance", found.gap_distance),
            (f"uniformity (Wasserstein, n = {found.n_pairs})", found.uniformity),
            ("alignment", found.alignment),
            ("orthogonality, image", found.orthogonality_image),
            ("orthogonality, text", found.orthogonality_text),
            *recall,
            ("temperature at the end", self.temperature),
            ("steps", self.steps),
            ("skipped images", self.n_corrupt),
        ]
        if self.losses:
            rows.append(("loss at the end", self.losses[-1]))
            rows.append(("images per second", round(self.images_per_second)))
        header = (f"{found.n_images:,} images, {found.n_texts:,} texts", "held out")
        return header, [(name, number(value)) for name, value in rows]


class Run:
    """A run after ``step`` of its ``total`` steps; only the first process logs and writes."""

    def __init__(
        self,
        config: Config,
        output: Path,
        processes: Processes,
        data: Data,
        learner: Learner,
        hooks: Sequence[Hook],
        saved: Saved | None,
    ) -> None:
        self.config, self.output, self.processes = config, output, processes
        self.data, self.learner, self.hooks = data, learner, tuple(hooks)
        self.total = config.train.total_steps(len(data.train))
        self.losses: list[float] = []
        self._pending: list[Tensor] = []
        self._loggers: list[Logger] = []
        self._images_seen, self._paused = 0, 0.0
        # These must be the same when the run is resumed; the machine only for the last digits.
        self._identity: dict[str, Any] = {
            "images": [len(data.train), len(data.test)],
            "data": data_checksum(data),
            "machine": [processes.count, processes.device.type],
        }
        self.step = self.first_step = 0 if saved is None else self._resume(*saved)

    def _resume(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> int:
        """Load a checkpoint; refuses one of a run on other data."""
        own = self._identity
        if header["images"] != own["images"] or header["data"] != own["data"]:
            holds = "others" if header["images"] == own["images"] else own["images"]
            raise InputValueError(
                f"The run in {self.output} has {header['images']} images to train on and to "
                f"measure, but the data holds {holds}. Resume it on the data it was started with."
            )
        if header["machine"] != own["machine"]:
            then, now = (" × ".join(map(str, m)) for m in (header["machine"], own["machine"]))
            warnings.warn(
                f"The run in {self.output} was started on {then} and is resumed on {now}: "
                "its last digits will differ from an uninterrupted run.",
                stacklevel=4,
            )
        self.learner.load(tensors)
        return int(header["step"])

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The folder held against other processes, with the config in it, and the loggers open."""
        with ExitStack() as stack:
            if self.processes.first:
                stack.enter_context(sole_writer_of(self.output))
                for folder in (self.output, self.output / FOLDER):
                    sweep(folder)  # what a killed process had begun to write
                config = self.config.to_dict()
                write_text(self.output / CONFIG, to_json(config))
                if self.data.tokenizer is not None:
                    self.data.tokenizer.save(self.output / TOKENIZER)
                self._loggers = open_loggers(
                    self.output, self.config.train.loggers, config, resume_at=self.step or None
                )
                for logger in self._loggers:
                    stack.callback(logger.close)
            self._began = time.perf_counter()
            yield

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Hand the metrics of this step to every logger."""
        for logger in self._loggers:
            logger.log(self.step, metrics)

    def record(self, loss: Tensor, n_images: int) -> None:
        """Count a step that is done; its loss is fetched from the device when it is needed."""
        self._pending.append(loss.detach())
        self._images_seen += n_images
        self.step += 1

    def last_loss(self) -> float:
        """The loss of the last step; stops the run at the first loss that is not a number."""
        if self._pending:
            found = torch.stack(self._pending).tolist()
            self._pending.clear()
            for loss in found:
                if not math.isfinite(loss):
                    kept = checkpoints(self.output)
                    left = f" {kept[-1].name} is from before it." if kept else ""
                    raise TrainingStopped(
                        f"The loss is {loss} at step {self.first_step + len(self.losses) + 1} of "
                        f"{self.total}.{left} Lower train.learning_rate, raise train.warmup or set "
                        "train.grad_clip_norm=1."
                    )
                self.losses.append(loss)
        return self.losses[-1] if self.losses else math.nan

    def images_per_second(self) -> float:
        """Speed of the steps alone, without hooks and checkpoints."""
        return self._images_seen / (time.perf_counter() - self._began - self._paused)

    @contextmanager
    def _untimed(self) -> Iterator[None]:
        self.last_loss()  # a device has to finish its steps first, and they do count
        started = time.perf_counter()
        yield
        self._paused += time.perf_counter() - started

    def state(self) -> TrainState:
        """The state for hooks: the model itself, not the wrapper around it."""
        model, temperature = self.learner.model, self.learner.temperature
        return TrainState(
            self.config, self.output, self.step, self.total, model, temperature, self.data
        )

    def call_hooks(self) -> None:
        """Run the hooks that are due."""
        due = [h for h in self.hooks if not isinstance(h, every) or h.due(self.step, self.total)]
        if not (self.processes.first and due):
            return
        with self._untimed():
            state = self.state()
            for hook in due:
                if metrics := hook(state):
                    self.log(metrics)

    def save(self) -> None:
        """Write a checkpoint of this step."""
        with self._untimed():
            if self.processes.first:
                header = {"config": self.config.to_dict(), **self._identity}
                keep = self.config.train.keep_checkpoints
                write_checkpoint(self.output, self.step, self.learner.tensors(), header, keep)

    def finish(self, began: float) -> TrainResult:
        """Measure the held-out split and write the model, what hooks add, and the result."""
        speed = self.images_per_second()  # before the clock runs on
        state = self.state()
        metrics = state.metrics
        result = TrainResult(
            output=str(self.output),
            config=self.config.to_dict(),
            first_step=self.first_step,
            steps=self.total,
            losses=tuple(self.losses),
            temperature=state.temperature_value,
            evaluation=metrics,
            n_corrupt=len(self.data.corrupt),
            seconds=time.perf_counter() - began,
            images_per_second=speed,
            device=str(self.processes.device),
            processes=self.processes.count,
        )
        was_finished = self.first_step == self.total and (self.output / RESULT).exists()
        if not self.processes.first or was_finished:
            return result  # the record of a run that was finished says more
        if not self.config.evaluate.every:  # else its hook has just logged the same
            self.log(gap_monitor(state))
        self.learner.model.save(self.output / MODEL)
        for hook in self.hooks:
            if isinstance(hook, at_end) and (added := hook(state)):
                self.log(added)
        record = document("train", result, seed=self.config.train.seed)
        write_text(self.output / RESULT, to_json(record))
        return result


@contextmanager
def stops_in_words(output: Path, device: torch.device) -> Iterator[None]:
    """Turns a full disk or a lack of memory into one sentence."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        found = checkpoints(output)
        left = f"The newest checkpoint is {found[-1].name}." if found else "No checkpoint yet."
        why = os.strerror(error.errno) if error.errno else error
        raise TrainingStopped(
            f"The run cannot write to {output}: {why}. {left} Mend that, and resume with --resume."
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingStopped(
            f"There is not enough memory on {device} ({first_line(error)}). Raise "
            "train.accumulation_steps, which keeps the loss of the whole batch, or lower "
            "train.batch_size, evaluate.batch_size or model.dimension."
        ) from error
