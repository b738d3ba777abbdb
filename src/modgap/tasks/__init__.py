"""The papers' tasks: one file each, and one sweep over corrections and amounts for all."""

from modgap.tasks.aokvqa import AOKVQA, open_aokvqa
from modgap.tasks.command import TaskInputs, task_rows
from modgap.tasks.conformity import ConformityTest, conformity_task, conformity_test
from modgap.tasks.denigration import Denigration, denigration, denigration_task
from modgap.tasks.fairface import FairFace, denigration_prompts, open_fairface
from modgap.tasks.linear_probe import LinearProbe, linear_probe, linear_probe_task
from modgap.tasks.multiple_choice import (
    OwnShift,
    RephrasedChoice,
    multiple_choice_task,
    rephrased_choice,
    rephrased_choice_task,
)
from modgap.tasks.pair_matching import MMVP, open_mmvp, pair_matching_task
from modgap.tasks.result import TaskPoint, TaskSweep, TaskTest
from modgap.tasks.sweep import sweep_task
from modgap.tasks.task import Published, Task, TaskScore
from modgap.tasks.tried_corrections import CorrectionWay, HubWay, TaskRows, Way, default_ways
from modgap.tasks.zero_shot import LabelledItems, zero_shot_task
from modgap.tasks.zero_shot_hubs import ZeroShotHubs, zero_shot_hubs

__all__ = [
    "AOKVQA",
    "MMVP",
    "ConformityTest",
    "CorrectionWay",
    "Denigration",
    "FairFace",
    "HubWay",
    "LabelledItems",
    "LinearProbe",
    "OwnShift",
    "Published",
    "RephrasedChoice",
    "Task",
    "TaskInputs",
    "TaskPoint",
    "TaskRows",
    "TaskScore",
    "TaskSweep",
    "TaskTest",
    "Way",
    "ZeroShotHubs",
    "conformity_task",
    "conformity_test",
    "default_ways",
    "denigration",
    "denigration_prompts",
    "denigration_task",
    "linear_probe",
    "linear_probe_task",
    "multiple_choice_task",
    "open_aokvqa",
    "open_fairface",
    "open_mmvp",
    "pair_matching_task",
    "rephrased_choice",
    "rephrased_choice_task",
    "sweep_task",
    "task_rows",
    "zero_shot_hubs",
    "zero_shot_task",
]
