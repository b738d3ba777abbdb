"""The papers' tasks, each swept over corrections and amounts in the same way."""

from modgap.evaluation.tasks.probe import linear_probe_task
from modgap.evaluation.tasks.result import TaskPoint, TaskSweep, TaskTest
from modgap.evaluation.tasks.sweep import sweep_task
from modgap.evaluation.tasks.task import Published, Task
from modgap.evaluation.tasks.ways import CorrectionWay, HubWay, TaskRows, Way, default_ways
from modgap.evaluation.tasks.zero_shot import zero_shot_task

__all__ = [
    "CorrectionWay",
    "HubWay",
    "Published",
    "Task",
    "TaskPoint",
    "TaskRows",
    "TaskSweep",
    "TaskTest",
    "Way",
    "default_ways",
    "linear_probe_task",
    "sweep_task",
    "zero_shot_task",
]
