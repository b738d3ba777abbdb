"""What a run has come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modgap._results import Result
from modgap.train.evaluation import Evaluation


@dataclass(frozen=True)
class TrainResult(Result):
    """The figures of a finished run; the files are in ``output``.

    ``losses`` has one number per step of this call: a resumed run starts at ``first_step``.
    ``images_per_second`` counts the training steps alone, over all processes.
    """

    output: str
    config: dict[str, Any]
    first_step: int
    steps: int
    losses: tuple[float, ...]
    temperature: float
    evaluation: Evaluation
    n_corrupt: int
    seconds: float
    images_per_second: float
    device: str
    processes: int
