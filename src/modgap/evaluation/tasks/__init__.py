"""The papers' tasks, each swept over corrections and amounts in the same way."""

from modgap.evaluation.tasks.conformity import conformity_task
from modgap.evaluation.tasks.denigration import denigration_task
from modgap.evaluation.tasks.multiple_choice import (
    OwnShift,
    multiple_choice_task,
    own_shift,
    rephrased_choice_task,
)
from modgap.evaluation.tasks.pair_matching import pair_matching_task
from modgap.evaluation.tasks.probe import linear_probe_task
from modgap.evaluation.tasks.result import TaskPoint, TaskSweep, TaskTest
from modgap.evaluation.tasks.sweep import sweep_task
from modgap.evaluation.tasks.task import Published, Task
from modgap.evaluation.tasks.ways import CorrectionWay, HubWay, TaskRows, Way, default_ways
from modgap.evaluation.tasks.zero_shot import zero_shot_task

__all__ = [
    "CorrectionWay",
    "HubWay",
    "OwnShift",
    "Published",
    "Task",
    "TaskPoint",
    "TaskRows",
    "TaskSweep",
    "TaskTest",
    "Way",
    "conformity_task",
    "default_ways",
    "denigration_task",
    "linear_probe_task",
    "multiple_choice_task",
    "own_shift",
    "pair_matching_task",
    "rephrased_choice_task",
    "sweep_task",
    "zero_shot_task",
]
