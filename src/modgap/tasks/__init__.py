"""The papers' tasks: one file each, and one sweep over corrections and amounts for all."""

from modgap.tasks.aokvqa import AOKVQA, choice_rows, open_aokvqa
from modgap.tasks.command import TaskInputs
from modgap.tasks.conformity import ConformityTest, conformity_task, conformity_test
from modgap.tasks.denigration import (
    Denigration,
    FairFace,
    denigration,
    denigration_prompts,
    denigration_task,
    face_rows,
    open_fairface,
)
from modgap.tasks.linear_probe import LinearProbe, linear_probe, linear_probe_task
from modgap.tasks.multiple_choice import (
    MultipleChoice,
    OwnShift,
    RephrasedChoice,
    multiple_choice,
    multiple_choice_task,
    own_shift,
    rephrased_choice,
    rephrased_choice_task,
)
from modgap.tasks.pair_matching import (
    MMVP,
    PairMatching,
    matching_rows,
    open_mmvp,
    pair_matching,
    pair_matching_task,
)
from modgap.tasks.result import TaskPoint, TaskSweep, TaskTest
from modgap.tasks.sweep import CorrectionWay, HubWay, TaskRows, Way, default_ways, sweep_task
from modgap.tasks.task import Published, Task
from modgap.tasks.templates import TEMPLATES
from modgap.tasks.zero_shot import (
    ZeroShot,
    class_texts,
    zero_shot,
    zero_shot_rows,
    zero_shot_task,
)
from modgap.tasks.zero_shot_hubs import ZeroShotHubs, zero_shot_hubs

__all__ = [
    "AOKVQA",
    "MMVP",
    "TEMPLATES",
    "ConformityTest",
    "CorrectionWay",
    "Denigration",
    "FairFace",
    "HubWay",
    "LinearProbe",
    "MultipleChoice",
    "OwnShift",
    "PairMatching",
    "Published",
    "RephrasedChoice",
    "Task",
    "TaskInputs",
    "TaskPoint",
    "TaskRows",
    "TaskSweep",
    "TaskTest",
    "Way",
    "ZeroShot",
    "ZeroShotHubs",
    "choice_rows",
    "class_texts",
    "conformity_task",
    "conformity_test",
    "default_ways",
    "denigration",
    "denigration_prompts",
    "denigration_task",
    "face_rows",
    "linear_probe",
    "linear_probe_task",
    "matching_rows",
    "multiple_choice",
    "multiple_choice_task",
    "open_aokvqa",
    "open_fairface",
    "open_mmvp",
    "own_shift",
    "pair_matching",
    "pair_matching_task",
    "rephrased_choice",
    "rephrased_choice_task",
    "sweep_task",
    "zero_shot",
    "zero_shot_hubs",
    "zero_shot_rows",
    "zero_shot_task",
]
